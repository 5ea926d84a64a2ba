"""gRPC over mutual TLS with the job's own certificate: the same on every side."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from yarnam.wire.credentials import split
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.protocol import PROTOCOL, TLS_NAME

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""A status of thousands of tasks, or a launch directive, stays far below this."""

CHANNEL_OPTIONS: tuple[tuple[str, Any], ...] = (
    ("grpc.ssl_target_name_override", TLS_NAME),
    # Nodes are reached directly; a proxy meant for the internet must not come in between.
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # A peer may come back after a pause: try again soon (milliseconds).
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1000),
)

SERVER_OPTIONS: tuple[tuple[str, Any], ...] = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # Two servers on one port would share its calls at random.
    ("grpc.so_reuseport", 0),
    # Not grpc.tsi.max_frame_size: with it replies of some sizes break their connection (grpcio
    # 1.85: of 2,619 bytes with 1,024, of 3,826 with 4,096). When what is sent ends with a full
    # record, and that record has fitted into gRPC's buffer of 8 KiB, gRPC sends the rest of the
    # buffer after it, whatever it holds. Records of 16 KiB, gRPC's own size, never fit.
)


FIRST_MESSAGE_S = 10.0
"""For a client to send the request of its session."""

_UNREACHABLE = (
    ("refused", "connection refused"),
    ("resol", "its host name cannot be resolved"),
    ("lookup", "its host name cannot be resolved"),
    ("handshake", "the TLS handshake failed"),
    ("ssl", "the TLS handshake failed"),
    ("route", "no route to its host"),
    ("unreachable", "no route to its host"),
    ("timed out", "the connection timed out"),
    ("timeout", "the connection timed out"),
)
"""Words of gRPC and the kernel about an endpoint that cannot be reached, with ours for them."""

_FAILURES = {
    grpc.StatusCode.DEADLINE_EXCEEDED: "no reply in time",
    grpc.StatusCode.CANCELLED: "the call was cancelled",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "the message is too large",
    grpc.StatusCode.UNIMPLEMENTED: "it runs a version of yarnam without this call",
    grpc.StatusCode.UNAUTHENTICATED: "permission denied",
    grpc.StatusCode.PERMISSION_DENIED: "permission denied",
}

_OURS = frozenset(
    {
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
    }
)
"""With these our own servers answer, in words for the user."""


def rpc_failure(error: grpc.RpcError) -> str:
    """Why a call failed, in words for the user. gRPC's own are for its developers."""
    code, details = error.code(), error.details() or ""
    if code in _OURS and details:
        return details
    if code is grpc.StatusCode.UNAVAILABLE:
        lowered = details.lower()
        known = (words for mark, words in _UNREACHABLE if mark in lowered)
        return next(known, "the connection was lost")
    return _FAILURES.get(code, "it failed to process the call; its log has the reason")


def channel_credentials(pem: bytes) -> grpc.ChannelCredentials:
    """For ``grpc.secure_channel``, with ``CHANNEL_OPTIONS``. Raises BadConfig."""
    certificate, key = split(pem)
    return grpc.ssl_channel_credentials(
        root_certificates=certificate, private_key=key, certificate_chain=certificate
    )


def server_credentials(pem: bytes) -> grpc.ServerCredentials:
    """For ``add_secure_port``; callers without the job's certificate are refused."""
    certificate, key = split(pem)
    return grpc.ssl_server_credentials(
        [(key, certificate)], root_certificates=certificate, require_client_auth=True
    )


async def first_of_session(context: Any, speaker: str) -> Any:
    """The request that opens a session; a call that begins otherwise is refused. ``speaker``: who
    serves it, for the message."""
    try:
        first = await asyncio.wait_for(context.read(), FIRST_MESSAGE_S)
    except asyncio.TimeoutError:
        first = grpc.aio.EOF
    if not isinstance(first, pb.SessionInput) or not first.HasField("request"):
        say = "the first message of a session is its request"
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, say)
    if first.request.protocol != PROTOCOL:
        say = f"{speaker} speaks protocol {PROTOCOL}, the client {first.request.protocol}"
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, say)
    return first

"""gRPC over mutual TLS with the job's own certificate: the same on every side."""

from __future__ import annotations

from typing import Any

import grpc

from yarnam.wire.credentials import split
from yarnam.wire.protocol import TLS_NAME

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

"""A failed call in words for the user: none of gRPC's own."""

from __future__ import annotations

import re

import grpc
import pytest

from yarnam.wire.tls import rpc_failure

RAW = (
    "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Failed to connect"
    " to remote host: {}"
)
CASES = [
    (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", "no reply in time"),
    (grpc.StatusCode.UNAVAILABLE, "Socket closed", "the connection was lost"),
    (grpc.StatusCode.UNAVAILABLE, "recvmsg:Connection reset by peer", "the connection was lost"),
    (grpc.StatusCode.UNAVAILABLE, RAW.format("Connection refused"), "connection refused"),
    (grpc.StatusCode.UNAVAILABLE, RAW.format("No route to host"), "no route to its host"),
    (
        grpc.StatusCode.UNAVAILABLE,
        RAW.format("Timeout occurred: FD Shutdown"),
        "the connection timed out",
    ),
    (
        grpc.StatusCode.UNAVAILABLE,
        "errors resolving n1:1: [field:hostname lookup error:address lookup failed for n1:1]",
        "its host name cannot be resolved",
    ),
    (grpc.StatusCode.UNIMPLEMENTED, "Method not found!", "without this call"),
    (grpc.StatusCode.UNKNOWN, "Exception calling application: x", "its log has the reason"),
    (grpc.StatusCode.INVALID_ARGUMENT, "a suspension lasts up to 9 s", "a suspension lasts up to"),
]


class Failed(grpc.RpcError):
    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        self._said = code, details

    def code(self) -> grpc.StatusCode:
        return self._said[0]

    def details(self) -> str:
        return self._said[1]


@pytest.mark.parametrize(("code", "details", "words"), CASES)
def test_what_a_user_reads(code: grpc.StatusCode, details: str, words: str) -> None:
    said = rpc_failure(Failed(code, details))
    assert words in said
    assert not re.search("StatusCode|[A-Z]{4,}|last error|Socket|recvmsg|Deadline|Exception", said)


@pytest.mark.parametrize("code", list(grpc.StatusCode))
def test_every_code_has_words(code: grpc.StatusCode) -> None:
    said = rpc_failure(Failed(code, ""))
    assert said
    assert code.name not in said

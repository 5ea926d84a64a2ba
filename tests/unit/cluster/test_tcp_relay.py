"""The relay of the tests on real clusters: what it says it does to a connection, it does."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.integration.tcp_relay import DOWN, UP, TcpRelay

SOON_S, LIMIT_S = 0.3, 10.0


@pytest.fixture
def echo() -> Iterator[str]:
    """A server that sends back what it is sent."""

    def serve(end: socket.socket) -> None:
        with end, suppress(OSError):
            while data := end.recv(1024):
                end.sendall(data)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()

    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=accept, daemon=True).start()
    yield f"127.0.0.1:{server.getsockname()[1]}"
    server.shutdown(socket.SHUT_RDWR)
    server.close()


@pytest.fixture
def relay(echo: str) -> Iterator[TcpRelay]:
    made = TcpRelay(echo)
    yield made
    made.close()


def connected(relay: TcpRelay) -> socket.socket:
    host, _, port = relay.address.partition(":")
    return socket.create_connection((host, int(port)), timeout=LIMIT_S)


def test_it_passes_on_cuts_and_mends(relay: TcpRelay) -> None:
    with connected(relay) as client:
        client.sendall(b"one")
        assert client.recv(10) == b"one"
        relay.cut()
        with suppress(ConnectionError):
            assert client.recv(10) == b""
    with connected(relay) as client, suppress(ConnectionError):
        assert client.recv(10) == b""
    relay.mend()
    with connected(relay) as client:
        client.sendall(b"two")
        assert client.recv(10) == b"two"


@pytest.mark.parametrize("direction", [UP, DOWN])
def test_a_stalled_direction_keeps_what_it_is_given(relay: TcpRelay, direction: str) -> None:
    with connected(relay) as client:
        relay.stall((direction,))
        client.sendall(b"one")
        client.settimeout(SOON_S)
        with pytest.raises(TimeoutError):
            client.recv(10)
        relay.mend()
        client.settimeout(LIMIT_S)
        assert client.recv(10) == b"one"


def test_a_slow_direction_is_late(relay: TcpRelay) -> None:
    with connected(relay) as client:
        relay.slow(SOON_S, (DOWN,))
        began_s = time.monotonic()
        client.sendall(b"one")
        assert client.recv(10) == b"one"
        assert time.monotonic() - began_s >= SOON_S

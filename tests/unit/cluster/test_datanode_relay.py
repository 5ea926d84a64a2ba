"""The relay that lends DataNodes an address."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from yarnam.cluster.hadoop import datanode_relay

LISTEN = "127.252.1.1"


def free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def relay_to() -> Iterator[Callable[[str], int]]:
    started: list[subprocess.Popen[bytes]] = []

    def run(target: str) -> int:
        port = free_port(LISTEN)
        argv = [sys.executable, "-I", "-S", datanode_relay.__file__, target, f"{LISTEN}:{port}"]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"relaying")
        return port

    yield run
    for process in started:
        process.terminate()
        assert process.wait(10) == 0
        assert process.stdout is not None
        process.stdout.close()


def listener() -> socket.socket:
    server = socket.create_server(("127.252.0.1", 0))
    server.settimeout(10)
    return server


def test_bytes_pass_both_ways_and_the_source_is_the_address_listened_on(
    relay_to: Callable[[str], int],
) -> None:
    with listener() as server:
        port = relay_to(f"127.252.0.1:{server.getsockname()[1]}")
        with socket.create_connection((LISTEN, port), 10) as client:
            inner, source = server.accept()
            with inner:
                assert source[0] == LISTEN
                client.sendall(b"heartbeat")
                assert inner.recv(100) == b"heartbeat"
                inner.sendall(b"command")
                assert client.recv(100) == b"command"
            # The server's end is passed on.
            assert client.recv(100) == b""


def test_a_client_is_kept_waiting_for_a_server_that_starts_later(
    relay_to: Callable[[str], int],
) -> None:
    late = free_port("127.252.0.1")
    port = relay_to(f"127.252.0.1:{late}")
    with socket.create_connection((LISTEN, port), 10) as client:
        client.sendall(b"early")
        time.sleep(0.3)
        with socket.create_server(("127.252.0.1", late)) as server:
            server.settimeout(10)
            inner, _ = server.accept()
            with inner:
                assert inner.recv(100) == b"early"

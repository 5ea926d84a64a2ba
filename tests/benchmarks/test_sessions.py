"""What a session in a task gives: its first byte, and MiB/s, beside a plain TCP relay of two hops.

Client, relay and agent are on this machine, as three processes of Python would be on three.
``make bench ARGS="tests/benchmarks/test_sessions.py -s"``
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.session_world import Task, running
from tests.integration.tcp_relay import TcpRelay
from yarnam.core.model.session_parts import SessionData

pytestmark = [pytest.mark.grpc, pytest.mark.asyncio, pytest.mark.benchmark]

SIZE_MIB = 200
TIMES = 15


async def test_first_byte_and_rate(tmp_path: Path) -> None:
    async with running(tmp_path) as task:
        firsts = [await asyncio.to_thread(first_byte_s, task) for _ in range(TIMES)]
        took_s = await asyncio.to_thread(download_s, task)
    plain_s = await asyncio.to_thread(relayed_s)
    print(
        f"\nfirst byte of a command: {statistics.median(firsts) * 1000:.0f} ms "
        f"(median of {TIMES})\n"
        f"{SIZE_MIB} MiB from a command: {SIZE_MIB / took_s:.0f} MiB/s; "
        f"through two plain TCP relays: {SIZE_MIB / plain_s:.0f} MiB/s"
    )


def first_byte_s(task: Task) -> float:
    began = time.perf_counter()
    session = task.open("echo", "x")
    for part in session:
        if isinstance(part, SessionData):
            took_s = time.perf_counter() - began
            session.close()
            return took_s
    raise AssertionError("nothing came")


def download_s(task: Task) -> float:
    began = time.perf_counter()
    session = task.open("head", "-c", str(SIZE_MIB << 20), "/dev/zero")
    size = sum(len(part.data) for part in session if isinstance(part, SessionData))
    assert size == SIZE_MIB << 20
    return time.perf_counter() - began


def relayed_s() -> float:
    """The same command behind a socket and two relays."""
    with (
        serving() as address,
        contextlib.closing(TcpRelay(address)) as first,
        contextlib.closing(TcpRelay(first.address)) as second,
    ):
        host, _, port = second.address.rpartition(":")
        began = time.perf_counter()
        with socket.create_connection((host, int(port))) as connection:
            size = 0
            while data := connection.recv(1 << 16):
                size += len(data)
        took_s = time.perf_counter() - began
    assert size == SIZE_MIB << 20
    return took_s


@contextlib.contextmanager
def serving() -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            command = ["head", "-c", str(SIZE_MIB << 20), "/dev/zero"]
            subprocess.run(command, stdout=connection.fileno(), check=True)

    threading.Thread(target=serve, daemon=True).start()
    with listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"

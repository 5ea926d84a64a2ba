"""Receives the reports of the training SDK: datagrams on an abstract Unix socket.

Abstract, because a container's path is often longer than the 107 characters that a socket's path
may have. Anybody on the machine can write to such a name; the kernel knows who did.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass

MAX_BYTES = 16 * 1024
MAX_VALUES = 64
"""Per report; more than that is a log, not a status."""

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


@dataclass(frozen=True, slots=True)
class Sample:
    """The newest report of one process. ``at_s``: seconds since the epoch, by its own clock."""

    at_s: float
    step: int | None
    total_steps: int | None
    values: tuple[tuple[str, float], ...]


class MetricsInbox:
    """``on_sample(local rank, sample)`` for each datagram that makes sense."""

    def __init__(self, on_sample: Callable[[int, Sample], None]) -> None:
        self._on_sample = on_sample
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.setblocking(False)
        self._name = f"yarnam-{os.urandom(12).hex()}"
        self._socket.bind(f"\0{self._name}")

    @property
    def address(self) -> str:
        """For the SDK: ``@`` stands for the leading zero byte."""
        return f"@{self._name}"

    def open(self) -> None:
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._receive)

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()

    def _receive(self) -> None:
        # A bounded number at a time: a flood of reports must not starve the heartbeat.
        for _ in range(64):
            try:
                data, ancillary, _, _ = self._socket.recvmsg(
                    MAX_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size)
                )
            except (BlockingIOError, InterruptedError):
                return
            if _sender(ancillary) == os.getuid():
                parsed = parse(data)
                if parsed is not None:
                    self._on_sample(*parsed)


def _sender(ancillary: list[tuple[int, int, bytes]]) -> int | None:
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
            return int(_CREDENTIALS.unpack(data[: _CREDENTIALS.size])[1])
    return None


def parse(data: bytes) -> tuple[int, Sample] | None:
    """``(local rank, sample)``, or None for anything that is not a report."""
    try:
        plain = json.loads(data)
        values = [(str(name), float(value)) for name, value in plain["values"].items()]
        sample = Sample(
            at_s=float(plain["at_s"]),
            step=_whole(plain.get("step")),
            total_steps=_whole(plain.get("total_steps")),
            values=tuple(values[:MAX_VALUES]),
        )
        return int(plain["local_rank"]), sample
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None


def _whole(value: object) -> int | None:
    if value is None:
        return None
    number = int(value)  # type: ignore[call-overload]
    # It becomes an int64 on the wire.
    return number if -(2**63) <= number < 2**63 else None

"""Receives the reports of the training SDK: datagrams on an abstract Unix socket. A process that
reports more often than the agent has to be woken writes the steps between into a file.

Abstract, because a container's path is often longer than the 107 characters that a socket's path
may have. Anybody on the machine can write to such a name; the kernel knows who did.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.rejections import Rejections
from hdfs_utils.protocols.untrusted import INT64, Record, decode_record, is_encodable, shown

log = logging.getLogger("yarnam.agent")

MAX_BYTES = 16 * 1024
MAX_VALUES = 64
"""Per report; more than that is a log, not a status."""

MAX_PAUSE = 100
"""Characters."""

MAX_RANK = 100_000
"""The highest rank of a process within its task."""

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid

_MARK = struct.Struct("<qd")
"""The step, and when it was done; ``yarnam.train`` writes it."""

MAX_TIME_S = 1e11
"""Seconds since the epoch."""


class Sample(NamedTuple):
    """The newest report of one process. ``at_s``: seconds since the epoch, by its own clock."""

    at_s: float
    step: int | None
    total_steps: int | None
    values: tuple[tuple[str, float], ...]
    pause: str = ""
    """Why no step is to be expected now; empty if one is."""
    is_ready: bool = False
    """It is ready for the roles that start after its own."""
    raised_pid: int = 0
    """The process in which nothing has caught an exception, or 0."""

    @property
    def state(self) -> tuple[object, ...]:
        """All of it but the numbers that each step changes."""
        names = {name for name, _ in self.values}
        return (
            self.step is None,
            self.total_steps,
            self.pause,
            self.is_ready,
            self.raised_pid,
            names,
        )


class MetricsInbox:
    """``on_sample(local rank, sample)`` for each datagram that makes sense."""

    def __init__(self, on_sample: Callable[[int, Sample], None]) -> None:
        self._on_sample = on_sample
        self._rejections = Rejections(
            log, "is ignored", "Report by yarnam.train.report alone, with numbers as values."
        )
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
            self._take(data, *_sender(ancillary))

    def _take(self, data: bytes, uid: int | None, pid: int = 0) -> None:
        try:
            if uid != os.getuid():
                raise MalformedData("only this user's processes report here")
            self._on_sample(*parse(data, pid))
        except MalformedData as error:
            self._rejections.add("a report of metrics", error, owner=f"user {uid}")


def step_file(stop_file: Path, local_rank: int) -> Path:
    """Where a process writes the steps of reports that it does not send."""
    return stop_file.with_name(f"{stop_file.name}.{local_rank}.step")


def with_newest_step(sample: Sample | None, stop_file: Path, local_rank: int) -> Sample | None:
    """The sample, with the step that the process has written since; ``None`` if it has none."""
    try:
        # Not by a file object, which takes thrice as long.
        descriptor = os.open(step_file(stop_file, local_rank), os.O_RDONLY | os.O_CLOEXEC)
        try:
            step, at_s = _MARK.unpack(os.read(descriptor, _MARK.size + 1))
        finally:
            os.close(descriptor)
    except (OSError, struct.error):
        return None
    if not abs(step) <= INT64 or not (sample.at_s if sample else 0.0) < at_s < MAX_TIME_S:
        return None
    return (sample or Sample(at_s, None, None, ()))._replace(at_s=at_s, step=step)


def _sender(ancillary: list[tuple[int, int, bytes]]) -> tuple[int | None, int]:
    """User and process."""
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
            pid, uid, _ = _CREDENTIALS.unpack(data[: _CREDENTIALS.size])
            return int(uid), int(pid)
    return None, 0


def parse(data: bytes, pid: int = 0) -> tuple[int, Sample]:
    """``(local rank, sample)``; ``pid``: who sent it. Raises MalformedData."""
    # A loss may be NaN.
    plain = decode_record(data, max_bytes=MAX_BYTES, is_lenient=True)
    values = plain.record("values").plain
    sample = Sample(
        at_s=plain.number("at_s"),
        step=_whole(plain, "step"),
        total_steps=_whole(plain, "total_steps"),
        values=tuple(_values(values))[:MAX_VALUES],
        pause=plain.text("pause", max_length=MAX_PAUSE, default=""),
        is_ready=plain.flag("ready", default=False),
        raised_pid=pid if plain.flag("raised", default=False) else 0,
    )
    return plain.integer("local_rank", most=MAX_RANK), sample


def _whole(plain: Record, key: str) -> int | None:
    if key not in plain:
        return None
    value = plain.plain[key]
    # It becomes an int64 on the wire.
    is_too_long = type(value) is int and abs(value) > INT64
    return None if is_too_long else plain.integer(key, least=-INT64)


def _values(plain: dict[str, object]) -> Iterator[tuple[str, float]]:
    for name, value in plain.items():
        is_exact = type(value) is int and abs(value) <= INT64
        if not isinstance(value, (int, float)) or not (is_exact or type(value) is float):
            raise MalformedData(f"{shown(name)} is {shown(value)}")
        if not is_encodable(name):
            raise MalformedData(f"{shown(name)} is {shown(value)}")
        yield name, float(value)

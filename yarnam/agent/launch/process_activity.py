"""The activity of a process and its children: CPU, memory, I/O and output, and whether they are
idle."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from yarnam.core.model.metrics import CPU_CORES, LOG_BYTES, MEMORY_BYTES, READ_RATE, WRITE_RATE

CPU_SHARE = 0.05
"""Share of one core: less is what the threads of a runtime use that only wait (heartbeats)."""

IO_BYTES = 64 * 1024
"""Read and written between two polls: less is what heartbeats exchange."""

IDLE_S = 6.0
"""Shorter idle times are not reported."""

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MAX_READ = 1 << 16


@dataclass(slots=True)
class _Facts:
    """The counters of one process or the sum of several; zero for one that has ended."""

    states: frozenset[str] = frozenset()
    cpu_s: float = 0.0
    memory_bytes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0

    @property
    def moved_bytes(self) -> int:
        return self.read_bytes + self.written_bytes


class ActivityProbe:
    """Follows one process by its id. ``log`` receives its output."""

    def __init__(self, pid: int, log: Path) -> None:
        self._pid = pid
        self._log = log
        self._seen_s = self._active_s = time.monotonic()
        self._before, self._size = _Facts(), 0
        self.usage: dict[str, float] = {}
        """Between the last two polls, by the names of ``yarnam.wire.protocol.USAGE_METRICS``."""
        self.is_stopped = False
        """By a signal."""

    @property
    def idle_s(self) -> float:
        """0 below ``IDLE_S``."""
        idle_s = self._seen_s - self._active_s
        return idle_s if idle_s >= IDLE_S else 0.0

    def poll(self) -> bool:
        """Whether it has stopped, gone on, fallen idle or become active since the last poll."""
        before = self.is_stopped, bool(self.idle_s)
        now_s = time.monotonic()
        now = _facts(tree(self._pid))
        size = 0
        with suppress(OSError):
            size = self._log.stat().st_size
        used = abs(now.cpu_s - self._before.cpu_s) >= CPU_SHARE * (now_s - self._seen_s)
        moved = abs(now.moved_bytes - self._before.moved_bytes)
        if used or moved >= IO_BYTES or size != self._size:
            self._active_s = now_s
        self.usage = _usage(self._before, now, now_s - self._seen_s) | {LOG_BYTES: float(size)}
        self._seen_s, self._before, self._size = now_s, now, size
        # While a tool reads its stack (t), whether it is stopped does not show.
        self.is_stopped = "T" in now.states or (self.is_stopped and "t" in now.states)
        return (self.is_stopped, bool(self.idle_s)) != before


def _usage(before: _Facts, now: _Facts, took_s: float) -> dict[str, float]:
    """A process that ends takes its part of the sums along: rates are never negative."""
    if took_s <= 0:
        return {}
    return {
        CPU_CORES: max(0.0, now.cpu_s - before.cpu_s) / took_s,
        MEMORY_BYTES: float(now.memory_bytes),
        READ_RATE: max(0, now.read_bytes - before.read_bytes) / took_s,
        WRITE_RATE: max(0, now.written_bytes - before.written_bytes) / took_s,
    }


def tree(pid: int) -> Iterator[int]:
    """The process and its descendants, parents first."""
    todo = [pid]
    while todo:
        pid = todo.pop(0)
        yield pid
        with suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - cheaper
                with suppress(OSError, ValueError):
                    todo += map(int, _read(f"/proc/{pid}/task/{task}/children").split())


def _facts(pids: Iterable[int]) -> _Facts:
    """The usage of all of them together. Memory that they share is counted for each."""
    found, states = _Facts(), set()
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):
            fields = _read(f"/proc/{pid}/stat").rpartition(b") ")[2].split()
            states.add(fields[0].decode("ascii", "replace"))
            found.cpu_s += sum(map(int, fields[11:15])) / _TICKS
            found.memory_bytes += int(fields[21]) * _PAGE_BYTES
        with suppress(OSError, ValueError):
            for line in _read(f"/proc/{pid}/io").splitlines():
                name, _, count = line.partition(b": ")
                if name == b"rchar":
                    found.read_bytes += int(count)
                elif name == b"wchar":
                    found.written_bytes += int(count)
    found.states = frozenset(states)
    return found


def _read(path: str) -> bytes:
    """A small file of the kernel, in the cheapest way: a process may have a hundred threads, and
    all of them are looked at every other second. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _MAX_READ)
    finally:
        os.close(descriptor)

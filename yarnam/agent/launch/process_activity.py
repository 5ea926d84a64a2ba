"""Whether a process does anything: CPU, I/O and output of it and of what it has started."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PERIOD_S = 2.0
"""Between two polls."""

CPU_SHARE = 0.05
"""Of one core: less is what the threads of a runtime use that only wait (heartbeats)."""

IO_BYTES = 64 * 1024
"""Read and written between two polls: less is what heartbeats exchange."""

IDLE_S = 6.0
"""Shorter idle times are not reported."""

_TICKS = os.sysconf("SC_CLK_TCK")


class ActivityProbe:
    """Of one process, by its id; ``log``: where its output goes."""

    def __init__(self, pid: int, log: Path) -> None:
        self._pid = pid
        self._log = log
        self._seen_s = self._active_s = time.monotonic()
        self._cpu_s, self._bytes, self._size = 0.0, 0, 0
        self.is_stopped = False
        """By a signal."""

    @property
    def idle_s(self) -> float:
        """0: less than ``IDLE_S``."""
        idle_s = self._seen_s - self._active_s
        return idle_s if idle_s >= IDLE_S else 0.0

    def poll(self) -> bool:
        """Whether it has stopped, gone on, fallen idle or become active since the last poll."""
        before = self.is_stopped, bool(self.idle_s)
        now_s = time.monotonic()
        cpu_s, moved, states = 0.0, 0, set()
        for pid in tree(self._pid):
            state, used_s, count = _facts(pid)
            states.add(state)
            cpu_s, moved = cpu_s + used_s, moved + count
        size = 0
        with suppress(OSError):
            size = self._log.stat().st_size
        used = abs(cpu_s - self._cpu_s) >= CPU_SHARE * (now_s - self._seen_s)
        if used or abs(moved - self._bytes) >= IO_BYTES or size != self._size:
            self._active_s = now_s
        self._seen_s, self._cpu_s, self._bytes, self._size = now_s, cpu_s, moved, size
        self.is_stopped = "T" in states
        return (self.is_stopped, bool(self.idle_s)) != before


def tree(pid: int) -> Iterator[int]:
    """The process and its descendants, parents first."""
    todo = [pid]
    while todo:
        pid = todo.pop(0)
        yield pid
        with suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                with suppress(OSError, ValueError):
                    todo += map(int, (task / "children").read_text().split())


def _facts(pid: int) -> tuple[str, float, int]:
    """State, seconds of CPU and bytes read and written; nothing of a process that has ended."""
    state, cpu_s, moved = "", 0.0, 0
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2].split()
        state, cpu_s = fields[0], sum(map(int, fields[11:15])) / _TICKS
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/io").read_text().splitlines():
            name, _, count = line.partition(": ")
            moved += int(count) if name in {"rchar", "wchar"} else 0
    return state, cpu_s, moved

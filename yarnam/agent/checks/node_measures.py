"""The measurements that a container makes of its own node: one core, memory, the disk of its
directory.

The best of a few windows counts, and within a window all that was done: what others do on the
node for a moment is not a property of it, while one that is crowded, or throttled by a quota of its
cgroup, stands still for a part of every window.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

MIB = 1 << 20

WINDOW_S = 0.2
"""Two periods of the kernel's CPU quota (``cpu.cfs_period_us``, 100 ms)."""

HASHED_BYTES = MIB
"""At a time: 1 to 10 ms of one core."""

COPIED_BYTES = 32 * MIB
"""More than most caches hold; twice this is allocated."""

WRITTEN_BYTES = 4 * MIB
"""At a time, with fsync."""


def cpu_mib_s(limit_s: float) -> float:
    """SHA-256 by one core, in MiB/s."""
    data = bytes(HASHED_BYTES)
    return _best(lambda: hashlib.sha256(data), HASHED_BYTES, limit_s)


def memory_mib_s(limit_s: float) -> float:
    """Copied from memory to memory by one core, in MiB/s."""
    source, target = bytearray(COPIED_BYTES), bytearray(COPIED_BYTES)

    def copy() -> None:
        target[:] = source

    copy()  # touches all pages
    return _best(copy, COPIED_BYTES, limit_s)


def disk_mib_s(directory: Path, limit_s: float) -> float:
    """Written to the disk of ``directory`` with fsync, in MiB/s. Raises OSError."""
    data = os.urandom(WRITTEN_BYTES)
    path = directory / f".yarnam-node-check-{os.getpid()}"

    def write() -> None:
        with path.open("wb", buffering=0) as stream:
            stream.write(data)
            os.fsync(stream.fileno())

    try:
        return _best(write, WRITTEN_BYTES, limit_s)
    finally:
        path.unlink(missing_ok=True)


def _best(work: Callable[[], object], size: int, limit_s: float) -> float:
    """MiB/s of the best window; at least one, and as many as fit into ``limit_s``."""
    best = 0.0
    end_s = time.perf_counter() + limit_s
    while not best or time.perf_counter() < end_s:
        done, began_s, took_s = 0, time.perf_counter(), 0.0
        while took_s < WINDOW_S:
            work()
            done += size
            took_s = time.perf_counter() - began_s
        best = max(best, done / MIB / took_s)
    return best

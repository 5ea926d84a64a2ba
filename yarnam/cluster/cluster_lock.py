"""Locks between commands on one cluster; they end with the process that holds them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hdfs_utils.concurrency.process_locks import is_abandoned, try_lock
from yarnam.errors import Unavailable

_POLL_S = 0.1


@contextmanager
def exclusive(path: Path, limit_s: float, what: str) -> Iterator[None]:
    """Hold the lock on ``path``, waiting at most ``limit_s`` seconds for another holder. The lock
    file holds the holder's pid (for messages only) and is never deleted: deleting a lock file that
    somebody waits for would give two processes the lock. Raises Unavailable."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # For appending: opening it does not cut what the holder has written.
    with path.open("a", encoding="ascii") as file:
        deadline = time.monotonic() + limit_s
        while not try_lock(file.fileno()):
            if time.monotonic() >= deadline:
                pid = _read_pid(path) or "unknown"
                raise Unavailable(
                    f"{what} is in use by process {pid} (waited {limit_s:.0f} s)",
                    hint="Wait for it to end, then try again.",
                )
            time.sleep(_POLL_S)
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def holder(path: Path) -> int | None:
    """The pid of the process that holds the lock now, if any."""
    return None if is_abandoned(path) else _read_pid(path)


def _read_pid(path: Path) -> int | None:
    text = path.read_text(encoding="ascii", errors="replace").strip()
    return int(text) if text.isdigit() else None

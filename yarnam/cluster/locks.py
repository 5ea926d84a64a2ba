"""File locks that die with their holder."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from yarnam.errors import Unavailable

_POLL_S = 0.1


@contextmanager
def exclusive(path: Path, limit_s: float, what: str) -> Iterator[None]:
    """Hold the lock on ``path``, waiting at most ``limit_s`` for another holder.

    The lock file holds the holder's pid (for the message only) and is never deleted: deleting a
    lock file that somebody waits for would give two processes the lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _wait(descriptor, limit_s, what)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        try:
            yield
        finally:
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _wait(descriptor: int, limit_s: float, what: str) -> None:
    deadline = time.monotonic() + limit_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            if time.monotonic() >= deadline:
                holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
                raise Unavailable(
                    f"{what} is in use by process {holder or 'unknown'} (waited {limit_s:.0f} s)",
                    hint="Wait for it to end, then try again.",
                ) from error
            time.sleep(_POLL_S)
        else:
            return


def holder(path: Path) -> int | None:
    """The pid of the process that holds the lock now, if any."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        text = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
        return int(text) if text.isdigit() else None
    else:
        return None
    finally:
        os.close(descriptor)

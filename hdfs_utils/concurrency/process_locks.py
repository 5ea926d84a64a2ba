"""Locks that end with the process that holds them, whatever kills it.

``flock`` on a file: the kernel gives it up with the last descriptor. Nothing has to be cleared
after a kill -9, and no time limit has to guess who is dead.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

MODE = 0o600
DRAFT_S = 60.0
"""After that a draft is what a dead process has left; it takes microseconds."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """The id of this machine's current boot (``random(4)``); empty where the system has none.

    What another boot has left on disk may be less than it seems: not all of it was flushed.
    """
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def try_lock(descriptor: int) -> bool:
    """Lock an open file; False if another open file has the lock, or locks are not supported."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock, waiting for it without a time limit: for short work only."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def tried(path: Path) -> Iterator[bool]:
    """Hold the lock if it is free; its file is removed on release."""
    descriptor = _try(path)
    if descriptor is None:
        yield False
        return
    try:
        yield True
    finally:
        # Removed while it is held: who opened it before sees that it has no name any more.
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        os.close(descriptor)


def _try(path: Path) -> int | None:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MODE)
        is_kept = False
        try:
            if not try_lock(descriptor):
                return None
            is_kept = os.fstat(descriptor).st_nlink > 0
            if is_kept:
                return descriptor
        finally:
            if not is_kept:
                os.close(descriptor)


def create_held(path: Path) -> int:
    """A new file that is locked from its first moment that others can see; its descriptor.

    Raises:
        FileExistsError: the name is taken.
    """
    # Locked before it has its name, or a sweep could take it for a dead one's in between.
    draft = path.with_name(f".{path.name}")
    descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        draft.rename(path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def is_being_made(path: Path) -> bool:
    """Whether it may be the draft of :func:`create_held`, which is locked only after it was
    created."""
    if not path.name.startswith("."):
        return False
    try:
        return time.time() - path.stat().st_mtime < DRAFT_S
    except FileNotFoundError:
        return True


def is_abandoned(path: Path) -> bool:
    """Whether nobody holds the file that :func:`create_held` made (also when it is gone)."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        return try_lock(descriptor)
    finally:
        os.close(descriptor)

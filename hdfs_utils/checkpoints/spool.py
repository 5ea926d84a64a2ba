"""Shards that wait on the local disk until the storage takes them.

Beside each shard lies a note: whatever else its checkpoint needs to exist. So what a process leaves
behind when it is killed can be sent by another (:mod:`hdfs_utils.checkpoints.orphaned_spools`). The
directory is locked for as long as its process lives.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hdfs_utils.backends.local import LocalFileSystem
from hdfs_utils.checkpoints.format.shard_file import Identity, write_to
from hdfs_utils.checkpoints.format.values import Source
from hdfs_utils.concurrency.process_locks import try_lock
from hdfs_utils.errors import PermissionDenied, QuotaExceeded

# Share of the disk that stays free: a full disk stops a NodeManager (its default is 90 % used).
FREE_SHARE = 0.1

LOCK = ".lock"
_locks: dict[Path, int] = {}
"""Held until this process ends, however it does."""


@dataclass(frozen=True, slots=True)
class Spool:
    """Where shards wait.

    Attributes:
        directory: on a local disk, of this process alone; made when it is needed.
        limit_s: how long a checkpoint may wait there before it is given up, in seconds.
        max_bytes: of all that waits; ``None`` to leave a tenth of the disk free.
    """

    directory: Path
    limit_s: float = 3600.0
    max_bytes: int | None = None

    def put(
        self,
        name: str,
        identity: Identity,
        sources: Sequence[Source],
        note: Mapping[str, Any] | None = None,
    ) -> Path:
        """Write a shard there, and then the ``note`` that makes it one for others.

        Raises:
            QuotaExceeded: it is too large.
            PermissionDenied: another user has made the directory, or may write there.
        """
        size = sum(source.length for source in sources)
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        _refuse_foreign(self.directory)
        take_lock(self.directory)
        self._check_space(size)
        path = self.directory / f"{name}.{os.getpid()}.shard"
        local = LocalFileSystem()
        with local.open_writer(str(path.absolute()), overwrite=True) as writer:
            write_to(writer, identity, sources)
        if note is not None:
            local.write_atomic(str(note_of(path).absolute()), json.dumps(note).encode())
        return path

    def drop(self, path: Path) -> None:
        note_of(path).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            path.unlink()
        if not any(self.directory.glob("*.shard")):
            drop_lock(self.directory)
            with contextlib.suppress(OSError):
                self.directory.rmdir()  # where it was the last

    def _check_space(self, size: int) -> None:
        used = sum(path.stat().st_size for path in self.directory.glob("*.shard"))
        if self.max_bytes is not None and used + size > self.max_bytes:
            message = f"{size} bytes more than the {self.max_bytes} allowed ({used} wait already)"
            raise QuotaExceeded(message, path=str(self.directory), operation="spool")
        disk = shutil.disk_usage(self.directory)
        if disk.free - size < FREE_SHARE * disk.total:
            message = f"{size} bytes would leave less than a tenth of the disk"
            raise QuotaExceeded(message, path=str(self.directory), operation="spool")


def _refuse_foreign(directory: Path) -> None:
    """A directory in /tmp may have been made by somebody who wants to read what is put there."""
    found = directory.lstat()
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    if not is_own or found.st_mode & stat.S_IWOTH:
        message = "belongs to another user, or others may write to it"
        raise PermissionDenied(message, path=str(directory), operation="spool")


def note_of(shard: Path) -> Path:
    """The file beside a spooled shard that says which checkpoint it belongs to."""
    return shard.with_suffix(".json")


def take_lock(directory: Path) -> bool:
    """Whether this process has it now; another one that lives may have it."""
    key = directory.absolute()
    if key in _locks:
        return True
    fd = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not try_lock(fd):
        os.close(fd)
        return False
    _locks[key] = fd
    return True


def drop_lock(directory: Path) -> None:
    """And the file that it was taken on."""
    fd = _locks.pop(directory.absolute(), None)
    if fd is not None:
        (directory / LOCK).unlink(missing_ok=True)
        os.close(fd)

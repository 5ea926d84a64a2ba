"""The cache of one disk: complete files under names derived from what they are copies of.

::

    yarnam-cache/
        boot              the machine's boot in which the files were written
        lock              held while the whole cache is inspected
        objects/3f/KEY-CRC
        growing/          files being fetched, each locked by its fetcher
        claims/           reserved space, each locked by its owner
        locks/KEY         held while KEY is being fetched

KEY is a digest of file system, path, length and modification time; CRC is the bytes' CRC32C. A file
gets its name under ``objects`` by one rename when it is complete and verified, so no reader
ever sees a part. Containers read hard links of their own, so evicting a file never takes it from
its readers. No process needs to survive: locks end with their holders, and the next opener deletes
what dead processes left.

Files are not flushed to the disk, which would take as long as fetching them. After a crash of the
machine they may have the right length and no content, so the cache is emptied after a reboot.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hdfs_utils.concurrency import process_locks
from hdfs_utils.concurrency.process_locks import boot_id
from hdfs_utils.errors import HdfsError, MalformedData, QuotaExceeded
from hdfs_utils.filesystem import format_bytes
from hdfs_utils.protocols.untrusted import read_at_most

_RESERVED = re.compile(rb"([!-~]{1,200}) ([0-9]{1,18})")
_MAX_RESERVED_BYTES = 64 << 20

KEEP_FREE_SHARE = 0.12
"""Share of the disk that stays free. YARN takes a disk, and in the end the node, out of service if
it is more than 90 % full
(yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage)."""

DEFAULT_SHARE = 0.5
"""Share of the disk that the cache may use if no limit is configured."""

OBJECT_MODE = 0o444
"""Read-only: all jobs of the user share the same bytes."""


class NoSpace(QuotaExceeded):
    """The disk, or the cache within its limit, has no space for the wanted files."""


class ChangedInput(HdfsError):
    """A file is not what it was when the file list was made."""


@dataclass(frozen=True, slots=True)
class WantedFile:
    """A file as the input's file list has it.

    Attributes:
        path: a plain path on its file system.
        length: in bytes.
        mtime_ms: modification time in milliseconds since 1970.
        target: where the file goes, relative to the container's inputs.
    """

    path: str
    length: int
    mtime_ms: int
    target: str

    def key(self, uri: str) -> str:
        """Its name in a cache; ``uri``: of the file system."""
        identity = json.dumps([uri, self.path, self.length, self.mtime_ms])
        return hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()[:40]


@dataclass(frozen=True, slots=True)
class CachedFile:
    """A file in the cache.

    Attributes:
        crc: CRC32C of its bytes.
        length: in bytes.
        used_s: when it was last used, in seconds since 1970.
        links: how many containers have it, besides the cache itself.
    """

    path: Path
    crc: int
    length: int
    used_s: float
    links: int

    @property
    def key(self) -> str:
        """The key of the file it is a copy of."""
        return self.path.name.rpartition("-")[0]


class CacheDir:
    """The cache on one disk. Safe between threads and between processes."""

    def __init__(
        self, root: Path, *, max_bytes: int = 0, keep_free: float = KEEP_FREE_SHARE
    ) -> None:
        """Open the cache, creating its directories.

        Args:
            root: the cache's directory.
            max_bytes: limit for all cached files; 0 means half of the disk.
            keep_free: share of the disk that stays free.

        Raises:
            OSError: the cache cannot be created or read.
        """
        self.root = root
        self._keep_free = keep_free
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        disk = os.statvfs(root)
        self.max_bytes = max_bytes or int(disk.f_frsize * disk.f_blocks * DEFAULT_SHARE)
        with process_locks.held(root / "lock"):
            for name in ("objects", "growing", "claims", "locks"):
                (root / name).mkdir(mode=0o700, exist_ok=True)
            self._empty_after_boot()
            self._clear_dead()

    def _empty_after_boot(self) -> None:
        boot = boot_id()
        mark = self.root / "boot"
        if mark.exists() and mark.read_text().strip() == boot:
            return
        old = self.root / f"old-{uuid.uuid4().hex}"
        (self.root / "objects").rename(old)
        (self.root / "objects").mkdir(mode=0o700)
        mark.write_text(boot)
        shutil.rmtree(old, ignore_errors=True)

    def _clear_dead(self) -> None:
        for old in self.root.glob("old-*"):
            shutil.rmtree(old, ignore_errors=True)
        for name in ("growing", "claims"):
            for path in (self.root / name).iterdir():
                if not process_locks.is_being_made(path) and process_locks.is_abandoned(path):
                    path.unlink(missing_ok=True)
        for path in (self.root / "locks").iterdir():
            with process_locks.tried(path):
                pass  # unlocked, so leaving the block deletes it

    # ---- reading -------------------------------------------------------------------------

    def find(self, key: str, length: int) -> CachedFile | None:
        """The complete file of this key; None if the cache does not have it."""
        prefix = f"{key}-"
        for entry in _entries(self._directory(key)):
            if entry.name.startswith(prefix):
                cached = _cached_file(entry)
                if cached is not None and cached.length == length:
                    return cached
        return None

    def link(self, cached: CachedFile, target: Path) -> bool:
        """Hard-link a cached file to ``target``; False if it was evicted meanwhile."""
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        try:
            os.link(cached.path, target)
        except FileNotFoundError:
            return False
        os.utime(target)  # the link shares the cached file's time: it is in use now
        return True

    def drop(self, cached: CachedFile) -> None:
        """Delete a file that is not what HDFS has any more."""
        cached.path.unlink(missing_ok=True)

    def everything(self) -> Iterator[CachedFile]:
        """All cached files, in no particular order."""
        for directory in sorted((self.root / "objects").iterdir()):
            for entry in _entries(directory):
                cached = _cached_file(entry)
                if cached is not None:
                    yield cached

    # ---- writing -------------------------------------------------------------------------

    def fetching(self, key: str) -> contextlib.AbstractContextManager[bool]:
        """Yields True if nobody else fetches this file; then nobody will within the block."""
        return process_locks.tried(self.root / "locks" / key)

    @contextlib.contextmanager
    def growing(self, key: str, length: int) -> Iterator[tuple[int, Path]]:
        """A new file to fill: descriptor and path. It is deleted unless it was published."""
        path = self.root / "growing" / f"{key}.{uuid.uuid4().hex}"
        descriptor = process_locks.create_held(path)
        try:
            os.ftruncate(descriptor, length)
            yield descriptor, path
        finally:
            path.unlink(missing_ok=True)
            os.close(descriptor)

    def publish(self, growing: Path, key: str, crc: int, length: int) -> CachedFile:
        """Give a complete, verified file its final name."""
        directory = self._directory(key)
        directory.mkdir(mode=0o700, exist_ok=True)
        path = directory / f"{key}-{crc:08x}"
        growing.chmod(OBJECT_MODE)
        os.utime(growing)
        growing.rename(path)
        return CachedFile(path, crc, length, path.stat().st_mtime, 0)

    # ---- space ----------------------------------------------------------------------------

    @contextlib.contextmanager
    def reserve(self, files: Mapping[str, int]) -> Iterator[SpaceReservation]:
        """Room for files, given as key and bytes: the oldest of what nobody reads gives way. What
        others are fetching too takes room once.

        Raises:
            NoRoom: there is not enough.
        """
        with process_locks.held(self.root / "lock"):
            self._clear_dead()
            self._evict_for(files)
            path = self.root / "claims" / uuid.uuid4().hex
            descriptor = process_locks.create_held(path)
            claim = SpaceReservation(descriptor, files)
        try:
            yield claim
        finally:
            path.unlink(missing_ok=True)
            os.close(descriptor)

    def _evict_for(self, files: Mapping[str, int]) -> None:
        by_others: dict[str, int] = {}
        for path in (self.root / "claims").iterdir():
            by_others.update(_reserved(path))
        claimed = sum(by_others.values())
        there = sorted(self.everything(), key=lambda cached: cached.used_s)
        coming = {*by_others, *(cached.key for cached in there)}
        size = sum(length for key, length in files.items() if key not in coming)
        total = sum(cached.length for cached in there) + claimed
        free = free_bytes(self.root, self._keep_free) - claimed
        for cached in there:
            if total + size <= self.max_bytes and free >= size:
                break
            if cached.links or cached.key in files:
                continue  # in use, so evicting frees nothing; or wanted now
            cached.path.unlink(missing_ok=True)
            total -= cached.length
            free += cached.length
        if total + size > self.max_bytes:
            used = f", of which {format_bytes(total)} are in use" if total else ""
            raise NoSpace(
                f"{format_bytes(size)} do not fit a cache of {format_bytes(self.max_bytes)}{used}",
                path=str(self.root),
            )
        if free < size:
            raise NoSpace(
                f"{format_bytes(size)} are wanted; the disk has {format_bytes(max(0, free))} "
                f"(besides {self._keep_free:.0%} of it, which must stay free)",
                path=str(self.root),
            )

    def _directory(self, key: str) -> Path:
        return self.root / "objects" / key[:2]


class SpaceReservation:
    """Space to be filled file by file. Lines: ``KEY BYTES``, then ``KEY 0`` for each file that has
    arrived."""

    def __init__(self, descriptor: int, files: Mapping[str, int]) -> None:
        self._descriptor = descriptor
        self._write("".join(f"{key} {size}\n" for key, size in files.items()))

    def fill(self, key: str) -> None:
        self._write(f"{key} 0\n")

    def _write(self, text: str) -> None:
        data = text.encode()
        while data:
            data = data[os.write(self._descriptor, data) :]


def free_bytes(directory: Path, keep_free: float) -> int:
    """Free bytes of the disk, without the share ``keep_free`` that must stay free."""
    disk = os.statvfs(directory)
    return max(0, (disk.f_bavail - int(disk.f_blocks * keep_free)) * disk.f_frsize)


def _reserved(path: Path) -> dict[str, int]:
    try:
        with path.open("rb") as file:
            lines = read_at_most(file, _MAX_RESERVED_BYTES).split(b"\n")[:-1]
    except FileNotFoundError:
        return {}
    except MalformedData:
        return {}  # no list of ours: its holder counts for nothing
    matches = [_RESERVED.fullmatch(line) for line in lines]
    found = {match[1].decode(): int(match[2]) for match in matches if match}
    return {key: size for key, size in found.items() if size}


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _cached_file(entry: os.DirEntry[str]) -> CachedFile | None:
    try:
        status = entry.stat()
        crc = int(entry.name.rpartition("-")[2], 16)
    except (FileNotFoundError, ValueError):
        return None
    return CachedFile(Path(entry.path), crc, status.st_size, status.st_mtime, status.st_nlink - 1)

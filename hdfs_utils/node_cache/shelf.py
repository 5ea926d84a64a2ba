"""The cache of one disk: whole files under names that say what they are of.

::

    yarnam-cache/
        boot              the machine's boot in which the files were written
        lock              taken for a look at everything
        objects/3f/KEY-CRC
        growing/          files that are being fetched, each locked by who does
        claims/           room that somebody is going to fill, each locked by who does
        locks/KEY         taken while KEY is being fetched

KEY is a digest of file system, path, length and modification time, CRC the CRC32C of the bytes. A
file gets its name under ``objects`` by one rename when it is whole and verified, so no reader ever
sees a part. What a container reads are hard links of its own: a file that is evicted is gone for
the next one, never for those that read it. Nothing here needs a process that survives: locks end
with their holders, and what the dead have left is cleared by whoever comes next.

Files are not flushed to the disk, which would take as long as the fetching: after a crash of the
machine they may have the right length and no content. So the cache is emptied when the machine has
been started again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hdfs_utils.boot import boot_id
from hdfs_utils.node_cache import locks
from hdfs_utils.node_cache.errors import NoRoom
from hdfs_utils.sizes import human

KEEP_FREE_SHARE = 0.12
"""Of the disk. YARN takes a disk out of service, and with it in the end the node, when more than
90 % of it is used (yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage).
"""

DEFAULT_SHARE = 0.5
"""Of the disk, which the cache may have where nobody has said."""

OBJECT_MODE = 0o444
"""All jobs of the user read the same bytes: none may write into them by mistake."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file as the list of the input has it. ``path`` is a plain path on its file system,
    ``length`` in bytes; ``target`` is where it is wanted, relative to the container's inputs."""

    path: str
    length: int
    mtime_ms: int
    target: str

    def key(self, uri: str) -> str:
        """Its name in a cache; ``uri`` is that of the file system."""
        told = json.dumps([uri, self.path, self.length, self.mtime_ms])
        return hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()[:40]


@dataclass(frozen=True, slots=True)
class Held:
    """A file in the cache. ``used_s``: when it was last wanted; ``links``: how many containers have
    it, besides the cache itself."""

    path: Path
    crc: int
    length: int
    used_s: float
    links: int

    @property
    def key(self) -> str:
        """What it is of."""
        return self.path.name.rpartition("-")[0]


class Shelf:
    """The cache on one disk. Safe between threads and between processes."""

    def __init__(
        self, root: Path, *, max_bytes: int = 0, keep_free: float = KEEP_FREE_SHARE
    ) -> None:
        """``max_bytes``: of all that it holds; 0: half of the disk. Makes the directories.

        Raises:
            OSError: it cannot be made or read.
        """
        self.root = root
        self._keep_free = keep_free
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        disk = os.statvfs(root)
        self.max_bytes = max_bytes or int(disk.f_frsize * disk.f_blocks * DEFAULT_SHARE)
        with locks.held(root / "lock"):
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
                if not locks.is_being_made(path) and locks.is_abandoned(path):
                    path.unlink(missing_ok=True)
        for path in (self.root / "locks").iterdir():
            with locks.tried(path):
                pass  # nobody has it: it goes

    # ---- reading -------------------------------------------------------------------------

    def find(self, key: str, length: int) -> Held | None:
        """The file of this name, if it is there whole."""
        prefix = f"{key}-"
        for entry in _entries(self._directory(key)):
            if entry.name.startswith(prefix):
                held = _held(entry)
                if held is not None and held.length == length:
                    return held
        return None

    def link(self, held: Held, target: Path) -> bool:
        """Give a container its own name for it; False: it was evicted meanwhile."""
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        try:
            os.link(held.path, target)
        except FileNotFoundError:
            return False
        os.utime(target)  # of the one file that both are: it is wanted now
        return True

    def drop(self, held: Held) -> None:
        """Forget it: it is not what HDFS has any more."""
        held.path.unlink(missing_ok=True)

    def everything(self) -> Iterator[Held]:
        """All files, in no order."""
        for directory in sorted((self.root / "objects").iterdir()):
            for entry in _entries(directory):
                held = _held(entry)
                if held is not None:
                    yield held

    # ---- writing -------------------------------------------------------------------------

    def fetching(self, key: str) -> contextlib.AbstractContextManager[bool]:
        """True: nobody else fetches this file, and nobody will while the context lasts."""
        return locks.tried(self.root / "locks" / key)

    @contextlib.contextmanager
    def growing(self, key: str, length: int) -> Iterator[tuple[int, Path]]:
        """A file to be filled: descriptor and path. It goes away unless it was published."""
        path = self.root / "growing" / f"{key}.{uuid.uuid4().hex}"
        descriptor = locks.create_held(path)
        try:
            os.ftruncate(descriptor, length)
            yield descriptor, path
        finally:
            path.unlink(missing_ok=True)
            os.close(descriptor)

    def publish(self, growing: Path, key: str, crc: int, length: int) -> Held:
        """The file is whole and verified."""
        directory = self._directory(key)
        directory.mkdir(mode=0o700, exist_ok=True)
        path = directory / f"{key}-{crc:08x}"
        growing.chmod(OBJECT_MODE)
        os.utime(growing)
        growing.rename(path)
        return Held(path, crc, length, path.stat().st_mtime, 0)

    # ---- room ----------------------------------------------------------------------------

    @contextlib.contextmanager
    def room_for(self, files: Mapping[str, int]) -> Iterator[Claim]:
        """Room for files, given as key and bytes: the oldest of what nobody reads gives way. What
        others are fetching too takes room once.

        Raises:
            NoRoom: there is not enough.
        """
        with locks.held(self.root / "lock"):
            self._clear_dead()
            self._make_room(files)
            path = self.root / "claims" / uuid.uuid4().hex
            descriptor = locks.create_held(path)
            claim = Claim(descriptor, files)
        try:
            yield claim
        finally:
            path.unlink(missing_ok=True)
            os.close(descriptor)

    def free_bytes(self) -> int:
        """What the disk has for us: its free space less what is to stay free."""
        disk = os.statvfs(self.root)
        keep = int(disk.f_blocks * self._keep_free)
        return max(0, (disk.f_bavail - keep) * disk.f_frsize)

    def _make_room(self, files: Mapping[str, int]) -> None:
        by_others: dict[str, int] = {}
        for path in (self.root / "claims").iterdir():
            by_others.update(_claimed(path))
        claimed = sum(by_others.values())
        there = sorted(self.everything(), key=lambda held: held.used_s)
        coming = {*by_others, *(held.key for held in there)}
        size = sum(length for key, length in files.items() if key not in coming)
        total = sum(held.length for held in there) + claimed
        free = self.free_bytes() - claimed
        for held in there:
            if total + size <= self.max_bytes and free >= size:
                break
            if held.links or held.key in files:
                continue  # somebody reads it, so its bytes would stay; or it is wanted now
            held.path.unlink(missing_ok=True)
            total -= held.length
            free += held.length
        if total + size > self.max_bytes:
            used = f", and {human(total)} of it are being used" if total else ""
            raise NoRoom(
                f"{human(size)} do not go into a cache of {human(self.max_bytes)}{used}",
                path=str(self.root),
            )
        if free < size:
            raise NoRoom(
                f"{human(size)} are wanted, the disk has {human(max(0, free))} "
                f"(besides {self._keep_free:.0%} of it, which are to stay free)",
                path=str(self.root),
            )

    def _directory(self, key: str) -> Path:
        return self.root / "objects" / key[:2]


class Claim:
    """Room that is going to be filled, file by file. Lines: ``KEY BYTES``, then ``KEY 0`` for each
    that is there."""

    def __init__(self, descriptor: int, files: Mapping[str, int]) -> None:
        self._descriptor = descriptor
        self._write("".join(f"{key} {size}\n" for key, size in files.items()))

    def fill(self, key: str) -> None:
        """This file is there by now."""
        self._write(f"{key} 0\n")

    def _write(self, text: str) -> None:
        data = text.encode()
        while data:
            data = data[os.write(self._descriptor, data) :]


def _claimed(path: Path) -> dict[str, int]:
    try:
        lines = path.read_text().split("\n")[:-1]
    except FileNotFoundError:
        return {}
    found: dict[str, int] = {}
    for line in lines:
        key, _, size = line.partition(" ")
        found[key] = int(size)
    return {key: size for key, size in found.items() if size}


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _held(entry: os.DirEntry[str]) -> Held | None:
    try:
        status = entry.stat()
        crc = int(entry.name.rpartition("-")[2], 16)
    except (FileNotFoundError, ValueError):
        return None
    return Held(Path(entry.path), crc, status.st_size, status.st_mtime, status.st_nlink - 1)

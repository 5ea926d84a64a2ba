"""Fetches files of HDFS to the disks of a node; a file is complete at its final name or absent."""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hdfs_utils.concurrency.worker_pool import Stopped
from hdfs_utils.filesystem import FileSystem, format_bytes
from hdfs_utils.node_cache.cache_dir import (
    KEEP_FREE_SHARE,
    OBJECT_MODE,
    CachedFile,
    CacheDir,
    NoSpace,
    SpaceReservation,
    WantedFile,
    free_bytes,
)
from hdfs_utils.node_cache.fetch_progress import FetchProgress
from hdfs_utils.node_cache.fetcher import RANGE_BYTES, THREADS, Fetcher, PartialFile
from hdfs_utils.transfer.compare import storage_crcs

POLL_S = 0.2
"""Pause between checks whether another container has fetched a file that both want."""


@dataclass(frozen=True, slots=True)
class CacheDisk:
    """One local disk.

    Attributes:
        own: the container's own directory on it; YARN deletes it with the container.
        cache: the user's cache directory on it.
    """

    own: Path
    cache: Path


@dataclass(frozen=True, slots=True)
class _Present:
    """A file that the container has. ``was_cached``: the node had it before."""

    key: str
    path: Path
    was_cached: bool


class NodeStore:
    """The input files of one container on its node. For one thread at a time.

    Attributes:
        progress: of the fetches.
    """

    def __init__(
        self,
        disks: Sequence[CacheDisk],
        *,
        cache_max_bytes: int = 0,
        keep_free: float = KEEP_FREE_SHARE,
        threads: int = THREADS,
        progress: FetchProgress | None = None,
        range_bytes: int = RANGE_BYTES,
    ) -> None:
        """Create the container's directories.

        Args:
            disks: the node's local disks.
            cache_max_bytes: limit for the caches on all disks together (0 = half of each disk).
            keep_free: share of each disk that stays free.
            threads: files fetched at the same time.
            progress: receives the progress.
            range_bytes: larger files are fetched in ranges of this size.

        Raises:
            OSError: a directory cannot be created.
        """
        self.progress = progress or FetchProgress()
        self._disks = tuple(disks)
        self._keep_free = keep_free
        self._threads = threads
        self._range_bytes = range_bytes
        self._have: dict[str, _Present] = {}
        self._caches: dict[CacheDisk, CacheDir] = {}
        self._cache_max_bytes = cache_max_bytes
        self._stopping = threading.Event()
        for disk in self._disks:
            disk.own.mkdir(mode=0o700, parents=True, exist_ok=True)

    def stop(self) -> None:
        """Make :meth:`fetch` in another thread end soon with ``Stopped``."""
        self._stopping.set()

    def resume(self) -> None:
        """Allow :meth:`fetch` again after :meth:`stop`, once the stopped call has ended."""
        self._stopping.clear()

    def pause(self, seconds: float) -> None:
        """Sleep; raises Stopped immediately on :meth:`stop`."""
        if self._stopping.wait(seconds):
            raise Stopped

    def fetch(
        self, fs: FileSystem, wanted: Sequence[WantedFile], *, is_cached: bool
    ) -> dict[str, Path]:
        """Fetch all files; returns their local paths by target. Earlier calls' files stay.

        The caller begins ``progress`` with the total of several calls.

        Args:
            fs: the file system of the files.
            wanted: the files.
            is_cached: share them with later containers of the user through the caches.

        Raises:
            NotFound, PermissionDenied, ChangedInput: a file is not what the list says.
            NoSpace: no disk has space for a file.
            CorruptData: the bytes do not match HDFS's own checksum, twice.
            HdfsError: HDFS did not answer; ``retriable`` tells whether to call again.
            OSError: a local disk failed.
            Stopped: :meth:`stop` was called.
        """
        missing = []
        for file in wanted:
            key = file.key(fs.uri)
            had = self._have.get(file.target)
            if had is not None and had.key == key:
                self.progress.found(file.length, is_cached=had.was_cached)
            else:
                missing.append(file)
        if is_cached:
            missing = self._from_cache(fs, missing)
        for disk, files in self._divided(missing, is_cached=is_cached).items():
            if is_cached:
                self._to_cache(fs, disk, files)
            else:
                self._to_own(fs, disk, files)
        return {file.target: self._have[file.target].path for file in wanted}

    def keep_only(self, targets: Sequence[str]) -> None:
        """Delete all other files: their space may be needed."""
        wanted = set(targets)
        for target in [target for target in self._have if target not in wanted]:
            self._have.pop(target).path.unlink(missing_ok=True)

    # ---- cached files ----------------------------------------------------------------------

    def _from_cache(self, fs: FileSystem, files: Sequence[WantedFile]) -> list[WantedFile]:
        """Link the files that a cache has; return the others."""
        found: list[tuple[WantedFile, CacheDisk, CachedFile]] = []
        missing = []
        for file in files:
            hit = self._find(file.key(fs.uri), file.length)
            if hit is None:
                missing.append(file)
            else:
                found.append((file, *hit))
        expected = self._stored_crcs(fs, [file for file, _, _ in found])
        for number, (file, disk, cached) in enumerate(found):
            if expected is not None and expected[number] != cached.crc:
                # Written again on HDFS with the same length and time.
                self._cache(disk).drop(cached)
                missing.append(file)
            elif not self._link(fs, disk, cached, file, was_cached=True):
                missing.append(file)
            else:
                self.progress.found(file.length)
        return missing

    def _stored_crcs(self, fs: FileSystem, files: Sequence[WantedFile]) -> list[int] | None:
        """HDFS's own CRC32C of each file; None if that needs reading them or is not supported."""
        if not files or not (fs.capabilities.stores_crc32c or fs.capabilities.is_local):
            return None
        return storage_crcs(fs, [file.path for file in files])

    def _find(self, key: str, length: int) -> tuple[CacheDisk, CachedFile] | None:
        for disk in self._disks:
            cached = self._cache(disk).find(key, length)
            if cached is not None:
                return disk, cached
        return None

    def _link(
        self,
        fs: FileSystem,
        disk: CacheDisk,
        cached: CachedFile,
        file: WantedFile,
        *,
        was_cached: bool,
    ) -> bool:
        target = disk.own / file.target
        if not self._cache(disk).link(cached, target):
            return False
        self._have[file.target] = _Present(file.key(fs.uri), target, was_cached)
        return True

    def _cache(self, disk: CacheDisk) -> CacheDir:
        cache = self._caches.get(disk)
        if cache is None:
            most = self._cache_max_bytes // len(self._disks)
            cache = CacheDir(disk.cache, max_bytes=most, keep_free=self._keep_free)
            self._caches[disk] = cache
        return cache

    # ---- missing files ---------------------------------------------------------------------

    def _divided(
        self, files: Sequence[WantedFile], *, is_cached: bool
    ) -> dict[CacheDisk, list[WantedFile]]:
        """Assign each file to the disk with the most space, large files first."""
        space = {
            disk: min(
                free_bytes(disk.own, self._keep_free),
                self._cache(disk).max_bytes if is_cached else 1 << 62,
            )
            for disk in self._disks
        }
        divided: dict[CacheDisk, list[WantedFile]] = {}
        for file in sorted(files, key=lambda file: (-file.length, file.path)):
            disk = max(self._disks, key=lambda disk: space[disk])
            space[disk] -= file.length
            divided.setdefault(disk, []).append(file)
        return divided

    def _to_own(self, fs: FileSystem, disk: CacheDisk, files: Sequence[WantedFile]) -> None:
        size = sum(file.length for file in files)
        free = free_bytes(disk.own, self._keep_free)
        if size > free:
            raise NoSpace(
                f"{format_bytes(size)} are wanted; the disk has {format_bytes(free)} "
                f"(besides {self._keep_free:.0%} of it, which must stay free)",
                path=str(disk.own),
            )
        fetcher = Fetcher(fs, self.progress, self._threads, self._stopping, self._range_bytes)

        @contextlib.contextmanager
        def open_partial(file: WantedFile) -> Iterator[PartialFile | None]:
            path = disk.own / f".growing-{uuid.uuid4().hex}"
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.ftruncate(descriptor, file.length)
                yield PartialFile(descriptor, lambda _crc: self._publish_own(fs, disk, path, file))
            finally:
                path.unlink(missing_ok=True)
                os.close(descriptor)

        fetcher.run(files, open_partial)

    def _publish_own(self, fs: FileSystem, disk: CacheDisk, path: Path, file: WantedFile) -> None:
        target = disk.own / file.target
        target.parent.mkdir(parents=True, exist_ok=True)
        path.chmod(OBJECT_MODE)
        path.rename(target)
        self._have[file.target] = _Present(file.key(fs.uri), target, was_cached=False)

    def _to_cache(self, fs: FileSystem, disk: CacheDisk, files: Sequence[WantedFile]) -> None:
        cache = self._cache(disk)
        with cache.reserve({file.key(fs.uri): file.length for file in files}) as reservation:
            todo = list(files)
            while todo:
                todo = self._fetch_round(fs, disk, todo, reservation)
                if todo:
                    # Others fetch these: they finish, or they die and their locks end with them.
                    self.progress.set_trouble("another container fetches the same files")
                    self.pause(POLL_S)
        self.progress.set_trouble("")

    def _fetch_round(
        self,
        fs: FileSystem,
        disk: CacheDisk,
        files: Sequence[WantedFile],
        reservation: SpaceReservation,
    ) -> list[WantedFile]:
        """Fetch what nobody else fetches; return the rest."""
        cache = self._cache(disk)
        rest: list[WantedFile] = []
        fetcher = Fetcher(fs, self.progress, self._threads, self._stopping, self._range_bytes)

        @contextlib.contextmanager
        def open_partial(file: WantedFile) -> Iterator[PartialFile | None]:
            key = file.key(fs.uri)
            with cache.fetching(key) as is_ours:
                if not is_ours:
                    rest.append(file)
                    yield None
                    return
                cached = cache.find(key, file.length)
                if cached is not None and self._link(fs, disk, cached, file, was_cached=True):
                    reservation.fill(key)
                    self.progress.found(file.length)
                    yield None
                    return
                with cache.growing(key, file.length) as (descriptor, path):

                    def publish(crc: int) -> None:
                        made = cache.publish(path, key, crc, file.length)
                        reservation.fill(key)
                        if not self._link(fs, disk, made, file, was_cached=False):
                            rest.append(file)  # already evicted for another container

                    yield PartialFile(descriptor, publish)

        fetcher.run(files, open_partial)
        return rest

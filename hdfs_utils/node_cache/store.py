"""Brings files of HDFS to the disks of a node, each whole at its name or not there."""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hdfs_utils.filesystem import FileSystem
from hdfs_utils.node_cache.counts import Counts
from hdfs_utils.node_cache.errors import NoRoom
from hdfs_utils.node_cache.fetching import THREADS, Fetching, Growing
from hdfs_utils.node_cache.shelf import KEEP_FREE_SHARE, OBJECT_MODE, Claim, Held, Shelf, Wanted
from hdfs_utils.sizes import human
from hdfs_utils.transfer.verify import storage_crcs
from hdfs_utils.transfer.workers import Stopped

LOOK_S = 0.2
"""Between two looks whether another container has fetched what we want too."""

_TELLS_CHECKSUMS = ("native", "arrow", "local")


@dataclass(frozen=True, slots=True)
class Place:
    """One local disk.

    Attributes:
        own: the container's own directory on it, which goes with the container.
        cache: where the user's cache on it is.
    """

    own: Path
    cache: Path


@dataclass(frozen=True, slots=True)
class _Had:
    """A file that the container has. ``was_cached``: it lay on the node before."""

    key: str
    path: Path
    was_cached: bool


class NodeStore:
    """What one container has brought to its node. For one thread at a time.

    Attributes:
        counts: how far it is.
    """

    def __init__(
        self,
        places: Sequence[Place],
        *,
        cache_max_bytes: int = 0,
        keep_free: float = KEEP_FREE_SHARE,
        threads: int = THREADS,
        counts: Counts | None = None,
    ) -> None:
        """``cache_max_bytes``: of the caches on all disks together; 0: half of each disk.

        Raises:
            OSError: a directory cannot be made.
        """
        self.counts = counts or Counts()
        self._places = tuple(places)
        self._keep_free = keep_free
        self._threads = threads
        self._have: dict[str, _Had] = {}
        self._shelves: dict[Place, Shelf] = {}
        self._cache_max_bytes = cache_max_bytes
        self._stopping = threading.Event()
        for place in self._places:
            place.own.mkdir(mode=0o700, parents=True, exist_ok=True)

    def stop(self) -> None:
        """Let :meth:`bring`, in another thread, end soon with ``Stopped``."""
        self._stopping.set()

    def go_on(self) -> None:
        """After :meth:`stop`, when :meth:`bring` has ended: it may be called again."""
        self._stopping.clear()

    def pause(self, seconds: float) -> None:
        """Wait, but no longer than until :meth:`stop`. Raises Stopped."""
        if self._stopping.wait(seconds):
            raise Stopped

    def bring(
        self, fs: FileSystem, wanted: Sequence[Wanted], *, is_cached: bool
    ) -> dict[str, Path]:
        """Bring them all; where each is, by its target. What an earlier call brought stays.

        ``counts`` goes on: begin it with all that several calls are to bring.

        Raises:
            NotFound, PermissionDenied, ChangedInput: a file is not what the list says.
            NoRoom: no disk has room for it.
            CorruptData: the bytes do not fit HDFS's own checksum, twice.
            HdfsError: HDFS did not answer; ``retriable`` says whether to call again.
            OSError: a local disk is in trouble.
            Stopped: by :meth:`stop`.
        """
        missing = []
        for file in wanted:
            key = file.key(fs.uri)
            had = self._have.get(file.target)
            if had is not None and had.key == key:
                self.counts.found(file.length, is_cached=had.was_cached)
            else:
                missing.append(file)
        if is_cached:
            missing = self._from_cache(fs, missing)
        for place, files in self._divided(missing, is_cached=is_cached).items():
            if is_cached:
                self._to_cache(fs, place, files)
            else:
                self._to_own(fs, place, files)
        return {file.target: self._have[file.target].path for file in wanted}

    def keep_only(self, targets: Sequence[str]) -> None:
        """Give up what is not among them: its room may be needed."""
        wanted = set(targets)
        for target in [target for target in self._have if target not in wanted]:
            self._have.pop(target).path.unlink(missing_ok=True)

    # ---- what is there ---------------------------------------------------------------------

    def _from_cache(self, fs: FileSystem, files: Sequence[Wanted]) -> list[Wanted]:
        """Links to what a cache has; returns what none has."""
        found: list[tuple[Wanted, Place, Held]] = []
        missing = []
        for file in files:
            hit = self._find(file.key(fs.uri), file.length)
            if hit is None:
                missing.append(file)
            else:
                found.append((file, *hit))
        told = self._told(fs, [file for file, _, _ in found])
        for number, (file, place, held) in enumerate(found):
            if told is not None and told[number] != held.crc:
                # Written again with the same length and time.
                self._shelf(place).drop(held)
                missing.append(file)
            elif not self._link(fs, place, held, file, was_cached=True):
                missing.append(file)
            else:
                self.counts.found(file.length)
        return missing

    def _told(self, fs: FileSystem, files: Sequence[Wanted]) -> list[int] | None:
        """Their CRC32C by HDFS's own word; None: it costs a read of the files, or nobody knows."""
        if not files or fs.backend not in _TELLS_CHECKSUMS:
            return None
        return storage_crcs(fs, [file.path for file in files])

    def _find(self, key: str, length: int) -> tuple[Place, Held] | None:
        for place in self._places:
            held = self._shelf(place).find(key, length)
            if held is not None:
                return place, held
        return None

    def _link(
        self, fs: FileSystem, place: Place, held: Held, file: Wanted, *, was_cached: bool
    ) -> bool:
        target = place.own / file.target
        if not self._shelf(place).link(held, target):
            return False
        self._have[file.target] = _Had(file.key(fs.uri), target, was_cached)
        return True

    def _shelf(self, place: Place) -> Shelf:
        shelf = self._shelves.get(place)
        if shelf is None:
            most = self._cache_max_bytes // len(self._places)
            shelf = Shelf(place.cache, max_bytes=most, keep_free=self._keep_free)
            self._shelves[place] = shelf
        return shelf

    # ---- what is not -----------------------------------------------------------------------

    def _divided(self, files: Sequence[Wanted], *, is_cached: bool) -> dict[Place, list[Wanted]]:
        """Each file to the disk with the most room, the large ones first."""
        room = {
            place: min(_free(place.own, self._keep_free), self._cap(place, is_cached=is_cached))
            for place in self._places
        }
        divided: dict[Place, list[Wanted]] = {}
        for file in sorted(files, key=lambda file: (-file.length, file.path)):
            place = max(self._places, key=lambda place: room[place])
            room[place] -= file.length
            divided.setdefault(place, []).append(file)
        return divided

    def _cap(self, place: Place, *, is_cached: bool) -> int:
        return self._shelf(place).max_bytes if is_cached else 1 << 62

    def _to_own(self, fs: FileSystem, place: Place, files: Sequence[Wanted]) -> None:
        size = sum(file.length for file in files)
        free = _free(place.own, self._keep_free)
        if size > free:
            raise NoRoom(
                f"{human(size)} are wanted, the disk has {human(free)} "
                f"(besides {self._keep_free:.0%} of it, which are to stay free)",
                path=str(place.own),
            )
        fetching = Fetching(fs, self.counts, self._threads, self._stopping)

        @contextlib.contextmanager
        def grow(file: Wanted) -> Iterator[Growing | None]:
            path = place.own / f".growing-{uuid.uuid4().hex}"
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.ftruncate(descriptor, file.length)
                yield Growing(descriptor, lambda _crc: self._own(fs, place, path, file))
            finally:
                path.unlink(missing_ok=True)
                os.close(descriptor)

        fetching.run(files, grow)

    def _own(self, fs: FileSystem, place: Place, path: Path, file: Wanted) -> None:
        target = place.own / file.target
        target.parent.mkdir(parents=True, exist_ok=True)
        path.chmod(OBJECT_MODE)
        path.rename(target)
        self._have[file.target] = _Had(file.key(fs.uri), target, was_cached=False)

    def _to_cache(self, fs: FileSystem, place: Place, files: Sequence[Wanted]) -> None:
        shelf = self._shelf(place)
        with shelf.room_for({file.key(fs.uri): file.length for file in files}) as claim:
            todo = list(files)
            while todo:
                todo = self._fetch_round(fs, place, todo, claim)
                if todo:
                    # Others are at these: they finish, or die and their locks with them.
                    self.counts.trouble("another container fetches the same files")
                    self.pause(LOOK_S)
        self.counts.trouble("")

    def _fetch_round(
        self, fs: FileSystem, place: Place, files: Sequence[Wanted], claim: Claim
    ) -> list[Wanted]:
        """Fetch what nobody else fetches; returns the rest."""
        shelf = self._shelf(place)
        rest: list[Wanted] = []
        fetching = Fetching(fs, self.counts, self._threads, self._stopping)

        @contextlib.contextmanager
        def grow(file: Wanted) -> Iterator[Growing | None]:
            key = file.key(fs.uri)
            with shelf.fetching(key) as is_ours:
                if not is_ours:
                    rest.append(file)
                    yield None
                    return
                held = shelf.find(key, file.length)
                if held is not None and self._link(fs, place, held, file, was_cached=True):
                    claim.fill(key)
                    self.counts.found(file.length)
                    yield None
                    return
                with shelf.growing(key, file.length) as (descriptor, path):

                    def publish(crc: int) -> None:
                        made = shelf.publish(path, key, crc, file.length)
                        claim.fill(key)
                        if not self._link(fs, place, made, file, was_cached=False):
                            rest.append(file)  # evicted at once by somebody's need

                    yield Growing(descriptor, publish)

        fetching.run(files, grow)
        return rest


def _free(directory: Path, keep_free: float) -> int:
    disk = os.statvfs(directory)
    return max(0, (disk.f_bavail - int(disk.f_blocks * keep_free)) * disk.f_frsize)

"""The blacklist as files: many writers at once, no lock, no lost update.

Each addition is a file of its own, written under a temporary name and renamed, so there is nothing
that two writers could overwrite. Reading merges all files of a place. Compaction writes one file
with the merge of some and deletes those only afterwards: whoever dies in between leaves doubles,
which the merge does not mind.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from hdfs_utils import uri as uris
from hdfs_utils.blacklist.entries import Blacklist, Entry, by_owner, decode, encode
from hdfs_utils.blacklist.merge import gathered
from hdfs_utils.blacklist.places import (
    OPEN_PERMISSION,
    PLACE_NAME,
    STICKY,
    Place,
    ancestors,
    guards,
    open_place,
    place_in,
    places_for_writing,
)
from hdfs_utils.blacklist.policy import Known
from hdfs_utils.errors import (
    AlreadyExists,
    HdfsError,
    NotADirectory,
    NotFound,
    PermissionDenied,
    QuotaExceeded,
)
from hdfs_utils.filesystem import FileStatus, FileSystem

_SUFFIX = ".json"
# What compaction wrote: its claims are of many users, so they stay as they are in it.
_MERGED = "merged-"
# From so many files on a place is compacted by the next who adds to it: each costs a reader some
# milliseconds.
COMPACT_FROM = 32
# A place is read again from its listing when a file went away meanwhile.
_MAX_LOOKS = 10
# Of the open place, where anybody may leave what they like.
MAX_OPEN_FILES = 1000
# No honest file of entries is larger; a reader would have to hold it.
MAX_FILE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Added:
    """Where entries were added."""

    place: str
    is_trusted: bool


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look at the places found.

    Attributes:
        places: the directories that were read.
        problems: what could not be read, and why; an entry in there is not counted.
    """

    known: Known
    places: tuple[Place, ...]
    problems: tuple[str, ...]


class FileBlacklist:
    """The blacklist on one file system. Safe to share between threads and processes.

    Args:
        fs: where the data are.
        cluster_place: the directory open to all; default: that of the environment.
    """

    def __init__(self, fs: FileSystem, cluster_place: str | None = None) -> None:
        self._fs = fs
        self._open = fs.own_path(cluster_place or open_place())
        self._cache: dict[str, tuple[int, int, tuple[Entry, ...]]] = {}

    def add(self, entries: Iterable[Entry], at: str | None = None) -> tuple[Added, ...]:
        """Add entries, each where it counts most among the places that this user may write.

        Args:
            entries: with plain paths of this file system.
            at: a directory above all of them to keep them in, instead of the highest one.

        Raises:
            HdfsError: not even the open place could be written.
        """
        by_directory: dict[tuple[str, ...], list[Entry]] = {}
        chosen = self._fs.own_path(at) if at else ""
        for entry in entries:
            choice = (chosen,) if chosen else places_for_writing(entry.path)
            by_directory.setdefault(choice, []).append(entry)
        return tuple(self._add(choice, found) for choice, found in by_directory.items())

    def _add(self, directories: tuple[str, ...], entries: list[Entry]) -> Added:
        for directory in directories:
            try:
                parent = self._fs.stat(directory)
                if parent.permission & STICKY:
                    continue  # /tmp and the like: what is made there is not guarded by it
                place = place_in(directory)
                self._make(place, parent.permission & 0o777)
                self._write(place, entries)
            except (PermissionDenied, NotFound, NotADirectory, QuotaExceeded):
                continue
            self._compact_if_due(place)
            return Added(place, is_trusted=guards(parent, self._fs.stat(place)))
        self._make(self._open, OPEN_PERMISSION)
        self._write(self._open, entries)
        return Added(self._open, is_trusted=False)

    def _make(self, place: str, permission: int) -> None:
        if self._fs.exists(place):
            return
        self._fs.mkdirs(place, permission)
        # The client's umask takes bits away; whoever may write the data is to write here too.
        with contextlib.suppress(PermissionDenied):
            self._fs.chmod(place, permission)

    def _write(self, place: str, entries: Iterable[Entry], prefix: str = "") -> str:
        name = f"{prefix}{uuid.uuid4().hex}{_SUFFIX}"
        target = uris.join(place, name)
        self._fs.write_atomic(target, encode(entries), overwrite=False)
        return target

    def look(self, paths: Iterable[str], below: Iterable[str] = ()) -> Looked:
        """All that is known about what lies at or below ``paths``.

        Args:
            paths: files or directories.
            below: further directories whose places to read, found while walking.

        Raises:
            HdfsError: the file system does not answer.
        """
        directories: dict[str, None] = {}
        for path in map(self._fs.own_path, paths):
            directories.update(dict.fromkeys((*ancestors(path), path)))
        directories.update(dict.fromkeys(below))
        trusted: list[Entry] = []
        told: list[Entry] = []
        places: list[Place] = []
        problems: list[str] = []
        for directory in directories:
            place = self._trust(directory, tuple(directories))
            if place is None:
                continue
            places.append(place)
            kept = trusted if place.is_trusted else told
            kept.extend(
                entry
                for entry in self._read(place, problems)
                if entry.path == directory or entry.path.startswith(f"{directory}/")
            )
        everybody = Place(self._open, is_trusted=False)
        told.extend(self._read(everybody, problems))
        places.append(everybody)
        known = Known(gathered(trusted), gathered(told))
        return Looked(known, tuple(places), tuple(problems))

    def _trust(self, directory: str, towards: tuple[str, ...]) -> Place | None:
        """The place in a directory; None: there is none."""
        try:
            place = self._fs.stat(place_in(directory))
            parent = self._fs.stat(directory)
        except (NotFound, NotADirectory, PermissionDenied):
            return None
        if not place.is_dir:
            return None
        below = ""
        if parent.permission & STICKY:
            next_one = next((d for d in towards if uris.parent(d) == directory), "")
            with contextlib.suppress(HdfsError):
                below = self._fs.stat(next_one).owner if next_one else ""
        return Place(place.path, guards(parent, place, below))

    def _read(self, place: Place, problems: list[str]) -> list[Entry]:
        for _ in range(_MAX_LOOKS):
            told: list[str] = []
            try:
                found = self._read_once(place, told)
            except NotFound:
                continue  # compacted since the listing: it is in a file that came after
            problems.extend(told)
            return found
        problems.append(f"{place.directory}: its files changed during each of {_MAX_LOOKS} looks")
        return []

    def _read_once(self, place: Place, problems: list[str]) -> list[Entry]:
        entries: list[Entry] = []
        files = self._files(place.directory, problems)
        if not place.is_trusted and len(files) > MAX_OPEN_FILES:
            problems.append(f"{place.directory}: only the newest {MAX_OPEN_FILES} were read")
            files = sorted(files, key=lambda f: f.mtime_ms)[-MAX_OPEN_FILES:]
        for status in files:
            try:
                found = self._entries(status)
            except NotFound:
                raise
            except HdfsError as error:
                problems.append(str(error))
                continue
            is_merged = uris.name(status.path).startswith(_MERGED)
            # HDFS says who wrote a file. In the open nobody speaks for somebody else.
            keeps_names = is_merged and place.is_trusted
            entries.extend(found if keeps_names else by_owner(found, status.owner))
        return entries

    def _files(self, directory: str, problems: list[str]) -> list[FileStatus]:
        try:
            listed = self._fs.list(directory)
        except (NotFound, NotADirectory):
            return []
        except PermissionDenied as error:
            problems.append(str(error))
            return []
        return [
            status
            for status in listed
            if not status.is_dir
            and uris.name(status.path).endswith(_SUFFIX)
            and not uris.name(status.path).startswith(".")
        ]

    def _entries(self, status: FileStatus) -> tuple[Entry, ...]:
        """Files are never changed, so what was read once stays true."""
        cached = self._cache.get(status.path)
        if cached is not None and cached[:2] == (status.length, status.mtime_ms):
            return cached[2]
        if status.length > MAX_FILE_BYTES:
            raise HdfsError(f"larger than {MAX_FILE_BYTES >> 20} MiB", path=status.path)
        entries = decode(self._fs.read_bytes(status.path))
        self._cache[status.path] = (status.length, status.mtime_ms, entries)
        return entries

    def _compact_if_due(self, place: str) -> None:
        with contextlib.suppress(HdfsError):  # a convenience of later readers, nothing more
            if len(self._files(place, [])) >= COMPACT_FROM:
                self.compact(place)

    def compact(self, place: str) -> int:
        """Merge the files of a trusted place into one; returns how many there were.

        Raises HdfsError; whatever happens, no entry is lost.
        """
        files = self._files(place, [])
        taken: list[FileStatus] = []
        entries: list[Entry] = []
        for status in files:
            with contextlib.suppress(HdfsError):  # gone, or not ours to judge: it stays
                found = self._entries(status)
                is_merged = uris.name(status.path).startswith(_MERGED)
                entries.extend(found if is_merged else by_owner(found, status.owner))
                taken.append(status)
        if len(taken) > 1:
            with contextlib.suppress(AlreadyExists):
                self._write(place, gathered(entries).entries.values(), _MERGED)
                for status in taken:
                    with contextlib.suppress(HdfsError):
                        self._fs.delete(status.path)
        return len(taken)


def is_place(path: str) -> bool:
    """Whether a path is a place of entries, or in one."""
    return PLACE_NAME in path.split("/")


__all__ = ["Added", "Blacklist", "FileBlacklist", "Looked", "is_place"]

"""The blacklist as files: many concurrent writers, no lock, no lost update.

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

from hdfs_utils import errors
from hdfs_utils import uri as uris
from hdfs_utils.blacklist.claim_merge import gather_entries
from hdfs_utils.blacklist.entries import MAX_FILE_BYTES, Entry, by_owner, decode, encode
from hdfs_utils.blacklist.location_reader import (
    MERGED,
    SUFFIX,
    Cache,
    LocationReader,
    entry_files,
    is_below,
    is_merged,
    read_whole,
)
from hdfs_utils.blacklist.locations import (
    OPEN_PERMISSION,
    STICKY,
    Location,
    ancestors,
    guards,
    location_in,
    locations_for_writing,
    open_directory,
)
from hdfs_utils.blacklist.policy import KnownEntries
from hdfs_utils.filesystem import FileStatus, FileSystem

# From this many files on a place is compacted by the next who adds to it: each costs a reader some
# milliseconds.
COMPACT_FROM = 32
# Entries of one file, so that it stays below what is read of an open place.
_MAX_ENTRIES = 100


@dataclass(frozen=True, slots=True)
class Added:
    """Where entries were added."""

    location: str
    is_trusted: bool


@dataclass(frozen=True, slots=True)
class BlacklistView:
    """The entries of several locations.

    Attributes:
        places: the directories read.
        problems: what could not be read, and why; its entries are missing.
    """

    known: KnownEntries
    places: tuple[Location, ...]
    problems: tuple[str, ...]


class FileBlacklist:
    """The blacklist on one file system. Safe to share between threads and processes.

    Args:
        fs: where the data are.
        cluster_place: the directory open to all; default: that of the environment.
    """

    def __init__(self, fs: FileSystem, cluster_place: str | None = None) -> None:
        self._fs = fs
        self._open = fs.own_path(cluster_place or open_directory())
        self._cache: Cache = {}

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
            choice = (chosen,) if chosen else locations_for_writing(entry.path)
            by_directory.setdefault(choice, []).append(entry)
        return tuple(self._add(choice, found) for choice, found in by_directory.items())

    def _add(self, directories: tuple[str, ...], entries: list[Entry]) -> Added:
        for directory in directories:
            try:
                parent = self._fs.stat(directory)
                if parent.permission & STICKY:
                    continue  # /tmp and the like: what is made there is not guarded by it
                location = location_in(directory)
                self._make(location, parent.permission & 0o777)
                self._write(location, entries)
            except (
                errors.PermissionDenied,
                errors.NotFound,
                errors.NotADirectory,
                errors.QuotaExceeded,
            ):
                continue
            self._compact_if_due(location)
            return Added(location, is_trusted=guards(parent, self._fs.stat(location)))
        self._make(self._open, OPEN_PERMISSION)
        for first in range(0, len(entries), _MAX_ENTRIES):
            self._write(self._open, entries[first : first + _MAX_ENTRIES])
        return Added(self._open, is_trusted=False)

    def _make(self, location: str, permission: int) -> None:
        if self._fs.exists(location):
            return
        self._fs.mkdirs(location, permission)
        # The client's umask takes bits away; whoever may write the data is to write here too.
        with contextlib.suppress(errors.PermissionDenied):
            self._fs.chmod(location, permission)

    def _write(self, location: str, entries: Iterable[Entry], prefix: str = "") -> str:
        name = f"{prefix}{uuid.uuid4().hex}{SUFFIX}"
        target = uris.join(location, name)
        self._fs.write_atomic(target, encode(entries), overwrite=False)
        return target

    def read(self, paths: Iterable[str], below: Iterable[str] = ()) -> BlacklistView:
        """Read all entries about files at or below ``paths``.

        Args:
            paths: files or directories.
            below: further directories whose locations to read, found while walking.

        Raises:
            HdfsError: the file system does not answer.
        """
        asked = tuple(dict.fromkeys(map(self._fs.own_path, paths)))
        directories: dict[str, None] = {}
        for path in asked:
            directories.update(dict.fromkeys((*ancestors(path), path)))
        directories.update(dict.fromkeys(below))
        reader = LocationReader(self._fs, asked, self._cache)
        trusted: list[Entry] = []
        unproved: list[Entry] = []
        places: list[Location] = []
        for directory in directories:
            location = self._trust(directory, tuple(directories))
            if location is None:
                continue
            places.append(location)
            kept = trusted if location.is_trusted else unproved
            kept.extend(e for e in reader.read(location) if is_below(e.path, directory))
        everybody = Location(self._open, is_trusted=False)
        unproved.extend(reader.read(everybody))
        places.append(everybody)
        known = KnownEntries(gather_entries(trusted), gather_entries(unproved))
        return BlacklistView(known, tuple(places), tuple(reader.problems))

    def _trust(self, directory: str, towards: tuple[str, ...]) -> Location | None:
        """The place in a directory; ``None`` means there is none."""
        try:
            location = self._fs.stat(location_in(directory))
            parent = self._fs.stat(directory)
        except (errors.NotFound, errors.NotADirectory, errors.PermissionDenied):
            return None
        if not location.is_dir:
            return None
        below = ""
        if parent.permission & STICKY:
            next_one = next((d for d in towards if uris.parent(d) == directory), "")
            with contextlib.suppress(errors.HdfsError):
                below = self._fs.stat(next_one).owner if next_one else ""
        return Location(location.path, guards(parent, location, below))

    def _compact_if_due(self, location: str) -> None:
        with contextlib.suppress(errors.HdfsError):  # a convenience of later readers, nothing more
            if len(entry_files(self._fs, location, [])) >= COMPACT_FROM:
                self.compact(location)

    def compact(self, location: str) -> int:
        """Merge the files of a trusted place into one; returns how many there were.

        Raises HdfsError; whatever happens, no entry is lost.
        """
        taken: list[FileStatus] = []
        entries: list[Entry] = []
        left = MAX_FILE_BYTES // 2  # the merge must not become larger than what is read
        for status in sorted(entry_files(self._fs, location, []), key=lambda s: (s.length, s.path)):
            left -= status.length
            if left < 0:
                break
            with contextlib.suppress(errors.HdfsError):  # gone, or not ours to judge: it stays
                found = decode(read_whole(self._fs, status))
                entries.extend(found if is_merged(status) else by_owner(found, status.owner))
                taken.append(status)
        if len(taken) > 1:
            with contextlib.suppress(errors.AlreadyExists):
                self._write(location, gather_entries(entries).entries.values(), MERGED)
                for status in taken:
                    with contextlib.suppress(errors.HdfsError):
                        self._fs.delete(status.path)
        return len(taken)

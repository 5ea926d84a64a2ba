"""Reads the files of entries in one place after the other, for one question.

Where anybody may write, nothing that lies there may stop or exhaust the reader: what cannot be read
is a problem to tell, and there is a :class:`~hdfs_utils.blacklist.read_budget.ReadBudget` for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hdfs_utils import errors
from hdfs_utils import uri as uris
from hdfs_utils.blacklist.entries import MAX_FILE_BYTES, Entry, by_owner, decode
from hdfs_utils.blacklist.locations import Location
from hdfs_utils.blacklist.read_budget import ReadBudget
from hdfs_utils.filesystem import FileStatus, FileSystem

SUFFIX = ".json"
# What compaction wrote: its claims are of many users, so they stay as they are in it.
MERGED = "merged-"
# A place is read again from its listing when a file went away meanwhile.
_MAX_READS = 10
# Unreadable files of one place that are named; the others are counted.
_MAX_NAMED = 3


@dataclass(frozen=True, slots=True)
class FileContent:
    """The wanted entries of a file; or what is wrong with it, which stays so: no file of entries is
    ever changed."""

    entries: tuple[Entry, ...]
    problem: str = ""


Cache = dict[tuple[str, tuple[str, ...]], dict[FileStatus, FileContent]]
"""The entries read before, keyed by place and requested paths, of the files that existed last
time."""


def entry_files(fs: FileSystem, directory: str, problems: list[str]) -> list[FileStatus]:
    """The files of entries in a place; why it cannot be listed is added to ``problems``."""
    try:
        listed = fs.list(directory)
    except (errors.NotFound, errors.NotADirectory):
        return []
    except errors.PermissionDenied as error:
        problems.append(str(error))
        return []
    return [
        status
        for status in listed
        if not status.is_dir
        and uris.name(status.path).endswith(SUFFIX)
        and not uris.name(status.path).startswith(".")
    ]


def read_whole(fs: FileSystem, status: FileStatus) -> bytes:
    """The bytes of a listed file. Raises MalformedData if it is too large, or has grown since."""
    if status.length > MAX_FILE_BYTES:
        message = f"larger than {MAX_FILE_BYTES >> 20} MiB"
        raise errors.MalformedData(message, path=status.path)
    return fs.read_bytes(status.path, max_bytes=status.length)


def is_merged(status: FileStatus) -> bool:
    """Whether compaction wrote it."""
    return uris.name(status.path).startswith(MERGED)


class LocationReader:
    """Which entries there are about files at or below the paths ``asked`` for.

    Attributes:
        problems: what could not be read, and why.
    """

    def __init__(self, fs: FileSystem, asked: tuple[str, ...], cache: Cache) -> None:
        self.problems: list[str] = []
        self._fs = fs
        self._asked = asked
        self._cache = cache
        self._budget = ReadBudget()

    def read(self, location: Location) -> list[Entry]:
        """The entries of one place. Raises HdfsError: the file system does not answer."""
        for _ in range(_MAX_READS):
            problems: list[str] = []
            try:
                found = self._read_files(location, problems)
            except errors.NotFound:
                continue  # compacted since the listing: it is in a file that came after
            self.problems.extend(problems)
            return found
        message = f"{location.directory}: its files changed during each of {_MAX_READS} reads"
        self.problems.append(message)
        return []

    def _read_files(self, location: Location, problems: list[str]) -> list[Entry]:
        listed = entry_files(self._fs, location.directory, problems)
        chosen = listed if location.is_trusted else self._budget.choose(listed)
        if len(chosen) < len(listed):
            what = f"too much for all of it: {len(chosen)} of {len(listed)} files were read"
            problems.append(f"{location.directory}: {what}")
        entries: list[Entry] = []
        unreadable: list[str] = []
        for status, content in self._contents(location, chosen, unreadable):
            # HDFS says who wrote a file. In the open nobody speaks for somebody else.
            keeps_names = is_merged(status) and location.is_trusted
            entries.extend(content if keeps_names else by_owner(content, status.owner))
        problems.extend(unreadable[:_MAX_NAMED])
        if len(unreadable) > _MAX_NAMED:
            problems.append(f"{location.directory}: and {len(unreadable) - _MAX_NAMED} more files")
        kept = entries if location.is_trusted else self._budget.keep(entries)
        if len(kept) < len(entries):
            problems.append(f"{location.directory}: {len(entries) - len(kept)} entries too many")
        return kept

    def _contents(
        self, location: Location, files: list[FileStatus], unreadable: list[str]
    ) -> Iterator[tuple[FileStatus, tuple[Entry, ...]]]:
        key = (location.directory, self._asked)
        before, now = self._cache.get(key, {}), {}
        for status in files:
            try:
                content = before.get(status) or self._content(status)
            except errors.NotFound:
                if location.is_trusted:
                    raise
                continue  # nobody compacts here: whoever wrote it has taken it away
            except errors.HdfsError as error:
                unreadable.append(str(error))
                continue
            now[status] = content
            if content.problem:
                unreadable.append(content.problem)
            yield status, content.entries
        self._cache[key] = now

    def _content(self, status: FileStatus) -> FileContent:
        try:
            return FileContent(decode(read_whole(self._fs, status), self._is_wanted))
        except errors.MalformedData as error:
            return FileContent((), f"{status.path}: {error.message}")

    def _is_wanted(self, path: str) -> bool:
        return any(is_below(path, asked) for asked in self._asked)


def is_below(path: str, directory: str) -> bool:
    """Whether a path is this one, or lies somewhere below it."""
    return path == directory or path.startswith(f"{directory.rstrip('/')}/")

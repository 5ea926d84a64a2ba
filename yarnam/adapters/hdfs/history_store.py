"""The history of one user's jobs on HDFS. See ``history_files`` for the layout."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from hdfs_utils import FileSystem
from hdfs_utils.errors import NotFound
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.adapters.hdfs.history_compaction import HistoryCompaction
from yarnam.adapters.hdfs.history_files import (
    MAX_RECORD_BYTES,
    READERS,
    RETRIES,
    HistoryContents,
    HistoryFiles,
    decoded,
    key_of,
    month_of,
    name_of,
)
from yarnam.core.accounting.history_record import HistoryRecord
from yarnam.core.accounting.job_summary import HistoryFilter, JobSummary
from yarnam.errors import Unavailable, WireMismatch
from yarnam.wire.codec import encode

log = logging.getLogger("yarnam.history")


@dataclass(frozen=True, slots=True)
class HistoryListing:
    """Rows in no order, and how many records could not be read (another version's, or damaged).
    ``single`` records are not in an index yet; ``moved`` ones went into one meanwhile."""

    rows: tuple[JobSummary, ...]
    unreadable: int = 0
    single: int = 0
    moved: int = 0


class HistoryStore:
    """``root``: the directory above, as a path or URI. ``is_private`` makes it one that other users
    cannot read; one that exists stays as it is. All calls raise Unavailable and other YarnErrors
    for what HDFS does; each operation has the file system's own limits."""

    def __init__(
        self,
        files: FileSystem,
        root: str,
        now_s: Callable[[], float] = time.time,
        *,
        is_private: bool = False,
    ) -> None:
        self._is_private = is_private
        self._files = HistoryFiles(files, root)
        self._now_s = now_s

    def put(self, record: HistoryRecord) -> None:
        """Write a record, over an older one of the same job."""
        with hdfs_errors(f"writing the history record of {record.application}"):
            if self._is_private:
                self._files.fs.mkdirs(self._files.root, 0o700)
            self._files.fs.mkdirs(f"{self._files.root}/new", 0o755)
            self._files.fs.write_atomic(self._files.record_path(record.key), encode(record))

    def listing(self, chosen: HistoryFilter | None = None) -> HistoryListing:
        """The rows that pass."""
        listing = HistoryListing(())
        for _ in range(RETRIES):
            listing = self.rows(self.contents(), chosen)
            if not listing.moved:  # Else they are in an index that was not there before.
                break
        return listing

    def stamp(self) -> tuple[int, int] | None:
        """A value that changes whenever the contents do; ``None`` if there is no history."""
        with hdfs_errors(f"reading {self._files.root}"), suppress(NotFound):
            found = {name_of(one.path): one for one in self._files.fs.list(self._files.root)}
            new, months = found.get("new"), found.get("months")
            return (new.mtime_ms if new else 0, months.mtime_ms if months else 0)
        return None

    def contents(self) -> HistoryContents:
        """The files that are there now."""
        with hdfs_errors(f"reading {self._files.root}"):
            return self._files.contents()

    def rows(
        self, contents: HistoryContents, chosen: HistoryFilter | None = None
    ) -> HistoryListing:
        """The rows of these files that pass."""
        with (
            hdfs_errors(f"reading {self._files.root}"),
            ThreadPoolExecutor(READERS, thread_name_prefix="history") as pool,
        ):
            fresh = list(
                pool.map(self._files.try_summary, (status.path for status in contents.records))
            )
            months = pool.map(lambda one: self._files.rows_of_month(one, chosen), contents.indexes)
            rows = [row for row in fresh if isinstance(row, JobSummary)]
            replaced = {row.key for row in rows}
            unreadable = fresh.count(None)
            rows = [row for row in rows if chosen is None or chosen.has(row)]
            for month in months:
                if month is None:
                    unreadable += 1
                else:
                    rows += (row for row in month if row.key not in replaced)
        return HistoryListing(tuple(rows), unreadable, len(replaced), fresh.count(False))

    def keys(self) -> set[str]:
        """The jobs that have a record."""
        with hdfs_errors(f"reading {self._files.root}"):
            found = {key_of(status.path) for status in self._files.new_files()}
            for month in self._files.months():
                if month.columns is not None:
                    found.update(month.columns.columns["key"])
        return found

    def has(self, key: str) -> bool:
        """Whether the job has a record, or had one and it was pruned."""
        with hdfs_errors(f"reading {self._files.root}"):
            if self._files.fs.exists(self._files.record_path(key)):
                return True
            month = month_of(key)
            number = self._files.numbers().get(month)
            columns = self._files.month(month, number).columns if number is not None else None
            is_archived = columns is not None and columns.location(key) is not None
            return is_archived or key <= self.pruned_before()

    def pruned_before(self) -> str:
        """Jobs with a smaller key have been pruned; empty means none has."""
        with hdfs_errors(f"reading {self._files.root}"), suppress(NotFound):
            content = self._files.fs.read_bytes(f"{self._files.root}/pruned-before", max_bytes=100)
            return content.decode(errors="replace").strip()
        return ""

    def record(self, key: str) -> HistoryRecord | None:
        """The record of one job; ``None`` means it has none. Raises WireMismatch."""
        with hdfs_errors(f"reading the history record of {key}"):
            for _ in range(RETRIES):
                with suppress(NotFound):
                    return decoded(self._files.read(self._files.record_path(key)))
                with suppress(NotFound):
                    return self._archived(key)
        return None

    def records(self, keys: Iterable[str]) -> Iterator[HistoryRecord]:
        """Those of these that can be read, a few at a time."""
        left = list(keys)
        with ThreadPoolExecutor(READERS, thread_name_prefix="history") as pool:
            while left:  # A record lies in memory from its reading on.
                some, left = left[:READERS], left[READERS:]
                yield from (one for one in pool.map(self._readable, some) if one is not None)

    def compact(self) -> int:
        """Move settled records into their months' segments; how many."""
        with hdfs_errors(f"compacting {self._files.root}"):
            return HistoryCompaction(self._files).compact(self._now_s())

    def prune(self, *, before_s: float | None = None, keep: int | None = None) -> int:
        """Remove the records of jobs that ended before a time, and the oldest above a count; how
        many. Jobs submitted before the last of these get no new record."""
        return self._prune(self.listing().rows, before_s, keep)

    def retain(self, age_s: float, keep: int) -> int:
        """The same for jobs that ended longer before the newest one, and the oldest above a count.
        Not before now: a clock that is wrong must not remove the history."""
        rows = self.listing().rows
        newest_s = max((row.ended_at_s for row in rows), default=0.0)
        return self._prune(rows, newest_s - age_s, keep)

    def _prune(self, found: Iterable[JobSummary], before_s: float | None, keep: int | None) -> int:
        rows = sorted(found, key=lambda row: row.ended_at_s)
        many = max(0, len(rows) - keep) if keep is not None else 0
        gone = {
            row.key
            for number, row in enumerate(rows)
            if number < many or (before_s is not None and row.ended_at_s < before_s)
        }
        if not gone:
            return 0
        with hdfs_errors(f"pruning {self._files.root}"):
            mark = max(*gone, self.pruned_before())
            self._files.fs.write_atomic(f"{self._files.root}/pruned-before", mark.encode())
            HistoryCompaction(self._files).remove(gone)
        return len(gone)

    def _readable(self, key: str) -> HistoryRecord | None:
        try:
            return self.record(key)
        except (WireMismatch, Unavailable) as error:
            log.warning("the history record of %s cannot be read: %s", key, error)
            return None

    def _archived(self, key: str) -> HistoryRecord | None:
        name = month_of(key)
        number = self._files.numbers().get(name)
        columns = self._files.month(name, number).columns if number is not None else None
        location = columns.location(key) if columns is not None else None
        if columns is None or location is None:
            return None
        path = self._files.segment_path(columns.segments[location.segment])
        if location.length > MAX_RECORD_BYTES:
            raise WireMismatch(f"the index of {name} says that {key} has {location.length} bytes")
        with self._files.fs.open_reader(path) as reader:
            reader.seek(location.offset)
            return decoded(reader.read(location.length))

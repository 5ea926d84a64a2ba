"""The history of one user's jobs on HDFS.

::

    .yarnam/history/
        new/<key>.json                     records, as they are written, one file each
        months/2026-11.000003.index        the newest index of a month: what lists read
        months/2026-11.<number>.segment    records of that month, one a line; the index says where
        pruned-before                      the key before which nothing is written again

A record is written whole, by a rename, and may be written again. ``compact`` moves records into
segments and writes the index that has them under the next number, which only one writer can get:
who loses removes its segment and leaves the records where they are. Indexes and segments never
change. Readers look into ``new`` first: what is moved meanwhile is in the index that they read
then.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

from hdfs_utils import FileSystem, HdfsError
from hdfs_utils.errors import AlreadyExists, NotFound
from hdfs_utils.filesystem import FileStatus
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.core.accounting.history_record import HistoryRecord
from yarnam.core.accounting.job_summary import HistoryFilter, JobSummary, summary_of
from yarnam.errors import Unavailable, WireMismatch
from yarnam.wire.codec import decode, encode
from yarnam.wire.shared.history_index import (
    MAX_INDEX_BYTES,
    HistoryIndex,
    IndexColumns,
    Location,
    decode_index,
    encode_index,
)

log = logging.getLogger("yarnam.history")

MAX_RECORD_BYTES = 4 << 20
"""Of one record; the largest that yarnam writes has some 400 KB."""

SETTLED_S = 60.0
"""A younger record is not moved: its writer may write it again."""

MERGE_ABOVE = 16
"""Segments of a month: more are copied into one."""

COPY_BYTES = 8 << 20
READERS = 16
RETRIES = 3

_INDEX = re.compile(r"(\d{4}-\d{2})\.(\d{6})\.index")
_RECORD = re.compile(r"(\d{8}-\d{6}-[0-9a-f]{6})\.json")


@dataclass(frozen=True, slots=True)
class HistoryListing:
    """Rows in no order, and how many records could not be read (another version's, or damaged).
    ``single``: records that lie about one by one."""

    rows: tuple[JobSummary, ...]
    unreadable: int = 0
    single: int = 0


@dataclass(frozen=True, slots=True)
class _Month:
    name: str
    number: int
    """Of its newest index; 0: it has none."""
    columns: IndexColumns | None


class HistoryStore:
    """``root``: the directory above, as a path or URI. All calls raise Unavailable and other
    YarnErrors for what HDFS does; each operation has the file system's own limits."""

    def __init__(
        self, files: FileSystem, root: str, now_s: Callable[[], float] = time.time
    ) -> None:
        self._files = files
        self._root = files.own_path(root)
        self._now_s = now_s

    def put(self, record: HistoryRecord) -> None:
        """Write a record, over an older one of the same job."""
        with hdfs_errors(f"writing the history record of {record.application}"):
            self._files.mkdirs(f"{self._root}/new", 0o755)
            self._files.write_atomic(f"{self._root}/new/{record.key}.json", encode(record))

    def listing(self, chosen: HistoryFilter | None = None) -> HistoryListing:
        """The rows that pass."""
        with hdfs_errors(f"reading {self._root}"):
            fresh, unreadable = self._fresh()
            rows = {
                key: row
                for key, row in ((one.key, summary_of(one)) for one in fresh)
                if chosen is None or chosen.has(row)
            }
            replaced = {one.key for one in fresh}
            found: list[JobSummary] = list(rows.values())
            for month in self._months():
                if month.columns is None:
                    unreadable += 1
                else:
                    found += (r for r in month.columns.rows(chosen) if r.key not in replaced)
        return HistoryListing(tuple(found), unreadable, len(fresh))

    def keys(self) -> set[str]:
        """The jobs that have a record."""
        with hdfs_errors(f"reading {self._root}"):
            found = {_key_of(status.path) for status in self._new_files()}
            for month in self._months():
                if month.columns is not None:
                    found.update(month.columns.columns["key"])
        return found

    def has(self, key: str) -> bool:
        """Whether the job has a record, or had one and it was pruned."""
        with hdfs_errors(f"reading {self._root}"):
            if self._files.exists(f"{self._root}/new/{key}.json"):
                return True
            month = _month_of(key)
            number = self._numbers().get(month)
            columns = self._month(month, number).columns if number is not None else None
            is_archived = columns is not None and columns.location(key) is not None
            return is_archived or key <= self.pruned_before()

    def pruned_before(self) -> str:
        """Jobs with a smaller key have been pruned; empty: none has."""
        with hdfs_errors(f"reading {self._root}"), suppress(NotFound):
            content = self._files.read_bytes(f"{self._root}/pruned-before", max_bytes=100)
            return content.decode(errors="replace").strip()
        return ""

    def record(self, key: str) -> HistoryRecord | None:
        """The record of one job; None: it has none. Raises WireMismatch."""
        with hdfs_errors(f"reading the history record of {key}"):
            for _ in range(RETRIES):
                with suppress(NotFound):
                    return _decoded(self._read(f"{self._root}/new/{key}.json"))
                with suppress(NotFound):
                    return self._archived(key)
        return None

    def records(self, keys: Iterable[str]) -> Iterator[HistoryRecord]:
        """Those of these that can be read, a few at a time."""
        with ThreadPoolExecutor(READERS, thread_name_prefix="history") as pool:
            for found in pool.map(self._readable, keys):
                if found is not None:
                    yield found

    def compact(self) -> int:
        """Move settled records into their months' segments; how many."""
        moved = 0
        with hdfs_errors(f"compacting {self._root}"):
            limit_ms = (self._now_s() - SETTLED_S) * 1000
            settled = [one for one in self._new_files() if one.mtime_ms <= limit_ms]
            months: dict[str, list[FileStatus]] = {}
            for status in settled:
                months.setdefault(_month_of(_key_of(status.path)), []).append(status)
            for name, files in sorted(months.items()):
                moved += self._compact_month(name, files)
        return moved

    def prune(self, *, before_s: float | None = None, keep: int | None = None) -> int:
        """Remove the records of jobs that ended before a time, and the oldest above a count; how
        many. Jobs submitted before the last of these get no new record."""
        rows = sorted(self.listing().rows, key=lambda row: row.ended_at_s)
        many = max(0, len(rows) - keep) if keep is not None else 0
        old = [
            row
            for number, row in enumerate(rows)
            if number < many or (before_s is not None and row.ended_at_s < before_s)
        ]
        if not old:
            return 0
        gone = {row.key for row in old}
        with hdfs_errors(f"pruning {self._root}"):
            mark = max(*gone, self.pruned_before())
            self._files.write_atomic(f"{self._root}/pruned-before", mark.encode())
            for key in gone:
                self._files.delete(f"{self._root}/new/{key}.json")
            for month in self._months():
                if month.columns is not None:
                    self._prune_month(month, month.columns.whole(), gone)
        return len(old)

    # ---- files -----------------------------------------------------------------------------

    def _new_files(self) -> list[FileStatus]:
        try:
            found = self._files.list(f"{self._root}/new")
        except NotFound:
            return []
        return [status for status in found if _RECORD.fullmatch(_name(status.path))]

    def _fresh(self) -> tuple[list[HistoryRecord], int]:
        """The records in ``new`` that can be read, and how many cannot."""
        files = self._new_files()
        if not files:
            return [], 0
        with ThreadPoolExecutor(READERS, thread_name_prefix="history") as pool:
            found = list(pool.map(self._try, (status.path for status in files)))
        return [r for r in found if isinstance(r, HistoryRecord)], found.count(None)

    def _try(self, path: str) -> HistoryRecord | bool | None:
        """False: it has been moved meanwhile. None: it cannot be read."""
        try:
            return _decoded(self._read(path))
        except NotFound:
            return False
        except (WireMismatch, HdfsError) as error:
            log.warning("%s cannot be read: %s", path, error)
            return None

    def _readable(self, key: str) -> HistoryRecord | None:
        try:
            return self.record(key)
        except (WireMismatch, Unavailable) as error:
            log.warning("the history record of %s cannot be read: %s", key, error)
            return None

    def _read(self, path: str) -> bytes:
        return self._files.read_bytes(path, max_bytes=MAX_RECORD_BYTES)

    def _months(self) -> list[_Month]:
        """The newest index of each month."""
        return [self._month(name, number) for name, number in sorted(self._numbers().items())]

    def _numbers(self) -> dict[str, int]:
        try:
            listed = self._files.list(f"{self._root}/months")
        except NotFound:
            return {}
        numbers: dict[str, int] = {}
        for status in listed:
            if match := _INDEX.fullmatch(_name(status.path)):
                name, number = match[1], int(match[2])
                numbers[name] = max(number, numbers.get(name, 0))
        return numbers

    def _month(self, name: str, number: int) -> _Month:
        """An index that was replaced and removed meanwhile has a successor."""
        for _ in range(RETRIES):
            path = self._index_path(name, number)
            try:
                content = self._files.read_bytes(path, max_bytes=MAX_INDEX_BYTES)
                return _Month(name, number, decode_index(content))
            except NotFound:
                number = self._numbers().get(name, number)
            except WireMismatch as error:
                log.warning("%s cannot be read: %s", path, error)
                break
        return _Month(name, number, None)

    def _archived(self, key: str) -> HistoryRecord | None:
        name = _month_of(key)
        number = self._numbers().get(name)
        columns = self._month(name, number).columns if number is not None else None
        location = columns.location(key) if columns is not None else None
        if columns is None or location is None or location.segment >= len(columns.segments):
            return None
        path = f"{self._root}/months/{_name(columns.segments[location.segment])}"
        if location.length > MAX_RECORD_BYTES:
            raise WireMismatch(f"the index of {name} says that {key} has {location.length} bytes")
        with self._files.open_reader(path) as reader:
            reader.seek(location.offset)
            return _decoded(reader.read(location.length))

    def _index_path(self, name: str, number: int) -> str:
        return f"{self._root}/months/{name}.{number:06d}.index"

    # ---- compaction ------------------------------------------------------------------------

    def _compact_month(self, name: str, files: list[FileStatus]) -> int:
        with ThreadPoolExecutor(READERS, thread_name_prefix="history") as pool:
            read = list(pool.map(self._try, (status.path for status in files)))
        records = [one for one in read if isinstance(one, HistoryRecord)]
        if not records:
            return 0
        self._files.mkdirs(f"{self._root}/months", 0o755)
        number = self._numbers().get(name, 0)
        month = self._month(name, number) if number else _Month(name, 0, None)
        if number and month.columns is None:
            return 0  # Another version's index: it has to be able to read it again.
        before = month.columns.whole() if month.columns else HistoryIndex((), (), ())
        segment, offsets = self._write_segment(name, before, records)
        is_merged = len(before.segments) >= MERGE_ABOVE
        index = _with_records(before, records, segment, offsets, is_merged=is_merged)
        if not self._publish(month, index):
            self._files.delete(f"{self._root}/months/{segment}")
            return 0
        for record in records:
            self._files.delete(f"{self._root}/new/{record.key}.json")
        if is_merged:
            for old in before.segments:
                self._files.delete(f"{self._root}/months/{_name(old)}")
        return len(records)

    def _write_segment(
        self, name: str, before: HistoryIndex, records: list[HistoryRecord]
    ) -> tuple[str, list[int]]:
        """The new segment's name, and where in it begin first the old segments that were merged
        into it, then the records."""
        segment = f"{name}.{secrets.token_hex(6)}.segment"
        offsets, at = [], 0
        with self._files.open_writer(f"{self._root}/months/{segment}") as writer:
            if len(before.segments) >= MERGE_ABOVE:
                for old in before.segments:
                    offsets.append(at)
                    with self._files.open_reader(f"{self._root}/months/{_name(old)}") as reader:
                        while part := reader.read(COPY_BYTES):
                            writer.write(part)
                            at += len(part)
            for record in records:
                line = encode(record) + b"\n"
                offsets.append(at)
                writer.write(line)
                at += len(line)
        offsets.append(at)
        return segment, offsets

    def _publish(self, month: _Month, index: HistoryIndex) -> bool:
        """False: somebody else was quicker."""
        try:
            path = self._index_path(month.name, month.number + 1)
            self._files.write_atomic(path, encode_index(index), overwrite=False)
        except AlreadyExists:
            return False
        if month.number > 1:
            # The one before stays for whoever is about to read it.
            self._files.delete(self._index_path(month.name, month.number - 1))
        return True

    def _prune_month(self, month: _Month, index: HistoryIndex, gone: set[str]) -> None:
        pairs = zip(index.rows, index.locations, strict=True)
        kept = [pair for pair in pairs if pair[0].key not in gone]
        if len(kept) == len(index.rows):
            return
        rows, locations = tuple(pair[0] for pair in kept), tuple(pair[1] for pair in kept)
        segments = index.segments if rows else ()
        if self._publish(month, HistoryIndex(segments, rows, locations)) and not rows:
            for old in index.segments:
                self._files.delete(f"{self._root}/months/{_name(old)}")


def _with_records(
    before: HistoryIndex,
    records: list[HistoryRecord],
    segment: str,
    offsets: list[int],
    *,
    is_merged: bool,
) -> HistoryIndex:
    """The index with these records, which replace older ones of the same jobs."""
    replaced = {record.key for record in records}
    merged = len(before.segments) if is_merged else 0
    segments = (segment,) if is_merged else (*before.segments, segment)
    rows, locations = [], []
    for row, location in zip(before.rows, before.locations, strict=True):
        if row.key in replaced:
            continue
        if is_merged:
            location = replace(
                location, segment=0, offset=location.offset + offsets[location.segment]
            )
        rows.append(row)
        locations.append(location)
    for number, record in enumerate(records):
        start, end = offsets[merged + number], offsets[merged + number + 1]
        rows.append(summary_of(record))
        locations.append(Location(len(segments) - 1, start, end - start))
    return HistoryIndex(segments, tuple(rows), tuple(locations))


def _decoded(content: bytes) -> HistoryRecord:
    return decode(content, HistoryRecord, max_bytes=MAX_RECORD_BYTES)


def _name(path: str) -> str:
    """What an index names stays within its directory."""
    return path.rpartition("/")[2]


def _key_of(path: str) -> str:
    return _name(path).removesuffix(".json")


def _month_of(key: str) -> str:
    """``20261122-…`` is of ``2026-11``."""
    return f"{key[:4]}-{key[4:6]}"

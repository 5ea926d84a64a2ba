"""Where a user's history is on HDFS, and how its files are read.

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
import threading
from bisect import bisect_right
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

from hdfs_utils import FileSystem, HdfsError
from hdfs_utils.errors import NotFound
from hdfs_utils.filesystem import FileStatus
from yarnam.core.accounting.history_record import HistoryRecord
from yarnam.core.accounting.job_summary import HistoryFilter, JobSummary, summary_of
from yarnam.core.accounting.record_checks import believed_record
from yarnam.errors import WireMismatch
from yarnam.wire.codec import decode
from yarnam.wire.shared.history_index import MAX_INDEX_BYTES, IndexColumns, decode_index

log = logging.getLogger("yarnam.history")

MAX_RECORD_BYTES = 1 << 20
"""Largest record that is read; yarnam writes at most some 400 KB."""

LEAST_WEIGHT = 1024
"""The bytes that a file counts as at least, since each takes a call to read."""

READERS = 16
RETRIES = 3

_DECODING = threading.Lock()
"""Decoded, JSON takes up to 40 times its bytes, so threads take turns. Each would wait for Python's
own lock anyway."""

T = TypeVar("T")

_INDEX = re.compile(r"(\d{4}-\d{2})\.(\d{6})\.index")
_RECORD = re.compile(r"(\d{8}-\d{6}-[0-9a-f]{6})\.json")


@dataclass(frozen=True, slots=True)
class Month:
    """The records of jobs that were submitted in one month (UTC). ``columns`` None: it has no
    index, or one that cannot be read."""

    name: str
    number: int
    """Number of the newest index; 0 without an index."""
    columns: IndexColumns | None


@dataclass(frozen=True, slots=True)
class IndexFile:
    """The newest index of a month: its number and bytes."""

    month: str
    number: int
    length: int


@dataclass(frozen=True, slots=True)
class HistoryContents:
    """The files of a history, the newest first."""

    records: tuple[FileStatus, ...]
    indexes: tuple[IndexFile, ...]

    @property
    def size(self) -> int:
        """Bytes, each file with at least ``LEAST_WEIGHT``."""
        return sum(self._weights())

    def limited(self, records: int, record_bytes: int, index_bytes: int) -> HistoryContents:
        """Without what no honest user has: more records than these, or larger files."""
        some = tuple(one for one in self.records if one.length <= MAX_RECORD_BYTES)[:records]
        return HistoryContents(
            HistoryContents(some, ()).within(record_bytes).records,
            tuple(one for one in self.indexes if one.length <= index_bytes),
        )

    def within(self, most: int) -> HistoryContents:
        """The newest files that have at most this many bytes together."""
        count = bisect_right(list(accumulate(self._weights())), most)
        single = len(self.records)
        return HistoryContents(self.records[:count], self.indexes[: max(0, count - single)])

    def _weights(self) -> list[int]:
        lengths = [one.length for one in self.records] + [one.length for one in self.indexes]
        return [max(LEAST_WEIGHT, length) for length in lengths]


class HistoryFiles:
    """``root``: the directory above, as a path or URI. Calls raise HdfsError."""

    def __init__(self, files: FileSystem, root: str) -> None:
        self.fs = files
        self.root = files.own_path(root)

    def new_files(self) -> list[FileStatus]:
        try:
            found = self.fs.list(f"{self.root}/new")
        except NotFound:
            return []
        return [status for status in found if _RECORD.fullmatch(name_of(status.path))]

    def contents(self) -> HistoryContents:
        """The files that are there now."""
        found = self.new_files()
        return HistoryContents(tuple(sorted(found, key=_path, reverse=True)), self.indexes())

    def try_read(self, path: str) -> HistoryRecord | bool | None:
        """``False`` means it has been moved meanwhile. ``None`` means it cannot be read."""
        return self._tried(path, lambda record: record)

    def try_summary(self, path: str) -> JobSummary | bool | None:
        """The record as a row; else as ``try_read``."""
        return self._tried(path, summary_of)

    def _tried(self, path: str, use: Callable[[HistoryRecord], T]) -> T | bool | None:
        try:
            content = self.read(path)
            with _DECODING:
                record = decoded(content)
                if record.key != key_of(path):
                    raise WireMismatch(f"it is the record of {record.key}")
                return use(record)
        except NotFound:
            return False
        except (WireMismatch, HdfsError) as error:
            log.warning("%s cannot be read: %s", path, error)
            return None

    def read(self, path: str) -> bytes:
        return self.fs.read_bytes(path, max_bytes=MAX_RECORD_BYTES)

    def months(self) -> list[Month]:
        """The newest index of each month."""
        numbers = sorted(self.numbers().items())
        with ThreadPoolExecutor(READERS, thread_name_prefix="history") as pool:
            return list(pool.map(lambda one: self.month(*one), numbers))

    def numbers(self) -> dict[str, int]:
        return {index.month: index.number for index in self.indexes()}

    def indexes(self) -> tuple[IndexFile, ...]:
        """The newest index of each month, the newest month first."""
        try:
            listed = self.fs.list(f"{self.root}/months")
        except NotFound:
            return ()
        newest: dict[str, IndexFile] = {}
        for status in listed:
            if match := _INDEX.fullmatch(name_of(status.path)):
                found = IndexFile(match[1], int(match[2]), status.length)
                if found.number >= newest.get(found.month, found).number:
                    newest[found.month] = found
        return tuple(newest[month] for month in sorted(newest, reverse=True))

    def rows_of_month(
        self, index: IndexFile, chosen: HistoryFilter | None
    ) -> tuple[JobSummary, ...] | None:
        """The rows of a month that pass; ``None`` if its index cannot be read. An index that was
        replaced meanwhile may be somewhat longer."""
        month = self.month(index.month, index.number, 2 * max(index.length, 4096))
        with _DECODING:
            return tuple(month.columns.rows(chosen)) if month.columns is not None else None

    def month(self, name: str, number: int, max_bytes: int = MAX_INDEX_BYTES) -> Month:
        """An index that was replaced and removed meanwhile has a successor."""
        for _ in range(RETRIES):
            path = self.index_path(name, number)
            try:
                content = self.fs.read_bytes(path, max_bytes=min(max_bytes, MAX_INDEX_BYTES))
                with _DECODING:
                    return Month(name, number, decode_index(content))
            except NotFound:
                number = self.numbers().get(name, number)
            except (WireMismatch, HdfsError) as error:
                log.warning("%s cannot be read: %s", path, error)
                break
        return Month(name, number, None)

    def record_path(self, key: str) -> str:
        return f"{self.root}/new/{key}.json"

    def segment_path(self, segment: str) -> str:
        """A path that an index names must stay within its directory."""
        return f"{self.root}/months/{name_of(segment)}"

    def index_path(self, name: str, number: int) -> str:
        return f"{self.root}/months/{name}.{number:06d}.index"


def decoded(content: bytes) -> HistoryRecord:
    """Raises WireMismatch, also for a record that cannot be true."""
    record = believed_record(decode(content, HistoryRecord, max_bytes=MAX_RECORD_BYTES))
    if isinstance(record, str):
        raise WireMismatch(f"no job has such a history record: {record}")
    return record


def _path(status: FileStatus) -> str:
    return status.path


def name_of(path: str) -> str:
    return path.rpartition("/")[2]


def key_of(path: str) -> str:
    return name_of(path).removesuffix(".json")


def month_of(key: str) -> str:
    """``20261122-…`` is of ``2026-11``."""
    return f"{key[:4]}-{key[4:6]}"

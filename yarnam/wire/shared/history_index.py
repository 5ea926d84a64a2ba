"""The index of a month of history records: rows as columns, which are read at a million values a
second where a value for each record would take minutes.

The columns are those of ``JobSummary`` and where the record itself lies: the number of a segment
file, and offset and length in it. All numbers are written as floats, which the parser reads without
a call of ours for each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import Record, decode_record, is_encodable, shown
from yarnam.core.accounting.job_summary import (
    COLUMNS,
    NUMBER_COLUMNS,
    TEXT_COLUMNS,
    WHOLE_COLUMNS,
    HistoryFilter,
    JobSummary,
)
from yarnam.core.accounting.record_checks import MOST_AMOUNT, MOST_NAME, is_time_within
from yarnam.core.model.printable import printable_json
from yarnam.errors import WireMismatch

MAX_INDEX_BYTES = 512 << 20
"""The most bytes of one month: some 400 bytes a record."""
MAX_RECORDS = 1_000_000
MAX_SEGMENTS = 64
MAX_BRACKETS = 1_000
"""Arrays and objects: one a column. Empty ones would take 30 times their bytes."""

INDEX_VERSION = 1

_KEY = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
"""The key becomes the name of a file."""

_LOCATION = ("segment", "offset", "length")


@dataclass(frozen=True, slots=True)
class Location:
    """Where a record lies."""

    segment: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class HistoryIndex:
    """``segments`` are file names; ``rows`` and ``locations`` are in the same order."""

    segments: tuple[str, ...]
    rows: tuple[JobSummary, ...]
    locations: tuple[Location, ...]


def encode_index(index: HistoryIndex) -> bytes:
    """Inverse of ``decode_index``."""
    columns: dict[str, list[Any]] = {
        name: [getattr(row, name) for row in index.rows] for name in COLUMNS
    }
    for name in _LOCATION:
        columns[name] = [getattr(location, name) for location in index.locations]
    for name in (*NUMBER_COLUMNS, *WHOLE_COLUMNS, *_LOCATION):
        columns[name] = [float(value) for value in columns[name]]
    plain = {
        "version": INDEX_VERSION,
        "count": len(index.rows),
        "segments": index.segments,
        "columns": columns,
    }
    text = json.dumps(plain, separators=(",", ":"), ensure_ascii=False)
    return printable_json(text.encode("utf-8", "replace").decode()).encode()


@dataclass(frozen=True, slots=True)
class IndexColumns:
    """An index as it was read: values by column, checked."""

    segments: tuple[str, ...]
    count: int
    columns: dict[str, Sequence[Any]]

    def rows(self, chosen: HistoryFilter | None = None) -> Iterator[JobSummary]:
        """Those that pass. A row is made only of what has passed."""
        tests = chosen.column_tests() if chosen is not None else ()
        columns = [self.columns[name] for name in COLUMNS]
        if not tests:
            yield from map(JobSummary._make, zip(*columns, strict=True))
            return
        numbers: Sequence[int] = range(self.count)
        for name, test in tests:
            column = self.columns[name]
            numbers = [number for number in numbers if test(column[number])]
        for number in numbers:
            yield JobSummary._make(column[number] for column in columns)

    def location(self, key: str) -> Location | None:
        """The position of this job's newest record; ``None`` if it is not here."""
        for number in range(self.count - 1, -1, -1):
            if self.columns["key"][number] == key:
                return Location(*(self.columns[name][number] for name in _LOCATION))
        return None

    def whole(self) -> HistoryIndex:
        """Everything."""
        places = map(Location, *(self.columns[name] for name in _LOCATION))
        return HistoryIndex(self.segments, tuple(self.rows()), tuple(places))


def decode_index(data: bytes) -> IndexColumns:
    """Read another process's index; columns that this version does not know are ignored, and those
    that an older one did not write are empty. Raises WireMismatch."""
    try:
        if data.count(b"[") + data.count(b"{") > MAX_BRACKETS:
            raise MalformedData(f"more than {MAX_BRACKETS} arrays and objects")
        # Lenient is faster, and each column is checked as a whole.
        record = decode_record(data, max_bytes=MAX_INDEX_BYTES, is_lenient=True)
        count = record.integer("count", most=MAX_RECORDS)
        segments = record.texts("segments", max_count=MAX_SEGMENTS)
        columns = _columns(record.record("columns"), count)
        if max(columns["segment"], default=-1) >= len(segments):
            raise MalformedData("a record lies in a segment that is not named")
        return IndexColumns(segments, count, columns)
    except MalformedData as error:
        raise WireMismatch(
            f"cannot read an index of the history: {error.message}",
            hint="The records are still there: yarnam history compact writes the index anew.",
        ) from error


def _columns(plain: Record, count: int) -> dict[str, Sequence[Any]]:
    found: dict[str, Sequence[Any]] = {}
    for name in TEXT_COLUMNS:
        found[name] = _column(plain, name, count, (str,), "")
        if max(map(len, found[name]), default=0) > MOST_NAME:
            raise MalformedData(f"{name} is too long")
        if not is_encodable("".join(found[name])):
            raise MalformedData(f"{name} has halves of surrogate pairs")
    if not all(map(_KEY.fullmatch, found["key"])):
        raise MalformedData("there is a key that is none")
    for name in (*WHOLE_COLUMNS, *_LOCATION):
        found[name] = list(map(int, _amounts(plain, name, count)))
    for name in NUMBER_COLUMNS:
        found[name] = _amounts(plain, name, count)
        if not is_time_within(name, max(found[name], default=0.0)):
            raise MalformedData(f"{name} is out of range")
    return found


def _amounts(plain: Record, name: str, count: int) -> Sequence[float]:
    """Numbers from 0 on. The sum of finite ones below the limit is finite."""
    values = _column(plain, name, count, (float, int), 0.0)
    is_within = not values or (min(values) >= 0 and max(values) < MOST_AMOUNT)
    # NaN compares with nothing, but shows in a sum.
    if not is_within or not isfinite(sum(values)):
        raise MalformedData(f"{name} is out of range")
    return values


def _column(
    plain: Record, name: str, count: int, types: tuple[type, ...], default: object
) -> Sequence[Any]:
    if name not in plain:
        return [default] * count
    values = plain.plain[name]
    if type(values) is not list or len(values) != count:
        raise MalformedData(f"{name} has to be an array of {count} values, not {shown(values)}")
    if not set(map(type, values)) <= set(types):
        raise MalformedData(f"{name} has values of another type")
    return values

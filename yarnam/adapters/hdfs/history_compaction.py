"""Puts single records together by month, and prunes them. See ``history_files`` for the layout."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from hdfs_utils.errors import AlreadyExists
from hdfs_utils.filesystem import FileStatus
from yarnam.adapters.hdfs.history_files import READERS, HistoryFiles, Month, key_of, month_of
from yarnam.core.accounting.history_record import HistoryRecord
from yarnam.core.accounting.job_summary import summary_of
from yarnam.wire.codec import encode
from yarnam.wire.shared.history_index import HistoryIndex, Location, encode_index

SETTLED_S = 60.0
"""A younger record is not moved: its writer may write it again."""

MERGE_ABOVE = 16
"""Segments of a month: more are copied into one."""

COPY_BYTES = 8 << 20


class HistoryCompaction:
    """Moves and removes records. Several processes may do so concurrently. Calls raise
    HdfsError."""

    def __init__(self, files: HistoryFiles) -> None:
        self._files = files

    def compact(self, now_s: float) -> int:
        """Move settled records into their months' segments; how many."""
        moved = 0
        limit_ms = (now_s - SETTLED_S) * 1000
        months: dict[str, list[FileStatus]] = {}
        for status in self._files.new_files():
            if status.mtime_ms <= limit_ms:
                months.setdefault(month_of(key_of(status.path)), []).append(status)
        for name, files in sorted(months.items()):
            moved += self._compact_month(name, files)
        return moved

    def remove(self, gone: set[str]) -> None:
        """Remove the records of these jobs."""
        for key in gone:
            self._files.fs.delete(self._files.record_path(key))
        for month in self._files.months():
            if month.columns is not None:
                self._prune_month(month, month.columns.whole(), gone)

    def _compact_month(self, name: str, files: list[FileStatus]) -> int:
        with ThreadPoolExecutor(READERS, thread_name_prefix="history") as pool:
            read = list(pool.map(self._files.try_read, (status.path for status in files)))
        records = [one for one in read if isinstance(one, HistoryRecord)]
        if not records:
            return 0
        self._files.fs.mkdirs(f"{self._files.root}/months", 0o755)
        number = self._files.numbers().get(name, 0)
        month = self._files.month(name, number) if number else Month(name, 0, None)
        if number and month.columns is None:
            return 0  # Another version's index: it has to be able to read it again.
        before = month.columns.whole() if month.columns else HistoryIndex((), (), ())
        segment, offsets = self._write_segment(name, before, records)
        is_merged = len(before.segments) >= MERGE_ABOVE
        index = _with_records(before, records, segment, offsets, is_merged=is_merged)
        if not self._publish(month, index):
            self._files.fs.delete(self._files.segment_path(segment))
            return 0
        for record in records:
            self._files.fs.delete(self._files.record_path(record.key))
        if is_merged:
            for old in before.segments:
                self._files.fs.delete(self._files.segment_path(old))
        return len(records)

    def _write_segment(
        self, name: str, before: HistoryIndex, records: list[HistoryRecord]
    ) -> tuple[str, list[int]]:
        """The new segment's name, and where in it begin first the old segments that were merged
        into it, then the records."""
        segment = f"{name}.{secrets.token_hex(6)}.segment"
        offsets, at = [], 0
        with self._files.fs.open_writer(self._files.segment_path(segment)) as writer:
            if len(before.segments) >= MERGE_ABOVE:
                for old in before.segments:
                    offsets.append(at)
                    with self._files.fs.open_reader(self._files.segment_path(old)) as reader:
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

    def _publish(self, month: Month, index: HistoryIndex) -> bool:
        """``False`` means somebody else was quicker."""
        try:
            path = self._files.index_path(month.name, month.number + 1)
            self._files.fs.write_atomic(path, encode_index(index), overwrite=False)
        except AlreadyExists:
            return False
        if month.number > 1:
            # The one before stays for whoever is about to read it.
            self._files.fs.delete(self._files.index_path(month.name, month.number - 1))
        return True

    def _prune_month(self, month: Month, index: HistoryIndex, gone: set[str]) -> None:
        pairs = zip(index.rows, index.locations, strict=True)
        kept = [pair for pair in pairs if pair[0].key not in gone]
        if len(kept) == len(index.rows):
            return
        rows, locations = tuple(pair[0] for pair in kept), tuple(pair[1] for pair in kept)
        segments = index.segments if rows else ()
        if self._publish(month, HistoryIndex(segments, rows, locations)) and not rows:
            for old in index.segments:
                self._files.fs.delete(self._files.segment_path(old))


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

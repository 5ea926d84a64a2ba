"""TFRecord: each record is its length, the length's CRC32C, the data, the data's CRC32C.

Format and the masking of the CRC: https://www.tensorflow.org/tutorials/load_data/tfrecord.
Every byte is protected. What cannot be seen is a file cut exactly between two records.
"""

from __future__ import annotations

import struct
from array import array
from typing import Any, Protocol

from hdfs_utils.validation.crc_batch import MAX_BUFFER, crc_combiner, expected_crc, same_headers
from hdfs_utils.validation.findings import Corrupt, Findings, Reason, needed
from hdfs_utils.validation.input_format import InputFormat
from hdfs_utils.validation.sources import PIECE, Source, Stream

_HEADER = struct.Struct("<QI")
_CRC = struct.Struct("<I")
_NONE: array[int] = array("q")
_MASK_DELTA = 0xA282EAD8
_MAX_LENGTHS = 1 << 16
MIN_BATCH = 64
"""Pieces with at least this many records are compared in one call: with fewer, each record is so
large that a call for it costs little."""
SAME_BEFORE_RUN = 8
"""Records of one length in a row after which it is looked how far that continues."""


class _Crc32c(Protocol):
    def value(self, chunk: Any, /) -> int: ...

    def extend(self, crc: int, chunk: bytes, /) -> int: ...


def crc32c() -> _Crc32c:
    """The library, which uses the processor's own instruction. Raises NeedsLibrary."""
    found: _Crc32c = needed("google_crc32c", "google-crc32c")
    return found


def masked(crc: int) -> int:
    """As TensorFlow stores a CRC: rotated and shifted, so that it may itself be data."""
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def check_tfrecord(source: Source, found: Findings) -> None:
    """Both checksums of every record.

    After a wrong length the next record cannot be found: the check ends there.
    """
    stream = source.stream()
    scan = _Scan(found)
    buffer, base, at = b"", 0, 0
    while True:
        at = scan.through(buffer, at, base)
        rest = buffer[at:]
        base += at
        if len(rest) >= 12 and _HEADER.unpack_from(rest)[0] > PIECE:
            buffer, at = _long_record(scan.library, stream, rest, base, found), 0
            base = stream.offset - len(buffer)
            continue
        piece = stream.piece()
        if not piece:
            if rest:
                _check_rest(scan.library, rest, base, found)
            return
        buffer, at = scan.across(rest, piece, base)
        base = stream.offset - len(buffer)


class _Scan:
    """Goes through the records that lie whole in a buffer."""

    def __init__(self, found: Findings) -> None:
        self.library = crc32c()
        self._found = found
        self._combiner = crc_combiner()
        # Lengths come again and again: looking a checksum up is cheaper than computing it.
        self._of_length: dict[int, int] = {}

    def across(self, rest: bytes, piece: bytes, base: int) -> tuple[bytes, int]:
        """The record that begins in ``rest`` and ends in the piece; returns what to continue in,
        and from where on. Only this record is copied."""
        if not rest:
            return piece, 0
        head = rest + piece[:16]
        if len(head) >= 12:
            missing = 16 + _HEADER.unpack_from(head)[0] - len(rest)
            if 0 < missing <= len(piece):
                self.through(rest + piece[:missing], 0, base)
                return piece, missing
        return rest + piece, 0

    def through(self, buffer: bytes, at: int, base: int) -> int:
        """Check them from ``at`` on; returns where the first one begins that is not whole.
        ``base``: where the buffer begins in the file."""
        starts, end, problem = self._walk(buffer, at, base)
        count = len(starts)
        if count >= MIN_BATCH and self._fit(buffer, starts, end):
            self._found.records += count
            starts = _NONE
        self._one_by_one(buffer, base, starts, end)
        if problem:
            raise problem
        return end

    def _fit(self, buffer: bytes, starts: array[int], end: int) -> bool:
        """Whether all of them are right; ``False`` means look at each of them."""
        if self._combiner is None or end > MAX_BUFFER:
            return False
        whole = self._combiner.part(buffer, starts[0], end)
        return self.library.value(whole) == expected_crc(self._combiner, buffer, starts, end)

    def _walk(self, buffer: bytes, at: int, base: int) -> tuple[array[int], int, Corrupt | None]:
        """Where the whole records begin, where they end, and a wrong length behind them."""
        starts = array("q")
        append, unpack, known = starts.append, _HEADER.unpack_from, self._of_length
        size, before, same = len(buffer), -1, 0
        while size - at >= 16:
            length, length_crc = unpack(buffer, at)
            if known.get(length) != length_crc:
                if masked(self.library.value(buffer[at : at + 8])) != length_crc:
                    number = self._found.records + len(starts)
                    return starts, at, _bad_length(base + at, number)
                if len(known) < _MAX_LENGTHS:
                    known[length] = length_crc
            end = at + 16 + length
            if size < end:
                break
            same = same + 1 if length == before else 0
            before = length
            if same == SAME_BEFORE_RUN and self._combiner is not None:
                # Records of one size: the rest of the run in one step.
                count = same_headers(self._combiner, buffer, at, end - at)
                starts.extend(range(at, at + count * (end - at), end - at))
                at += count * (end - at)
                same = 0
                continue
            append(at)
            at = end
        return starts, at, None

    def _one_by_one(self, buffer: bytes, base: int, starts: array[int], end: int) -> None:
        value, unpack = self.library.value, _CRC.unpack_from
        records = self._found.records
        ends = starts[1:]
        ends.append(end)
        for start, follow in zip(starts, ends):  # noqa: B905 - the training code's Python may be 3.9
            crc = value(buffer[start + 12 : follow - 4])
            wanted = unpack(buffer, follow - 4)[0]
            if ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF != wanted:
                self._found.records = records
                _bad_data(self._found, base + start)
            records += 1
        self._found.records = records


def _check_rest(library: _Crc32c, rest: bytes, base: int, found: Findings) -> None:
    if len(rest) >= 12:
        length, crc = _HEADER.unpack_from(rest)
        if masked(library.value(rest[:8])) != crc:
            raise _bad_length(base, found.records)
        message = f"ends {length + 16 - len(rest)} bytes before the end of its last record"
    else:
        message = "ends within the header of a record"
    raise Corrupt(Reason.TRUNCATED, message, base, found.records)


def _long_record(
    library: _Crc32c, stream: Stream, rest: bytes, base: int, found: Findings
) -> bytes:
    """One record that is longer than a piece, in constant memory; returns what follows it."""
    length, length_crc = _HEADER.unpack_from(rest)
    if masked(library.value(rest[:8])) != length_crc:
        raise _bad_length(base, found.records)
    data = rest[12 : 12 + length]
    crc, left, rest = library.value(data), length - len(data), rest[12 + len(data) :]
    while left:
        piece = stream.read(min(left, PIECE))
        if not piece:
            message = f"ends {left + 4} bytes before the end of its last record"
            raise Corrupt(Reason.TRUNCATED, message, base, found.records)
        crc = library.extend(crc, piece)
        left -= len(piece)
    if len(rest) < 4:
        rest += stream.read(4 - len(rest))
    if len(rest) < 4:
        message = "ends within the checksum of its last record"
        raise Corrupt(Reason.TRUNCATED, message, base, found.records)
    if masked(crc) != _CRC.unpack_from(rest)[0]:
        _bad_data(found, base)
    found.records += 1
    return rest[4:]


def _bad_length(offset: int, record: int) -> Corrupt:
    message = "the checksum of the record's length does not fit; the rest cannot be read"
    return Corrupt(Reason.BAD_CRC, message, offset, record)


def _bad_data(found: Findings, offset: int) -> None:
    message = "the checksum of the record's data does not fit"
    found.corrupt(Reason.BAD_CRC, message, offset, found.records)


FORMATS = (
    InputFormat(
        "tfrecord",
        (".tfrecord", ".tfrecords", ".tfrec"),
        "every byte; not a cut exactly between two records",
        check_tfrecord,
        is_framing=True,
    ),
)

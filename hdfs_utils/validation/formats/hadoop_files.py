"""SequenceFile and Avro: their blocks and sync marks, and what their codecs check.

Formats: ``org.apache.hadoop.io.SequenceFile`` (its class comment) and the Avro specification 1.11,
"Object Container Files". Neither has checksums of its own: a changed byte inside a record is seen
only through a codec that has one.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

from hdfs_utils.validation.findings import (
    Corrupt,
    Findings,
    NotSupported,
    OverLimit,
    Reason,
    needed,
)
from hdfs_utils.validation.formats.compressed import (
    BZIP2,
    GZIP,
    XZ,
    ZSTD,
    Begin,
    unpacked,
    zlib_frame,
)
from hdfs_utils.validation.input_format import InputFormat, begins_with
from hdfs_utils.validation.sources import MAX_IN_MEMORY, PIECE, Source, Stream

SEQUENCE_MAGIC = b"SEQ"
AVRO_MAGIC = b"Obj\x01"
_SYNC_ESCAPE = -1
_SYNC_SIZE = 16
_MAX_TEXT = 1 << 20
_MAX_BLOCK = 256 << 20
# A record may take no bytes at all (a null), so that a block of nothing may count any number.
_MAX_EMPTY_RECORDS = 1 << 20
_UNPROTECTED = "has no checksums: a changed byte inside a record may go unseen"

# Codecs that check themselves, by the last part of their Java class.
_SEQUENCE_CODECS: dict[str, Begin] = {
    "DefaultCodec": zlib_frame(15),
    "DeflateCodec": zlib_frame(15),
    "GzipCodec": GZIP.begin,
    "BZip2Codec": BZIP2.begin,
}
_AVRO_CODECS: dict[str, Begin] = {
    "deflate": zlib_frame(-15),
    "bzip2": BZIP2.begin,
    "xz": XZ.begin,
    "zstandard": ZSTD.begin,
}

# What fastavro raises about bytes that fit no record of the schema; it has no error of its own.
_BAD_BYTES = (
    EOFError, ValueError, IndexError, OverflowError, KeyError, TypeError, RecursionError,
)  # fmt: skip


class _Taker:
    """Reads numbers and byte strings; the end within one is truncation."""

    def __init__(self, stream: Stream, found: Findings) -> None:
        self.stream = stream
        self.found = found

    def exactly(self, size: int, what: str) -> bytes:
        data = self.stream.read(size)
        if len(data) < size:
            raise self.truncated(what)
        return data

    def truncated(self, what: str) -> Corrupt:
        message = f"ends within {what}"
        return Corrupt(Reason.TRUNCATED, message, self.stream.offset, self.found.records)

    def bad(self, message: str, offset: int) -> Corrupt:
        return Corrupt(Reason.BAD_STRUCTURE, message, offset, self.found.records)

    def int32(self, what: str) -> int:
        return int.from_bytes(self.exactly(4, what), "big", signed=True)

    def vint(self, what: str) -> int:
        """Hadoop's WritableUtils.writeVLong."""
        first = int.from_bytes(self.exactly(1, what), "big", signed=True)
        if first >= -112:
            return first
        is_negative = first < -120
        size = -(first + 120) if is_negative else -(first + 112)
        value = int.from_bytes(self.exactly(size, what), "big")
        return ~value if is_negative else value

    def zigzag(self, what: str, first: bytes = b"") -> int:
        """Avro's long; ``first`` is its first byte where that was read already."""
        value = shift = 0
        while True:
            byte = (first or self.exactly(1, what))[0]
            first = b""
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
            if shift > 63:
                raise self.bad(f"{what}: a number that is too long", self.stream.offset)


def check_sequence_file(source: Source, found: Findings) -> None:
    """Header, every record's or block's frame, sync marks, and codecs with checksums."""
    taker = _Taker(source.stream(), found)
    start = taker.stream.read(4)
    if start[:3] != SEQUENCE_MAGIC[: len(start)]:
        raise Corrupt(Reason.BAD_MAGIC, "does not begin with SEQ", 0)
    if len(start) < 4:
        raise taker.truncated("the header")
    if start[3] != 6:
        raise NotSupported(f"SequenceFile of version {start[3]}; only 6 is checked")
    for what in ("the key class", "the value class"):
        _text(taker, what)
    is_packed, in_blocks = (_boolean(taker, w) for w in ("compression", "block compression"))
    codec = _text(taker, "the codec") if is_packed else ""
    pairs = taker.int32("the metadata")
    if not 0 <= pairs <= _MAX_TEXT:
        raise taker.bad(f"{pairs} pairs of metadata", taker.stream.offset)
    for _ in range(2 * pairs):
        _text(taker, "the metadata")
    sync = taker.exactly(_SYNC_SIZE, "the sync mark of the header")
    begin = _SEQUENCE_CODECS.get(codec.rpartition(".")[2])
    if begin is None:
        note = f"the codec {codec} was not decompressed; " if codec else ""
        found.note(Reason.UNPROTECTED, f"{note}SequenceFile {_UNPROTECTED}")
    _sequence_body(taker, sync, in_blocks, begin)


def _sequence_body(taker: _Taker, sync: bytes, in_blocks: bool, begin: Begin | None) -> None:
    while True:
        offset = taker.stream.offset
        word = taker.stream.read(4)
        if not word:
            return
        if len(word) < 4:
            raise taker.truncated("a record's length")
        length = int.from_bytes(word, "big", signed=True)
        if length == _SYNC_ESCAPE:
            if taker.exactly(_SYNC_SIZE, "a sync mark") != sync:
                raise taker.bad("the sync mark is not that of the header", offset)
            if in_blocks:
                _sequence_block(taker, begin)
        elif in_blocks:
            raise taker.bad("no block begins here", offset)
        else:
            _sequence_record(taker, length, offset, begin)


def _sequence_record(taker: _Taker, length: int, offset: int, begin: Begin | None) -> None:
    key = taker.int32("a key's length")
    if not 0 <= key <= length:
        raise taker.bad(f"a key of {key} bytes in a record of {length}", offset)
    if taker.stream.skip(key) < key:
        raise taker.truncated("a key")
    _pass(taker, begin, length - key, "a value", offset)
    taker.found.records += 1


def _sequence_block(taker: _Taker, begin: Begin | None) -> None:
    offset = taker.stream.offset
    records = taker.vint("a block's number of records")
    if records < 0:
        raise taker.bad(f"a block of {records} records", offset)
    for what in ("the keys' lengths", "the keys", "the values' lengths", "the values"):
        size = taker.vint(what)
        if size < 0:
            raise taker.bad(f"{what} take {size} bytes", offset)
        _pass(taker, begin, size, what, offset)
    taker.found.records += records


def _pass(taker: _Taker, begin: Begin | None, size: int, what: str, offset: int) -> None:
    """Over this many bytes; what they hold is decompressed and dropped, a little at a time."""
    end = taker.stream.offset + size
    if begin is not None and size:
        try:
            for _ in unpacked(begin, _pieces(taker, size, what)):
                pass
        except ValueError as error:
            message = f"cannot be decompressed: {error}"
            taker.found.corrupt(Reason.BAD_DATA, message, offset, taker.found.records)
    left = end - taker.stream.offset
    if taker.stream.skip(left) < left:
        raise taker.truncated(what)


def _pieces(taker: _Taker, size: int, what: str) -> Iterator[bytes]:
    while size:
        piece = taker.exactly(min(size, PIECE), what)
        size -= len(piece)
        yield piece


def _text(taker: _Taker, what: str) -> str:
    size = taker.vint(what)
    offset = taker.stream.offset
    if not 0 <= size <= _MAX_TEXT:
        raise taker.bad(f"{what} is {size} bytes long", offset)
    try:
        return taker.exactly(size, what).decode()
    except UnicodeDecodeError:
        raise taker.bad(f"{what} is not UTF-8", offset) from None


def _boolean(taker: _Taker, what: str) -> bool:
    byte = taker.exactly(1, f"the flag of {what}")[0]
    if byte > 1:
        raise taker.bad(f"the flag of {what} is {byte}", taker.stream.offset - 1)
    return bool(byte)


def check_avro(source: Source, found: Findings) -> None:
    """Header, every block's frame and sync mark, then the records where fastavro is installed."""
    taker = _Taker(source.stream(), found)
    start = taker.stream.read(4)
    if start != AVRO_MAGIC:
        if AVRO_MAGIC.startswith(start):
            raise taker.truncated("the header")
        raise Corrupt(Reason.BAD_MAGIC, "does not begin with Obj and 1", 0)
    meta = _avro_metadata(taker)
    sync = taker.exactly(_SYNC_SIZE, "the sync mark of the header")
    codec = meta.get("avro.codec", b"null").decode(errors="replace")
    if codec in ("null", "deflate"):
        found.note(Reason.UNPROTECTED, f"Avro with codec {codec} {_UNPROTECTED}")
    decode = _avro_decoder(meta, codec, found)
    while True:
        offset = taker.stream.offset
        first = taker.stream.read(1)
        if not first:
            return
        records = taker.zigzag("a block's count", first)
        size = taker.zigzag("a block's size")
        if records < 0 or not 0 <= size <= _MAX_BLOCK:
            raise taker.bad(f"a block of {records} records in {size} bytes", offset)
        data = taker.exactly(size, "a block")
        if taker.exactly(_SYNC_SIZE, "a sync mark") != sync:
            raise taker.bad("the sync mark is not that of the header", offset)
        if decode is not None:
            with found.catching():
                decode(data, records, offset)
        found.records += records


def _avro_metadata(taker: _Taker) -> dict[str, bytes]:
    meta: dict[str, bytes] = {}
    while pairs := taker.zigzag("the metadata"):
        if pairs < 0:
            taker.zigzag("the metadata")
            pairs = -pairs
        if pairs > _MAX_TEXT:
            raise taker.bad(f"{pairs} pairs of metadata", taker.stream.offset)
        for _ in range(pairs):
            key, value = (_avro_bytes(taker) for _ in range(2))
            meta[key.decode(errors="replace")] = value
    if "avro.schema" not in meta:
        raise taker.bad("there is no schema in the header", taker.stream.offset)
    return meta


def _avro_bytes(taker: _Taker) -> bytes:
    size = taker.zigzag("the metadata")
    if not 0 <= size <= 16 * _MAX_TEXT:
        raise taker.bad(f"metadata of {size} bytes", taker.stream.offset)
    return taker.exactly(size, "the metadata")


def _avro_decoder(
    meta: dict[str, bytes], codec: str, found: Findings
) -> Callable[[bytes, int, int], None] | None:
    decode: list[Callable[[bytes, int, int], None]] = []
    with found.catching():
        decode.append(_record_decoder(meta["avro.schema"], codec, found))
    return decode[0] if decode else None


def _record_decoder(
    schema: bytes, codec: str, found: Findings
) -> Callable[[bytes, int, int], None]:
    """A function of (block, number of records, offset) that raises Corrupt.

    Raises NeedsLibrary, NotSupported for a codec, Corrupt for a schema that is none.
    """
    fastavro = needed("fastavro", "fastavro (for the records; the frame was checked)")
    try:
        parsed = fastavro.parse_schema(_without_logical_types(json.loads(schema)))
    except (
        ValueError, KeyError, TypeError, RecursionError, fastavro.schema.SchemaParseException,
    ) as error:  # fmt: skip
        raise Corrupt(Reason.BAD_STRUCTURE, f"the schema is not one: {error}", 0) from error
    if codec != "null" and codec not in _AVRO_CODECS:
        message = f"records of Avro's codec {codec} are not decoded; the frame was checked"
        raise NotSupported(message)
    begin = _AVRO_CODECS.get(codec)
    if begin is not None:
        begin()  # a missing library is said before anything is read

    def decode(block: bytes, records: int, offset: int) -> None:
        try:
            content = block if begin is None else _unpacked_block(begin, block)
        except ValueError as error:
            message = f"the block cannot be decompressed: {error}"
            raise Corrupt(Reason.BAD_DATA, message, offset, found.records) from error
        if records > len(content) + _MAX_EMPTY_RECORDS:
            raise OverLimit(f"a block of {records} records in {len(content)} bytes")
        stream = io.BytesIO(content)
        for number in range(records):
            _read_record(fastavro, stream, parsed, found.records + number, offset)
        if stream.read(1):
            message = "the block holds more than its records"
            raise Corrupt(Reason.BAD_STRUCTURE, message, offset, found.records)

    return decode


def _without_logical_types(schema: Any) -> Any:
    """A logical type says how to show a value, not how it is written, and one that does not hold is
    ignored (Avro specification). Python cannot hold all of them: dates end with the year 9999."""
    if isinstance(schema, list):
        return [_without_logical_types(part) for part in schema]
    if isinstance(schema, dict):
        return {
            key: _without_logical_types(part)
            for key, part in schema.items()
            if key != "logicalType"
        }
    return schema


def _read_record(fastavro: Any, stream: io.BytesIO, schema: Any, record: int, offset: int) -> None:
    try:
        fastavro.schemaless_reader(stream, schema, None)
    except RecursionError as error:
        raise OverLimit("a record is nested deeper than Python's parser goes") from error
    except _BAD_BYTES as error:
        message = f"the record does not fit the schema: {error}"
        raise Corrupt(Reason.BAD_DATA, message, offset, record) from error


def _unpacked_block(begin: Begin, block: bytes) -> bytes:
    parts, size = [], 0
    for part in unpacked(begin, (block,)):
        size += len(part)
        if size > MAX_IN_MEMORY:
            raise OverLimit(f"a block of more than {MAX_IN_MEMORY >> 20} MiB")
        parts.append(part)
    return b"".join(parts)


FORMATS = (
    InputFormat(
        "sequence-file",
        (".seq",),
        "frames and sync marks; contents where the codec is zlib, gzip or bzip2",
        check_sequence_file,
        recognizes=begins_with(SEQUENCE_MAGIC),
    ),
    InputFormat(
        "avro",
        (".avro",),
        "frames and sync marks; contents where the codec is bzip2, xz or zstandard",
        check_avro,
        recognizes=begins_with(AVRO_MAGIC),
    ),
)

"""Decodes the records of Avro's blocks with fastavro."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable
from typing import Any

from hdfs_utils.validation.findings import (
    Corrupt,
    Findings,
    NeedsLibrary,
    NotSupported,
    Reason,
)

# What fastavro raises about bytes that fit no record of the schema; it has no error of its own.
_BAD_BYTES = (EOFError, ValueError, IndexError, OverflowError, KeyError, TypeError, MemoryError)


def decoder(schema: bytes, codec: str, found: Findings) -> Callable[[bytes, int, int], None]:
    """A function of (block, number of records, offset) that raises Corrupt.

    Raises NeedsLibrary, NotSupported for a codec, Corrupt for a schema that is none.
    """
    try:
        import fastavro
    except ImportError:
        raise NeedsLibrary("fastavro (for the records; the frame was checked)") from None
    try:
        parsed = fastavro.parse_schema(json.loads(schema))
    except (ValueError, KeyError, TypeError, fastavro.schema.SchemaParseException) as error:
        raise Corrupt(Reason.BAD_STRUCTURE, f"the schema is not one: {error}", 0) from error
    decompress = _decompress(codec)

    def decode(block: bytes, records: int, offset: int) -> None:
        try:
            stream = io.BytesIO(decompress(block))
            for number in range(records):
                _read(fastavro, stream, parsed, found.records + number, offset)
        except (zlib.error, OSError, ValueError, EOFError) as error:
            message = f"the block cannot be decompressed: {error}"
            raise Corrupt(Reason.BAD_DATA, message, offset, found.records) from error
        if stream.read(1):
            message = "the block holds more than its records"
            raise Corrupt(Reason.BAD_STRUCTURE, message, offset, found.records)

    return decode


def _read(fastavro: Any, stream: io.BytesIO, schema: Any, record: int, offset: int) -> None:
    try:
        fastavro.schemaless_reader(stream, schema, None)
    except _BAD_BYTES as error:
        message = f"the record does not fit the schema: {error}"
        raise Corrupt(Reason.BAD_DATA, message, offset, record) from error


def _decompress(codec: str) -> Callable[[bytes], bytes]:
    if codec == "null":
        return lambda data: data
    if codec == "deflate":
        return lambda data: zlib.decompress(data, wbits=-15)
    if codec == "bzip2":
        import bz2

        return bz2.decompress
    if codec == "xz":
        import lzma

        def xz(data: bytes) -> bytes:
            try:
                return lzma.decompress(data)
            except lzma.LZMAError as error:
                raise ValueError(str(error)) from error

        return xz
    if codec == "zstandard":
        try:
            import zstandard
        except ImportError:
            raise NeedsLibrary("zstandard") from None

        def zstd(data: bytes) -> bytes:
            try:
                found: bytes = zstandard.ZstdDecompressor().decompressobj().decompress(data)
            except zstandard.ZstdError as error:
                raise ValueError(str(error)) from error
            return found

        return zstd
    raise NotSupported(f"records of Avro's codec {codec} are not decoded; the frame was checked")

"""Parquet, ORC and Arrow through pyarrow: footer, then every page of every column.

Parquet has checksums of pages only where its writer was set to write them; ORC and Arrow have
none. Without them a changed byte is seen only where decompressing or decoding trips over it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from hdfs_utils.errors import HdfsError
from hdfs_utils.validation.findings import (
    Corrupt,
    Findings,
    NotSupported,
    Reason,
    first_line,
    is_of_memory,
    needed,
    out_of_memory,
)
from hdfs_utils.validation.input_format import InputFormat, begins_with
from hdfs_utils.validation.sources import Source

_BATCH_ROWS = 8192
# Pages come through a buffer for each column chunk, instead of the whole chunk.
_BUFFER = 1 << 20
PARQUET_MAGIC = b"PAR1"
PARQUET_ENCRYPTED = b"PARE"
ORC_MAGIC = b"ORC"
ARROW_MAGIC = b"ARROW1"


@contextmanager
def _decoding(what: str, record: int | None = None) -> Iterator[None]:
    """pyarrow's errors about the content as Corrupt. Those of reading pass through."""
    pa = needed("pyarrow")
    try:
        yield
    except (HdfsError, MemoryError):  # pyarrow's own MemoryError among them
        raise
    except pa.ArrowNotImplementedError as error:
        raise NotSupported(f"{what}: {first_line(error)}") from error
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        text = first_line(error)
        if is_of_memory(text):
            raise out_of_memory() from error
        reason = Reason.BAD_CRC if "crc" in text.lower() else Reason.BAD_DATA
        raise Corrupt(reason, f"{what}: {text}", record=record) from error


def check_parquet(source: Source, found: Findings) -> None:
    """Both magic numbers, the footer, and every page of every row group."""
    needed("pyarrow")
    import pyarrow.parquet as pq

    with source.open() as file:
        _ends(file, PARQUET_MAGIC, 12, PARQUET_ENCRYPTED)
        with _decoding("the footer"):
            # Not memory-mapped, not buffered ahead: the memory stays that of some pages.
            opened = pq.ParquetFile(
                file, page_checksum_verification=True, buffer_size=_BUFFER, pre_buffer=False
            )
        with _decoding("the footer"):
            rows = [opened.metadata.row_group(n).num_rows for n in range(opened.num_row_groups)]
            if sum(rows) != opened.metadata.num_rows:
                message = f"{opened.metadata.num_rows} rows, but {sum(rows)} in its row groups"
                raise Corrupt(Reason.BAD_STRUCTURE, message)
        for group, expected in enumerate(rows):
            with found.catching():
                _row_group(opened, group, expected)
            found.records += expected
        found.note(
            Reason.UNPROTECTED,
            "pages are protected only where the writer wrote checksums (write_page_checksum)",
        )


def _row_group(opened: Any, group: int, expected: int) -> None:
    try:
        with _decoding(f"row group {group}", group):
            seen = sum(
                batch.num_rows
                for batch in opened.iter_batches(_BATCH_ROWS, row_groups=[group], use_threads=False)
            )
    except Corrupt as error:
        raise _in_column(opened, group, error) from error
    # A file without columns has rows all the same.
    if seen != expected and opened.metadata.num_columns:
        message = f"row group {group}: {seen} rows instead of {expected}"
        raise Corrupt(Reason.BAD_STRUCTURE, message, record=group)


def _in_column(opened: Any, group: int, error: Corrupt) -> Corrupt:
    """Which column it was, with its place in the file: each is read alone."""
    meta = opened.metadata.row_group(group)
    for column in range(meta.num_columns):
        chunk = meta.column(column)
        name = chunk.path_in_schema
        try:
            with _decoding(f"row group {group}, column {name}", group):
                for _ in opened.iter_batches(
                    _BATCH_ROWS, row_groups=[group], columns=[name], use_threads=False
                ):
                    pass
        except Corrupt as narrower:
            offset = chunk.dictionary_page_offset or chunk.data_page_offset
            return Corrupt(narrower.reason, narrower.message, offset, group)
    return error


def _ends(file: BinaryIO, magic: bytes, least: int, other: bytes = b"") -> None:
    """The magic number at both ends, which tells a half-written file on its own."""
    size = file.seek(0, 2)
    file.seek(0)
    first = file.read(len(magic))
    if first != magic:
        if other and first == other:
            raise NotSupported("encrypted Parquet")
        reason = Reason.TRUNCATED if magic.startswith(first) else Reason.BAD_MAGIC
        raise Corrupt(reason, f"does not begin with {magic.decode()}", 0)
    file.seek(max(0, size - len(magic)))
    last = file.read()
    if size < least or last != magic:
        message = f"does not end with {magic.decode()}: it was not written to its end, or cut"
        raise Corrupt(Reason.TRUNCATED, message, max(0, size - len(magic)))
    file.seek(0)


def check_orc(source: Source, found: Findings) -> None:
    """Magic number, footer and every stripe."""
    pa = needed("pyarrow")
    orc = needed("pyarrow.orc", "pyarrow with ORC")
    with source.open() as file:
        if file.read(3) != ORC_MAGIC:
            raise Corrupt(Reason.BAD_MAGIC, "does not begin with ORC", 0)
        file.seek(0)
        with _decoding("the footer"):
            opened = orc.ORCFile(pa.PythonFile(file, mode="r"))
        rows = 0
        for stripe in range(opened.nstripes):
            with found.catching(), _decoding(f"stripe {stripe}", stripe):
                batch = opened.read_stripe(stripe)
                batch.validate(full=True)
                rows += batch.num_rows
        found.records = rows
        if rows != opened.nrows and not found.found:
            message = f"{rows} rows instead of {opened.nrows}"
            raise Corrupt(Reason.BAD_STRUCTURE, message)
        found.note(Reason.UNPROTECTED, "ORC has no checksums: it was decoded")


def check_arrow(source: Source, found: Findings) -> None:
    """An Arrow file (Feather 2): both magic numbers, the footer and every batch."""
    pa = needed("pyarrow")
    with source.open() as file:
        _ends(file, ARROW_MAGIC, 24)
        with _decoding("the footer"):
            opened = pa.ipc.open_file(pa.PythonFile(file, mode="r"))
            batches = opened.num_record_batches
        for number in range(batches):
            with found.catching(), _decoding(f"record batch {number}", number):
                opened.get_batch(number).validate(full=True)
                found.records += 1
        found.note(Reason.UNPROTECTED, "Arrow has no checksums: its structure was checked")


def check_arrow_stream(source: Source, found: Findings) -> None:
    """An Arrow stream: every message, and the mark of its end."""
    pa = needed("pyarrow")
    with source.open() as file:
        file.seek(max(0, file.seek(0, 2) - 8))
        # "End of stream" in the IPC format: 0xFFFFFFFF and a length of 0.
        has_end = file.read() == b"\xff\xff\xff\xff\0\0\0\0"
        file.seek(0)
        with _decoding("the schema"):
            opened = pa.ipc.open_stream(pa.PythonFile(file, mode="r"))
        while True:
            with _decoding(f"record batch {found.records}", found.records):
                try:
                    batch = opened.read_next_batch()
                except StopIteration:
                    break
                batch.validate(full=True)
            found.records += 1
        if not has_end:
            raise Corrupt(Reason.TRUNCATED, "has no mark of its end", source.size)
        found.note(Reason.UNPROTECTED, "Arrow has no checksums: its structure was checked")


FORMATS = (
    InputFormat(
        "parquet",
        (".parquet", ".pq"),
        "pages only where the writer wrote checksums (write_page_checksum)",
        check_parquet,
        recognizes=begins_with(PARQUET_MAGIC),
    ),
    InputFormat(
        "orc",
        (".orc",),
        "none: what decoding trips over",
        check_orc,
        recognizes=begins_with(ORC_MAGIC),
    ),
    InputFormat(
        "arrow",
        (".arrow", ".feather"),
        "none: the structure",
        check_arrow,
        recognizes=begins_with(ARROW_MAGIC),
    ),
    InputFormat("arrow-stream", (".arrows",), "none: the structure", check_arrow_stream),
)

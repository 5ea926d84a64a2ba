"""One file, or a range of it, from one file system to another."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

from hdfs_utils.checksums import crc32c
from hdfs_utils.errors import CorruptData, HdfsError
from hdfs_utils.filesystem import FileSystem, Reader
from hdfs_utils.transfer.values import LARGE_PIECE, PIECE, Progress


class Checks(Protocol):
    """What says between pieces whether to go on, as a ``Crew`` does."""

    def check(self) -> None:
        """Raises Stopped when the transfer has ended."""


def copy_file(
    source: FileSystem,
    path: str,
    sink: FileSystem,
    target: str,
    size: int,
    *,
    offset: int = 0,
    crew: Checks,
    progress: Progress,
    replication: int | None = None,
) -> int:
    """Copy ``size`` bytes from ``offset`` on into a new file; returns their CRC32C."""
    with source.open_reader(path) as reader:
        if not offset and reader.size != size:
            message = f"has {reader.size} bytes and had {size} when the transfer began"
            raise CorruptData(message, path=path, operation="transfer")
        if offset:
            reader.seek(offset)
        with sink.open_writer(target, overwrite=True, replication=replication) as writer:
            return _pump(reader, writer.write, size, path, crew, progress)


def copy_range(
    source: FileSystem,
    path: str,
    descriptor: int,
    offset: int,
    size: int,
    *,
    crew: Checks,
    progress: Progress,
) -> int:
    """Copy a range into the same place of an open local file; returns its CRC32C."""
    position = offset

    def write(data: bytes) -> None:
        nonlocal position
        view = memoryview(data)
        while view:
            written = os.pwrite(descriptor, view, position)
            position += written
            view = view[written:]

    with source.open_reader(path) as reader:
        reader.seek(offset)
        return _pump(reader, write, size, path, crew, progress)


def _pump(
    reader: Reader,
    write: Callable[[bytes], object],
    size: int,
    path: str,
    crew: Checks,
    progress: Progress,
) -> int:
    crc = sent = 0
    piece = LARGE_PIECE if size > LARGE_PIECE else PIECE
    try:
        while sent < size:
            crew.check()
            data = reader.read(min(piece, size - sent))
            if not data:
                message = f"ends after {sent} of {size} bytes; was it changed meanwhile?"
                raise CorruptData(message, path=path, operation="transfer")
            crc = crc32c(data, crc)
            write(data)
            sent += len(data)
            progress.add(len(data))
    except (HdfsError, OSError):
        progress.add(-sent)
        raise
    return crc

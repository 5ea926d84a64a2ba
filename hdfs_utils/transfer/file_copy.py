"""Copies one file, a range of one, or many small ones."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from hdfs_utils.concurrency.worker_pool import WorkerPool
from hdfs_utils.errors import CorruptData, HdfsError
from hdfs_utils.filesystem import FileSystem, Reader
from hdfs_utils.protocols.checksums import crc32c
from hdfs_utils.transfer.options import LARGE_PIECE, MEMORY, PIECE, SENDING
from hdfs_utils.transfer.progress import Progress


class StopCheck(Protocol):
    """Polled between pieces; a :class:`WorkerPool` is one."""

    def check(self) -> None:
        """Raises Stopped when the transfer has ended."""


def copy_file(
    source: FileSystem,
    path: str,
    sink: FileSystem,
    target: str,
    size: int,
    *,
    offset: int | None = None,
    sending: AbstractContextManager[object] | None = None,
    pool: StopCheck,
    progress: Progress,
    replication: int | None = None,
) -> int:
    """Copy a file, or a part of it, into a new one; returns the CRC32C of its ``size`` bytes.

    ``sending`` is held while bytes are sent, and not while the file is completed.
    """
    with source.open_reader(path) as reader:
        if offset is None and reader.size != size:
            message = f"has {reader.size} bytes and had {size} when the transfer began"
            raise CorruptData(message, path=path, operation="transfer")
        if offset:
            reader.seek(offset)
        with (
            sink.open_writer(target, overwrite=True, replication=replication) as writer,
            sending or nullcontext(),
        ):
            return _pump(reader, writer.write, size, path, pool, progress)


def copy_range(
    source: FileSystem,
    path: str,
    descriptor: int,
    offset: int,
    size: int,
    *,
    pool: StopCheck,
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
        return _pump(reader, write, size, path, pool, progress)


def _pump(
    reader: Reader,
    write: Callable[[bytes], object],
    size: int,
    path: str,
    pool: StopCheck,
    progress: Progress,
) -> int:
    crc = sent = 0
    piece = LARGE_PIECE if size > LARGE_PIECE else PIECE
    try:
        while sent < size:
            pool.check()
            data = reader.read(min(piece, size - sent))
            if not data:
                message = f"ends after {sent} of {size} bytes; did it change meanwhile?"
                raise CorruptData(message, path=path, operation="transfer")
            crc = crc32c(data, crc)
            write(data)
            sent += len(data)
            progress.add(len(data))
    except (HdfsError, OSError):
        progress.add(-sent)
        raise
    return crc


class SmallFileWriter:
    """Writes many small files concurrently to a storage that is slow to complete a file.

    Each file waits about half a second for its completion after its bytes are safe, whatever the
    site's settings (hdfs-native 0.14.7). So a few threads of the pool send while many wait, asleep.

    Why not coroutines: the native client polls its own with Python's global lock held, on the event
    loop's thread, while its threads take that lock to wake them. Whichever of its locks or joins
    the two meet in, they wait for each other for ever, and the process with them (seen at the end
    of a transfer, when the client's threads are joined by whoever drops it). Its blocking calls
    release the lock first.
    """

    def __init__(self, sink: FileSystem, pool: WorkerPool, replication: int | None) -> None:
        self._sink = sink
        self._pool = pool
        self._replication = replication
        self._sending = threading.Semaphore(SENDING)
        self._memory = _Budget(MEMORY)

    def write(self, target: str, size: int, read: Callable[[], bytes]) -> int:
        """Write what ``read`` returns; returns its CRC32C.

        Args:
            target: path of the new file; an existing one is replaced.
            size: about how many bytes ``read`` returns; limits how many are in memory at a time.
            read: reads the source.

        Raises:
            HdfsError: the storage refused it.
            Stopped: the transfer has ended.
        """
        # The client holds a file's bytes until the DataNodes have acknowledged them.
        with self._memory.of(size):
            with self._sending:
                self._pool.check()
                data = read()
                writer = self._sink.open_writer(target, True, self._replication)
                try:
                    writer.write(data)
                    writer.flush()
                except BaseException:
                    writer.abort()
                    raise
            crc = crc32c(data)
            del data
            writer.close()
        return crc


class _Budget:
    """Limits the bytes in memory; a file larger than the limit goes alone."""

    def __init__(self, size: int) -> None:
        self._limit = self._left = size
        self._changed = threading.Condition()

    @contextmanager
    def of(self, size: int) -> Iterator[None]:
        size = min(size, self._limit)
        with self._changed:
            self._changed.wait_for(lambda: self._left >= size)
            self._left -= size
        try:
            yield
        finally:
            with self._changed:
                self._left += size
                self._changed.notify_all()

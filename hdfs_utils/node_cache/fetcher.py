"""Fetches many files concurrently, large ones by ranges, into local files that the caller opens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from hdfs_utils.concurrency.retry import retry
from hdfs_utils.concurrency.worker_pool import Stopped, WorkerPool
from hdfs_utils.errors import CorruptData, Unavailable
from hdfs_utils.filesystem import FileSystem
from hdfs_utils.node_cache.cache_dir import ChangedInput, WantedFile
from hdfs_utils.node_cache.fetch_progress import FetchProgress
from hdfs_utils.protocols.checksums import combine_all
from hdfs_utils.transfer.compare import storage_crcs
from hdfs_utils.transfer.file_copy import copy_range

THREADS = 8
"""Files fetched concurrently; the native client is fastest with 4 to 8."""
RANGE_BYTES = 64 << 20
"""Larger files are read in ranges of this size, several in parallel."""
RANGE_THREADS = 4
TRIES = 3
"""Tries for one range: a DataNode may die in the middle of it."""
SMALL = 1 << 20
"""Smaller files are not compared with HDFS's checksum if the client verifies each chunk itself
(as in ``transfer``)."""


@dataclass(frozen=True, slots=True)
class PartialFile:
    """A local file of the right length to fill; ``publish`` takes the CRC32C of the content."""

    descriptor: int
    publish: Callable[[int], None]


OpenPartial = Callable[[WantedFile], "AbstractContextManager[PartialFile | None]"]
"""Opens the file to fill; ``None`` means there is nothing to fetch."""


class Fetcher:
    """One pass over a list of files."""

    def __init__(
        self,
        fs: FileSystem,
        progress: FetchProgress,
        threads: int,
        stopping: threading.Event,
        range_bytes: int = RANGE_BYTES,
    ) -> None:
        self._fs = fs
        self._range_bytes = range_bytes
        self._progress = progress
        self._threads = threads
        self._stopping = stopping

    def run(self, files: Sequence[WantedFile], open_partial: OpenPartial) -> None:
        """Fetch all files; raises as ``NodeStore.fetch``. Files that were published stay."""
        for file in files:
            if file.length > self._range_bytes:
                self._large(file, open_partial)
        small = [file for file in files if file.length <= self._range_bytes]
        if small:
            pool = WorkerPool(min(self._threads, len(small)))
            pool.run(lambda file: self._small(file, open_partial, pool), small)
        self._check()

    def _small(self, file: WantedFile, open_partial: OpenPartial, pool: WorkerPool) -> None:
        self._check()
        with open_partial(file) as growing:
            if growing is None:
                return
            self._check_unchanged(file)

            def fill() -> int:
                return self._range(file, growing.descriptor, (0, file.length), pool)

            self._verified(file, growing, fill)

    def _large(self, file: WantedFile, open_partial: OpenPartial) -> None:
        with open_partial(file) as growing:
            if growing is None:
                return
            self._check_unchanged(file)
            descriptor = growing.descriptor
            size = self._range_bytes
            ranges = [
                (start, min(size, file.length - start)) for start in range(0, file.length, size)
            ]

            def fill() -> int:
                crcs = [0] * len(ranges)
                pool = WorkerPool(min(self._threads, RANGE_THREADS, len(ranges)))

                def fetch(number: int) -> None:
                    crcs[number] = self._range(file, descriptor, ranges[number], pool)

                pool.run(fetch, range(len(ranges)))
                self._check()
                return combine_all((crc, size) for crc, (_, size) in zip(crcs, ranges, strict=True))

            self._verified(file, growing, fill)

    def _check_unchanged(self, file: WantedFile) -> None:
        status = self._fs.stat(file.path)
        if status.is_dir or (status.length, status.mtime_ms) != (file.length, file.mtime_ms):
            now = "a directory" if status.is_dir else f"{status.length} bytes, written again"
            message = f"changed since the job was submitted: now {now}, then {file.length} bytes"
            raise ChangedInput(message, path=file.path)

    def _range(
        self, file: WantedFile, descriptor: int, extent: tuple[int, int], pool: WorkerPool
    ) -> int:
        offset, size = extent

        def copied() -> int:
            return copy_range(
                self._fs, file.path, descriptor, offset, size,
                pool=_PoolOrStore(pool, self._stopping), progress=self._progress,
            )  # fmt: skip

        return retry(
            copied, 0.0, at_least=TRIES, on_failure=lambda error, _: self._fs.give_up_on(error),
            is_retriable=lambda error: isinstance(error, Unavailable), sleep=pool.pause,
        )  # fmt: skip

    def _verified(self, file: WantedFile, growing: PartialFile, fill: Callable[[], int]) -> None:
        """Fill, compare with HDFS's own checksum, publish; fetch once more where it differs."""
        crc = fill()
        if self._needs_verification(file) and not self._is_intact(file, crc):
            self._progress.add(-file.length)
            crc = fill()
            if not self._is_intact(file, crc):
                message = "HDFS's checksum differs from that of the fetched bytes, twice"
                raise CorruptData(message, path=file.path, operation="verify")
        growing.publish(crc)
        self._progress.file_done()

    def _needs_verification(self, file: WantedFile) -> bool:
        if self._fs.capabilities.is_local or not file.length:
            return False
        return file.length >= SMALL or not self._fs.capabilities.verifies_reads

    def _is_intact(self, file: WantedFile, crc: int) -> bool:
        expected = storage_crcs(self._fs, [file.path])
        return expected is None or expected[0] == crc

    def _check(self) -> None:
        if self._stopping.is_set():
            raise Stopped


class _PoolOrStore:
    """Stops with the pool, and with the whole store."""

    def __init__(self, pool: WorkerPool, stopping: threading.Event) -> None:
        self._pool = pool
        self._stopping = stopping

    def check(self) -> None:
        if self._stopping.is_set():
            raise Stopped
        self._pool.check()

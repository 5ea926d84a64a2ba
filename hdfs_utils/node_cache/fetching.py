"""Many files at once, and ranges of large ones, into files that somebody else names."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from hdfs_utils.checksums import combine
from hdfs_utils.errors import CorruptData, Unavailable
from hdfs_utils.filesystem import FileSystem
from hdfs_utils.node_cache.counts import Counts
from hdfs_utils.node_cache.errors import ChangedInput
from hdfs_utils.node_cache.shelf import Wanted
from hdfs_utils.transfer.pieces import copy_range
from hdfs_utils.transfer.verify import storage_crcs
from hdfs_utils.transfer.workers import Crew, Stopped

THREADS = 8
"""Files at once; with 4 to 8 the native client is at its fastest."""
RANGE = 64 << 20
"""A file beyond this is read in ranges of it, several at once."""
RANGE_THREADS = 4
TRIES = 3
"""Of one range: a DataNode may die in the middle of it."""
SMALL = 1 << 20
"""Below it a file is not compared with HDFS's checksum where the client checks each chunk itself
(as in ``transfer``)."""
_CHECKS_READS = ("native", "arrow")


@dataclass(frozen=True, slots=True)
class Growing:
    """A local file of the right length to be filled; ``publish`` is told its CRC32C when it is."""

    descriptor: int
    publish: Callable[[int], None]


Grow = Callable[[Wanted], "AbstractContextManager[Growing | None]"]
"""Opens the file to fill; None: there is nothing to do."""


class Fetching:
    """One pass over a list of files."""

    def __init__(
        self, fs: FileSystem, counts: Counts, threads: int, stopping: threading.Event
    ) -> None:
        self._fs = fs
        self._counts = counts
        self._threads = threads
        self._stopping = stopping

    def run(self, files: Sequence[Wanted], grow: Grow) -> None:
        """Raises what ``NodeStore.bring`` does; files that were published stay so."""
        for file in files:
            if file.length > RANGE:
                self._large(file, grow)
        small = [file for file in files if file.length <= RANGE]
        if small:
            crew = Crew(min(self._threads, len(small)))
            crew.run(lambda file: self._small(file, grow, crew), small)
        self._check()

    def _small(self, file: Wanted, grow: Grow, crew: Crew) -> None:
        self._check()
        with grow(file) as growing:
            if growing is None:
                return
            self._look(file)

            def fill() -> int:
                return self._range(file, growing.descriptor, (0, file.length), crew)

            self._verified(file, growing, fill)

    def _large(self, file: Wanted, grow: Grow) -> None:
        with grow(file) as growing:
            if growing is None:
                return
            self._look(file)
            descriptor = growing.descriptor
            ranges = [
                (start, min(RANGE, file.length - start)) for start in range(0, file.length, RANGE)
            ]

            def fill() -> int:
                crcs = [0] * len(ranges)
                crew = Crew(min(self._threads, RANGE_THREADS, len(ranges)))

                def fetch(number: int) -> None:
                    crcs[number] = self._range(file, descriptor, ranges[number], crew)

                crew.run(fetch, range(len(ranges)))
                self._check()
                whole = 0
                for crc, (_, size) in zip(crcs, ranges, strict=True):
                    whole = combine(whole, crc, size)
                return whole

            self._verified(file, growing, fill)

    def _look(self, file: Wanted) -> None:
        status = self._fs.stat(file.path)
        if status.is_dir or (status.length, status.mtime_ms) != (file.length, file.mtime_ms):
            was = "a directory" if status.is_dir else f"{status.length} bytes, written anew"
            message = f"was changed since its job was submitted: {was}; then {file.length} bytes"
            raise ChangedInput(message, path=file.path)

    def _range(self, file: Wanted, descriptor: int, extent: tuple[int, int], crew: Crew) -> int:
        offset, size = extent
        for attempt in range(1, TRIES + 1):
            try:
                return copy_range(
                    self._fs, file.path, descriptor, offset, size,
                    crew=_Both(crew, self._stopping), progress=self._counts,
                )  # fmt: skip
            except Unavailable as error:
                give_up = getattr(self._fs, "give_up_on", None)
                if give_up is not None:
                    give_up(error)
                if attempt == TRIES:
                    raise
        raise AssertionError("unreachable")

    def _verified(self, file: Wanted, growing: Growing, fill: Callable[[], int]) -> None:
        """Filled, compared with what HDFS says, and published; once more where it differs."""
        crc = fill()
        if self._is_asked(file) and not self._is_right(file, crc):
            self._counts.add(-file.length)
            crc = fill()
            if not self._is_right(file, crc):
                message = "HDFS's checksum is not that of the bytes that came, twice"
                raise CorruptData(message, path=file.path, operation="verify")
        growing.publish(crc)
        self._counts.file_done()

    def _is_asked(self, file: Wanted) -> bool:
        if self._fs.backend == "local" or not file.length:
            return False
        return file.length >= SMALL or self._fs.backend not in _CHECKS_READS

    def _is_right(self, file: Wanted, crc: int) -> bool:
        told = storage_crcs(self._fs, [file.path])
        return told is None or told[0] == crc

    def _check(self) -> None:
        if self._stopping.is_set():
            raise Stopped


class _Both:
    """Ends with the crew, and with the whole store."""

    def __init__(self, crew: Crew, stopping: threading.Event) -> None:
        self._crew = crew
        self._stopping = stopping

    def check(self) -> None:
        """Between pieces."""
        if self._stopping.is_set():
            raise Stopped
        self._crew.check()

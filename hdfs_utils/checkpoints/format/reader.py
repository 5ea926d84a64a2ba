"""Reading a checkpoint: only what is wanted, every chunk verified before it is handed out."""

from __future__ import annotations

import contextlib
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from hdfs_utils import uri as uris
from hdfs_utils.checkpoints.format.manifest import (
    CHUNK,
    Checkpoint,
    Entry,
    Shard,
    corrupt_where_malformed,
)
from hdfs_utils.checkpoints.format.regions import Region, Span, intersect, spans, whole
from hdfs_utils.checkpoints.format.values import dtype_of
from hdfs_utils.concurrency.worker_pool import WorkerPool
from hdfs_utils.errors import CorruptData
from hdfs_utils.filesystem import FileSystem, Reader
from hdfs_utils.protocols.checksums import crc32c

if TYPE_CHECKING:
    import numpy as np

STORAGE = "storage"
"""Where bytes came from that are not of a copy."""

# Bytes of one task of one thread: large enough that opening the file costs nothing beside it.
RUN = 8 * CHUNK


class Copies(Protocol):
    """Copies of a checkpoint's shards, for many threads."""

    def open(self, number: int) -> Any:
        """A reader of a copy of this shard, with its ``source``; None if there is none."""

    def reject(self, number: int, reader: Any) -> None:
        """The copy of this reader is damaged."""


@dataclass(frozen=True, slots=True)
class _Copy:
    """Bytes [start, stop) of a shard's data, and what to do with them."""

    start: int
    stop: int
    take: Callable[[memoryview], None]


class OpenCheckpoint:
    """The values of one checkpoint.

    Args:
        fs: the storage.
        checkpoint: its manifest.
        copies: of its shards, which are read in place of the storage's as long as they are sound.

    Attributes:
        checkpoint: its manifest.
        read_from: bytes read until now, by where they came from (:data:`STORAGE`, ``memory``...).
    """

    def __init__(
        self, fs: FileSystem, checkpoint: Checkpoint, copies: Copies | None = None
    ) -> None:
        self.checkpoint = checkpoint
        self.read_from: Counter[str] = Counter()
        self._fs = fs
        self._copies = copies
        self._lock = threading.Lock()
        self._entries: dict[str, list[Entry]] = {}
        for entry in checkpoint.entries:
            self._entries.setdefault(entry.name, []).append(entry)

    @property
    def bytes_read(self) -> int:
        """From the storage until now."""
        return self.read_from[STORAGE]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def is_array(self, name: str) -> bool:
        """Whether it is an array and not plain bytes. Raises KeyError."""
        return self._of(name)[0].array is not None

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a whole array. Raises KeyError, TypeError."""
        return self._array(name)[0]

    def dtype(self, name: str) -> np.dtype[Any]:
        """The dtype of an array. Raises KeyError, TypeError."""
        return self._array(name)[1]

    def plain(self, name: str) -> bytes:
        """Plain bytes (of an array: its first part as it is stored). Raises KeyError."""
        return bytes(self.read_bytes([name])[name])

    def pieces(self, name: str) -> Iterator[memoryview]:
        """Plain bytes in pieces of at most ``RUN``, each verified before it is handed out; a piece
        lasts until the next one is asked for. Raises KeyError."""
        entry = self._of(name)[0]
        buffer = bytearray(min(RUN, entry.length))
        for start in range(0, entry.length, RUN):
            part = memoryview(buffer)[: min(RUN, entry.length - start)]
            here = replace(entry, offset=entry.offset + start, length=len(part))
            self._read([(entry.shard, copy) for copy in _plain(here, part)])
            yield part

    def read_bytes(self, wanted: Sequence[str]) -> dict[str, bytearray]:
        """Several values as they are stored, read together."""
        targets: dict[str, bytearray] = {}
        copies: list[tuple[int, _Copy]] = []
        for name in wanted:
            entry = self._of(name)[0]
            target = targets[name] = bytearray(entry.length)
            copies.extend((entry.shard, copy) for copy in _plain(entry, memoryview(target)))
        self._read(copies)
        return targets

    def array(self, name: str, region: Region | None = None) -> np.ndarray[Any, Any]:
        """A whole array, or a region of it; only the bytes of the region are read.

        Raises:
            KeyError: there is none of this name.
            CorruptData: what was read is not what was saved, or the parts do not cover the region.
        """
        return self.arrays({name: region})[name]

    def arrays(
        self, wanted: Mapping[str, Region | None] | None = None
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Several arrays, read together; by default all arrays that there are, whole."""
        if wanted is None:
            wanted = dict.fromkeys(name for name in self.names if self.is_array(name))
        found = self.regions(list(wanted.items()))
        return dict(zip(wanted, found, strict=True))

    def regions(self, wanted: Sequence[tuple[str, Region | None]]) -> list[np.ndarray[Any, Any]]:
        """Regions of arrays (None: the whole), read together; a name may come more than once."""
        import numpy as np

        targets: list[np.ndarray[Any, Any]] = []
        copies: list[tuple[int, _Copy]] = []
        for name, region in wanted:
            shape, dtype = self._array(name)
            box = whole(shape) if region is None else region
            targets.append(np.empty(box.extent, dtype))
            copies.extend(self._array_copies(name, box, targets[-1]))
        self._read(copies)
        return targets

    def _of(self, name: str) -> list[Entry]:
        try:
            return self._entries[name]
        except KeyError:
            known = ", ".join(list(self._entries)[:20])
            message = f"{self.checkpoint.path} has no {name!r}; it has: {known}"
            raise KeyError(message) from None

    def _array(self, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        spec = self._of(name)[0].array
        if spec is None:
            raise TypeError(f"{name} is not an array")
        with corrupt_where_malformed(self.checkpoint.path, "load"):
            dtype = dtype_of(spec.dtype)
            for entry in self._of(name):
                # Another type would take in what lies behind the array.
                if entry.array and math.prod(entry.array.extent) * dtype.itemsize != entry.length:
                    raise ValueError(f"{name} does not have the length of its elements")
        return spec.shape, dtype

    def _array_copies(
        self, name: str, box: Region, target: np.ndarray[Any, Any]
    ) -> Iterator[tuple[int, _Copy]]:
        # A copy of a part on several ranks is stored once for each: one of them is enough.
        parts: dict[tuple[tuple[int, ...], tuple[int, ...]], Entry] = {}
        for entry in self._of(name):
            assert entry.array is not None
            parts.setdefault((entry.array.start, entry.array.extent), entry)
        covered = 0
        for (start, extent), entry in parts.items():
            common = intersect(box, Region(start, extent))
            if common is None:
                continue
            covered += common.size
            local = common.shifted(start)
            for span in spans(extent, target.dtype.itemsize, local, CHUNK, RUN):
                place: tuple[Any, ...] = tuple(
                    slice(a + o - b, a + o - b + n)
                    for a, n, o, b in zip(
                        span.box.start, span.box.extent, start, box.start, strict=True
                    )
                )
                # The dots make it a view, also of an array without axes.
                into = target[place + (...,)]  # noqa: RUF005 - 3.10 has no stars here
                yield entry.shard, _array_copy(entry.offset, span, into)
        if covered != box.size:
            message = f"{name}: its parts hold {covered} of {box.size} wanted elements"
            raise CorruptData(message, path=self.checkpoint.path, operation="load")

    def _read(self, copies: Sequence[tuple[int, _Copy]]) -> None:
        by_shard: dict[int, list[_Copy]] = {}
        for number, copy in copies:
            if copy.stop > copy.start:
                by_shard.setdefault(number, []).append(copy)
        tasks = [(number, group) for number, found in by_shard.items() for group in _grouped(found)]
        files = {number: _Readers(partial(self._open, number)) for number in by_shard}
        try:
            WorkerPool(operation="read").run(
                lambda task: self._run(files[task[0]], task[0], task[1]), tasks
            )
        finally:
            for readers in files.values():
                readers.close()

    def _path(self, number: int) -> str:
        return uris.join(self.checkpoint.path, self.checkpoint.shards[number].file)

    def _open(self, number: int) -> Reader:
        copy = self._copies.open(number) if self._copies is not None else None
        return self._fs.open_reader(self._path(number)) if copy is None else copy

    def _run(self, readers: _Readers, number: int, group: list[_Copy]) -> None:
        shard = self.checkpoint.shards[number]
        first, last = group[0].start // CHUNK, -(-max(c.stop for c in group) // CHUNK)
        with readers.lend() as loan:
            for chunk in range(first, last):
                data = self._chunk(loan, shard, number, chunk)
                _hand_out(group, memoryview(data), chunk * CHUNK)

    def _chunk(self, loan: _Loan, shard: Shard, number: int, chunk: int) -> bytes:
        while True:
            reader = loan.reader
            source = getattr(reader, "source", STORAGE)
            data = self._read_chunk(reader, shard, number, chunk)
            if crc32c(data) == shard.chunks[chunk]:
                break
            if source == STORAGE or self._copies is None:
                message = f"bytes from {chunk * CHUNK} on are not those that were saved"
                raise CorruptData(message, path=self._path(number), operation="load")
            self._copies.reject(number, reader)
            reader.close()
            loan.reader = self._open(number)
        with self._lock:
            self.read_from[source] += len(data)
        return data

    def _read_chunk(self, reader: Reader, shard: Shard, number: int, chunk: int) -> bytes:
        if reader.size != shard.length:
            message = f"{reader.size} bytes, {shard.length} were saved"
            raise CorruptData(message, path=self._path(number), operation="load")
        if reader.tell() != chunk * CHUNK:
            reader.seek(chunk * CHUNK)
        return reader.read(min(CHUNK, shard.data_length - chunk * CHUNK))


def read_all(opened: OpenCheckpoint) -> dict[str, Any]:
    """All values: arrays as arrays, the rest as bytes."""
    arrays = [name for name in opened.names if opened.is_array(name)]
    others = [name for name in opened.names if not opened.is_array(name)]
    plain = {name: bytes(data) for name, data in opened.read_bytes(others).items()}
    found = {**plain, **(opened.arrays(dict.fromkeys(arrays)) if arrays else {})}
    return {name: found[name] for name in opened.names}


@dataclass
class _Loan:
    """A reader that one thread uses, and may replace."""

    reader: Reader


class _Readers:
    """A file's readers, each for one thread at a time."""

    def __init__(self, opener: Callable[[], Reader]) -> None:
        self._opener = opener
        self._idle: list[Reader] = []

    @contextlib.contextmanager
    def lend(self) -> Iterator[_Loan]:
        """One that nobody else uses."""
        loan = _Loan(self._idle.pop() if self._idle else self._opener())
        try:
            yield loan
        finally:
            self._idle.append(loan.reader)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()


def _plain(entry: Entry, target: memoryview) -> Iterator[_Copy]:
    for start in range(0, entry.length, RUN):
        stop = min(start + RUN, entry.length)
        into = target[start:stop]
        yield _Copy(entry.offset + start, entry.offset + stop, _Fill(into))


class _Fill:
    """Takes its bytes piece by piece, straight into their place."""

    def __init__(self, into: memoryview) -> None:
        self._into = into
        self._at = 0

    def __call__(self, data: memoryview) -> None:
        self._into[self._at : self._at + len(data)] = data
        self._at += len(data)


class _Scatter:
    """Gathers the bytes of a span and copies its box when all are there."""

    def __init__(self, span: Span, into: np.ndarray[Any, Any]) -> None:
        self._buffer = bytearray()
        self._span = span
        self._into = into

    def __call__(self, data: memoryview) -> None:
        import numpy as np

        self._buffer += data
        if len(self._buffer) == self._span.stop - self._span.start:
            stored = np.frombuffer(self._buffer, self._into.dtype).reshape(self._span.shape)
            self._into[...] = stored[self._span.inside.slices()]
            del stored
            self._buffer = bytearray()


def _array_copy(offset: int, span: Span, into: np.ndarray[Any, Any]) -> _Copy:
    import numpy as np

    is_all = span.inside == whole(span.shape)
    if is_all and into.flags.c_contiguous and into.ndim:
        flat: Any = into.reshape(-1).view(np.uint8)
        take: Callable[[memoryview], None] = _Fill(memoryview(flat).cast("B"))
    else:
        take = _Scatter(span, into)
    return _Copy(offset + span.start, offset + span.stop, take)


def _grouped(copies: list[_Copy]) -> Iterator[list[_Copy]]:
    """Neighbours together, so that a chunk with many small values is read once."""
    group: list[_Copy] = []
    end = 0
    for copy in sorted(copies, key=lambda c: (c.start, c.stop)):
        is_far = copy.start // CHUNK > -(-end // CHUNK)
        if group and (is_far or copy.stop - group[0].start > RUN):
            yield group
            group, end = [], 0
        group.append(copy)
        end = max(end, copy.stop)
    if group:
        yield group


def _hand_out(group: list[_Copy], data: memoryview, start: int) -> None:
    """Give each copy its part of the bytes that begin at ``start``; they come in order."""
    stop = start + len(data)
    for copy in group:
        first, last = max(copy.start, start), min(copy.stop, stop)
        if first < last:
            copy.take(data[first - start : last - start])

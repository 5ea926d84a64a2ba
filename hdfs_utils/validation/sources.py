"""The source that a check reads: a file on a file system, bytes in memory, or a decompressed
stream.

A check takes what it needs: :meth:`Source.stream` (once through, read ahead by a thread,
constant memory) or :meth:`Source.open` (a seekable file for libraries that jump about).
"""

from __future__ import annotations

import io
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO, cast

from hdfs_utils.errors import HdfsError
from hdfs_utils.filesystem import FileSystem, Reader
from hdfs_utils.validation.findings import OverLimit

# Large enough that a call to HDFS costs little beside its data, small enough that a few of them
# for each of several concurrent files stay within some tens of MiB.
PIECE = 2 << 20
# Pieces that the reading thread may be ahead.
AHEAD = 2
# Formats that need the whole of it (an image, a member of an archive) are read up to this size.
MAX_IN_MEMORY = 256 << 20
# Longest wait between two looks whether the one who reads ahead is still wanted or alive.
_LOOK_S = 0.2


class Stopping(BaseException):
    """The check is not wanted any more. No check is to take it for an error of the file."""


class Stream:
    """Bytes, once through. ``offset`` counts what was taken. ``pieces``: a view among them need
    last no longer than until the next one is asked for."""

    def __init__(self, pieces: Iterator[bytes | memoryview]) -> None:
        self._pieces = pieces
        self._piece = b""
        self._at = 0
        self.offset = 0

    def piece(self) -> bytes:
        """The bytes at hand, at least one; empty at the end."""
        if self._at < len(self._piece):
            piece = self._piece[self._at :] if self._at else self._piece
            self._piece, self._at = b"", 0
        else:
            piece = self._next()
        self.offset += len(piece)
        return piece

    def view(self) -> bytes | memoryview:
        """As ``piece``, but not copied: what it gives lasts until the next call of any method."""
        if self._at < len(self._piece):
            return self.piece()
        piece = next(self._pieces, b"")
        self.offset += len(piece)
        return piece

    def _next(self) -> bytes:
        return bytes(next(self._pieces, b""))  # bytes are not copied

    def read(self, size: int) -> bytes:
        """``size`` bytes; fewer only at the end. Raises ValueError for a negative size: it would
        step back, and a check that follows a file's own lengths would never end."""
        if size < 0:
            raise ValueError(f"a size of {size} bytes")
        at = self._at
        if len(self._piece) - at >= size:
            self._at = at + size
            self.offset += size
            return self._piece[at : self._at]
        parts = []
        while size:
            if self._at >= len(self._piece):
                self._piece, self._at = self._next(), 0
                if not self._piece:
                    break
            part = self._piece[self._at : self._at + size]
            self._at += len(part)
            self.offset += len(part)
            size -= len(part)
            parts.append(part)
        return b"".join(parts)

    def skip(self, size: int) -> int:
        """Pass over this many bytes; returns how many there were."""
        if size < 0:
            raise ValueError(f"a size of {size} bytes")
        passed = 0
        while passed < size and (part := self.read(min(PIECE, size - passed))):
            passed += len(part)
        return passed

    def drain(self) -> None:
        """To the end: what lies below has its own checks (checksums) to make there."""
        while self.piece():
            pass


class Source(ABC):
    """One thing to check. ``name`` is its path; its endings tell the format."""

    name: str
    size: int | None
    """In bytes; ``None`` means known only at the end."""

    @abstractmethod
    def stream(self) -> Stream:
        """From the beginning, once through."""

    @abstractmethod
    def open(self) -> BinaryIO:
        """Seekable. Raises NotSupported for what can only be read through."""

    def whole(self) -> bytes:
        """All of it. Raises OverLimit above MAX_IN_MEMORY."""
        data = self.stream().read(MAX_IN_MEMORY + 1)
        if len(data) > MAX_IN_MEMORY:
            raise OverLimit(f"larger than {MAX_IN_MEMORY >> 20} MiB, the most held in memory")
        return data


class StreamSource(Source):
    """What another stream gives, such as decompressed data; can be read once."""

    def __init__(self, name: str, stream: Stream) -> None:
        self.name = name
        self.size = None
        self._stream = stream

    def stream(self) -> Stream:
        return self._stream

    def open(self) -> BinaryIO:
        return io.BytesIO(self.whole())


class FileSource(Source):
    """A file of a file system.

    Args:
        stopping: set when its check is not wanted any more.

    Attributes:
        failure: the error by which reading failed; libraries tend to wrap it in one of their own.
        failed_at: from which byte on.
    """

    def __init__(
        self, fs: FileSystem, path: str, size: int, stopping: threading.Event | None = None
    ) -> None:
        self.name = path
        self.size = size
        self.failure: HdfsError | None = None
        self.failed_at = 0
        self._fs = fs
        self._stopping = stopping or threading.Event()
        self._opened: list[_ReadAhead | _Watched] = []

    def stream(self) -> Stream:
        pieces = _ReadAhead(self, self.reader())
        self._opened.append(pieces)
        return Stream(iter(pieces))

    def open(self) -> BinaryIO:
        return cast("BinaryIO", io.BufferedReader(self.raw(), 256 << 10))

    def raw(self) -> io.RawIOBase:
        """Without a buffer of its own."""
        watched = _Watched(self, self.reader())
        self._opened.append(watched)
        return watched

    def reader(self) -> Reader:
        """A plain reader; its errors are remembered as ``failure`` by whoever reads."""
        return self._fs.open_reader(self.name)

    def raise_if_stopped(self) -> None:
        """Raise Stopping if its check is not wanted any more."""
        if self._stopping.is_set():
            raise Stopping

    def failed(self, error: HdfsError, offset: int) -> None:
        """Remember the first failure, and where it was."""
        if self.failure is None:
            self.failure, self.failed_at = error, offset

    def close(self) -> None:
        for opened in self._opened:
            opened.close()
        self._opened.clear()


class _Watched(io.RawIOBase):
    """A reader that remembers why it failed."""

    def __init__(self, source: FileSource, reader: Reader) -> None:
        super().__init__()
        self._source = source
        self._reader = reader

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._reader.seek(offset, whence)

    def tell(self) -> int:
        return self._reader.tell()

    def readinto(self, buffer: object, /) -> int:
        # Released immediately: an error that is kept would keep what the buffer is a part of.
        with memoryview(buffer) as given, given.cast("B") as view:  # type: ignore[arg-type]
            try:
                data = self._reader.read(min(len(view), PIECE))
            except HdfsError as error:
                self._source.failed(error, self._reader.tell())
                raise
            view[: len(data)] = data
            return len(data)

    def close(self) -> None:
        if not self.closed:
            self._reader.close()
        super().close()


class _ReadAhead:
    """Reads the next pieces on a thread while the present one is looked at.

    The thread is a daemon and ends when the file does, when reading fails or when it is closed.
    """

    def __init__(self, source: FileSource, reader: Reader) -> None:
        self._source = source
        self._reader = reader
        self._pieces: queue.Queue[bytes | HdfsError] = queue.Queue(AHEAD)
        self._is_closed = threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        left = self._reader.size
        if left <= PIECE:  # a thread costs more than the wait for one piece
            try:
                with self._reader:
                    piece = self._reader.read(left)
            except HdfsError as error:
                self._source.failed(error, 0)
                raise
            if piece:
                yield piece
            return
        thread = threading.Thread(target=self._read, name="validation-read", daemon=True)
        thread.start()
        while True:
            self._source.raise_if_stopped()
            # The reader has a limit for each piece, and always hands on its end.
            try:
                piece_or_error = self._pieces.get(timeout=_LOOK_S)
            except queue.Empty:
                continue
            if isinstance(piece_or_error, HdfsError):
                raise piece_or_error
            if not piece_or_error:
                return
            yield piece_or_error

    def _read(self) -> None:
        try:
            while piece := self._reader.read(PIECE):
                if not self._put(piece):
                    return
            self._put(b"")
        except HdfsError as error:
            self._source.failed(error, self._reader.tell())
            self._put(error)
        except Exception as error:  # noqa: BLE001 - the other thread waits for an end of any kind
            failure = HdfsError(str(error), path=self._source.name, operation="read")
            failure.__cause__ = error
            self._source.failed(failure, 0)
            self._put(failure)
        finally:
            with suppress(HdfsError):
                self._reader.close()

    def _put(self, piece: bytes | HdfsError) -> bool:
        while not self._is_closed.is_set():
            try:
                self._pieces.put(piece, timeout=_LOOK_S)
            except queue.Full:
                continue
            return True
        return False

    def close(self) -> None:
        self._is_closed.set()
        with suppress(queue.Empty):  # wakes a thread that waits for room
            self._pieces.get_nowait()

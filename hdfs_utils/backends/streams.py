"""Base classes for the open files of all back-ends."""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

MAX_REQUEST_BYTES = 8 << 20
"""Bytes of one request to a DataNode: clients are fastest with 1 to 8 MiB, and a limit of time for
each is then a limit for a stuck one."""


def position_after(offset: int, whence: int, *, here: int, size: int) -> int:
    """The position after a seek in a file of ``size`` bytes, at most its end. Raises ValueError."""
    base = {os.SEEK_SET: 0, os.SEEK_CUR: here, os.SEEK_END: size}[whence]
    if base + offset < 0:
        raise ValueError("negative position")
    return min(base + offset, size)


class RangeReader(io.RawIOBase):
    """A file of known size that is read by ranges."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._position = 0
        self.size = size

    def _range(self, offset: int, length: int) -> bytes:
        """At least one byte from ``offset`` on, and at most ``length`` (from 1 to ``PIECE``)."""
        raise NotImplementedError

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._position = position_after(offset, whence, here=self._position, size=self.size)
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        if self.closed:
            raise ValueError("read of a closed file")
        left = self.size - self._position
        wanted = left if size is None or size < 0 else min(size, left)
        pieces = []
        while wanted:
            piece = self._range(self._position, min(wanted, MAX_REQUEST_BYTES))
            pieces.append(piece)
            self._position += len(piece)
            wanted -= len(piece)
        return b"".join(pieces)

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: object, /) -> int:
        """Fill ``buffer``; 0 at the end."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        data = self.read(min(len(view), MAX_REQUEST_BYTES))
        view[: len(data)] = data
        return len(data)


class BaseWriter(ABC):
    """A writer as a context: closed at its end, aborted by an error.

    Args:
        path: of the file.
        start: its length in bytes before the first write.
        is_new: whether the writer made the file.
    """

    def __init__(self, path: str, start: int, *, is_new: bool) -> None:
        self._path = path
        self._length = start
        self._is_new = is_new
        self._closed = False

    def tell(self) -> int:
        return self._length

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"write to a closed file: {self._path}")

    def flush(self) -> None:  # noqa: B027 - most gather nothing
        """Pass on what was buffered."""

    def close(self) -> None:
        """Complete the file; an error means that it is not whole, or not known to be."""
        if not self._closed:
            self._closed = True
            self._complete()

    def abort(self) -> None:
        """Abort the write; nothing where the file was closed, however that ended."""
        if not self._closed:
            self._closed = True
            self._drop()

    @abstractmethod
    def _complete(self) -> None:
        """For the first ``close``."""

    @abstractmethod
    def _drop(self) -> None:
        """For the first ``abort``: a new file is deleted, an appended one keeps what was synced."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

"""What the open files of all back-ends have in common."""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

PIECE = 8 << 20
"""Bytes of one request to a DataNode: clients are fastest with 1 to 8 MiB, and a limit of time for
each is then a limit for a stuck one."""


def position_after(offset: int, whence: int, *, here: int, size: int) -> int:
    """Where a seek in a file of ``size`` bytes leads, at most to its end. Raises ValueError."""
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
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """The position in bytes."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go to a position, at most to the end."""
        self._position = position_after(offset, whence, here=self._position, size=self.size)
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        """Up to ``size`` bytes; all that is left if negative."""
        if self.closed:
            raise ValueError("read of a closed file")
        left = self.size - self._position
        wanted = left if size is None or size < 0 else min(size, left)
        pieces = []
        while wanted:
            piece = self._range(self._position, min(wanted, PIECE))
            pieces.append(piece)
            self._position += len(piece)
            wanted -= len(piece)
        return b"".join(pieces)

    def readall(self) -> bytes:
        """All that is left."""
        return self.read()

    def readinto(self, buffer: object, /) -> int:
        """Fill ``buffer``; 0 at the end."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        data = self.read(min(len(view), PIECE))
        view[: len(data)] = data
        return len(data)


class ClosedOrAborted(ABC):
    """A writer as a context: closed at its end, aborted by an error."""

    def flush(self) -> None:  # noqa: B027 - most gather nothing
        """Hand on what was gathered."""

    @abstractmethod
    def close(self) -> None:
        """Finish the file."""

    @abstractmethod
    def abort(self) -> None:
        """Give it up."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

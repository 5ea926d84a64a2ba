"""Open files of the pyarrow back-end, and its errors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from hdfs_utils.errors import (
    AlreadyExists,
    DirectoryNotEmpty,
    HdfsError,
    IsADirectory,
    LeaseLost,
    NotADirectory,
    NotFound,
    Unavailable,
)
from hdfs_utils.filesystem import Data, FileStatus
from hdfs_utils.streams import ClosedOrAborted, RangeReader

if TYPE_CHECKING:
    from hdfs_utils.arrow_files import ArrowFileSystem


@contextlib.contextmanager
def translated(operation: str, path: str) -> Iterator[None]:
    """What pyarrow raises, as ours."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound("no such file or directory", path=path, operation=operation) from error
    except FileExistsError as error:
        raise AlreadyExists("already exists", path=path, operation=operation) from error
    except NotADirectoryError as error:
        raise NotADirectory("is a file", path=path, operation=operation) from error
    except IsADirectoryError as error:
        raise IsADirectory("is a directory", path=path, operation=operation) from error
    except OSError as error:
        kind: type[HdfsError] = Unavailable
        text = str(error)
        if "[errno 2]" in text:
            kind = NotFound
        elif "[errno 39]" in text:
            kind = DirectoryNotEmpty
        elif "[errno 13]" in text or "[errno 1]" in text:
            from hdfs_utils.errors import PermissionDenied

            kind = PermissionDenied
        raise kind(text, path=path, operation=operation) from error


class ArrowReader(RangeReader):
    """A pyarrow file open for reading."""

    def __init__(self, inner: Any, status: FileStatus) -> None:
        super().__init__(status.length)
        self._inner = inner
        self._path = status.path

    def _range(self, offset: int, length: int) -> bytes:
        with translated("read", self._path):
            data = bytes(self._inner.read_at(length, offset))
        if not data:
            message = f"ends before its {self.size} bytes"
            raise Unavailable(message, path=self._path, operation="read")
        return data

    def close(self) -> None:
        """Let it go."""
        if not self.closed:
            super().close()
            self._inner.close()


class ArrowWriter(ClosedOrAborted):
    """A pyarrow file open for writing."""

    def __init__(self, owner: ArrowFileSystem, inner: Any, path: str, start: int = 0) -> None:
        self._owner = owner
        self._inner = inner
        self._path = path
        self._length = start
        self._is_new = start == 0
        self._closed = False

    def write(self, data: Data, /) -> int:
        """Take all of ``data``."""
        self._check_open()
        size = len(memoryview(data).cast("B"))
        self._call("write", lambda: self._inner.write(data))
        self._length += size
        return size

    def tell(self) -> int:
        """Length of the file with all that was written."""
        return self._length

    def sync(self) -> None:
        """Complete the file with what was written until now, and go on by an append: pyarrow's own
        flush leaves it in the client."""
        self._check_open()
        self._call("sync", self._inner.close)
        with translated("sync", self._path):
            self._inner = self._owner.append_stream(self._path)

    def close(self) -> None:
        """Complete the file."""
        if self._closed:
            return
        self._closed = True
        try:
            self._call("close", self._inner.close)
        except Unavailable as error:
            if self._owner.exists(self._path):
                raise
            message = "the file was deleted while it was written"
            raise LeaseLost(message, path=self._path, operation="close") from error

    def abort(self) -> None:
        """Give up: libhdfs can only complete the file, which is deleted then."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(OSError):
            self._inner.close()
        if self._is_new:
            with contextlib.suppress(HdfsError):
                self._owner.delete(self._path)

    def _call(self, operation: str, call: Callable[[], object]) -> None:
        with translated(operation, self._path):
            call()

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"write to a closed file: {self._path}")

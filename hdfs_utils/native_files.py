"""Readers and writers over the native client's own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from hdfs_utils.deadline import DeadlineExceeded
from hdfs_utils.errors import HdfsError, Unavailable
from hdfs_utils.filesystem import Data, TimeLimits
from hdfs_utils.streams import PIECE, ClosedOrAborted, RangeReader

if TYPE_CHECKING:
    from hdfs_native._internal import RawFileReader, RawFileWriter

T = TypeVar("T")

# Small writes are gathered: each call of the client costs a change of threads and a copy.
GATHER = 1 << 20


class Calls(Protocol):
    """What runs a call with a limit."""

    limits: TimeLimits

    def run(self, operation: str, path: str, call: Callable[[], T], limit_s: float) -> T:
        """Run it."""


class Owner(Protocol):
    """What a writer needs of its file system when it ends badly."""

    def settle(self, path: str, expected_length: int) -> bool:
        """Close the file, and say whether all is there."""

    def delete(self, path: str, recursive: bool = False) -> bool:
        """Delete it."""

    def recover_lease(self, path: str) -> None:
        """Close it."""


class NativeReader(RangeReader):
    """A file of HDFS open for reading.

    A file that is still being written is seen up to its last complete block only.
    """

    def __init__(self, inner: RawFileReader, path: str, calls: Calls) -> None:
        super().__init__(inner.file_length())
        self._inner = inner
        self._path = path
        self._calls = calls

    def _range(self, offset: int, length: int) -> bytes:
        data = self._calls.run(
            "read",
            self._path,
            lambda: self._inner.read_range(offset, length),
            self._calls.limits.data_s,
        )
        if len(data) != length:
            message = f"{len(data)} of {length} bytes at {offset}"
            raise Unavailable(message, path=self._path, operation="read")
        return data


class NativeWriter(ClosedOrAborted):
    """A file of HDFS open for writing; see :class:`hdfs_utils.filesystem.Writer`."""

    def __init__(
        self,
        inner: RawFileWriter,
        path: str,
        calls: Calls,
        owner: Owner,
        start: int,
        is_new: bool,
    ) -> None:
        self._inner = inner
        self._path = path
        self._calls = calls
        self._owner = owner
        self._length = start
        self._is_new = is_new
        self._gathered = bytearray()
        self._closed = False
        self._is_sound = True

    def write(self, data: Data, /) -> int:
        """Take all of ``data``."""
        self._check_open()
        view = memoryview(data).cast("B")
        size = len(view)
        self._length += size
        if len(self._gathered) + size < GATHER:
            self._gathered += view
            return size
        self._flush()
        for start in range(0, size, PIECE):
            # A piece that cannot change under a stuck call needs no copy.
            if isinstance(data, bytes) and size <= PIECE:
                self._send(data)
            else:
                self._send(bytes(view[start : start + PIECE]))
        return size

    def tell(self) -> int:
        """Length of the file with all that was written."""
        return self._length

    def flush(self) -> None:
        """Hand on what was gathered; nothing is said of its being durable."""
        self._check_open()
        self._flush()

    def sync(self) -> None:
        """Return when all is durable on every replica."""
        self._check_open()
        self._flush()
        self._call("sync", self._inner.hsync, self._calls.limits.sync_s)

    def close(self) -> None:
        """Complete the file; an error means that it is not whole, or not known to be."""
        if self._closed:
            return
        self._closed = True
        try:
            self._flush()
            self._calls.run("close", self._path, self._inner.close, self._calls.limits.close_s)
        except Unavailable as error:
            # An error here is an unknown outcome: everything may be in place. Look, then decide;
            # but who did not answer the close in time would not answer these questions either.
            is_silent = isinstance(error.cause, DeadlineExceeded)
            if is_silent or not self._settled():
                message = f"not known to be whole: {error.message}"
                raise Unavailable(
                    message, path=self._path, operation="close", outcome_unknown=True
                ) from error

    def abort(self) -> None:
        """Give up: a new file is deleted, an appended one keeps what was synced."""
        if self._closed:
            return
        self._closed = True
        if not self._is_sound:
            return  # the file may be somebody else's by now: see the protocol
        # The client has no way to drop a writer; taking its lease away does that.
        with contextlib.suppress(HdfsError):
            if self._is_new:
                self._owner.delete(self._path)
            else:
                self._owner.recover_lease(self._path)

    def _settled(self) -> bool:
        try:
            return self._owner.settle(self._path, self._length)
        except HdfsError:
            return False

    def _flush(self) -> None:
        if self._gathered:
            data, self._gathered = bytes(self._gathered), bytearray()
            self._send(data)

    def _send(self, data: bytes) -> None:
        self._call("write", lambda: self._inner.write(data), self._calls.limits.data_s)

    def _call(self, operation: str, call: Callable[[], object], limit_s: float) -> None:
        try:
            self._calls.run(operation, self._path, call, limit_s)
        except HdfsError:
            self._is_sound = False
            raise

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"write to a closed file: {self._path}")

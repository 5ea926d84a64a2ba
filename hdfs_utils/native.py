"""HDFS through the native client (``hdfs-native``): no JVM, and every call with a time limit."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from hdfs_utils import uri as uris
from hdfs_utils.deadline import DeadlineExceeded, DeadlinePool
from hdfs_utils.derived import DerivedOperations
from hdfs_utils.errors import (
    HdfsError,
    InvalidPath,
    NotADirectory,
    NotFound,
    NotSupported,
    Unavailable,
)
from hdfs_utils.failover import until_one_is_active
from hdfs_utils.filesystem import (
    BlockLocation,
    FileChecksum,
    FileStatus,
    FreeSpace,
    Reader,
    TimeLimits,
    Writer,
)
from hdfs_utils.native_errors import translate
from hdfs_utils.native_files import NativeReader, NativeWriter

if TYPE_CHECKING:
    import hdfs_native

    from hdfs_utils.questions import Questions
    from hdfs_utils.webhdfs import WebHdfs

T = TypeVar("T")

# A dead writer's block is recovered on a DataNode's next heartbeat (3 s by default): asking more
# often only costs the NameNode.
LEASE_POLL_S = 0.1

# What has the same effect twice. A rename or a new file has not: its caller has to look.
_REPEATABLE = frozenset(
    {"stat", "list", "open", "mkdirs", "chmod", "set times", "recover lease", "replace"}
)


class NativeCalls:
    """Runs the native client's calls with a time limit and translates its errors."""

    def __init__(self, where: str, limits: TimeLimits) -> None:
        self.where = where
        self.limits = limits
        self._pool = DeadlinePool()

    def run(self, operation: str, path: str, call: Callable[[], T], limit_s: float) -> T:
        """Call it.

        Raises:
            HdfsError: what the client raised, translated.
            Unavailable: no answer within ``limit_s`` seconds; the outcome is unknown.
        """
        try:
            return self._pool.run(call, limit_s)
        except HdfsError:
            raise
        except DeadlineExceeded as error:
            message = f"{self.where}: {error}; the NameNode or a DataNode hangs, or the network"
            raise Unavailable(
                message, path=path, operation=operation, outcome_unknown=True
            ) from error
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of the native code is a BaseException
            raise translate(error, operation, path, self.where) from error


class NativeFileSystem(DerivedOperations):
    """An HDFS (or viewfs) through ``hdfs-native``.

    Attributes:
        completes_late: closing a file waits, asleep, for most of a second.

    Args:
        client: the native client.
        uri: ``hdfs://host:port``, what the client talks to.
        limits: the time limits.
        web: makes the client of the NameNode's HTTP side, for what the native client does not
            offer; called when it is first needed.
        questions: asks the servers what the native client cannot.
        is_paired: the NameNode has a standby, to which it may change over.
    """

    completes_late = True

    def __init__(
        self,
        client: hdfs_native.Client,
        uri: str,
        limits: TimeLimits,
        web: Callable[[], WebHdfs] | None = None,
        questions: Questions | None = None,
        is_paired: bool = False,
    ) -> None:
        self.uri = uri
        self.limits = limits
        self._client = client
        self._web = web
        self._questions = questions
        self._calls = NativeCalls(uri, limits)
        self._is_paired = is_paired

    def _metadata(self, operation: str, path: str, call: Callable[[], T]) -> T:
        """A question or change, repeated over a failover where that is harmless."""

        def once() -> T:
            return self._calls.run(operation, path, call, self.limits.metadata_s)

        if self._is_paired and operation in _REPEATABLE:
            return until_one_is_active(once, self.limits.metadata_s)
        return once()

    def stat(self, path: str) -> FileStatus:
        """Status of a path."""
        plain = self.own_path(path)
        status = self._metadata("stat", plain, lambda: self._client.get_file_info(plain))
        return _status(status, plain)

    def list(self, path: str) -> list[FileStatus]:
        """Entries of a directory by name."""
        plain = self.own_path(path)
        found = self._metadata("list", plain, lambda: list(self._client.list_status(plain)))
        # A file listed is the file itself; an entry of a directory never has its parent's path.
        if len(found) == 1 and found[0].path == plain and not found[0].isdir:
            raise NotADirectory("is a file", path=plain, operation="list")
        return sorted((_status(status, status.path) for status in found), key=lambda s: s.path)

    @property
    def backend(self) -> str:
        """The name of the client below."""
        return "native"

    def open_reader(self, path: str) -> Reader:
        """Open for reading."""
        plain = self.own_path(path)
        inner = self._metadata("open", plain, lambda: self._client.inner.read(plain))
        return NativeReader(inner, plain, self._calls)

    def read_synced(self, path: str) -> bytes:
        """The whole file with all that a writer which still has it open has synced.

        The native client reads complete blocks only; what is synced beyond them is asked of the
        DataNode over HTTP.
        """
        plain = self.own_path(path)
        data = self.read_bytes(plain)
        if len(data) < self.stat(plain).length:
            data += self._http("read synced").read(plain, len(data))
        return data

    def open_writer(
        self,
        path: str,
        overwrite: bool = False,
        replication: int | None = None,
        block_size: int | None = None,
    ) -> Writer:
        """Create a file, its directories too."""
        from hdfs_native import WriteOptions

        plain = self.own_path(path)
        options = WriteOptions(
            block_size=block_size, replication=replication, overwrite=overwrite, create_parent=True
        )
        # The inner client's writer: the outer one closes the file when it is garbage collected.
        doing = "replace" if overwrite else "create"
        inner = self._metadata(doing, plain, lambda: self._client.inner.create(plain, options))
        return NativeWriter(inner, plain, self._calls, self, start=0, is_new=True)

    def open_appender(self, path: str) -> Writer:
        """Open an existing file to add to it."""
        plain = self.own_path(path)
        inner = self._metadata("append", plain, lambda: self._client.inner.append(plain))
        start = self.stat(plain).length
        return NativeWriter(inner, plain, self._calls, self, start=start, is_new=False)

    def recover_lease(self, path: str) -> None:
        """Take a file over from its writer, dead or alive."""
        plain = self.own_path(path)
        deadline = time.monotonic() + self.limits.lease_s
        while not self._metadata("recover lease", plain, lambda: self._client.recover_lease(plain)):
            if time.monotonic() > deadline:
                message = f"not closed after {self.limits.lease_s:g} s; are its DataNodes up?"
                raise Unavailable(message, path=plain, operation="recover lease")
            time.sleep(LEASE_POLL_S)

    def rename(self, src: str, dst: str, overwrite: bool = False) -> None:
        """Rename atomically."""
        source, target = self.own_path(src), self.own_path(dst)
        with self._renaming_to(target):
            self._metadata("rename", source, lambda: self._client.rename(source, target, overwrite))

    def delete(self, path: str, recursive: bool = False) -> bool:
        """Delete; False if it was not there."""
        plain = self.own_path(path)
        if plain == "/":
            raise InvalidPath("the root is not deleted", path=plain, operation="delete")
        try:
            return self._metadata("delete", plain, lambda: self._client.delete(plain, recursive))
        except NotADirectory:
            return False  # below a file there is nothing

    def mkdirs(self, path: str, permission: int = 0o755) -> None:
        """Make a directory and those above it."""
        plain = self.own_path(path)
        self._metadata("mkdirs", plain, lambda: self._client.mkdirs(plain, permission, True))

    def chmod(self, path: str, permission: int) -> None:
        """Set the permission bits."""
        plain = self.own_path(path)
        self._metadata("chmod", plain, lambda: self._client.set_permission(plain, permission))

    def set_times(self, path: str, mtime_ms: int, atime_ms: int | None = None) -> None:
        """Set the times of modification and of access; without the latter both are the same."""
        plain = self.own_path(path)
        atime = mtime_ms if atime_ms is None else atime_ms
        self._metadata("set times", plain, lambda: self._client.set_times(plain, mtime_ms, atime))

    def concat(self, target: str, sources: Sequence[str]) -> None:
        """Move the blocks of ``sources`` to the end of ``target``; atomic."""
        plain = self.own_path(target)
        questions = self._ask("concat")
        questions.concat(plain, [self.own_path(source) for source in sources])

    def checksum(self, path: str) -> FileChecksum:
        """The storage's own checksum, asked over HTTP."""
        return self._http("checksum").checksum(self.own_path(path))

    def crc32c(self, paths: Sequence[str]) -> tuple[int, ...]:
        """CRC32C of each file, asked of the DataNodes."""
        return self._ask("checksum").crc32c([self.own_path(path) for path in paths])

    def block_locations(self, path: str) -> tuple[BlockLocation, ...]:
        """Which hosts hold which part."""
        return self._ask("block locations").block_locations(self.own_path(path))

    def _ask(self, operation: str) -> Questions:
        if self._questions is None:
            message = "the configuration has no dfs.namenode.http-address to ask"
            raise NotSupported(message, path=self.uri, operation=operation)
        return self._questions

    def have_replicas_checked(self, path: str, offset: int, length: int) -> None:
        """Have a DataNode read a part of a file, with Hadoop's own client.

        That client tells the NameNode of bad replicas, which this one does not: HDFS then makes
        good ones from good ones, or ``block_locations`` says that there are none.

        Raises Unavailable when the part cannot be read.
        """
        self._http("check replicas").read(self.own_path(path), offset, length)

    def free_space(self) -> FreeSpace:
        """Space of the whole file system, asked over HTTP."""
        return self._http("free space").free_space()

    def _http(self, operation: str) -> WebHdfs:
        if self._web is None:
            message = "the configuration has no dfs.namenode.http-address to ask"
            raise NotSupported(message, path=self.uri, operation=operation)
        return self._web()

    def settle(self, path: str, expected_length: int) -> bool:
        """After a close without a clear answer: close the file and see whether all is there."""
        with contextlib.suppress(NotFound):
            self.recover_lease(path)
            return self.stat(path).length == expected_length
        return False


def _status(status: hdfs_native.FileStatus, path: str) -> FileStatus:
    return FileStatus(
        path=uris.normalise(path),
        length=status.length,
        is_dir=status.isdir,
        mtime_ms=status.modification_time,
        owner=status.owner,
        group=status.group,
        permission=status.permission,
        replication=status.replication or 0,
        block_size=status.blocksize or 0,
    )

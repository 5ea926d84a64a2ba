"""HDFS through the native client (``hdfs-native``): no JVM, and every call with a time limit."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from hdfs_utils import errors
from hdfs_utils import uri as uris
from hdfs_utils.backends.base import BaseFileSystem, access_entries
from hdfs_utils.backends.streams import MAX_REQUEST_BYTES, BaseWriter, RangeReader
from hdfs_utils.concurrency.deadline import DeadlineExceeded, DeadlinePool
from hdfs_utils.concurrency.retry import retry_over_failover
from hdfs_utils.filesystem import (
    BlockLocation,
    Capabilities,
    Data,
    FileChecksum,
    FileStatus,
    FreeSpace,
    Reader,
    TimeLimits,
    Writer,
)
from hdfs_utils.protocols.java_errors import translate

if TYPE_CHECKING:
    import hdfs_native
    from hdfs_native._internal import RawFileReader, RawFileWriter

    from hdfs_utils.protocols.metadata_client import MetadataClient
    from hdfs_utils.protocols.webhdfs_rest import WebHdfsClient

T = TypeVar("T")

# A dead writer's block is recovered on a DataNode's next heartbeat (3 s by default): asking more
# often only costs the NameNode.
LEASE_POLL_S = 0.1

# Small writes are gathered: each call of the client costs a change of threads and a copy.
GATHER = 1 << 20

# Operations that may be repeated. After a rename or a new file the caller has to look first.
_REPEATABLE = frozenset(
    {"stat", "list", "open", "read ACL", "mkdirs", "chmod", "set times", "recover lease", "replace"}
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
        except errors.HdfsError:
            raise
        except DeadlineExceeded as error:
            message = f"{self.where}: {error}; the NameNode, a DataNode or the network hangs"
            raise errors.Unavailable(
                message, path=path, operation=operation, outcome_unknown=True
            ) from error
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of the native code is a BaseException
            raise translate(error, operation, path, self.where) from error


class NativeFileSystem(BaseFileSystem):
    """An HDFS (or viewfs) through ``hdfs-native``.

    Args:
        client: the native client.
        uri: ``hdfs://host:port``, what the client talks to.
        limits: the time limits.
        web: makes the client of the NameNode's HTTP side, for what the native client does not
            offer; called when it is first needed.
        metadata_client: asks the servers what the native client cannot.
        is_paired: the NameNode has a standby, to which it may change over.
        is_web_private: over HTTP the content of files is as safe as the site wants it to be.
    """

    backend = "native"
    capabilities = Capabilities(
        verifies_reads=True, stores_crc32c=True, recovers_leases=True, completes_slowly=True
    )

    def __init__(
        self,
        client: hdfs_native.Client,
        uri: str,
        limits: TimeLimits,
        web: Callable[[], WebHdfsClient] | None = None,
        metadata_client: MetadataClient | None = None,
        is_paired: bool = False,
        is_web_private: bool = True,
    ) -> None:
        self.uri = uri
        self.limits = limits
        self._client = client
        self._web = web
        self._metadata_client = metadata_client
        if metadata_client is not None and not metadata_client.has_rpc:
            self.capabilities = replace(self.capabilities, stores_crc32c=False)
        self._calls = NativeCalls(uri, limits)
        self._is_paired = is_paired
        self._is_web_private = is_web_private

    def _metadata(self, operation: str, path: str, call: Callable[[], T]) -> T:
        """A question or change, repeated over a failover where that is harmless."""

        def once() -> T:
            return self._calls.run(operation, path, call, self.limits.metadata_s)

        if self._is_paired and operation in _REPEATABLE:
            return retry_over_failover(once, self.limits.metadata_s)
        return once()

    def stat(self, path: str) -> FileStatus:
        plain = self.own_path(path)
        status = self._metadata("stat", plain, lambda: self._client.get_file_info(plain))
        return _status(status, plain)

    def list(self, path: str) -> list[FileStatus]:
        plain = self.own_path(path)
        found = self._metadata("list", plain, lambda: list(self._client.list_status(plain)))
        # A file listed is the file itself; an entry of a directory never has its parent's path.
        if len(found) == 1 and found[0].path == plain and not found[0].isdir:
            raise errors.NotADirectory("is a file", path=plain, operation="list")
        return sorted((_status(status, status.path) for status in found), key=lambda s: s.path)

    def open_reader(self, path: str) -> Reader:
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
            data += self._content("read synced").read(plain, len(data))
        return data

    def open_writer(
        self,
        path: str,
        overwrite: bool = False,
        replication: int | None = None,
        block_size: int | None = None,
    ) -> Writer:
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
        plain = self.own_path(path)
        inner = self._metadata("append", plain, lambda: self._client.inner.append(plain))
        start = self.stat(plain).length
        return NativeWriter(inner, plain, self._calls, self, start=start, is_new=False)

    def recover_lease(self, path: str) -> None:
        plain = self.own_path(path)
        deadline = time.monotonic() + self.limits.lease_s
        while not self._metadata("recover lease", plain, lambda: self._client.recover_lease(plain)):
            if time.monotonic() > deadline:
                message = f"not closed after {self.limits.lease_s:g} s; are its DataNodes up?"
                raise errors.Unavailable(message, path=plain, operation="recover lease")
            time.sleep(LEASE_POLL_S)

    def rename(self, src: str, dst: str, overwrite: bool = False) -> None:
        source, target = self.own_path(src), self.own_path(dst)
        with self._renaming_to(target):
            self._metadata("rename", source, lambda: self._client.rename(source, target, overwrite))

    def delete(self, path: str, recursive: bool = False) -> bool:
        plain = self._deletable(path)
        try:
            return self._metadata("delete", plain, lambda: self._client.delete(plain, recursive))
        except errors.NotADirectory:
            return False  # below a file there is nothing

    def mkdirs(self, path: str, permission: int = 0o755) -> None:
        plain = self.own_path(path)
        self._metadata("mkdirs", plain, lambda: self._client.mkdirs(plain, permission, True))

    def chmod(self, path: str, permission: int) -> None:
        plain = self.own_path(path)
        self._metadata("chmod", plain, lambda: self._client.set_permission(plain, permission))

    def acl(self, path: str) -> tuple[str, ...]:
        plain = self.own_path(path)

        def entries() -> list[str]:
            found = self._metadata("read ACL", plain, lambda: self._client.get_acl_status(plain))
            return [
                f"{'default:' if entry.scope == 'default' else ''}"
                f"{entry.type}:{entry.name or ''}:{entry.permissions}"
                for entry in found.entries
            ]

        return access_entries(entries)

    def set_times(self, path: str, mtime_ms: int, atime_ms: int | None = None) -> None:
        """Set the times of modification and of access; without the latter both are the same."""
        plain = self.own_path(path)
        atime = mtime_ms if atime_ms is None else atime_ms
        self._metadata("set times", plain, lambda: self._client.set_times(plain, mtime_ms, atime))

    def concat(self, target: str, sources: Sequence[str]) -> None:
        plain = self.own_path(target)
        self._ask("concat").concat(plain, [self.own_path(source) for source in sources])

    def checksum(self, path: str) -> FileChecksum:
        """The storage's own checksum, asked over HTTP."""
        return self._http("checksum").checksum(self.own_path(path))

    def crc32c(self, paths: Sequence[str]) -> tuple[int, ...]:
        """CRC32C of each file, asked of the DataNodes."""
        return self._ask("checksum").crc32c([self.own_path(path) for path in paths])

    def block_locations(self, path: str) -> tuple[BlockLocation, ...]:
        return self._ask("block locations").block_locations(self.own_path(path))

    def _ask(self, operation: str) -> MetadataClient:
        if self._metadata_client is None:
            message = "dfs.namenode.http-address is not configured"
            raise errors.NotSupported(message, path=self.uri, operation=operation)
        return self._metadata_client

    def report_replicas(self, path: str, offset: int, length: int) -> None:
        """A DataNode that is asked over HTTP reads with Hadoop's own client, which tells."""
        self._content("report replicas").read(self.own_path(path), offset, length)

    def free_space(self) -> FreeSpace:
        """Space of the whole file system, asked over HTTP."""
        return self._http("free space").free_space()

    def _http(self, operation: str) -> WebHdfsClient:
        if self._web is None:
            message = "dfs.namenode.http-address is not configured"
            raise errors.NotSupported(message, path=self.uri, operation=operation)
        return self._web()

    def _content(self, operation: str) -> WebHdfsClient:
        """The HTTP side for bytes of files."""
        if not self._is_web_private:
            message = "over HTTP this would go round the encryption that the site asks for"
            raise errors.NotSupported(message, path=self.uri, operation=operation)
        return self._http(operation)

    def settle(self, path: str, expected_length: int) -> bool:
        """After a close without a clear answer: close the file and see whether all is there."""
        with contextlib.suppress(errors.NotFound):
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


class NativeReader(RangeReader):
    """A file of HDFS open for reading.

    A file that is still being written is seen up to its last complete block only.
    """

    def __init__(self, inner: RawFileReader, path: str, calls: NativeCalls) -> None:
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
            raise errors.Unavailable(message, path=self._path, operation="read")
        return data


class NativeWriter(BaseWriter):
    """A file of HDFS open for writing; see :class:`hdfs_utils.filesystem.Writer`."""

    def __init__(
        self,
        inner: RawFileWriter,
        path: str,
        calls: NativeCalls,
        owner: NativeFileSystem,
        start: int,
        is_new: bool,
    ) -> None:
        super().__init__(path, start, is_new=is_new)
        self._inner = inner
        self._calls = calls
        self._owner = owner
        self._gathered = bytearray()
        self._is_sound = True

    def write(self, data: Data, /) -> int:
        self._check_open()
        view = memoryview(data).cast("B")
        size = len(view)
        self._length += size
        if len(self._gathered) + size < GATHER:
            self._gathered += view
            return size
        self._flush()
        for start in range(0, size, MAX_REQUEST_BYTES):
            # A piece that cannot change under a stuck call needs no copy.
            if isinstance(data, bytes) and size <= MAX_REQUEST_BYTES:
                self._send(data)
            else:
                self._send(bytes(view[start : start + MAX_REQUEST_BYTES]))
        return size

    def flush(self) -> None:
        self._check_open()
        self._flush()

    def sync(self) -> None:
        self._check_open()
        self._flush()
        self._call("sync", self._inner.hsync, self._calls.limits.sync_s)

    def _complete(self) -> None:
        try:
            self._flush()
            self._calls.run("close", self._path, self._inner.close, self._calls.limits.close_s)
        except errors.Unavailable as error:
            # An error here is an unknown outcome: everything may be in place. Look, then decide;
            # but who did not answer the close in time would not answer these questions either.
            is_silent = isinstance(error.cause, DeadlineExceeded)
            is_whole = False
            with contextlib.suppress(errors.HdfsError):
                is_whole = not is_silent and self._owner.settle(self._path, self._length)
            if not is_whole:
                message = f"not known to be whole: {error.message}"
                raise errors.Unavailable(
                    message, path=self._path, operation="close", outcome_unknown=True
                ) from error

    def _drop(self) -> None:
        if not self._is_sound:
            return  # the file may be somebody else's by now: see the protocol
        # The client has no way to drop a writer; taking its lease away does that.
        with contextlib.suppress(errors.HdfsError):
            if self._is_new:
                self._owner.delete(self._path)
            else:
                self._owner.recover_lease(self._path)

    def _flush(self) -> None:
        if self._gathered:
            data, self._gathered = bytes(self._gathered), bytearray()
            self._send(data)

    def _send(self, data: bytes) -> None:
        self._call("write", lambda: self._inner.write(data), self._calls.limits.data_s)

    def _call(self, operation: str, call: Callable[[], object], limit_s: float) -> None:
        try:
            self._calls.run(operation, self._path, call, limit_s)
        except errors.HdfsError:
            self._is_sound = False
            raise

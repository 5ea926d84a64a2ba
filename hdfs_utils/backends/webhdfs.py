"""HDFS over HTTP: WebHDFS and HttpFS, for where only HTTP gets through.

What is different from the native client: no leases (``recover_lease`` is NotSupported), ``sync``
completes the file and continues with an append, and bytes travel without checksums, so transfers
verify every file."""

from __future__ import annotations

import contextlib
import http.client
import re
from collections.abc import Sequence

from hdfs_utils import errors
from hdfs_utils import uri as uris
from hdfs_utils.backends.base import (
    BaseFileSystem,
    access_entries,
    temporary_name,
)
from hdfs_utils.backends.streams import MAX_REQUEST_BYTES, BaseWriter, RangeReader
from hdfs_utils.config.delegation_tokens import DelegationToken
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
from hdfs_utils.protocols.untrusted import INT64, Record, read_at_most
from hdfs_utils.protocols.webhdfs_rest import WebHdfsClient, remote_error

_MAX_LISTED = 1 << 24
_MAX_ANSWER_BYTES = 1 << 20
_MAX_ACL_ENTRIES = 64  # AclTransformation.MAX_ENTRIES is 32, for access and for default entries
_OCTAL = re.compile("[0-7]{1,6}")


class WebHdfsFileSystem(BaseFileSystem):
    """One HDFS through its REST interface.

    Args:
        web: the REST client.
        uri: what paths are relative to, ``webhdfs://host:port``.
        limits: the time limits; each is one of a wait for the network.
    """

    backend = "webhdfs"
    capabilities = Capabilities(reports_md5_of_crc=True)

    def __init__(self, web: WebHdfsClient, uri: str, limits: TimeLimits) -> None:
        self.uri = uri
        self.limits = limits
        self._web = web
        self._is_httpfs: bool | None = None
        """``None`` means not known yet."""

    def stat(self, path: str) -> FileStatus:
        plain = self.own_path(path)
        return self._web.ask(
            lambda answer: _status(answer.record("FileStatus"), plain),
            "GET",
            "GETFILESTATUS",
            plain,
        )

    def list(self, path: str) -> list[FileStatus]:
        plain = self.own_path(path)
        statuses = self._web.ask(lambda answer: _listing(answer, plain), "GET", "LISTSTATUS", plain)
        return sorted(statuses, key=lambda status: status.path)

    def open_reader(self, path: str) -> Reader:
        status = self.stat(path)
        if status.is_dir:
            raise errors.IsADirectory("is a directory", path=status.path, operation="open")
        return WebHdfsReader(self._web, status.path, status.length)

    def open_writer(
        self,
        path: str,
        overwrite: bool = False,
        replication: int | None = None,
        block_size: int | None = None,
    ) -> Writer:
        plain = self.own_path(path)
        self._check_new(plain, overwrite)
        arguments = {"overwrite": str(overwrite).lower(), "permission": "644"}
        if replication:
            arguments["replication"] = str(replication)
        if block_size:
            arguments["blocksize"] = str(block_size)
        upload = self._web.open_upload("PUT", "CREATE", plain, **arguments)
        return WebHdfsWriter(self, self._web, upload, plain, start=0, is_new=True)

    def _check_new(self, plain: str, overwrite: bool) -> None:
        # The DataNode finds these only after the whole body was sent.
        status = self._nearest(plain)
        if status.path != plain:
            if not status.is_dir:
                raise errors.NotADirectory("is a file", path=status.path, operation="create")
        elif status.is_dir:
            raise errors.IsADirectory("is a directory", path=plain, operation="create")
        elif not overwrite:
            raise errors.AlreadyExists("already exists", path=plain, operation="create")

    def _nearest(self, plain: str) -> FileStatus:
        """The status of a path, or of the nearest above it that is there."""
        while plain != "/":
            with contextlib.suppress(errors.NotFound, errors.NotADirectory):
                return self.stat(plain)
            plain = uris.parent(plain)
        return self.stat(plain)

    def open_appender(self, path: str) -> Writer:
        status = self.stat(path)
        upload = self._web.open_upload("POST", "APPEND", status.path)
        return WebHdfsWriter(
            self, self._web, upload, status.path, start=status.length, is_new=False
        )

    def recover_lease(self, path: str) -> None:
        """Not supported: WebHDFS has no such request."""
        message = "WebHDFS cannot recover a lease; the NameNode does after an hour"
        raise errors.NotSupported(message, path=path, operation="recover lease")

    def rename(self, src: str, dst: str, overwrite: bool = False) -> None:
        """Through an HttpFS nothing can be replaced: NotSupported, where a NameNode would."""
        source, target = self.own_path(src), self.own_path(dst)
        if self._is_httpfs is None:
            # A path of an unused name, where the caller may rename.
            self._is_httpfs = self._ignores_options(temporary_name(source))
        if self._is_httpfs:
            self._rename_without_options(source, target, overwrite)
            return
        options = "OVERWRITE" if overwrite else "NONE"
        with self._renaming_to(target):
            self._web.request("PUT", "RENAME", source, destination=target, renameoptions=options)

    def _ignores_options(self, missing: str) -> bool:
        """An HttpFS knows no ``renameoptions``: it renames by the older call, which says false
        where the newer one raises, and moves into a directory that is there."""
        try:
            self._web.request(
                "PUT", "RENAME", missing, destination=f"{missing}.none", renameoptions="NONE"
            )
        except errors.NotFound:
            return False
        return True

    def _rename_without_options(self, source: str, target: str, overwrite: bool) -> None:
        if self.exists(target):
            if not overwrite:
                raise errors.AlreadyExists("already exists", path=target, operation="rename")
            message = "an HttpFS cannot replace what is there; a NameNode's own WebHDFS can"
            raise errors.NotSupported(message, path=target, operation="rename")
        self.stat(source)
        self.stat(uris.parent(target))
        arguments = {"destination": target}
        if not self._web.ask(lambda a: a.flag("boolean"), "PUT", "RENAME", source, **arguments):
            message = "HDFS did not rename it, and does not say why"
            raise errors.InvalidPath(message, path=source, operation="rename")

    def delete(self, path: str, recursive: bool = False) -> bool:
        plain = self._deletable(path)
        try:
            return self._web.ask(
                lambda answer: answer.flag("boolean"),
                "DELETE",
                "DELETE",
                plain,
                recursive=str(recursive).lower(),
            )
        except errors.NotADirectory:
            return False

    def mkdirs(self, path: str, permission: int = 0o755) -> None:
        plain = self.own_path(path)
        self._web.request("PUT", "MKDIRS", plain, permission=f"{permission:o}")

    def chmod(self, path: str, permission: int) -> None:
        plain = self.own_path(path)
        self._web.request("PUT", "SETPERMISSION", plain, permission=f"{permission:o}")

    def acl(self, path: str) -> tuple[str, ...]:
        plain = self.own_path(path)

        def entries(answer: Record) -> tuple[str, ...]:
            return answer.record("AclStatus").texts("entries", max_count=_MAX_ACL_ENTRIES)

        return access_entries(lambda: self._web.ask(entries, "GET", "GETACLSTATUS", plain))

    def set_times(self, path: str, mtime_ms: int, atime_ms: int | None = None) -> None:
        atime = {} if atime_ms is None else {"accesstime": str(atime_ms)}
        self._web.request(
            "PUT", "SETTIMES", self.own_path(path), modificationtime=str(mtime_ms), **atime
        )

    def concat(self, target: str, sources: Sequence[str]) -> None:
        plain = [self.own_path(source) for source in sources]
        if any("," in source for source in plain):
            message = "WebHDFS separates names by commas, and one of them contains a comma"
            raise errors.NotSupported(message, path=target, operation="concat")
        self._web.concat(self.own_path(target), plain)

    def checksum(self, path: str) -> FileChecksum:
        return self._web.checksum(self.own_path(path))

    def crc32c(self, paths: Sequence[str]) -> tuple[int, ...]:
        """CRC32C of each file, where the DataNodes are set to COMPOSITE_CRC."""
        found = []
        for path in paths:
            checksum = self.checksum(path)
            if checksum.algorithm != "COMPOSITE-CRC32C":
                message = f"the DataNodes return {checksum.algorithm} over HTTP"
                raise errors.NotSupported(message, path=path, operation="checksum")
            found.append(int(checksum.value[:8], 16))
        return tuple(found)

    def block_locations(self, path: str) -> tuple[BlockLocation, ...]:
        return self._web.block_locations(self.own_path(path))

    def free_space(self) -> FreeSpace:
        return self._web.free_space()

    def delegation_token(self, renewer: str) -> DelegationToken:
        """A new token for this file system, which ``renewer`` (a short name) may renew.

        Raises:
            HdfsError: there is no ticket, or what the server said.
        """
        return self._web.delegation_token(renewer)

    def renew_delegation_token(self, token: DelegationToken) -> float:
        """Let a token live on; until when, in seconds since 1970.

        Raises:
            HdfsError: there is no ticket, it is not its renewer's, or what the server said.
        """
        return self._web.renew_delegation_token(token)


def _listing(answer: Record, plain: str) -> list[FileStatus]:
    rows = answer.record("FileStatuses").records("FileStatus", max_count=_MAX_LISTED)
    names = [row.text("pathSuffix") for row in rows]
    if names == [""]:
        raise errors.NotADirectory("is a file", path=plain, operation="list")
    return [_status(row, uris.join(plain, name)) for row, name in zip(rows, names, strict=True)]


def _status(answer: Record, path: str) -> FileStatus:
    return FileStatus(
        path=uris.normalise(path),
        length=answer.integer("length"),
        is_dir=answer.text("type") == "DIRECTORY",
        mtime_ms=answer.integer("modificationTime", least=-INT64),
        owner=answer.text("owner"),
        group=answer.text("group"),
        permission=int(answer.text("permission", pattern=_OCTAL), 8),
        replication=answer.integer("replication"),
        block_size=answer.integer("blockSize"),
    )


class WebHdfsReader(RangeReader):
    """A file of HDFS open for reading, one request for each read of at most 8 MiB."""

    def __init__(self, web: WebHdfsClient, path: str, size: int) -> None:
        super().__init__(size)
        self._web = web
        self._path = path

    def _range(self, offset: int, length: int) -> bytes:
        piece = self._web.read(self._path, offset, length)
        if not piece:
            message = f"ends at {offset} of {self.size} bytes"
            raise errors.Unavailable(message, path=self._path, operation="read")
        return piece


class WebHdfsWriter(BaseWriter):
    """A file of HDFS open for writing; see :class:`hdfs_utils.filesystem.Writer`."""

    def __init__(
        self,
        owner: WebHdfsFileSystem,
        web: WebHdfsClient,
        upload: http.client.HTTPConnection,
        path: str,
        start: int,
        is_new: bool,
    ) -> None:
        super().__init__(path, start, is_new=is_new)
        self._owner = owner
        self._web = web
        self._upload: http.client.HTTPConnection | None = upload

    def write(self, data: Data, /) -> int:
        self._check_open()
        view = memoryview(data).cast("B")
        size = len(view)
        if self._upload is None:
            self._upload = self._web.open_upload("POST", "APPEND", self._path)
        for begin in range(0, size, MAX_REQUEST_BYTES):
            piece = view[begin : begin + MAX_REQUEST_BYTES]
            self._send(b"%x\r\n%b\r\n" % (len(piece), bytes(piece)))
        self._length += size
        return size

    def sync(self) -> None:
        """Complete the file with what was written until now; a further write appends."""
        self._check_open()
        self._finish("sync")

    def _complete(self) -> None:
        self._finish("close")
        try:
            length = self._owner.stat(self._path).length
        except errors.NotFound as error:
            message = "the file was deleted while it was written"
            raise errors.LeaseLost(message, path=self._path, operation="close") from error
        if length != self._length:
            message = f"{length} of {self._length} bytes are there"
            raise errors.Unavailable(
                message, path=self._path, operation="close", outcome_unknown=True
            )

    def _drop(self) -> None:
        # The DataNode creates the file some time after the request arrived: only its answer tells
        # that a deletion comes after that.
        with contextlib.suppress(errors.HdfsError):
            self._finish("abort")
        if self._is_new:
            with contextlib.suppress(errors.HdfsError):
                self._owner.delete(self._path)

    def _finish(self, operation: str) -> None:
        upload, self._upload = self._upload, None
        if upload is None:
            return
        try:
            upload.send(b"0\r\n\r\n")
            response = upload.getresponse()
            body = read_at_most(response, _MAX_ANSWER_BYTES)
        except (OSError, http.client.HTTPException, errors.MalformedData) as error:
            raise self._broken(operation, error) from error
        finally:
            upload.close()
        if response.status not in (200, 201):
            failure = remote_error(response.status, body, self._path)
            failure.operation = operation
            raise failure

    def _send(self, data: bytes) -> None:
        assert self._upload is not None
        try:
            self._upload.send(data)
        except (OSError, http.client.HTTPException) as error:
            raise self._broken("write", error) from error

    def _broken(self, operation: str, error: Exception) -> errors.HdfsError:
        text = f"the DataNode closed the connection: {error}"
        return errors.Unavailable(text, path=self._path, operation=operation, outcome_unknown=True)

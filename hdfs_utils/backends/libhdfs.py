"""HDFS through pyarrow and the site's libhdfs, for what only Hadoop's own client can do.

Encryption zones, erasure coding, custom file systems. ``libhdfs.so`` comes with the site's Hadoop
(``lib/native``), never from PyPI: see :func:`why_unavailable`. It starts a JVM in the process
(about 200
MB). What libhdfs does not offer (checksums, leases, concat, times) is asked by RPC or HTTP where
the site has them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdfs_utils import errors
from hdfs_utils import uri as uris
from hdfs_utils.backends.base import BaseFileSystem
from hdfs_utils.backends.streams import BaseWriter, RangeReader
from hdfs_utils.filesystem import (
    Capabilities,
    Data,
    FileChecksum,
    FileStatus,
    FreeSpace,
    TimeLimits,
    Writer,
)
from hdfs_utils.uri import Uri

if TYPE_CHECKING:
    from hdfs_utils.protocols.metadata_client import MetadataClient
    from hdfs_utils.protocols.namenode import NameNodeRpc

LIBRARY_VARIABLE = "ARROW_LIBHDFS_DIR"


def library_dir(environ: Mapping[str, str]) -> str | None:
    """The directory of libhdfs.so: ARROW_LIBHDFS_DIR, else HADOOP_HOME's lib/native."""
    home = environ.get("HADOOP_HOME")
    places = [environ.get(LIBRARY_VARIABLE), f"{home}/lib/native" if home else None]
    return next((p for p in places if p and (Path(p) / "libhdfs.so").is_file()), None)


def why_unavailable(environ: Mapping[str, str]) -> str:
    """The reason why this back-end is unavailable here; empty if it is available."""
    try:
        import pyarrow.fs  # noqa: F401
    except ImportError:
        return "pyarrow is not installed"
    if library_dir(environ) is None:
        return f"no libhdfs.so in {LIBRARY_VARIABLE} or in HADOOP_HOME/lib/native"
    return ""


def open_hadoop(
    target: Uri, user: str | None, limits: TimeLimits, metadata_client: MetadataClient | None
) -> ArrowFileSystem:
    """The file system through libhdfs.

    Raises:
        NotSupported: no pyarrow or no libhdfs here.
        Unavailable: it does not connect.
    """
    if reason := why_unavailable(os.environ):
        raise errors.NotSupported(f"the arrow back-end cannot be used: {reason}", path=str(target))
    import pyarrow.fs

    os.environ.setdefault(LIBRARY_VARIABLE, library_dir(os.environ) or "")
    if not os.environ.get("CLASSPATH"):
        os.environ["CLASSPATH"] = _classpath()
    host, _, port = target.authority.rpartition(":")
    is_service = not (host and port.isdigit())
    uri = f"{target.scheme}://{target.authority}"
    try:
        inner = pyarrow.fs.HadoopFileSystem(
            f"{target.scheme}://{target.authority if is_service else host}",
            port=0 if is_service else int(port),
            user=user,
        )
    except OSError as error:
        raise errors.Unavailable(f"libhdfs: {error}", path=uri, operation="connect") from error
    return ArrowFileSystem(inner, uri, limits, metadata_client)


def _classpath() -> str:
    try:
        done = subprocess.run(
            ["hadoop", "classpath", "--glob"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        message = "libhdfs needs CLASSPATH, and 'hadoop classpath --glob' failed"
        raise errors.NotSupported(message) from error
    return done.stdout.strip()


@contextlib.contextmanager
def _translated(operation: str, path: str) -> Iterator[None]:
    """Translate what pyarrow raises."""
    try:
        yield
    except FileNotFoundError as error:
        raise errors.NotFound(
            "no such file or directory", path=path, operation=operation
        ) from error
    except FileExistsError as error:
        raise errors.AlreadyExists("already exists", path=path, operation=operation) from error
    except NotADirectoryError as error:
        raise errors.NotADirectory("is a file", path=path, operation=operation) from error
    except IsADirectoryError as error:
        raise errors.IsADirectory("is a directory", path=path, operation=operation) from error
    except OSError as error:
        kind: type[errors.HdfsError] = errors.Unavailable
        text = str(error)
        if "[errno 2]" in text:
            kind = errors.NotFound
        elif "[errno 39]" in text:
            kind = errors.DirectoryNotEmpty
        elif "[errno 13]" in text or "[errno 1]" in text:
            kind = errors.PermissionDenied
        raise kind(text, path=path, operation=operation) from error


class ArrowFileSystem(BaseFileSystem):
    """Any ``pyarrow.fs.FileSystem`` as one of ours.

    Args:
        inner: pyarrow's.
        uri: what paths are relative to.
        limits: named for callers; libhdfs has its own, from the site's configuration.
        metadata_client: asks for what pyarrow does not offer; None where nothing does.
    """

    backend = "arrow"
    capabilities = Capabilities(verifies_reads=True, stores_crc32c=True)

    def __init__(
        self,
        inner: Any,
        uri: str,
        limits: TimeLimits,
        metadata_client: MetadataClient | None = None,
    ) -> None:
        self.uri = uri
        self.limits = limits
        self._inner = inner
        self._metadata_client = metadata_client

    def stat(self, path: str) -> FileStatus:
        """Status of a path; pyarrow itself knows of no owner, group and permission and of whole
        seconds only, so the NameNode is asked where it answers."""
        plain = self.own_path(path)
        if (asked := self._name_node(plain, "stat")) is not None:
            node, there = asked
            return replace(node.stat(there), path=plain)
        with _translated("stat", plain):
            info = self._inner.get_file_info(plain)
        if info.type.name == "NotFound":
            raise errors.NotFound("no such file or directory", path=plain, operation="stat")
        return _status(info, plain)

    def list(self, path: str) -> list[FileStatus]:
        from pyarrow.fs import FileSelector

        plain = self.own_path(path)
        if not self.stat(plain).is_dir:
            raise errors.NotADirectory("is a file", path=plain, operation="list")
        if (asked := self._name_node(plain, "list")) is not None:
            node, there = asked
            found = node.entries(there)
            known = [replace(s, path=uris.join(plain, uris.name(s.path))) for s in found]
            return sorted(known, key=lambda status: status.path)
        with _translated("list", plain):
            infos = self._inner.get_file_info(FileSelector(plain))
        found = [_status(info, uris.join(plain, info.base_name)) for info in infos]
        return sorted(found, key=lambda status: status.path)

    def open_reader(self, path: str) -> ArrowReader:
        status = self.stat(path)
        if status.is_dir:
            raise errors.IsADirectory("is a directory", path=status.path, operation="open")
        with _translated("open", status.path):
            return ArrowReader(self._inner.open_input_file(status.path), status)

    def open_writer(
        self,
        path: str,
        overwrite: bool = False,
        replication: int | None = None,
        block_size: int | None = None,
    ) -> Writer:
        """Create a file, its directories too; replication and block size are the site's."""
        plain = self.own_path(path)
        with contextlib.suppress(errors.NotFound, errors.NotADirectory):
            if self.stat(plain).is_dir:
                raise errors.IsADirectory("is a directory", path=plain, operation="create")
            if not overwrite:
                raise errors.AlreadyExists("already exists", path=plain, operation="create")
        self.mkdirs(uris.parent(plain))
        with _translated("create", plain):
            return ArrowWriter(self, self._inner.open_output_stream(plain), plain)

    def open_appender(self, path: str) -> Writer:
        length = self.stat(path).length
        plain = self.own_path(path)
        with _translated("append", plain):
            return ArrowWriter(self, self._inner.open_append_stream(plain), plain, length)

    def append_stream(self, path: str) -> Any:
        """pyarrow's own, for a writer that continues."""
        return self._inner.open_append_stream(path)

    def recover_lease(self, path: str) -> None:
        """Not supported: libhdfs has no such call."""
        raise errors.NotSupported(
            "libhdfs does not support it", path=path, operation="recover lease"
        )

    def rename(self, src: str, dst: str, overwrite: bool = False) -> None:
        """Rename atomically; by libhdfs itself, which cannot replace, where RPC is not let in."""
        source, target = self.own_path(src), self.own_path(dst)
        asked = self._name_node(target, "rename")
        origin = self._name_node(source, "rename")
        if asked is None or origin is None:
            self._move(source, target, overwrite)
            return
        with self._renaming_to(target):
            asked[0].rename(origin[1], asked[1], overwrite)

    def _move(self, source: str, target: str, overwrite: bool) -> None:
        self.stat(source)
        if self.exists(target):
            if not overwrite:
                raise errors.AlreadyExists("already exists", path=target, operation="rename")
            raise errors.NotSupported(
                "libhdfs cannot replace a file", path=target, operation="rename"
            )
        with _translated("rename", source):
            self._inner.move(source, target)

    def delete(self, path: str, recursive: bool = False) -> bool:
        plain = self._deletable(path)
        try:
            is_dir = self.stat(plain).is_dir
        except (errors.NotFound, errors.NotADirectory):
            return False
        if is_dir and not recursive and self.list(plain):
            raise errors.DirectoryNotEmpty("is not empty", path=plain, operation="delete")
        with _translated("delete", plain):
            (self._inner.delete_dir if is_dir else self._inner.delete_file)(plain)
        return True

    def mkdirs(self, path: str, permission: int = 0o755) -> None:
        """Make a directory and those above it; by libhdfs itself with the site's umask."""
        plain = self.own_path(path)
        with contextlib.suppress(errors.NotFound):
            if not self.stat(plain).is_dir:
                raise errors.NotADirectory("is a file", path=plain, operation="mkdirs")
        if (asked := self._name_node(plain, "mkdirs")) is not None:
            asked[0].mkdirs(asked[1], permission)
            return
        with _translated("mkdirs", plain):
            self._inner.create_dir(plain, recursive=True)

    def chmod(self, path: str, permission: int) -> None:
        """Set the permission bits; nothing is done where RPC is not let in."""
        plain = self.own_path(path)
        asked = self._name_node(plain, "chmod")
        if asked is None:
            self.stat(plain)
            return
        asked[0].chmod(asked[1], permission)

    def set_times(self, path: str, mtime_ms: int, atime_ms: int | None = None) -> None:
        node, there = self._ask("set times").name_node(self.own_path(path), "set times")
        node.set_times(there, mtime_ms, mtime_ms if atime_ms is None else atime_ms)

    def concat(self, target: str, sources: Sequence[str]) -> None:
        self._ask("concat").concat(self.own_path(target), [self.own_path(s) for s in sources])

    def checksum(self, path: str) -> FileChecksum:
        """CRC32C as the DataNodes have it."""
        (crc,) = self.crc32c([path])
        return FileChecksum("COMPOSITE-CRC32C", f"{crc:08x}")

    def crc32c(self, paths: Sequence[str]) -> tuple[int, ...]:
        return self._ask("checksum").crc32c([self.own_path(path) for path in paths])

    def block_locations(self, path: str) -> tuple[Any, ...]:
        return self._ask("block locations").block_locations(self.own_path(path))

    def free_space(self) -> FreeSpace:
        return self._ask("free space").name_node("/", "free space")[0].free_space()

    def _name_node(self, path: str, operation: str) -> tuple[NameNodeRpc, str] | None:
        """The NameNode to call directly, and the path there; None if RPC is not allowed."""
        if self._metadata_client is None:
            return None
        try:
            return self._metadata_client.name_node(path, operation)
        except errors.NotSupported:
            return None

    def _ask(self, operation: str) -> MetadataClient:
        if self._metadata_client is None:
            raise errors.NotSupported("pyarrow does not support it", operation=operation)
        return self._metadata_client


class ArrowReader(RangeReader):
    """A pyarrow file open for reading."""

    def __init__(self, inner: Any, status: FileStatus) -> None:
        super().__init__(status.length)
        self._inner = inner
        self._path = status.path

    def _range(self, offset: int, length: int) -> bytes:
        with _translated("read", self._path):
            data = bytes(self._inner.read_at(length, offset))
        if not data:
            message = f"ends before its {self.size} bytes"
            raise errors.Unavailable(message, path=self._path, operation="read")
        return data

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._inner.close()


class ArrowWriter(BaseWriter):
    """A pyarrow file open for writing."""

    def __init__(self, owner: ArrowFileSystem, inner: Any, path: str, start: int = 0) -> None:
        super().__init__(path, start, is_new=start == 0)
        self._owner = owner
        self._inner = inner

    def write(self, data: Data, /) -> int:
        self._check_open()
        size = len(memoryview(data).cast("B"))
        self._call("write", lambda: self._inner.write(data))
        self._length += size
        return size

    def sync(self) -> None:
        """Complete the file with what was written until now, and continue by an append: pyarrow's
        own flush leaves it in the client."""
        self._check_open()
        self._call("sync", self._inner.close)
        with _translated("sync", self._path):
            self._inner = self._owner.append_stream(self._path)

    def _complete(self) -> None:
        try:
            self._call("close", self._inner.close)
        except errors.Unavailable as error:
            if self._owner.exists(self._path):
                raise
            message = "the file was deleted while it was written"
            raise errors.LeaseLost(message, path=self._path, operation="close") from error

    def _drop(self) -> None:
        """libhdfs can only complete the file, which is then deleted."""
        with contextlib.suppress(OSError):
            self._inner.close()
        if self._is_new:
            with contextlib.suppress(errors.HdfsError):
                self._owner.delete(self._path)

    def _call(self, operation: str, call: Callable[[], object]) -> None:
        with _translated(operation, self._path):
            call()


def _status(info: Any, path: str) -> FileStatus:
    is_dir = info.type.name == "Directory"
    return FileStatus(
        path=path,
        length=0 if is_dir else int(info.size),
        is_dir=is_dir,
        mtime_ms=int(info.mtime_ns or 0) // 1_000_000,
        owner="",
        group="",
        permission=0o755 if is_dir else 0o644,
        replication=0 if is_dir else 1,
        block_size=0,
    )

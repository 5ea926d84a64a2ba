"""HDFS through pyarrow and the site's libhdfs, for what only Hadoop's own client can do.

Encryption zones, erasure coding, custom file systems. ``libhdfs.so`` comes with the site's Hadoop
(``lib/native``), never from PyPI: see :func:`why_not`. It starts a JVM in the process (about 200
MB). What libhdfs does not offer (checksums, leases, concat, times) is asked by RPC or HTTP where
the site has them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from hdfs_utils import uri as uris
from hdfs_utils.derived import DerivedOperations
from hdfs_utils.errors import (
    AlreadyExists,
    DirectoryNotEmpty,
    HdfsError,
    InvalidPath,
    IsADirectory,
    NotADirectory,
    NotFound,
    NotSupported,
    Unavailable,
)
from hdfs_utils.filesystem import Data, FileChecksum, FileStatus, FreeSpace, TimeLimits, Writer
from hdfs_utils.streams import ClosedOrAborted, position_after
from hdfs_utils.uri import Uri

if TYPE_CHECKING:
    from typing_extensions import Self

    from hdfs_utils.questions import Questions

LIBRARY_VARIABLE = "ARROW_LIBHDFS_DIR"


def library_dir(environ: Mapping[str, str]) -> str | None:
    """Where libhdfs.so lies: ARROW_LIBHDFS_DIR, else HADOOP_HOME's lib/native."""
    home = environ.get("HADOOP_HOME")
    places = [environ.get(LIBRARY_VARIABLE), f"{home}/lib/native" if home else None]
    return next((p for p in places if p and (Path(p) / "libhdfs.so").is_file()), None)


def why_not(environ: Mapping[str, str]) -> str:
    """Why this back-end cannot be used here; empty where it can."""
    try:
        import pyarrow.fs  # noqa: F401
    except ImportError:
        return "pyarrow is not installed"
    if library_dir(environ) is None:
        return f"no libhdfs.so in {LIBRARY_VARIABLE} or in HADOOP_HOME/lib/native"
    return ""


def open_hadoop(
    target: Uri,
    user: str | None,
    limits: TimeLimits,
    questions: Questions | None,
) -> ArrowFileSystem:
    """The file system through libhdfs.

    Raises:
        NotSupported: no pyarrow or no libhdfs here.
        Unavailable: it does not connect.
    """
    if reason := why_not(os.environ):
        raise NotSupported(f"the arrow back-end cannot be used: {reason}", path=str(target))
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
        raise Unavailable(f"libhdfs: {error}", path=uri, operation="connect") from error
    return ArrowFileSystem(inner, uri, limits, questions)


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
        message = "libhdfs needs CLASSPATH, and 'hadoop classpath --glob' does not tell it"
        raise NotSupported(message) from error
    return done.stdout.strip()


@contextlib.contextmanager
def _translated(operation: str, path: str) -> Iterator[None]:
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


class ArrowFileSystem(DerivedOperations):
    """Any ``pyarrow.fs.FileSystem`` as one of ours.

    Args:
        inner: pyarrow's.
        uri: what paths are relative to.
        limits: named for callers; libhdfs has its own, from the site's configuration.
        questions: asks for what pyarrow does not offer; None where nothing does.
    """

    def __init__(
        self, inner: Any, uri: str, limits: TimeLimits, questions: Questions | None = None
    ) -> None:
        self.uri = uri
        self.limits = limits
        self._inner = inner
        self._questions = questions

    @property
    def backend(self) -> str:
        """The name of the client below."""
        return "arrow"

    def stat(self, path: str) -> FileStatus:
        """Status of a path; owner, group and permission are not known to pyarrow."""
        plain = self.own_path(path)
        with _translated("stat", plain):
            info = self._inner.get_file_info(plain)
        if info.type.name == "NotFound":
            raise NotFound("no such file or directory", path=plain, operation="stat")
        return _status(info, plain)

    def list(self, path: str) -> list[FileStatus]:
        """Entries of a directory by name."""
        from pyarrow.fs import FileSelector

        plain = self.own_path(path)
        if not self.stat(plain).is_dir:
            raise NotADirectory("is a file", path=plain, operation="list")
        with _translated("list", plain):
            infos = self._inner.get_file_info(FileSelector(plain))
        found = [_status(info, uris.join(plain, info.base_name)) for info in infos]
        return sorted(found, key=lambda status: status.path)

    def open_reader(self, path: str) -> ArrowReader:
        """Open for reading."""
        status = self.stat(path)
        if status.is_dir:
            raise IsADirectory("is a directory", path=status.path, operation="open")
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
        with contextlib.suppress(NotFound, NotADirectory):
            if self.stat(plain).is_dir:
                raise IsADirectory("is a directory", path=plain, operation="create")
            if not overwrite:
                raise AlreadyExists("already exists", path=plain, operation="create")
        self.mkdirs(uris.parent(plain))
        with _translated("create", plain):
            return ArrowWriter(self, self._inner.open_output_stream(plain), plain)

    def open_appender(self, path: str) -> Writer:
        """Open an existing file to add to it."""
        length = self.stat(path).length
        plain = self.own_path(path)
        with _translated("append", plain):
            return ArrowWriter(self, self._inner.open_append_stream(plain), plain, length)

    def recover_lease(self, path: str) -> None:
        """libhdfs has no such call."""
        raise NotSupported("not through libhdfs", path=path, operation="recover lease")

    def rename(self, src: str, dst: str, overwrite: bool = False) -> None:
        """Rename; replacing is not atomic here, libhdfs has only the old rename."""
        source, target = self.own_path(src), self.own_path(dst)
        self.stat(source)
        if self.exists(target):
            if not overwrite:
                raise AlreadyExists("already exists", path=target, operation="rename")
            raise NotSupported("libhdfs cannot replace", path=target, operation="rename")
        with _translated("rename", source):
            self._inner.move(source, target)

    def delete(self, path: str, recursive: bool = False) -> bool:
        """Delete; False if it was not there."""
        plain = self.own_path(path)
        if plain == "/":
            raise InvalidPath("the root is not deleted", path=plain, operation="delete")
        try:
            is_dir = self.stat(plain).is_dir
        except (NotFound, NotADirectory):
            return False
        if is_dir and not recursive and self.list(plain):
            raise DirectoryNotEmpty("is not empty", path=plain, operation="delete")
        with _translated("delete", plain):
            (self._inner.delete_dir if is_dir else self._inner.delete_file)(plain)
        return True

    def mkdirs(self, path: str, permission: int = 0o755) -> None:
        """Make a directory and those above it, with the site's umask."""
        plain = self.own_path(path)
        with contextlib.suppress(NotFound):
            if not self.stat(plain).is_dir:
                raise NotADirectory("is a file", path=plain, operation="mkdirs")
        with _translated("mkdirs", plain):
            self._inner.create_dir(plain, recursive=True)

    def chmod(self, path: str, permission: int) -> None:
        """pyarrow has no such call: nothing is done to what is there."""
        self.stat(path)

    def set_times(self, path: str, mtime_ms: int, atime_ms: int | None = None) -> None:
        """pyarrow has no such call."""
        raise NotSupported("not through pyarrow", path=path, operation="set times")

    def concat(self, target: str, sources: Sequence[str]) -> None:
        """Move bytes to the end of ``target``."""
        self._ask("concat").concat(self.own_path(target), [self.own_path(s) for s in sources])

    def checksum(self, path: str) -> FileChecksum:
        """CRC32C as the DataNodes have it."""
        (crc,) = self.crc32c([path])
        return FileChecksum("COMPOSITE-CRC32C", f"{crc:08x}")

    def crc32c(self, paths: Sequence[str]) -> tuple[int, ...]:
        """CRC32C of each file."""
        return self._ask("checksum").crc32c([self.own_path(path) for path in paths])

    def block_locations(self, path: str) -> tuple[Any, ...]:
        """Which hosts hold which part."""
        return self._ask("block locations").block_locations(self.own_path(path))

    def free_space(self) -> FreeSpace:
        """pyarrow has no such call."""
        raise NotSupported("not through pyarrow", operation="free space")

    def _ask(self, operation: str) -> Questions:
        if self._questions is None:
            raise NotSupported("not through pyarrow", operation=operation)
        return self._questions


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


class ArrowReader:
    """A pyarrow file open for reading."""

    def __init__(self, inner: Any, status: FileStatus) -> None:
        self._inner = inner
        self._path = status.path
        self.size = status.length

    def read(self, size: int = -1, /) -> bytes:
        """Up to ``size`` bytes."""
        with _translated("read", self._path):
            return bytes(self._inner.read(None if size < 0 else size))

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go to a position, at most to the end."""
        position = position_after(offset, whence, here=self.tell(), size=self.size)
        with _translated("seek", self._path):
            self._inner.seek(position)
        return self.tell()

    def tell(self) -> int:
        """The position in bytes."""
        return int(self._inner.tell())

    def close(self) -> None:
        """Let it go."""
        self._inner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        self.close()


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
        """Return when all was flushed to the replicas."""
        self._check_open()
        self._call("sync", self._inner.flush)

    def close(self) -> None:
        """Complete the file."""
        if not self._closed:
            self._closed = True
            self._call("close", self._inner.close)

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
        with _translated(operation, self._path):
            call()

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"write to a closed file: {self._path}")

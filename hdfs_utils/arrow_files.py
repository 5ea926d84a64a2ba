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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdfs_utils import uri as uris
from hdfs_utils.arrow_streams import ArrowReader, ArrowWriter, translated
from hdfs_utils.derived import DerivedOperations
from hdfs_utils.errors import (
    AlreadyExists,
    DirectoryNotEmpty,
    InvalidPath,
    IsADirectory,
    NotADirectory,
    NotFound,
    NotSupported,
    Unavailable,
)
from hdfs_utils.filesystem import FileChecksum, FileStatus, FreeSpace, TimeLimits, Writer
from hdfs_utils.uri import Uri

if TYPE_CHECKING:
    from hdfs_utils.namenode import NameNodeRpc
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
        """Status of a path; pyarrow itself knows of no owner, group and permission and of whole
        seconds only, so the NameNode is asked where it answers."""
        plain = self.own_path(path)
        if (asked := self._name_node(plain, "stat")) is not None:
            node, there = asked
            return replace(node.stat(there), path=plain)
        with translated("stat", plain):
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
        if (asked := self._name_node(plain, "list")) is not None:
            node, there = asked
            found = node.entries(there)
            known = [replace(s, path=uris.join(plain, uris.name(s.path))) for s in found]
            return sorted(known, key=lambda status: status.path)
        with translated("list", plain):
            infos = self._inner.get_file_info(FileSelector(plain))
        found = [_status(info, uris.join(plain, info.base_name)) for info in infos]
        return sorted(found, key=lambda status: status.path)

    def open_reader(self, path: str) -> ArrowReader:
        """Open for reading."""
        status = self.stat(path)
        if status.is_dir:
            raise IsADirectory("is a directory", path=status.path, operation="open")
        with translated("open", status.path):
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
        with translated("create", plain):
            return ArrowWriter(self, self._inner.open_output_stream(plain), plain)

    def open_appender(self, path: str) -> Writer:
        """Open an existing file to add to it."""
        length = self.stat(path).length
        plain = self.own_path(path)
        with translated("append", plain):
            return ArrowWriter(self, self._inner.open_append_stream(plain), plain, length)

    def append_stream(self, path: str) -> Any:
        """pyarrow's own, for a writer that goes on."""
        return self._inner.open_append_stream(path)

    def recover_lease(self, path: str) -> None:
        """libhdfs has no such call."""
        raise NotSupported("not through libhdfs", path=path, operation="recover lease")

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
                raise AlreadyExists("already exists", path=target, operation="rename")
            raise NotSupported("libhdfs cannot replace", path=target, operation="rename")
        with translated("rename", source):
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
        with translated("delete", plain):
            (self._inner.delete_dir if is_dir else self._inner.delete_file)(plain)
        return True

    def mkdirs(self, path: str, permission: int = 0o755) -> None:
        """Make a directory and those above it; by libhdfs itself with the site's umask."""
        plain = self.own_path(path)
        with contextlib.suppress(NotFound):
            if not self.stat(plain).is_dir:
                raise NotADirectory("is a file", path=plain, operation="mkdirs")
        if (asked := self._name_node(plain, "mkdirs")) is not None:
            asked[0].mkdirs(asked[1], permission)
            return
        with translated("mkdirs", plain):
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
        """Set the times of modification and of access."""
        node, there = self._ask("set times").name_node(self.own_path(path), "set times")
        node.set_times(there, mtime_ms, mtime_ms if atime_ms is None else atime_ms)

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
        """Space of the whole file system."""
        return self._ask("free space").name_node("/", "free space")[0].free_space()

    def _name_node(self, path: str, operation: str) -> tuple[NameNodeRpc, str] | None:
        """Who may be asked past pyarrow, and the path there; None: nobody."""
        if self._questions is None:
            return None
        try:
            return self._questions.name_node(path, operation)
        except NotSupported:
            return None

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

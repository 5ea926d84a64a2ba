"""Our file systems as fsspec's and pyarrow's, so that pandas, pyarrow.dataset, torch and JAX
loaders work on them unchanged.

Where yarnam is installed, fsspec opens ``hdfs://``, ``webhdfs://`` and ``viewfs://`` URLs by this
module (entry point ``fsspec.specs``):

    pandas.read_parquet("hdfs://nameservice/data/a.parquet")
    pandas.read_parquet("/data/a.parquet", filesystem=to_fsspec(hdfs_utils.connect()))
    pyarrow.dataset.dataset("/data", filesystem=fsspec_adapter.to_pyarrow(client))

A file that is written appears at its name when it is closed, whole (``mode="wb"``).
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Any, cast

import fsspec

from hdfs_utils import uri as uris
from hdfs_utils.backends.base import temporary_name
from hdfs_utils.backends.connect import connect
from hdfs_utils.errors import AlreadyExists, HdfsError, IsADirectory, NotADirectory, NotFound
from hdfs_utils.filesystem import FileStatus, FileSystem, Writer

# Read ahead by at least this much: a loader's small reads would each be a question.
BUFFER = 1 << 20
CONNECTION = ("conf_dir", "user", "timeout_s", "conf", "backend", "doas")


def to_fsspec(fs: FileSystem) -> HdfsUtilsFileSystem:
    """``fs`` as an fsspec file system."""
    return HdfsUtilsFileSystem(client=fs, skip_instance_cache=True)


def to_pyarrow(fs: FileSystem) -> Any:
    """``fs`` as a ``pyarrow.fs.PyFileSystem``."""
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    return PyFileSystem(FSSpecHandler(to_fsspec(fs)))


class HdfsUtilsFileSystem(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """An fsspec file system over one of ours, given (:func:`to_fsspec`) or named by a URL.

    Args:
        uri: any URI on it; by default ``fs.defaultFS``.
        client: the file system itself, instead of ``uri`` and ``connection``.
        connection: further arguments of :func:`hdfs_utils.connect` (``conf_dir``, ``user``,
            ``timeout_s``, ``conf``, ``backend``, ``doas``); to readers of URLs, their
            ``storage_options``.
    """

    protocol = ("hdfs", "webhdfs", "swebhdfs", "viewfs")
    root_marker = "/"

    def __init__(
        self, uri: str | None = None, client: FileSystem | None = None, **connection: Any
    ) -> None:
        ours = {name: connection.pop(name) for name in CONNECTION if name in connection}
        super().__init__(**connection)
        self.client = client or connect(uri, **ours)

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        """What of the constructor's arguments a URL says: its file system."""
        parsed = uris.parse(path)
        if not parsed.scheme:
            return {}
        return {"uri": f"{parsed.scheme}://{parsed.authority}/"}

    @property
    def fsid(self) -> str:
        """The same for all instances of the same file system."""
        return self.client.uri

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text = str(path)
        return uris.parse(text).path if "://" in text else uris.normalise("/" + text.lstrip("/"))

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Status of a path, as fsspec has it."""
        with _translated():
            return _info(self.client.stat(self._strip_protocol(path)))

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """Entries of a directory; a file lists itself."""
        plain = self._strip_protocol(path)
        with _translated():
            try:
                found = self.client.list(plain)
            except NotADirectory:
                found = [self.client.stat(plain)]
        return [_info(status) if detail else status.path for status in found]

    def created(self, path: str) -> Any:
        """The modification time: HDFS keeps no creation time."""
        return self.modified(path)

    def modified(self, path: str) -> Any:
        import datetime as dt

        seconds = self.info(path)["mtime"]
        return dt.datetime.fromtimestamp(seconds, tz=dt.timezone.utc)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        plain = self._strip_protocol(path)
        with _translated():
            if not exist_ok and self.client.exists(plain):
                raise FileExistsError(plain)
            self.client.mkdirs(plain)

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        self.makedirs(path, exist_ok=False)

    def rmdir(self, path: str) -> None:
        with _translated():
            self.client.delete(self._strip_protocol(path))

    def _rm(self, path: str) -> None:
        with _translated():
            if not self.client.delete(self._strip_protocol(path)):
                raise FileNotFoundError(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Delete files, or trees where ``recursive`` says so."""
        for one in path if isinstance(path, list) else [path]:
            with _translated():
                if not self.client.delete(self._strip_protocol(one), recursive=recursive):
                    raise FileNotFoundError(one)

    def mv(self, path1: str, path2: str, **_: Any) -> None:
        """Rename, replacing a file."""
        with _translated():
            source, target = self._strip_protocol(path1), self._strip_protocol(path2)
            self.client.rename(source, target, overwrite=True)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Copy one file through this process; of a directory, its name."""
        if self.isdir(path1):
            self.makedirs(path2, exist_ok=True)
            return
        with self.open(path1, "rb") as source, self.open(path2, "wb") as sink:
            while data := source.read(BUFFER):
                sink.write(data)

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        plain = self._strip_protocol(path)
        with _translated():
            if mode == "rb":
                return io.BufferedReader(cast("Any", self.client.open_reader(plain)), BUFFER)
            if mode in ("wb", "xb"):
                return _Output(self.client, plain, overwrite=mode == "wb")
            if mode == "ab":
                return _Output(self.client, plain, overwrite=False, append=True)
        raise ValueError(f"mode {mode!r}")


class _Output(io.RawIOBase):
    """Written under a hidden name and renamed when it is closed; an append is in place."""

    def __init__(self, fs: FileSystem, path: str, *, overwrite: bool, append: bool = False) -> None:
        super().__init__()
        self._fs = fs
        self._path = path
        self._overwrite = overwrite
        self._temporary = "" if append else temporary_name(path)
        self._failed = False
        if not overwrite and not append and fs.exists(path):
            raise FileExistsError(path)
        self._inner: Writer = fs.open_appender(path) if append else fs.open_writer(self._temporary)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._inner.tell()

    def write(self, data: Any, /) -> int:
        return self._inner.write(memoryview(data).cast("B"))

    def discard(self) -> None:
        """Abort the write."""
        self._failed = True
        self.close()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._failed = kind is not None
        self.close()

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        with _translated():
            if self._failed:
                self._inner.abort()
                return
            self._inner.close()
            if self._temporary:
                self._fs.rename(self._temporary, self._path, overwrite=self._overwrite)


def _info(status: FileStatus) -> dict[str, Any]:
    return {
        "name": status.path,
        "size": None if status.is_dir else status.length,
        "type": "directory" if status.is_dir else "file",
        "mtime": status.mtime_ms / 1000,
        "owner": status.owner,
        "group": status.group,
        "mode": status.permission,
    }


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """fsspec's callers expect Python's built-in errors."""
    try:
        yield
    except NotFound as error:
        raise FileNotFoundError(error.path) from error
    except AlreadyExists as error:
        raise FileExistsError(error.path) from error
    except IsADirectory as error:
        raise IsADirectoryError(error.path) from error
    except NotADirectory as error:
        raise NotADirectoryError(error.path) from error
    except HdfsError as error:
        raise OSError(str(error)) from error

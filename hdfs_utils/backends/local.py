"""The local file system (``file://``) with the same behaviour, for tests, laptops and scratch."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import io
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from hdfs_utils import errors
from hdfs_utils import uri as uris
from hdfs_utils.backends.base import BaseFileSystem
from hdfs_utils.backends.streams import BaseWriter, position_after
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

_BY_ERRNO: dict[int, type[errors.HdfsError]] = {
    errno.ENOENT: errors.NotFound,
    errno.EEXIST: errors.AlreadyExists,
    errno.EACCES: errors.PermissionDenied,
    errno.EPERM: errors.PermissionDenied,
    errno.EROFS: errors.PermissionDenied,
    errno.ENOTDIR: errors.NotADirectory,
    errno.EISDIR: errors.IsADirectory,
    errno.ENOTEMPTY: errors.DirectoryNotEmpty,
    errno.ENOSPC: errors.QuotaExceeded,
    errno.EDQUOT: errors.QuotaExceeded,
    errno.ENAMETOOLONG: errors.InvalidPath,
}


@contextlib.contextmanager
def _translated(operation: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind = _BY_ERRNO.get(error.errno or 0, errors.HdfsError)
        message = error.strerror or str(error)
        raise kind(message, path=path, operation=operation) from error


class LocalFileSystem(BaseFileSystem):
    """``file://``: no time limits are enforced, since a local call cannot be abandoned safely."""

    uri = "file://"
    backend = "local"
    capabilities = Capabilities(is_local=True, recovers_leases=True)

    def __init__(self, limits: TimeLimits | None = None) -> None:
        self.limits = limits or TimeLimits()

    def stat(self, path: str) -> FileStatus:
        plain = self.own_path(path)
        with _translated("stat", plain):
            return _status(plain, Path(plain).stat())

    def list(self, path: str) -> list[FileStatus]:
        plain = self.own_path(path)
        found: list[FileStatus] = []
        with _translated("list", plain):
            for name in sorted(os.listdir(plain)):  # noqa: PTH208 - names, not Path objects
                entry = uris.join(plain, name)
                # Deleted between the listing and the question, or a link to nowhere.
                with contextlib.suppress(FileNotFoundError):
                    found.append(_status(entry, Path(entry).stat()))
        return found

    def open_reader(self, path: str) -> Reader:
        plain = self.own_path(path)
        with _translated("open", plain):
            return _LocalReader(plain)

    def open_writer(
        self,
        path: str,
        overwrite: bool = False,
        replication: int | None = None,
        block_size: int | None = None,
    ) -> Writer:
        """Create a file, its directories too; replication and block size mean nothing here."""
        plain = self.own_path(path)
        with _translated("create", plain):
            if Path(plain).is_dir():
                raise errors.IsADirectory("is a directory", path=plain, operation="create")
            _make(uris.parent(plain), "create")
            if overwrite:
                # A new file and not the old one emptied: its readers and writers keep theirs.
                Path(plain).unlink(missing_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            return _LocalWriter(plain, os.open(plain, flags, 0o644), is_new=True)

    def write_unsettled(self, path: str, data: Data) -> None:
        """Write a file of which nobody else knows, in a directory that is there.

        It is safe from a crash of this process, and from one of the machine after :meth:`settle`:
        a thousand small files are settled in the time of a few.
        """
        plain = self.own_path(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with _translated("create", plain):
            descriptor = os.open(plain, flags, 0o644)
            try:
                _write_all(descriptor, data)
            finally:
                os.close(descriptor)

    def settle(self, path: str) -> None:
        """Return when all that was written to the file system of ``path`` is on its disk."""
        plain = self.own_path(path)
        with _translated("settle", plain):
            descriptor = os.open(plain, os.O_RDONLY | os.O_CLOEXEC)
            try:
                # Not in the os module: Linux has it since 2.6.39, glibc since 2.14.
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.syncfs(descriptor):
                    code = ctypes.get_errno()
                    raise OSError(code, os.strerror(code))
            finally:
                os.close(descriptor)

    def open_appender(self, path: str) -> Writer:
        plain = self.own_path(path)
        with _translated("append", plain):
            descriptor = os.open(plain, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            return _LocalWriter(plain, descriptor, is_new=False)

    def recover_lease(self, path: str) -> None:
        """Take a file over: a copy takes its name, so a writer of the old one is cut off.

        A writer's ``sync`` holds the same lock and looks whether its file still has a name.
        """
        plain = self.own_path(path)
        with _translated("recover lease", plain), Path(plain).open("rb") as old:
            fcntl.flock(old, fcntl.LOCK_EX)
            if os.fstat(old.fileno()).st_nlink == 0:
                return
            copy = uris.hidden_sibling(plain, f".{uuid.uuid4().hex}.tmp")
            with Path(copy).open("xb") as new:
                shutil.copyfileobj(old, new)
                os.fsync(new.fileno())
            shutil.copymode(plain, copy)
            Path(copy).replace(plain)

    def rename(self, src: str, dst: str, overwrite: bool = False) -> None:
        source, target = self.own_path(src), self.own_path(dst)
        with _translated("rename", source):
            is_dir = Path(source).is_dir()
            if Path(target).exists():
                if not overwrite:
                    raise errors.AlreadyExists("already exists", path=target, operation="rename")
                if Path(target).is_dir() and not is_dir:
                    raise errors.IsADirectory("is a directory", path=target, operation="rename")
            if overwrite or is_dir:
                Path(source).rename(target)
            else:
                # A link never replaces, even where somebody made the target just now.
                os.link(source, target)
                Path(source).unlink()

    def delete(self, path: str, recursive: bool = False) -> bool:
        plain = self._deletable(path)
        with _translated("delete", plain):
            try:
                if not Path(plain).is_dir() or Path(plain).is_symlink():
                    Path(plain).unlink()
                elif recursive:
                    shutil.rmtree(plain)
                else:
                    Path(plain).rmdir()
            except (FileNotFoundError, NotADirectoryError):
                return False
        return True

    def mkdirs(self, path: str, permission: int = 0o755) -> None:
        plain = self.own_path(path)
        with _translated("mkdirs", plain):
            if Path(plain).is_dir():
                return
            _make(plain, "mkdirs")
            Path(plain).chmod(permission)

    def chmod(self, path: str, permission: int) -> None:
        plain = self.own_path(path)
        with _translated("chmod", plain):
            Path(plain).chmod(permission)

    def set_times(self, path: str, mtime_ms: int, atime_ms: int | None = None) -> None:
        plain = self.own_path(path)
        with _translated("set times", plain):
            atime_ns = Path(plain).stat().st_atime_ns if atime_ms is None else atime_ms * 1_000_000
            os.utime(plain, ns=(atime_ns, mtime_ms * 1_000_000))

    def concat(self, target: str, sources: Sequence[str]) -> None:
        """Not atomic here: a crash in the middle leaves a longer target and all sources."""
        plain = self.own_path(target)
        with _translated("concat", plain), Path(plain).open("r+b") as sink:
            sink.seek(0, os.SEEK_END)
            for source in sources:
                with Path(self.own_path(source)).open("rb") as piece:
                    shutil.copyfileobj(piece, sink, 1 << 20)
        for source in sources:
            self.delete(source)

    def crc32c(self, paths: Sequence[str]) -> tuple[int, ...]:
        """CRC32C of each file, by reading it: a local disk stores none."""
        from hdfs_utils.protocols.checksums import Crc32c

        found = []
        for path in paths:
            crc = Crc32c()
            with self.open_reader(path) as reader:
                while data := reader.read(1 << 20):
                    crc.update(data)
            found.append(crc.value)
        return tuple(found)

    def checksum(self, path: str) -> FileChecksum:
        """MD5 of the content; it says nothing against an adversary, only against damage."""
        digest = hashlib.md5(usedforsecurity=False)
        with self.open_reader(path) as reader:
            while data := reader.read(1 << 20):
                digest.update(data)
        return FileChecksum("MD5", digest.hexdigest())

    def block_locations(self, path: str) -> tuple[BlockLocation, ...]:
        status = self.stat(path)
        if status.is_dir:
            raise errors.IsADirectory(
                "is a directory", path=status.path, operation="block locations"
            )
        return (BlockLocation(0, status.length, ("localhost",)),) if status.length else ()

    def free_space(self) -> FreeSpace:
        """Space of the disk that holds the root directory."""
        usage = shutil.disk_usage("/")
        return FreeSpace(usage.total, usage.used, usage.free)


def _write_all(descriptor: int, data: Data) -> None:
    view = memoryview(data).cast("B")
    while view:
        view = view[os.write(descriptor, view) :]


def _make(path: str, operation: str) -> None:
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise errors.NotADirectory("is a file", path=path, operation=operation) from error


def _status(path: str, found: os.stat_result) -> FileStatus:
    is_dir = (found.st_mode & 0o170000) == 0o040000
    return FileStatus(
        path=path,
        length=0 if is_dir else found.st_size,
        is_dir=is_dir,
        mtime_ms=found.st_mtime_ns // 1_000_000,
        owner=_owner(found.st_uid),
        group=_group(found.st_gid),
        permission=found.st_mode & 0o7777,
        replication=0 if is_dir else 1,
        block_size=0 if is_dir else max(found.st_size, 1),
    )


def _owner(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _group(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


class _LocalReader(io.FileIO):
    """A local file with the size it had when it was opened."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "rb")
        self._path = path
        self.size = os.fstat(self.fileno()).st_size

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(self.size - self.tell(), 0)
        wanted = left if size is None or size < 0 else min(size, left)
        pieces = []
        with _translated("read", self._path):
            while wanted > 0 and (piece := super().read(wanted)):
                pieces.append(piece)
                wanted -= len(piece)
        return b"".join(pieces)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        return super().seek(position_after(offset, whence, here=self.tell(), size=self.size))


class _LocalWriter(BaseWriter):
    """A local file open for writing, without a buffer of its own."""

    def __init__(self, path: str, descriptor: int, is_new: bool) -> None:
        super().__init__(path, os.fstat(descriptor).st_size, is_new=is_new)
        self._descriptor = descriptor

    def write(self, data: Data, /) -> int:
        self._check_open()
        size = len(memoryview(data).cast("B"))
        self._length += size
        with _translated("write", self._path):
            _write_all(self._descriptor, data)
        return size

    def sync(self) -> None:
        self._check_open()
        self._sync()

    def _sync(self) -> None:
        with _translated("sync", self._path):
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            try:
                if os.fstat(self._descriptor).st_nlink == 0:
                    message = "the file was taken over, deleted or replaced"
                    raise errors.LeaseLost(message, path=self._path, operation="sync")
                os.fsync(self._descriptor)
            finally:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _complete(self) -> None:
        try:
            self._sync()
        finally:
            os.close(self._descriptor)

    def _drop(self) -> None:
        is_named = os.fstat(self._descriptor).st_nlink > 0
        os.close(self._descriptor)
        if self._is_new and is_named:
            with contextlib.suppress(OSError):
                Path(self._path).unlink()

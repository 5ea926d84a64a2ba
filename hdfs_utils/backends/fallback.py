"""The native client, and WebHDFS from when the native one cannot get through.

A switch happens once and stays: when an operation could not reach HDFS at all (refused, no
route, something the client does not know) and the other way answers. What may have taken effect is
never done twice, and a file is never continued by another client: a broken write is begun again
under a fresh name by who writes it (``write_atomic`` of bytes, every transfer).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from hdfs_utils.backends.base import BaseFileSystem
from hdfs_utils.errors import HdfsError, NotSupported, SafeMode, Unavailable
from hdfs_utils.filesystem import (
    BlockLocation,
    Capabilities,
    FileChecksum,
    FileStatus,
    FileSystem,
    FreeSpace,
    Reader,
    Writer,
)

T = TypeVar("T")
_log = logging.getLogger(__name__)


class FallbackFileSystem(BaseFileSystem):
    """Two back-ends of one HDFS.

    Args:
        first: used as long as it gets through.
        make_second: called when it does not; raises NotSupported where nothing may take its place.
    """

    def __init__(self, first: FileSystem, make_second: Callable[[], FileSystem]) -> None:
        self._first = first
        self._make_second = make_second
        self._lock = threading.Lock()
        self._second: FileSystem | None = None
        self._current = first
        self._is_proved = False
        self.uri = first.uri
        self.limits = first.limits

    @property
    def backend(self) -> str:
        return self._current.backend

    @property
    def capabilities(self) -> Capabilities:
        return self._current.capabilities

    def own_path(self, path: str) -> str:
        return self._first.own_path(path)

    def _do(self, call: Callable[[FileSystem], T], *, changes: bool = False) -> T:
        if changes and not self._is_proved:
            self.stat("/")  # which way is settled before anything is changed
        used = self._current
        try:
            found = call(used)
        except (Unavailable, NotSupported) as error:
            if used is not self._first or not self._switched(error):
                raise
            return call(self._current)
        self._is_proved = True
        return found

    def give_up_on(self, error: HdfsError) -> bool:
        """After a broken read or write of data: whether to begin it again, by the other client."""
        return self._current is self._first and self._try_second(error)

    def _switched(self, error: HdfsError) -> bool:
        if isinstance(error, SafeMode):
            return False
        # Once it has answered, its silence is an outage, which is the same for both.
        if isinstance(error, Unavailable) and self._is_proved:
            return False
        return self._try_second(error)

    def _try_second(self, error: HdfsError) -> bool:
        with self._lock:
            try:
                second = self._second or self._make_second()
            except NotSupported as refusal:
                error.message = f"{error.message}; {refusal.message}"
                return False
            try:
                second.stat("/")
            except HdfsError as other:
                _log.info("the other way to HDFS does not answer either: %s", other)
                return False
            self._second = second
        _log.warning("HDFS is asked by %s from now on: %s", second.backend, error)
        self._current = second
        self._is_proved = True
        return True

    def stat(self, path: str) -> FileStatus:
        return self._do(lambda fs: fs.stat(self.own_path(path)))

    def list(self, path: str) -> list[FileStatus]:
        return self._do(lambda fs: fs.list(self.own_path(path)))

    def open_reader(self, path: str) -> Reader:
        return self._do(lambda fs: fs.open_reader(self.own_path(path)))

    def open_writer(
        self,
        path: str,
        overwrite: bool = False,
        replication: int | None = None,
        block_size: int | None = None,
    ) -> Writer:
        plain = self.own_path(path)
        return self._do(
            lambda fs: fs.open_writer(plain, overwrite, replication, block_size), changes=True
        )

    def open_appender(self, path: str) -> Writer:
        return self._do(lambda fs: fs.open_appender(self.own_path(path)), changes=True)

    def read_synced(self, path: str) -> bytes:
        return self._do(lambda fs: fs.read_synced(self.own_path(path)))

    def recover_lease(self, path: str) -> None:
        self._first.recover_lease(path)

    def rename(self, src: str, dst: str, overwrite: bool = False) -> None:
        source, target = self.own_path(src), self.own_path(dst)
        self._do(lambda fs: fs.rename(source, target, overwrite), changes=True)

    def delete(self, path: str, recursive: bool = False) -> bool:
        return self._do(lambda fs: fs.delete(self.own_path(path), recursive), changes=True)

    def mkdirs(self, path: str, permission: int = 0o755) -> None:
        self._do(lambda fs: fs.mkdirs(self.own_path(path), permission))

    def chmod(self, path: str, permission: int) -> None:
        self._do(lambda fs: fs.chmod(self.own_path(path), permission))

    def acl(self, path: str) -> tuple[str, ...]:
        return self._do(lambda fs: fs.acl(self.own_path(path)))

    def set_times(self, path: str, mtime_ms: int, atime_ms: int | None = None) -> None:
        self._do(lambda fs: fs.set_times(self.own_path(path), mtime_ms, atime_ms))

    def concat(self, target: str, sources: Sequence[str]) -> None:
        plain = [self.own_path(source) for source in sources]
        self._do(lambda fs: fs.concat(self.own_path(target), plain), changes=True)

    def checksum(self, path: str) -> FileChecksum:
        return self._do(lambda fs: fs.checksum(self.own_path(path)))

    def crc32c(self, paths: Sequence[str]) -> tuple[int, ...]:
        return self._current.crc32c([self.own_path(path) for path in paths])

    def block_locations(self, path: str) -> tuple[BlockLocation, ...]:
        return self._do(lambda fs: fs.block_locations(self.own_path(path)))

    def report_replicas(self, path: str, offset: int, length: int) -> None:
        self._first.report_replicas(path, offset, length)

    def free_space(self) -> FreeSpace:
        return self._do(lambda fs: fs.free_space())

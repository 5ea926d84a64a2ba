"""An HDFS in memory: the FileSystem protocol with leases, for tests without a cluster.

It is held to the contract of the real ones by ``tests/contract/test_files_contract.py``.
"""

from __future__ import annotations

import hashlib
import io
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hdfs_utils import uri as uris
from hdfs_utils.backends.base import BaseFileSystem
from hdfs_utils.backends.streams import BaseWriter, position_after
from hdfs_utils.errors import (
    AlreadyExists,
    DirectoryNotEmpty,
    HdfsError,
    InvalidPath,
    IsADirectory,
    LeaseConflict,
    LeaseLost,
    NotADirectory,
    NotFound,
)
from hdfs_utils.filesystem import (
    BlockLocation,
    Capabilities,
    Data,
    FileChecksum,
    FileStatus,
    FreeSpace,
    TimeLimits,
)
from hdfs_utils.protocols import checksums

BLOCK_SIZE = 128 << 20


@dataclass
class _Node:
    is_dir: bool
    permission: int
    mtime_ms: int
    data: bytearray = field(default_factory=bytearray)
    # The writer that holds the lease; None for a complete file.
    holder: MemoryWriter | None = None
    block_size: int = BLOCK_SIZE
    replication: int = 1
    owner: str = "me"
    group: str = "us"
    acl: tuple[str, ...] = ()


class MemoryFiles(BaseFileSystem):
    """Thread-safe; the clock counts operations, from a minute ago.

    Attributes:
        fail: called with (operation, path) before each operation; what it raises is raised.
    """

    uri = "hdfs://memory"
    backend = "memory"
    capabilities = Capabilities(recovers_leases=True)

    def __init__(self) -> None:
        self.limits = TimeLimits()
        self.fail: Callable[[str, str], None] = lambda _operation, _path: None
        self._lock = threading.RLock()
        self._clock_ms = round(1000 * (time.time() - 60.0))
        self._nodes: dict[str, _Node] = {"/": _Node(True, 0o755, self._clock_ms)}

    def _enter(self, operation: str, path: str) -> str:
        plain = self.own_path(path)
        if ":" in plain:
            raise InvalidPath("HDFS allows no colon in a name", path=plain, operation=operation)
        self.fail(operation, plain)
        self._clock_ms += 1
        return plain

    def _get(self, plain: str, operation: str) -> _Node:
        try:
            return self._nodes[plain]
        except KeyError:
            raise NotFound("not found", path=plain, operation=operation) from None

    def _file(self, plain: str, operation: str) -> _Node:
        node = self._get(plain, operation)
        if node.is_dir:
            raise IsADirectory("is a directory", path=plain, operation=operation)
        return node

    def _touch_parent(self, plain: str) -> None:
        self._nodes[uris.parent(plain)].mtime_ms = self._clock_ms

    def _children(self, plain: str) -> list[str]:
        return [p for p in self._nodes if p != "/" and uris.parent(p) == plain]

    def stat(self, path: str) -> FileStatus:
        with self._lock:
            plain = self._enter("stat", path)
            return self._status(plain, self._get(plain, "stat"))

    def _status(self, plain: str, node: _Node) -> FileStatus:
        return FileStatus(
            path=plain,
            length=len(node.data),
            is_dir=node.is_dir,
            mtime_ms=node.mtime_ms,
            owner=node.owner,
            group=node.group,
            permission=node.permission,
            replication=0 if node.is_dir else node.replication,
            block_size=0 if node.is_dir else node.block_size,
        )

    def list(self, path: str) -> list[FileStatus]:
        with self._lock:
            plain = self._enter("list", path)
            if not self._get(plain, "list").is_dir:
                raise NotADirectory("is a file", path=plain, operation="list")
            return [self._status(p, self._nodes[p]) for p in sorted(self._children(plain))]

    def open_reader(self, path: str) -> MemoryReader:
        with self._lock:
            plain = self._enter("open", path)
            return MemoryReader(bytes(self._file(plain, "open").data))

    def open_writer(
        self,
        path: str,
        overwrite: bool = False,
        replication: int | None = None,
        block_size: int | None = None,
    ) -> MemoryWriter:
        with self._lock:
            plain = self._enter("create", path)
            old = self._nodes.get(plain)
            if old is not None:
                if old.is_dir:
                    raise IsADirectory("is a directory", path=plain, operation="create")
                if not overwrite:
                    kind = AlreadyExists if old.holder is None else LeaseConflict
                    raise kind("already exists", path=plain, operation="create")
            self.mkdirs(uris.parent(plain))
            node = _Node(False, 0o644, self._clock_ms)
            node.replication = replication or 1
            node.block_size = block_size or BLOCK_SIZE
            self._nodes[plain] = node
            self._touch_parent(plain)
            return MemoryWriter(self, plain, node, is_new=True)

    def open_appender(self, path: str) -> MemoryWriter:
        with self._lock:
            plain = self._enter("append", path)
            node = self._file(plain, "append")
            if node.holder is not None:
                raise LeaseConflict("open for writing", path=plain, operation="append")
            return MemoryWriter(self, plain, node, is_new=False)

    def recover_lease(self, path: str) -> None:
        with self._lock:
            plain = self._enter("recover lease", path)
            self._file(plain, "recover lease").holder = None

    def rename(self, src: str, dst: str, overwrite: bool = False) -> None:
        with self._lock:
            source = self._enter("rename", src)
            target = self.own_path(dst)
            node = self._get(source, "rename")
            self._check_target(node, target, overwrite)
            moved = [p for p in self._nodes if p == source or p.startswith(source + "/")]
            found = {target + p[len(source) :]: self._nodes.pop(p) for p in moved}
            self._nodes.update(found)
            for changed in (source, target):
                self._touch_parent(changed)

    def _check_target(self, node: _Node, target: str, overwrite: bool) -> None:
        old = self._nodes.get(target)
        if old is None:
            if not self._get(uris.parent(target), "rename").is_dir:
                raise NotADirectory("is a file", path=target, operation="rename")
        elif not overwrite:
            raise AlreadyExists("already exists", path=target, operation="rename")
        elif old.is_dir and not node.is_dir:
            raise IsADirectory("is a directory", path=target, operation="rename")
        elif node.is_dir and not old.is_dir:
            raise NotADirectory("is a file", path=target, operation="rename")
        elif old.is_dir and self._children(target):
            raise DirectoryNotEmpty("is not empty", path=target, operation="rename")

    def delete(self, path: str, recursive: bool = False) -> bool:
        with self._lock:
            plain = self._enter("delete", path)
            if plain == "/":
                raise InvalidPath("the root cannot be deleted", path=plain, operation="delete")
            if plain not in self._nodes:
                return False
            if self._children(plain) and not recursive:
                raise DirectoryNotEmpty("is not empty", path=plain, operation="delete")
            for below in [p for p in self._nodes if p == plain or p.startswith(plain + "/")]:
                self._nodes.pop(below).holder = None
            self._touch_parent(plain)
            return True

    def mkdirs(self, path: str, permission: int = 0o755) -> None:
        with self._lock:
            plain = self._enter("mkdirs", path)
            if plain not in self._nodes:
                self.mkdirs(uris.parent(plain), permission)
                self._nodes[plain] = _Node(True, permission, self._clock_ms)
                self._touch_parent(plain)
            elif not self._nodes[plain].is_dir:
                raise NotADirectory("is a file", path=plain, operation="mkdirs")

    def chmod(self, path: str, permission: int) -> None:
        with self._lock:
            plain = self._enter("chmod", path)
            self._get(plain, "chmod").permission = permission

    def acl(self, path: str) -> tuple[str, ...]:
        with self._lock:
            return self._get(self._enter("read ACL", path), "read ACL").acl

    def chown(self, path: str, owner: str, group: str = "") -> None:
        """As an administrator does it."""
        with self._lock:
            node = self._get(self.own_path(path), "chown")
            node.owner, node.group = owner or node.owner, group or node.group

    def set_acl(self, path: str, *entries: str) -> None:
        """``permission`` has to have the mask already."""
        with self._lock:
            self._get(self.own_path(path), "set ACL").acl = entries

    def set_times(self, path: str, mtime_ms: int, atime_ms: int | None = None) -> None:
        with self._lock:
            plain = self._enter("set times", path)
            self._get(plain, "set times").mtime_ms = mtime_ms

    def concat(self, target: str, sources: Sequence[str]) -> None:
        with self._lock:
            plain = self._enter("concat", target)
            node = self._file(plain, "concat")
            pieces = [self._file(self.own_path(source), "concat") for source in sources]
            for piece in pieces:
                node.data += piece.data
            for source in sources:
                self._nodes.pop(self.own_path(source))

    def crc32c(self, paths: Sequence[str]) -> tuple[int, ...]:
        return tuple(checksums.crc32c(self.read_bytes(path)) for path in paths)

    def checksum(self, path: str) -> FileChecksum:
        data = self.read_bytes(path)
        return FileChecksum("MD5", hashlib.md5(data, usedforsecurity=False).hexdigest())

    def block_locations(self, path: str) -> tuple[BlockLocation, ...]:
        node = self._file(self._enter("block locations", path), "block locations")
        starts = range(0, len(node.data), node.block_size)
        sizes = (min(node.block_size, len(node.data) - start) for start in starts)
        return tuple(BlockLocation(a, n, ("memory",)) for a, n in zip(starts, sizes, strict=True))

    def free_space(self) -> FreeSpace:
        used = sum(len(node.data) for node in self._nodes.values())
        return FreeSpace(1 << 40, used, (1 << 40) - used)


class MemoryReader(io.BytesIO):
    """The content as it was when it was opened."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.size = len(data)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return super().seek(position_after(offset, whence, here=self.tell(), size=self.size))


class MemoryWriter(BaseWriter):
    """What is written is visible after ``sync`` only; ``crash`` is a kill -9 of the writer."""

    def __init__(self, files: MemoryFiles, path: str, node: _Node, is_new: bool) -> None:
        super().__init__(path, len(node.data), is_new=is_new)
        self._files = files
        self._node = node
        self._pending = bytearray()
        node.holder = self

    def write(self, data: Data, /) -> int:
        self._check_open()
        self._files.fail("write", self._path)
        self._pending += data
        return len(memoryview(data).cast("B"))

    def tell(self) -> int:
        return len(self._node.data) + len(self._pending)

    def sync(self) -> None:
        self._check_open()
        self._flush("sync")

    def _flush(self, operation: str) -> None:
        with self._files._lock:
            self._files.fail(operation, self._path)
            if self._node.holder is not self:
                raise LeaseLost("taken over", path=self._path, operation=operation)
            self._node.data += self._pending
            self._pending.clear()

    def _complete(self) -> None:
        with self._files._lock:
            self._flush("close")
            self._node.holder = None

    def _drop(self) -> None:
        with self._files._lock:
            if self._node.holder is not self:
                return
            self._node.holder = None
            if self._is_new:
                self._files.delete(self._path)

    def crash(self) -> None:
        """The process is gone: what was not synced is lost, the lease stays."""
        self._closed = True


def fail_on(
    operation: str, error: HdfsError, times: int = 1, after: int = 0
) -> Callable[[str, str], None]:
    """A ``fail`` hook that raises ``error`` at ``times`` uses of ``operation``, the first
    ``after`` left out."""
    left = [times + after]

    def hook(used: str, _path: str) -> None:
        if used == operation and left[0] > 0:
            left[0] -= 1
            if left[0] >= times:
                return
            raise error

    return hook

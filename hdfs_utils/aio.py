"""The same file systems for asyncio: each call on a thread, with the same errors and limits.

fs = hdfs_utils.aio.connect()
async with await fs.open_reader("/data/a") as reader:
    data = await reader.read()
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from hdfs_utils.client import connect as connect_sync
from hdfs_utils.filesystem import (
    BlockLocation,
    Content,
    Data,
    FileChecksum,
    FileStatus,
    FileSystem,
    FreeSpace,
    Reader,
    Writer,
)

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")


def connect(*arguments: Any, **named: Any) -> AsyncFileSystem:
    """As :func:`hdfs_utils.connect`; nothing is sent yet."""
    return AsyncFileSystem(connect_sync(*arguments, **named))


class AsyncReader:
    """A file open for reading; see :class:`hdfs_utils.filesystem.Reader`."""

    def __init__(self, inner: Reader) -> None:
        self._inner = inner

    @property
    def size(self) -> int:
        """Length in bytes when it was opened."""
        return self._inner.size

    async def read(self, size: int = -1, /) -> bytes:
        """Up to ``size`` bytes; all that is left if negative."""
        return await asyncio.to_thread(self._inner.read, size)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go to a position; nothing is sent."""
        return self._inner.seek(offset, whence)

    def tell(self) -> int:
        """The position in bytes."""
        return self._inner.tell()

    async def close(self) -> None:
        """Let it go."""
        await asyncio.to_thread(self._inner.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncWriter:
    """A file open for writing; see :class:`hdfs_utils.filesystem.Writer`."""

    def __init__(self, inner: Writer) -> None:
        self._inner = inner

    async def write(self, data: Data, /) -> int:
        """Take all of ``data``."""
        return await asyncio.to_thread(self._inner.write, data)

    async def sync(self) -> None:
        """Return when all is durable."""
        await asyncio.to_thread(self._inner.sync)

    def tell(self) -> int:
        """Length of the file with all that was written."""
        return self._inner.tell()

    async def close(self) -> None:
        """Complete the file."""
        await asyncio.to_thread(self._inner.close)

    async def abort(self) -> None:
        """Give up."""
        await asyncio.to_thread(self._inner.abort)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await (self.close() if kind is None else self.abort())


class AsyncFileSystem:
    """Any file system of this package; each method as that of the same name there."""

    def __init__(self, sync: FileSystem) -> None:
        self.sync = sync

    @property
    def uri(self) -> str:
        """``hdfs://host:port`` or ``file://``."""
        return self.sync.uri

    async def _run(self, call: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.to_thread(call, *arguments)

    async def stat(self, path: str) -> FileStatus:
        """Status of a path."""
        return await self._run(self.sync.stat, path)

    async def exists(self, path: str) -> bool:
        """Whether the path is there."""
        return await self._run(self.sync.exists, path)

    async def glob(self, pattern: str) -> tuple[FileStatus, ...]:
        """What fits a shell pattern."""
        return await self._run(self.sync.glob, pattern)

    async def walk(self, path: str) -> AsyncIterator[FileStatus]:
        """Everything below a directory."""
        iterator = self.sync.walk(path)
        while (status := await asyncio.to_thread(next, iterator, None)) is not None:
            yield status

    async def open_reader(self, path: str) -> AsyncReader:
        """Open for reading."""
        return AsyncReader(await self._run(self.sync.open_reader, path))

    async def open_writer(
        self,
        path: str,
        overwrite: bool = False,
        replication: int | None = None,
        block_size: int | None = None,
    ) -> AsyncWriter:
        """Create a file."""
        call = self.sync.open_writer
        return AsyncWriter(await self._run(call, path, overwrite, replication, block_size))

    async def open_appender(self, path: str) -> AsyncWriter:
        """Open an existing file to add to it."""
        return AsyncWriter(await self._run(self.sync.open_appender, path))

    async def read_bytes(self, path: str) -> bytes:
        """The whole file."""
        return await self._run(self.sync.read_bytes, path)

    async def write_bytes(self, path: str, data: Data, overwrite: bool = False) -> None:
        """Write a file in place."""
        await self._run(self.sync.write_bytes, path, data, overwrite)

    async def write_atomic(self, path: str, content: Content, overwrite: bool = True) -> None:
        """Write a file that is there whole or not at all."""
        await self._run(self.sync.write_atomic, path, content, overwrite)

    async def rename(self, src: str, dst: str, overwrite: bool = False) -> None:
        """Rename atomically."""
        await self._run(self.sync.rename, src, dst, overwrite)

    async def delete(self, path: str, recursive: bool = False) -> bool:
        """Delete; False if it was not there."""
        return await self._run(self.sync.delete, path, recursive)

    async def mkdirs(self, path: str, permission: int = 0o755) -> None:
        """Make a directory and those above it."""
        await self._run(self.sync.mkdirs, path, permission)

    async def chmod(self, path: str, permission: int) -> None:
        """Set the permission bits."""
        await self._run(self.sync.chmod, path, permission)

    async def set_times(self, path: str, mtime_ms: int, atime_ms: int | None = None) -> None:
        """Set the times."""
        await self._run(self.sync.set_times, path, mtime_ms, atime_ms)

    async def concat(self, target: str, sources: Sequence[str]) -> None:
        """Move the bytes of ``sources`` to the end of ``target``."""
        await self._run(self.sync.concat, target, sources)

    async def recover_lease(self, path: str) -> None:
        """Take a file over from its writer."""
        await self._run(self.sync.recover_lease, path)

    async def checksum(self, path: str) -> FileChecksum:
        """The storage's own checksum."""
        return await self._run(self.sync.checksum, path)

    async def crc32c(self, paths: Sequence[str]) -> tuple[int, ...]:
        """CRC32C of each file."""
        return await self._run(self.sync.crc32c, paths)

    async def block_locations(self, path: str) -> tuple[BlockLocation, ...]:
        """Which hosts hold which part."""
        return await self._run(self.sync.block_locations, path)

    async def free_space(self) -> FreeSpace:
        """Space of the whole file system."""
        return await self._run(self.sync.free_space)

    async def list(self, path: str) -> list[FileStatus]:
        """Entries of a directory by name."""
        return await self._run(self.sync.list, path)

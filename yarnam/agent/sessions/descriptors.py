"""Reads and writes of pipes, terminals and sockets on the event loop, without polling."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from contextlib import suppress

PIECE_BYTES = 256 * 1024
"""Read at a time: what a pipe of a session holds."""


class Descriptor:
    """One non-blocking descriptor, which belongs to this object. One task reads, one writes."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd

    @property
    def fd(self) -> int:
        return self._fd

    async def read(self) -> bytes:
        """Some bytes; empty at the end. A terminal whose processes are gone is at its end."""
        loop = asyncio.get_running_loop()
        while self._fd >= 0:
            try:
                return os.read(self._fd, PIECE_BYTES)
            except BlockingIOError:
                await self._ready(loop.add_reader, loop.remove_reader)
            except OSError as error:
                if error.errno in (errno.EIO, errno.ECONNRESET):
                    return b""
                raise
        return b""

    async def write(self, data: bytes) -> bool:
        """False if the other end does not read any more."""
        loop = asyncio.get_running_loop()
        left = memoryview(data)
        while left and self._fd >= 0:
            try:
                left = left[os.write(self._fd, left) :]
            except BlockingIOError:
                await self._ready(loop.add_writer, loop.remove_writer)
            except OSError:
                return False
        return not left

    async def _ready(self, add: Callable[..., None], remove: Callable[[int], object]) -> None:
        fd = self._fd
        ready = asyncio.get_running_loop().create_future()
        add(fd, _wake, ready)
        try:
            await ready
        finally:
            if self._fd == fd:
                remove(fd)

    def close(self) -> None:
        """Idempotent. Nothing may be reading or writing it."""
        if self._fd >= 0:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._fd)
            loop.remove_writer(self._fd)
            with suppress(OSError):
                os.close(self._fd)
            self._fd = -1


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)

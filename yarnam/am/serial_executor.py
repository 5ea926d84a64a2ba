"""Blocking ports in threads: one thread per port, so that calls to one port keep their order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class SerialExecutor(Protocol):
    """Runs calls one after the other, in the order they were given."""

    async def call(self, function: Callable[[], T]) -> T: ...

    def close(self) -> None: ...


class ThreadSerialExecutor:
    """Runs calls in a thread of its own, which starts with the first one."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    async def call(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function)

    def close(self) -> None:
        """Does not wait for a call under way: each has a limit of its own."""
        self._pool.shutdown(wait=False, cancel_futures=True)

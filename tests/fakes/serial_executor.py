"""An executor for ports that never block."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class InlineSerialExecutor:
    """Calls at once, in the loop's own thread."""

    async def call(self, function: Callable[[], T]) -> T:
        return function()

    def close(self) -> None:
        pass

"""Loading less, faster, at the start of the AM and of the agents.

A gang of 16 starts 17 of these processes at once, often several on a node, and none of them may
train before the last has registered: a tenth of a second of CPU in each is seen by the user.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

PURE_PROTOBUF = "google.protobuf.internal.python_message"
"""Protobuf's messages in Python. Its C form (upb) imports it and never uses it: a sixth of what
gRPC and protobuf cost to load."""


@contextmanager
def light_imports(*, without_ssl: bool) -> Iterator[None]:
    """Import in this block what the process needs. The garbage collector looks at nothing
    meanwhile and at none of it later: modules stay. ``without_ssl`` for a process whose asyncio
    makes no TLS connection (gRPC has its own TLS); who imports ``ssl`` afterwards gets it."""
    is_without_ssl = without_ssl and "ssl" not in sys.modules
    gc.disable()
    _load_on_first_use(PURE_PROTOBUF)
    if is_without_ssl:
        sys.modules["ssl"] = None  # type: ignore[assignment]  # asyncio knows Pythons without it
    try:
        import asyncio  # noqa: F401

        if is_without_ssl:
            del sys.modules["ssl"]
            is_without_ssl = False
        yield
    finally:
        if is_without_ssl:
            del sys.modules["ssl"]
        gc.freeze()
        gc.enable()


def _load_on_first_use(name: str) -> None:
    """``importlib.util.LazyLoader`` would load it at the first import statement that names it."""
    if name not in sys.modules:
        sys.modules[name] = _LoadedOnFirstUse(name)


class _LoadedOnFirstUse(ModuleType):
    """Stands for a module that has not been loaded; the first look into it loads it."""

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):  # what the import system looks at
            raise AttributeError(attribute)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), attribute)

"""Load less, and later: for each command, and at the start of the AM and of the agents.

A gang of 16 starts 17 of these processes together, often several on a node, and none of them may
train before the last has registered: a tenth of a second of CPU in each is seen by the user.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from threading import RLock, get_ident
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
else:
    # importlib.abc loads importlib.resources and tempfile: a tenth of a light start.
    Loader = MetaPathFinder = object


@contextmanager
def on_first_use() -> Iterator[None]:
    """Modules that this block imports are loaded when one of their names is first used.

    Write ``import module`` or ``from package import module`` in it. ``from module import name``
    raises ImportError, unless the module is loaded already. A module that does not exist raises
    immediately; an error in its code raises at each use.
    """
    thread = get_ident()
    if _FINDER not in sys.meta_path:
        # It stays: the modules of a package that waits have to be imported after it.
        sys.meta_path.insert(0, _FINDER)
    _deferring.add(thread)
    try:
        yield
    finally:
        _deferring.discard(thread)


@contextmanager
def light_imports(*, without_ssl: bool) -> Iterator[None]:
    """Import in this block what the process needs. The garbage collector looks at nothing
    meanwhile and at none of it later: modules stay. ``without_ssl`` for a process whose asyncio
    makes no TLS connection (gRPC has its own TLS); who imports ``ssl`` afterwards gets it."""
    is_without_ssl = without_ssl and "ssl" not in sys.modules
    gc.disable()
    with on_first_use():
        # Protobuf's messages in Python: its C form (upb) imports them and never uses them, a sixth
        # of what gRPC and protobuf cost to load.
        import google.protobuf.internal.python_message  # noqa: F401
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


_deferring: set[int] = set()
"""Threads that are in a block of ``on_first_use``."""


class _Finder(MetaPathFinder):
    """Stands before Python's own finders."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if get_ident() not in _deferring:
            return _after_its_package(fullname)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader)
            return spec
        return None


_FINDER = _Finder()


def _after_its_package(fullname: str) -> ModuleSpec | None:
    """Python runs a package before a module in it, and so does this: the package may import that
    module, and must not find it half loaded. None leaves it to Python's own finders."""
    package = sys.modules.get(fullname.rpartition(".")[0])
    if not isinstance(package, _DeferredModule):
        return None
    package.deferred_loader.run(package)
    module = sys.modules.get(fullname)
    return None if module is None else ModuleSpec(fullname, _Loaded(module))


class _Loaded(Loader):
    """Gives the module that its package has imported meanwhile, without running it again."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__
        module.__spec__ = None  # else Python takes that, and runs the module once more

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


class _Loader(Loader):
    def __init__(self, loader: SourceFileLoader) -> None:
        self.loader = loader
        self.lock = RLock()
        self.is_running = False

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _DeferredModule(spec.name, self)

    def exec_module(self, module: ModuleType) -> None:
        """Its code runs later: ``run``."""
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader

    def run(self, module: _DeferredModule) -> None:
        """Run the module's code, its package's first, unless this thread does so already."""
        parent = sys.modules.get(module.__name__.rpartition(".")[0])
        if isinstance(parent, _DeferredModule):
            parent.deferred_loader.run(parent)
        with self.lock:
            if self.is_running or not isinstance(module, _DeferredModule):
                return
            self.is_running = True
            try:
                self.loader.exec_module(module)
                module.__class__ = ModuleType  # type: ignore[assignment]
            finally:
                self.is_running = False


class _DeferredModule(ModuleType):
    """Becomes a plain module when its code has run."""

    def __init__(self, name: str, loader: _Loader) -> None:
        super().__init__(name)
        self.deferred_loader = loader

    def __getattr__(self, name: str) -> Any:
        # The import statement itself asks a package for the modules in it, and Python asks any
        # module for names such as __warningregistry__. Generated gRPC code wants the version.
        is_pythons = name.startswith("__") and name != "__version__"
        if get_ident() not in _deferring and not is_pythons:
            self.deferred_loader.run(self)
        return ModuleType.__getattribute__(self, name)

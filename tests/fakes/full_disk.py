"""A disk that is full from its n-th write on, below one directory: each way in which Python writes.

Python's own calls are replaced, in this process and in those that it forks; so what C libraries and
other programs write is not seen.
"""

from __future__ import annotations

import _io
import builtins
import errno
import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class FullDisk:
    """``fails_at``: the number of the first write that fails (from 1); 0: none does. All later ones
    fail too unless ``once``. ``operations`` are those that were tried, by name and path."""

    def __init__(
        self, root: Path, fails_at: int = 0, *, once: bool = False, code: int = errno.ENOSPC
    ) -> None:
        self.root = root.resolve()
        self.fails_at = fails_at
        self.once = once
        self.code = code
        self.operations: list[tuple[str, str]] = []

    @property
    def has_failed(self) -> bool:
        return 0 < self.fails_at <= len(self.operations)

    def touch(self, name: str, path: Any) -> None:
        """Count a write, and let it fail if it is due."""
        place = self.place_of(path)
        if not place:
            return
        self.operations.append((name, place))
        count = len(self.operations)
        if self.fails_at and (count == self.fails_at if self.once else count >= self.fails_at):
            # As the kernel has it: a failed write does not say of which file.
            named = [] if isinstance(path, int) else [os.fspath(path)]
            raise OSError(self.code, os.strerror(self.code), *named)

    def place_of(self, path: Any) -> str:
        """The path below the root; empty if it is elsewhere."""
        try:
            if isinstance(path, int):
                found = Path(f"/proc/self/fd/{path}").readlink()
            else:
                given = Path(os.fsdecode(path)).absolute()
                found = given.parent.resolve() / given.name
        except (OSError, TypeError):
            return ""
        return str(found) if self.root in (found, *found.parents) else ""

    @contextmanager
    def installed(self) -> Iterator[FullDisk]:
        """Within this block all of the process's threads write to it."""
        replaced: list[tuple[Any, str, Any]] = []

        def replace(module: Any, name: str, new: Any) -> None:
            replaced.append((module, name, getattr(module, name)))
            setattr(module, name, new)

        opened = _opener(self)
        for module in (builtins, io, _io):
            replace(module, "open", opened)
        for name, position in _CALLS.items():
            replace(os, name, _watched(self, name, position))
        # Else shutil copies within the kernel, without os.write.
        if hasattr(shutil, "_USE_CP_SENDFILE"):
            replace(shutil, "_USE_CP_SENDFILE", False)
        try:
            yield self
        finally:
            for module, name, old in reversed(replaced):
                setattr(module, name, old)


_CALLS = {
    "open": 0, "write": 0, "pwrite": 0, "writev": 0, "fsync": 0, "fdatasync": 0, "ftruncate": 0,
    "sendfile": 0, "mkdir": 0, "rename": 1, "replace": 1, "link": 1, "symlink": 1,
}  # fmt: skip
"""Which argument is the file that they write."""


def _watched(disk: FullDisk, name: str, position: int) -> Callable[..., Any]:
    real = getattr(os, name)

    def call(*given: Any, **more: Any) -> Any:
        flags = more.get("flags", given[1] if name == "open" and len(given) > 1 else 0)
        is_read = name == "open" and not flags & _WRITING
        if not is_read and more.get("dir_fd") is None:
            disk.touch(name, given[position])
        return real(*given, **more)

    return call


def _opener(disk: FullDisk) -> Callable[..., Any]:
    real = builtins.open

    class Raw(io.FileIO):
        def write(self, data: Any) -> int:
            disk.touch("write", self.fileno())
            return super().write(data)

    def call(
        file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, errors: Any = None,
        newline: Any = None, closefd: bool = True, opener: Any = None,
    ) -> Any:  # fmt: skip
        if not set(mode) & set("wax+") or not disk.place_of(file):
            return real(file, mode, buffering, encoding, errors, newline, closefd, opener)
        if not isinstance(file, int) and opener is None:
            disk.touch("open", file)
        raw = Raw(file, mode.replace("b", "").replace("t", ""), closefd, opener)
        if buffering == 0:
            return raw
        binary = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        if "b" in mode:
            return binary
        return io.TextIOWrapper(binary, encoding, errors, newline, buffering == 1)

    return call

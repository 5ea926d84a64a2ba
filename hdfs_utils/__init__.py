"""HDFS for training code and tools: a small typed API with time limits and errors that tell.

    >>> import hdfs_utils
    >>> fs = hdfs_utils.connect("file:///")
    >>> fs.exists("/no/such/file")
    False

Start with :func:`connect`. Everything is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hdfs_utils.backends.connect import connect
    from hdfs_utils.backends.fsspec_adapter import to_fsspec, to_pyarrow
    from hdfs_utils.errors import HdfsError
    from hdfs_utils.filesystem import (
        BlockLocation,
        Capabilities,
        FileChecksum,
        FileStatus,
        FileSystem,
        FreeSpace,
        Reader,
        TimeLimits,
        Writer,
    )

__all__ = [
    "BlockLocation", "Capabilities", "FileChecksum", "FileStatus", "FileSystem", "FreeSpace",
    "HdfsError", "Reader", "TimeLimits", "Writer", "connect", "to_fsspec", "to_pyarrow",
]  # fmt: skip

_MODULES = {
    "HdfsError": "errors",
    "connect": "backends.connect",
    "to_fsspec": "backends.fsspec_adapter",
    "to_pyarrow": "backends.fsspec_adapter",
}
"""Where a name is defined; the others are in ``filesystem``."""


def __getattr__(name: str) -> object:
    # An agent that only locks a file starts without the rest.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"hdfs_utils.{_MODULES.get(name, 'filesystem')}")
    value: object = getattr(module, name)
    globals()[name] = value
    return value

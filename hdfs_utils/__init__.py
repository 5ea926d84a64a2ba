"""HDFS for training code and tools: a small typed API with time limits and errors that tell.

    >>> import hdfs_utils
    >>> fs = hdfs_utils.connect("file:///")
    >>> fs.exists("/no/such/file")
    False

Start with :func:`connect`. Everything heavy is imported when it is first used.
"""

from __future__ import annotations

from hdfs_utils.client import connect
from hdfs_utils.errors import HdfsError
from hdfs_utils.filesystem import (
    BlockLocation,
    FileChecksum,
    FileStatus,
    FileSystem,
    FreeSpace,
    Reader,
    TimeLimits,
    Writer,
)

__all__ = [
    "BlockLocation",
    "FileChecksum",
    "FileStatus",
    "FileSystem",
    "FreeSpace",
    "HdfsError",
    "Reader",
    "TimeLimits",
    "Writer",
    "connect",
]

"""What can be wrong with bringing inputs to a node."""

from __future__ import annotations

from hdfs_utils.errors import HdfsError, QuotaExceeded


class NoRoom(QuotaExceeded):
    """The disk, or the cache by its limit, has no room for what is wanted."""


class ChangedInput(HdfsError):
    """A file is not what it was when the list of files was made."""

"""Inputs on a node's own disks: fetched once, verified, shared by the jobs of a user.

A :class:`NodeStore` fetches files of HDFS to local disks. Copies belong to one container, or lie in
a cache (:class:`CacheDir`, one on each disk) that later containers of the same user share.
"""

from hdfs_utils.node_cache.cache_dir import (
    KEEP_FREE_SHARE,
    CacheDir,
    ChangedInput,
    NoSpace,
    WantedFile,
)
from hdfs_utils.node_cache.fetch_progress import FetchProgress, FetchSnapshot
from hdfs_utils.node_cache.node_store import CacheDisk, NodeStore

__all__ = [
    "KEEP_FREE_SHARE", "CacheDir", "CacheDisk", "ChangedInput", "FetchProgress", "FetchSnapshot",
    "NoSpace", "NodeStore", "WantedFile",
]  # fmt: skip

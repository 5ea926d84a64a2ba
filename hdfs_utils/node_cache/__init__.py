"""Inputs on a node's own disks: fetched once, verified, shared by the jobs of a user.

A :class:`NodeStore` brings files of HDFS to local disks. Copies are of one container, or lie in a
cache (:class:`Shelf`, one on each disk) that later containers of the same user find there.
"""

from hdfs_utils.node_cache.counts import Counts, Standing
from hdfs_utils.node_cache.errors import ChangedInput, NoRoom
from hdfs_utils.node_cache.shelf import KEEP_FREE_SHARE, Shelf, Wanted
from hdfs_utils.node_cache.store import NodeStore, Place

__all__ = [
    "KEEP_FREE_SHARE",
    "ChangedInput",
    "Counts",
    "NoRoom",
    "NodeStore",
    "Place",
    "Shelf",
    "Standing",
    "Wanted",
]

"""How the ApplicationMaster reaches the job's data: file systems, the blacklist, looks at files."""

from __future__ import annotations

from collections.abc import Callable

import hdfs_utils
from hdfs_utils import FileSystem, HdfsError, TimeLimits
from hdfs_utils.apart import Outcome, check_apart, parse
from hdfs_utils.blacklist import FileBlacklist
from yarnam.adapters.hdfs_store import as_yarnam
from yarnam.adapters.shared_blacklist import SharedBlacklist
from yarnam.adapters.zookeeper_gate import Gate
from yarnam.ports.blacklist import Bell, InputBlacklist

CHECK_MEMORY = 384 << 20
"""Resident bytes of a look on the ApplicationMaster's node: its container has 1536 MiB, of which
it and Skein's Java use about a third."""


def data_opener(
    own_uri: str, gate: Gate | None, limits: TimeLimits
) -> Callable[[str], tuple[FileSystem, InputBlacklist]]:
    """Opens the file system of a URI with its blacklist, once for each file system. ``own_uri`` is
    of the cluster's own, of which ZooKeeper's bell tells. The function raises YarnamError."""
    opened: dict[str, tuple[FileSystem, InputBlacklist]] = {}

    def open_data(uri: str) -> tuple[FileSystem, InputBlacklist]:
        try:
            files = hdfs_utils.connect(uri, limits=limits)
        except HdfsError as error:
            raise as_yarnam(error, f"reaching {uri}") from error
        if files.uri not in opened:
            bell = _bell(gate) if gate is not None and files.uri == own_uri else None
            opened[files.uri] = (files, SharedBlacklist(FileBlacklist(files), bell))
        return opened[files.uri]

    return open_data


def _bell(gate: Gate) -> Bell:
    """On the session that the AM has anyway. kazoo is loaded here."""
    from yarnam.adapters.zookeeper_bell import ZooKeeperBell

    return ZooKeeperBell(gate.open(), is_shared=True)


def check_on_this_node(uri: str, limit_s: float) -> Outcome:
    """Look at a file in a process of its own."""
    return parse(check_apart(uri, limit_s=limit_s, max_memory=CHECK_MEMORY, nice=0))

"""How the ApplicationMaster reaches the job's data: file systems, blacklist, checks of files."""

from __future__ import annotations

from collections.abc import Callable

import hdfs_utils
from hdfs_utils import FileSystem, HdfsError, TimeLimits
from hdfs_utils.blacklist import FileBlacklist
from hdfs_utils.validation.check_in_subprocess import CheckOutcome, check_in_subprocess, parse
from yarnam._light_imports import on_first_use
from yarnam.adapters.hdfs.error_map import as_yarnam
from yarnam.adapters.hdfs.shared_blacklist import SharedBlacklist
from yarnam.adapters.zookeeper.lazy_session import LazySession
from yarnam.core.model.resources import CHECK_MIB
from yarnam.ports.input_blacklist import BlacklistNotifier, InputBlacklist

with on_first_use():
    from yarnam.adapters.zookeeper import blacklist_notifier

CHECK_MEMORY = CHECK_MIB << 20
"""Resident bytes of a check on the ApplicationMaster's node; its container has room for one."""


def data_opener(
    own_uri: str, session: LazySession | None, limits: TimeLimits
) -> Callable[[str], tuple[FileSystem, InputBlacklist]]:
    """Opens the file system of a URI with its blacklist, once for each file system. ``own_uri`` is
    of the cluster's own, of which ZooKeeper's notifier tells. The function raises YarnamError."""
    opened: dict[str, tuple[FileSystem, InputBlacklist]] = {}

    def open_data(uri: str) -> tuple[FileSystem, InputBlacklist]:
        try:
            files = hdfs_utils.connect(uri, limits=limits)
        except HdfsError as error:
            raise as_yarnam(error, f"reaching {uri}") from error
        if files.uri not in opened:
            notifier = _notifier(session) if session is not None and files.uri == own_uri else None
            opened[files.uri] = (files, SharedBlacklist(FileBlacklist(files), notifier))
        return opened[files.uri]

    return open_data


def _notifier(session: LazySession) -> BlacklistNotifier:
    """On the session that the AM has anyway. kazoo is loaded here."""
    return blacklist_notifier.ZooKeeperBlacklistNotifier(session.open(), is_shared=True)


def check_on_this_node(uri: str, limit_s: float) -> CheckOutcome:
    """Check a file in a process of its own."""
    return parse(check_in_subprocess(uri, limit_s=limit_s, max_memory=CHECK_MEMORY, nice=0))

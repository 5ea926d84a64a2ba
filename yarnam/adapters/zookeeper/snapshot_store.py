"""The shared snapshot of the cluster in ZooKeeper: one node, which every job that waits replaces.

::

    <root>/snapshot       the newest summary (``wire.shared.cluster_summary``)

Anybody may have written it: it is read only within its limits of size, and how old it is follows
from what ZooKeeper and the reader's own clock say, never from its content.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kazoo.exceptions import NodeExistsError, NoNodeError

from hdfs_utils.protocols.rejections import Rejections
from yarnam.adapters.zookeeper.lazy_session import LazySession
from yarnam.core.model.snapshot import ClusterSnapshot, ClusterSummary
from yarnam.errors import WireMismatch
from yarnam.wire.shared.cluster_summary import MAX_BYTES, decode_summary, encode_summary

if TYPE_CHECKING:
    from kazoo.protocol.states import ZnodeStat

log = logging.getLogger("yarnam.zookeeper")

NODE = "snapshot"

PUBLISH_EVERY_S = 1.0
"""A summary younger than this is not replaced: several jobs may have polled simultaneously."""

ADVICE = "Another version of yarnam wrote it, or no job at all: see yarnam docs zookeeper."


class ZooKeeperSnapshots:
    """A ``ports.shared_snapshot.SharedSnapshots``. For one thread at a time."""

    def __init__(self, session: LazySession, *, now_s: Callable[[], float] = time.time) -> None:
        self._session = session
        self._now_s = now_s
        self._version = 0
        """The mzxid of the newest node seen."""
        self._seen_at_s = 0.0
        self._summary: ClusterSummary | None = None
        """Of that version; ``None`` means not read, or not readable."""
        self._is_read = False
        self._mine: int | None = None
        """The node's version as this job last wrote it."""
        self._rejections = Rejections(log, "is not read", ADVICE)

    def newest(self, max_age_s: float) -> ClusterSummary | None:
        stat = self._stat()
        if stat is None or stat.version == self._mine or self._age_s(stat) > max_age_s:
            return None
        if not self._is_read:
            self._is_read, self._summary = True, self._read(stat)
        return self._summary

    def publish(self, snapshot: ClusterSnapshot) -> None:
        stat = self._stat()
        is_unreadable = self._is_read and self._summary is None
        if stat is not None and self._age_s(stat) < PUBLISH_EVERY_S and not is_unreadable:
            return
        data = encode_summary(snapshot)
        if len(data) > MAX_BYTES:
            log.info("the snapshot of %d nodes is too large to share", len(snapshot.nodes))
            return
        zookeeper = self._session.connected()
        path = zookeeper.path(NODE)
        try:
            self._mine = zookeeper.set(path, data)
        except NoNodeError:
            try:
                zookeeper.create(path, data)
                self._mine = 0
            except NodeExistsError:
                pass  # Another job's, of this very moment.

    def _stat(self) -> ZnodeStat | None:
        zookeeper = self._session.connected()
        [stat] = zookeeper.together(
            [zookeeper.checking(zookeeper.path(NODE))], "looking for a snapshot"
        )
        if stat is not None and stat.mzxid != self._version:
            self._version, self._seen_at_s = stat.mzxid, self._now_s()
            self._summary, self._is_read = None, False
        return stat

    def _age_s(self, stat: ZnodeStat) -> float:
        """By the server's clock, which may be behind or ahead of ours; never less than the time
        since this version was first seen."""
        now_s = self._now_s()
        written_at_s: float = stat.mtime / 1000
        return max(now_s - written_at_s, now_s - self._seen_at_s, 0.0)

    def _read(self, stat: ZnodeStat) -> ClusterSummary | None:
        zookeeper = self._session.connected()
        path = zookeeper.path(NODE)
        if stat.dataLength > MAX_BYTES:
            self._rejections.add(path, ValueError(f"it has {stat.dataLength} bytes"))
            return None
        [entry] = zookeeper.read(path)
        if entry is None or entry.changed != self._version:
            return None  # Replaced meanwhile: the next poll sees it.
        try:
            return decode_summary(entry.data)
        except WireMismatch as error:
            self._rejections.add(path, error)
            return None

"""The place where waiting jobs share their snapshots, in memory: one job's side of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from yarnam.core.model.snapshot import ClusterSnapshot, ClusterSummary
from yarnam.errors import Unavailable
from yarnam.wire.shared.cluster_summary import decode_summary, encode_summary


@dataclass
class FakeSnapshotNode:
    """What the jobs share. A test may set it by hand."""

    summary: ClusterSummary | None = None
    written_at_s: float = 0.0


class FakeSharedSnapshots:
    """``is_away``: nobody answers."""

    def __init__(
        self, now_s: Callable[[], float] = time.time, node: FakeSnapshotNode | None = None
    ) -> None:
        self.now_s = now_s
        self.node = node or FakeSnapshotNode()
        self.published = 0
        self.is_away = False
        self._own: ClusterSummary | None = None

    @classmethod
    def of_two_jobs(
        cls, now_s: Callable[[], float]
    ) -> tuple[FakeSharedSnapshots, FakeSharedSnapshots]:
        """Both on one node."""
        node = FakeSnapshotNode()
        return cls(now_s, node), cls(now_s, node)

    def newest(self, max_age_s: float) -> ClusterSummary | None:
        self._enter()
        found = self.node.summary
        if found is self._own or self.now_s() - self.node.written_at_s > max_age_s:
            return None
        return found

    def publish(self, snapshot: ClusterSnapshot) -> None:
        self._enter()
        self.node.summary = self._own = decode_summary(encode_summary(snapshot))
        self.node.written_at_s = self.now_s()
        self.published += 1

    def _enter(self) -> None:
        if self.is_away:
            raise Unavailable("ZooKeeper does not answer")

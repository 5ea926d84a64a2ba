"""One snapshot of the cluster for all waiting jobs, published by those that poll YARN."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from yarnam.core.model.snapshot import ClusterSnapshot, with_summary
from yarnam.errors import YarnamError
from yarnam.ports import ClusterView
from yarnam.ports.shared_snapshot import SharedSnapshots

log = logging.getLogger("yarnam.yarn")


class SharedSnapshotView:
    """A ``ports.ClusterView`` in front of the ResourceManager's. For one thread at a time.

    Args:
        view: the ResourceManager.
        shared: where the jobs share their snapshots.
        now_s: the time in seconds since the epoch.
    """

    def __init__(
        self,
        view: ClusterView,
        shared: SharedSnapshots,
        *,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._view = view
        self._shared = shared
        self._now_s = now_s
        self._own: ClusterSnapshot | None = None
        self._trouble = ""

    def snapshot(self, queue: str, *, max_age_s: float | None = None) -> ClusterSnapshot:
        """See the port. A place for snapshots that does not answer is as none. Raises Unavailable,
        as the view behind it."""
        if max_age_s and (found := self._of_others(queue, max_age_s)) is not None:
            return found
        self._own = taken = self._view.snapshot(queue)
        if max_age_s is not None and taken.queues:
            self._publish(taken)
        return taken

    def _of_others(self, queue: str, max_age_s: float) -> ClusterSnapshot | None:
        if self._own is None:
            return None
        try:
            summary = self._shared.newest(max_age_s)
        except YarnamError as error:
            self._has_failed(error)
            return None
        if summary is None:
            return None
        return with_summary(self._own, summary, queue, self._now_s())

    def _publish(self, taken: ClusterSnapshot) -> None:
        try:
            self._shared.publish(taken)
        except YarnamError as error:
            self._has_failed(error)
        else:
            self._trouble = ""

    def _has_failed(self, error: YarnamError) -> None:
        if error.message != self._trouble:
            log.info("snapshots of the cluster are not shared now: %s", error.message)
        self._trouble = error.message

"""Answers ``ProbeCluster``: how many more tasks fit, and does another job wait for GPUs?"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from yarnam.am.serial_executor import SerialExecutor
from yarnam.core.gang.elastic.sizing import ClusterProbe, WaitingJob, cluster_probe
from yarnam.core.model.actions import ProbeCluster
from yarnam.core.model.events import ClusterSeen
from yarnam.core.placement.elastic_sizes import spare_for_growth
from yarnam.errors import YarnamError
from yarnam.ports import Clock, ClusterView, Inbox
from yarnam.wire.records import JobRecord

log = logging.getLogger("yarnam.am")

Waiters = Callable[[], Sequence[WaitingJob]]
"""The other jobs that wait for GPUs, as far as is known. May block like a port; may raise
YarnamError."""


class GrowthProbe:
    """One probe at a time: one that is slow, as on a busy cluster, comes to its end before the same
    attempt makes another. A cluster that does not answer counts as full and as within its share:
    the size stays, and the next probe comes in its time."""

    def __init__(
        self,
        record: JobRecord,
        view: ClusterView,
        executor: SerialExecutor,
        clock: Clock,
        inbox: Inbox,
        waiters: Waiters = tuple,
    ) -> None:
        self._record = record
        self._view = view
        self._executor = executor
        self._clock = clock
        self._inbox = inbox
        self._waiters = waiters
        self._task: asyncio.Task[None] | None = None
        self._attempt = 0

    def moved(self, record: JobRecord) -> None:
        """Takes the job in another queue."""
        self._record = record

    def request(self, action: ProbeCluster, u: float) -> None:
        is_under_way = self._task is not None and not self._task.done()
        if is_under_way and self._attempt == action.attempt:
            return
        self.close()
        self._attempt = action.attempt
        self._task = asyncio.get_running_loop().create_task(self._reply(action, u))

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _reply(self, action: ProbeCluster, u: float) -> None:
        probed = ClusterProbe(0)
        try:
            probed = await self._executor.call(lambda: self._probe(action))
        except YarnamError as error:
            log.warning("cannot probe the cluster: %s", error.message)
        except Exception:
            # A fault of the planner must not end the probes.
            log.exception("the cluster probe failed")
        seen = ClusterSeen(
            self._clock.now_s(), action.attempt, probed.spare, probed.excess, probed.waiting, u,
            probed.outranked,
        )  # fmt: skip
        self._inbox(seen)

    def _probe(self, action: ProbeCluster) -> ClusterProbe:
        record, growth = self._record, action.growth
        snapshot = self._view.snapshot(record.job.queue)
        waiters = self._waiters()
        spare = spare_for_growth(snapshot, record.job, record.targets, growth, action.excluded)
        return cluster_probe(spare, snapshot.queue, record.job, growth, waiters)

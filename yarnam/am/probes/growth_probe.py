"""Answers ``ProbeCluster``: how many more tasks fit, and does another job wait for GPUs?"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from yarnam.am.serial_executor import SerialExecutor
from yarnam.core.gang.elastic.sizing import WaitingJob, excess_tasks, outranking
from yarnam.core.model.actions import ProbeCluster
from yarnam.core.model.events import ClusterSeen
from yarnam.core.placement.elastic_sizes import spare_tasks
from yarnam.core.placement.supplement import plan_supplement
from yarnam.errors import YarnamError
from yarnam.ports import Clock, ClusterView, Inbox
from yarnam.wire.records import JobRecord

log = logging.getLogger("yarnam.am")

Waiters = Callable[[], Sequence[WaitingJob]]
"""The other jobs that wait for GPUs, as far as is known. May block like a port; may raise
YarnamError."""


class GrowthProbe:
    """One probe at a time. A cluster that does not answer counts as full and as within its share:
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

    def request(self, action: ProbeCluster, u: float) -> None:
        self.close()
        self._task = asyncio.get_running_loop().create_task(self._reply(action, u))

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _reply(self, action: ProbeCluster, u: float) -> None:
        found = (0, 0, 0, 0)
        try:
            found = await self._executor.call(lambda: self._probe(action))
        except YarnamError as error:
            log.warning("cannot probe the cluster: %s", error.message)
        except Exception:
            # A fault of the planner must not end the probes.
            log.exception("the cluster probe failed")
        spare, excess, waiting, outranked = found
        self._inbox(
            ClusterSeen(self._clock.now_s(), action.attempt, spare, excess, waiting, u, outranked)
        )

    def _probe(self, action: ProbeCluster) -> tuple[int, int, int, int]:
        record, growth = self._record, action.growth
        snapshot = self._view.snapshot(record.job.queue)
        waiters = self._waiters()
        spare = 0
        if growth.wanted[0].count:
            spare = spare_tasks(
                lambda part: plan_supplement(
                    snapshot, record.job, part, action.excluded, targets=record.targets
                ),
                growth,
            )
        target = growth.wanted[0].target
        mine = sum(task.role == target.role for task in growth.held)
        excess = excess_tasks(snapshot.queue, waiters, mine, target.resources)
        job = record.job
        outranked = outranking(job.queue, job.gang.priority, waiters)
        return spare, excess, len(waiters), outranked

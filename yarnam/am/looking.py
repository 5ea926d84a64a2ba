"""Answers ``LookAround``: is there room to grow, and does anybody wait for it?"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from yarnam.am.lanes import Lane
from yarnam.errors import YarnamError
from yarnam.gang.sizing import Waiter, excess_tasks
from yarnam.model.actions import LookAround
from yarnam.model.events import ClusterSeen
from yarnam.placement.beside import plan_beside
from yarnam.placement.elastic import spare_tasks
from yarnam.ports import Clock, ClusterView, Inbox
from yarnam.wire.records import JobRecord

log = logging.getLogger("yarnam.am")

Waiters = Callable[[], Sequence[Waiter]]
"""The other jobs that wait for GPUs, as far as is known. May block like a port; may raise
YarnamError."""


class Looking:
    """One look at a time. A cluster that does not answer shows no room and nobody over a share:
    then nothing changes, and the next look comes in its time."""

    def __init__(
        self,
        record: JobRecord,
        view: ClusterView,
        lane: Lane,
        clock: Clock,
        inbox: Inbox,
        waiters: Waiters = tuple,
    ) -> None:
        self._record = record
        self._view = view
        self._lane = lane
        self._clock = clock
        self._inbox = inbox
        self._waiters = waiters
        self._task: asyncio.Task[None] | None = None

    def request(self, action: LookAround, u: float) -> None:
        self.close()
        self._task = asyncio.get_running_loop().create_task(self._answer(action, u))

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _answer(self, action: LookAround, u: float) -> None:
        spare, excess, waiting = 0, 0, 0
        try:
            spare, excess, waiting = await self._lane.call(lambda: self._look(action))
        except YarnamError as error:
            log.warning("cannot look around: %s", error.message)
        except Exception:
            # A fault of the planner must not end the looks.
            log.exception("looking around failed")
        self._inbox(ClusterSeen(self._clock.now_s(), action.attempt, spare, excess, waiting, u))

    def _look(self, action: LookAround) -> tuple[int, int, int]:
        record, growth = self._record, action.growth
        snapshot = self._view.snapshot(record.job.queue)
        waiters = self._waiters()
        spare = 0
        if growth.wanted[0].count:
            spare = spare_tasks(
                lambda part: plan_beside(
                    snapshot, record.job, part, action.excluded, targets=record.targets
                ),
                growth,
            )
        target = growth.wanted[0].target
        mine = sum(standing.role == target.role for standing in growth.standing)
        excess = excess_tasks(snapshot.queue, waiters, mine, target.resources)
        return spare, excess, len(waiters)

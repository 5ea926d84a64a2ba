"""Answers ``RequestPlan``: a fresh snapshot, the planner, an event. Never blocks the loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from yarnam.am.lanes import Lane
from yarnam.am.settings import AmSettings
from yarnam.errors import Unavailable
from yarnam.model.actions import RequestPlan
from yarnam.model.events import Event, PlanReady, PlanRefused
from yarnam.model.placement import NoFit, PlacementPlan, Reason
from yarnam.model.snapshot import ClusterSnapshot
from yarnam.placement import plan
from yarnam.ports import Clock, ClusterView, Inbox
from yarnam.wire.records import JobRecord

log = logging.getLogger("yarnam.am")

Sleep = Callable[[float], Awaitable[None]]


class Planning:
    """One question at a time: a newer one ends an older one's waiting."""

    def __init__(
        self,
        record: JobRecord,
        view: ClusterView,
        lane: Lane,
        clock: Clock,
        inbox: Inbox,
        settings: AmSettings,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._record = record
        self._view = view
        self._lane = lane
        self._clock = clock
        self._inbox = inbox
        self._settings = settings
        self._sleep = sleep
        self._task: asyncio.Task[None] | None = None
        self.trouble = ""
        """Why there is no answer yet, for the status."""

    def request(self, action: RequestPlan) -> None:
        self.close()
        self._task = asyncio.get_running_loop().create_task(self._answer(action))

    def close(self) -> None:
        self.trouble = ""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _answer(self, action: RequestPlan) -> None:
        outcome: PlacementPlan | NoFit
        try:
            snapshot = await self._snapshot()
            outcome = await self._lane.call(lambda: self._plan(snapshot, action))
        except Unavailable as error:
            outcome = NoFit(Reason.RM_UNREACHABLE, is_never=False, message=error.message)
        except Exception as error:
            # A fault of the planner must not leave the gang waiting for an answer for ever.
            log.exception("the planner failed")
            outcome = NoFit(Reason.RM_UNREACHABLE, is_never=False, message=f"internal: {error!r}")
        self.trouble = ""
        self._inbox(self._event(outcome, action))

    def _plan(self, snapshot: ClusterSnapshot, action: RequestPlan) -> PlacementPlan | NoFit:
        return plan(
            snapshot,
            self._record.job,
            action.excluded,
            targets=self._record.targets,
            first_rung=action.first_rung,
            blind=not self._record.job.gang.look_before_ask,
        )

    def _event(self, outcome: PlacementPlan | NoFit, action: RequestPlan) -> Event:
        now_s = self._clock.now_s()
        if isinstance(outcome, NoFit):
            return PlanRefused(now_s, action.attempt, outcome)
        return PlanReady(now_s, action.attempt, outcome)

    async def _snapshot(self) -> ClusterSnapshot:
        """Retried with back-off while the ResourceManager does not answer."""
        deadline_s = self._clock.now_s() + self._settings.plan_patience_s
        pause_s = self._settings.plan_retry_first_s
        queue = self._record.job.queue
        while True:
            try:
                return await self._lane.call(lambda: self._view.snapshot(queue))
            except Unavailable as error:
                left_s = deadline_s - self._clock.now_s()
                if left_s <= 0:
                    raise
                self.trouble = f"the ResourceManager does not answer ({left_s:.0f} s of patience)"
                log.warning("%s: %s", self.trouble, error.message)
            await self._sleep(min(pause_s, max(0.0, left_s)))
            pause_s = min(2 * pause_s, self._settings.plan_retry_cap_s)

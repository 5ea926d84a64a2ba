"""Answers ``RequestPlan``: a fresh snapshot, the planner, an event. Never blocks the loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from yarnam.am.lanes import Lane
from yarnam.am.looking import Looking, Waiters
from yarnam.am.settings import AmSettings
from yarnam.am.turn_taking import Look, Search, TurnTaking
from yarnam.errors import Unavailable
from yarnam.model.actions import LookAround, RequestPlan
from yarnam.model.events import Event, PlanReady, PlanRefused
from yarnam.model.ids import NodeId
from yarnam.model.placement import NoFit, PlacementPlan, Reason
from yarnam.model.snapshot import ClusterSnapshot
from yarnam.placement.answer import answer
from yarnam.placement.early import with_early_first
from yarnam.placement.view import barred_nodes
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
        waiters: Waiters = tuple,
        turns: TurnTaking | None = None,
    ) -> None:
        self._record = record
        self._view = view
        self._lane = lane
        self._clock = clock
        self._inbox = inbox
        self._settings = settings
        self._sleep = sleep
        self._turns = turns
        self._task: asyncio.Task[None] | None = None
        self._looking = Looking(record, view, lane, clock, inbox, waiters)
        self._took_s = 0.0
        """The last snapshot."""
        self.trouble = ""
        """Why there is no answer yet, for the status."""

    def request(self, action: RequestPlan) -> None:
        self.close()
        self._task = asyncio.get_running_loop().create_task(self._answer(action))

    def look_around(self, action: LookAround, u: float) -> None:
        """Answered by ``ClusterSeen``, also where the ResourceManager does not answer."""
        self._looking.request(action, u)

    def close(self) -> None:
        self._looking.close()
        self.trouble = ""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _answer(self, action: RequestPlan) -> None:
        outcome: PlacementPlan | NoFit
        nodes = 0
        try:
            look = await self._find(action)
            nodes = sum(node.is_usable for node in look.snapshot.nodes)
            outcome = look.outcome
        except Unavailable as error:
            outcome = NoFit(Reason.RM_UNREACHABLE, is_never=False, message=error.message)
        except Exception as error:
            # A fault of the planner must not leave the gang waiting for an answer for ever.
            log.exception("the planner failed")
            outcome = NoFit(Reason.RM_UNREACHABLE, is_never=False, message=f"internal: {error!r}")
        self.trouble = ""
        self._inbox(self._event(outcome, action, nodes))

    async def _find(self, action: RequestPlan) -> Look:
        """In turn with other jobs, if it is for a gang that has nothing yet and looks before it
        asks. Lost tasks of a gang that stands are replaced at once: it holds the rest idle."""

        async def look() -> Look:
            snapshot = await self._snapshot()
            began_s = self._clock.now_s()
            outcome = await self._lane.call(lambda: self._plan(snapshot, action))
            return Look(snapshot, outcome, self._took_s + self._clock.now_s() - began_s)

        gang = self._record.job.gang
        if self._turns is None or action.supplement is not None or not gang.look_before_ask:
            return await look()
        return await self._turns.answer(
            Search(
                look,
                lambda seen, avoid, blind: self._plan(seen, action, avoid, blind=blind),
                lambda seen: barred_nodes(seen, self._record.job, action.excluded),
            )
        )

    def _plan(
        self,
        snapshot: ClusterSnapshot,
        action: RequestPlan,
        avoid: tuple[NodeId, ...] = (),
        *,
        blind: bool | None = None,
    ) -> PlacementPlan | NoFit:
        record = self._record
        outcome = answer(
            snapshot,
            record.job,
            record.targets,
            action,
            besides=avoid,
            blind=blind,
            data=record.data,
            seed=record.key,
        )
        if isinstance(outcome, NoFit) or action.attempt > 1 or not record.early:
            return outcome
        return with_early_first(outcome, record.early)

    def _event(self, outcome: PlacementPlan | NoFit, action: RequestPlan, nodes: int) -> Event:
        now_s = self._clock.now_s()
        if isinstance(outcome, NoFit):
            return PlanRefused(now_s, action.attempt, outcome, nodes)
        return PlanReady(now_s, action.attempt, outcome, nodes)

    async def _snapshot(self) -> ClusterSnapshot:
        """Retried with back-off while the ResourceManager does not answer."""
        deadline_s = self._clock.now_s() + self._settings.plan_patience_s
        pause_s = self._settings.plan_retry_first_s
        queue = self._record.job.queue
        while True:
            try:
                began_s = self._clock.now_s()
                found = await self._lane.call(lambda: self._view.snapshot(queue))
            except Unavailable as error:
                left_s = deadline_s - self._clock.now_s()
                if left_s <= 0:
                    raise
                self.trouble = f"the ResourceManager does not answer ({left_s:.0f} s of patience)"
                log.warning("%s: %s", self.trouble, error.message)
            else:
                self._took_s = self._clock.now_s() - began_s
                self.trouble = ""
                return found
            await self._sleep(min(pause_s, max(0.0, left_s)))
            pause_s = min(2 * pause_s, self._settings.plan_retry_cap_s)

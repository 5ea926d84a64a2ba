"""Carries out what the policy of the job's queue says while its gang runs or is suspended.

Every few seconds (``AmSettings.policy_look_s``) it reads the administrator's choice; where there is
one, the other jobs' tickets and the cluster too, and computes the schedule that all jobs of the
queue compute. Of that it carries out its own row: suspend (only what has a checkpoint), resume,
another size. A job that waits looks by itself (``AdmissionPoller``).

It acts by a snapshot of its own, never by one that another job has taken. A job that the policy has
suspended goes on by itself where nothing is chosen any more, or ZooKeeper stays away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from yarnam.am.am_settings import AmSettings
from yarnam.am.serial_executor import SerialExecutor
from yarnam.am.ticket_holder import TicketHolder
from yarnam.core.accounting.attained_service import tasks_for
from yarnam.core.admission import Contention
from yarnam.core.gang import Gang, policy_for
from yarnam.core.model.events import Event, ResumeRequested
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.job_status import Phase
from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.core.model.tickets import RunningGang, Ticket
from yarnam.core.policies.queue_schedule import acts, event_of, queue_schedule
from yarnam.core.policies.schedule import JobDecision
from yarnam.errors import YarnamError
from yarnam.ports import Clock, ClusterView, Inbox
from yarnam.ports.ticket_queue import TicketList

log = logging.getLogger("yarnam.am")

SHARED_AGE_S = 10.0
"""How old a snapshot of another job may be: so the ResourceManager is asked about once in this time
for all jobs together."""

AWAY_S = 60.0
"""A job that the policy has suspended goes on by itself when ZooKeeper has been away for so long:
no session lives longer, and no election takes so long. Ours."""


class PolicyWatcher:
    def __init__(
        self,
        job: JobSpec,
        holder: TicketHolder,
        view: ClusterView,
        executor: SerialExecutor,
        clock: Clock,
        inbox: Inbox,
        settings: AmSettings,
        draw: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._job = job
        self._holder = holder
        self._view = view
        self._executor = executor
        self._clock = clock
        self._inbox = inbox
        self._draw = draw
        self._sleep = sleep
        self._size = policy_for(job).size
        self._pause_s = settings.policy_look_s
        self._away_since_s: float | None = None
        self._before: JobDecision | None = None
        """The row of the last look while the gang ran, or was suspended."""

    async def run(self, gang: Callable[[], Gang]) -> None:
        """Until it is cancelled. Jobs that take no tickets have nothing to look at."""
        while self._holder.is_there:
            await self._sleep(self._pause_s * (0.75 + 0.5 * self._draw()))
            try:
                await self.follow(gang)
            except YarnamError as error:
                log.info("the queue's policy is not followed for now: %s", error.message)
            except Exception:  # The job goes on as it is.
                log.exception("the look at the queue's policy failed")

    async def follow(self, gang: Callable[[], Gang]) -> None:
        """One look, and what follows from it. Raises YarnamError."""
        if not self._is_due(gang()):
            self._away_since_s = self._before = None
            return
        if not await self._holder.look_at_policy():
            self._without_zookeeper(gang())
            return
        self._away_since_s = None
        if self._holder.in_force is None:
            self._resume(gang(), "its queue has no policy any more")
            return
        if not self._is_due(gang()):
            return
        row = await self._row(max_age_s=SHARED_AGE_S)
        if row is not None and acts(row, is_suspended=gang().phase is Phase.SUSPENDED):
            # By another job's snapshot a job may go on as it is, no more.
            row = await self._row(max_age_s=None)
        if row is None or not self._is_due(gang()):
            return
        before, self._before = self._before, row
        self._holder.row = row
        self._carry_out(gang(), row, before)

    # ---- inside ------------------------------------------------------------------------------

    def _is_due(self, gang: Gang) -> bool:
        if gang.is_pre_run:
            return False
        return gang.phase is Phase.RUNNING or (gang.phase is Phase.SUSPENDED and gang.is_yielding)

    async def _row(self, *, max_age_s: float | None) -> JobDecision | None:
        """This job's row; None: the others are not known now."""
        seen = await self._holder.seen_by_policy()
        if seen is None:
            return None
        snapshot = await self._executor.call(
            lambda: self._view.snapshot(self._job.queue, max_age_s=max_age_s)
        )
        return await self._executor.call(lambda: self._computed(snapshot, *seen))

    def _computed(
        self, snapshot: ClusterSnapshot, listed: TicketList, mine: Ticket | RunningGang
    ) -> JobDecision | None:
        self._holder.note_policy(listed.policy)
        in_force = self._holder.in_force
        told = mine.policy
        if in_force is None or told is None:
            return None
        told = replace(told, settings_version=in_force.version)
        tickets, running = list(listed.tickets), list(listed.running)
        if isinstance(mine, Ticket):
            tickets.append(replace(mine, policy=told, aside=""))
        else:
            running.append(replace(mine, policy=told))
        seen = Contention(snapshot, tickets, running, self._clock.now_s())
        found = queue_schedule(self._job.queue, seen, in_force, listed.recorded_gpu_s)
        return found.row(told.job)

    def _carry_out(self, gang: Gang, row: JobDecision, before: JobDecision | None) -> None:
        size = self._size
        event = event_of(
            row,
            self._by,
            self._clock.now_s(),
            is_suspended=gang.phase is Phase.SUSPENDED,
            before=before,
            tasks_for=None if size is None else partial(tasks_for, self._job, gang, size),
            has_made_way=gang.is_sized_by_policy and not self._resizes,
        )
        if isinstance(event, ResumeRequested):
            self._resume(gang, row.why, is_promoted=row.is_promoted)
        elif event is not None:
            self._send(event)

    @property
    def _resizes(self) -> bool:
        in_force = self._holder.in_force
        return in_force is not None and in_force.policy is not None and in_force.policy.resizes

    @property
    def _by(self) -> str:
        in_force = self._holder.in_force
        return f"the queue's policy ({in_force.name})" if in_force else "the queue's policy"

    def _resume(self, gang: Gang, why: str, *, is_promoted: bool = False) -> None:
        if gang.phase is Phase.SUSPENDED and gang.is_yielding:
            log.info("going on: %s", why)
            now_s = self._clock.now_s()
            self._send(ResumeRequested(now_s, self._by, is_policy=True, is_promoted=is_promoted))

    def _without_zookeeper(self, gang: Gang) -> None:
        now_s = self._clock.now_s()
        if self._away_since_s is None:
            self._away_since_s = now_s
        if now_s - self._away_since_s >= AWAY_S:
            self._resume(gang, f"ZooKeeper has been away for {AWAY_S:.0f} s")

    def _send(self, event: Event) -> None:
        log.info("%s: %s", self._by, event)
        self._inbox(event)

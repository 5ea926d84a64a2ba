"""The job's place in the wait queue: what the AM shows the other jobs, and reads of them.

Two sides. ``AdmissionPoller`` waits (``wait_in_queue``, ``others``, ``claim``) while it polls for
room. The loop shows each new state of the gang (``show``), and a task of its own writes what
follows from it to the ticket queue: grants on their way, a running gang, a back-off. The ticket
queue has an executor of its own; when it does not answer, the job goes on without it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Union

from yarnam.am.am_settings import AmSettings
from yarnam.am.serial_executor import SerialExecutor
from yarnam.core.admission.forecast import wait_ratio
from yarnam.core.admission.job_ticket import asked_demands, job_ticket
from yarnam.core.gang import Gang
from yarnam.core.gang.elastic.sizing import WaitingJob, waiting_jobs
from yarnam.core.gang.state import MemberState
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.job_status import Phase
from yarnam.core.model.plans import Target
from yarnam.core.model.tickets import (
    BACKS_OFF,
    SUSPENDED,
    Demand,
    PolicyTicket,
    RunningGang,
    Ticket,
)
from yarnam.core.policies.chosen_policy import (
    NOTHING_CHOSEN,
    PolicyInForce,
    QueuePolicy,
    in_force,
)
from yarnam.core.policies.queue_schedule import as_running
from yarnam.core.policies.schedule import JobDecision
from yarnam.errors import YarnamError
from yarnam.ports import Clock
from yarnam.ports.ticket_queue import Claim, TicketList, TicketQueue
from yarnam.wire.records import TicketRecord

log = logging.getLogger("yarnam.am")

RUNNING_PHASES = frozenset(
    {Phase.CHECKING, Phase.STAGING, Phase.LAUNCHING, Phase.RUNNING, Phase.STOPPING}
)


@dataclass(frozen=True, slots=True)
class AcquiringTicket:
    """The containers that are still to be granted."""

    demands: tuple[Demand, ...]


@dataclass(frozen=True, slots=True)
class AsideTicket:
    """Why the job waits for something else than free GPUs."""

    why: str
    is_yielding: bool = False
    """It has given its GPUs back for the policy of its queue, which counts it on."""


@dataclass(frozen=True, slots=True)
class RunningTicket:
    """The gang runs, or is about to."""

    gang: RunningGang


TicketState = Union[AcquiringTicket, AsideTicket, RunningTicket]


class TicketHolder:
    """``open_queue`` None: the job takes no tickets, and every question is answered at once with
    "without". It is called in the executor, since what it loads takes a while."""

    def __init__(
        self,
        job: JobSpec,
        targets: Sequence[Target],
        application: str,
        open_queue: Callable[[], TicketQueue] | None,
        executor: SerialExecutor,
        clock: Clock,
        settings: AmSettings,
        remember: Callable[[TicketRecord], None] = lambda record: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        describe: Callable[[int], PolicyTicket | None] = lambda version: None,
    ) -> None:
        """``describe``: what the job tells the policy of its queue, of this version."""
        takes_tickets = job.gang.ticket and job.gang.look_before_ask
        self._job = job
        self._asked_for = job.as_pre_run() if job.pre_run.is_due else job
        """What containers are asked for now: those of the gang, or that of its pre-run."""
        self._targets = targets
        self._application = application
        self._open_queue = open_queue if takes_tickets else None
        self._queue: TicketQueue | None = None
        self._executor = executor
        self._clock = clock
        self._settings = settings
        self._remember = remember
        self._sleep = sleep
        self._describe = describe
        self._gang: Gang | None = None
        self._chosen = NOTHING_CHOSEN
        self._aside = ""
        self.in_force: PolicyInForce | None = None
        """The policy of the job's queue, as of the last look; None: there is none."""
        self.row: JobDecision | None = None
        """What it has decided for this job; None: nothing yet."""
        self._changed = asyncio.Event()
        self._shown = asyncio.Event()
        self._state: TicketState | None = None
        self._opening: asyncio.Task[None] | None = None
        self._writer: asyncio.Task[None] | None = None
        self._opened_at_s = 0.0
        self._ticket: Ticket | None = None
        self._number = 0
        self._taken_at_s = 0.0
        self._launched_at_s: float | None = None
        self._forecast_s: float | None = None
        self._wait_ratio: float | None = None
        self._trouble = ""
        self.ran_at_s = -inf
        """When the gang was last seen running."""

    # ---- life --------------------------------------------------------------------------------

    def open(self) -> None:
        """Begin to connect; returns at once."""
        if self._open_queue is None:
            return
        self._opened_at_s = self._clock.now_s()
        loop = asyncio.get_running_loop()
        self._opening = loop.create_task(self._open(self._open_queue))
        self._writer = loop.create_task(self._keep_shown())

    async def _open(self, make: Callable[[], TicketQueue]) -> None:
        loop = asyncio.get_running_loop()

        def changed() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._changed.set)

        try:
            queue = await self._executor.call(make)
            queue.open(changed)
        except Exception as error:
            # No safety rests on it: by chance alone the job gets its gang as well.
            log.exception("no tickets: the job goes on by chance")
            self._open_queue = None
            self._trouble = str(error)
        else:
            self._queue = queue

    def resume(self, record: TicketRecord) -> None:
        """Returns to the position of an earlier AM attempt, which had this number."""
        self._number, self._taken_at_s = record.number, record.taken_at_s

    async def close(self) -> None:
        """Leaves the queue: the job's ticket and its record of a running gang go."""
        tasks = [task for task in (self._opening, self._writer) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._queue is not None:
            await self._executor.call(self._queue.close)

    @property
    def is_there(self) -> bool:
        """Whether the job uses tickets at all."""
        return self._open_queue is not None

    @property
    def trouble(self) -> str:
        """Why there are no tickets for now although there is a queue; empty: there are tickets."""
        return (self._queue.trouble if self._queue else "") or self._trouble

    @property
    def ticket(self) -> Ticket | None:
        return self._ticket

    # ---- for AdmissionPoller -----------------------------------------------------------------

    async def wait_in_queue(self) -> bool:
        """Hold a ticket; each call is a sign of life. False: there are no tickets now."""
        if self._opening is not None:
            await self._opening
        queue = self._queue
        if queue is None:
            return False
        self._state = None  # What the loop showed last is no longer true.
        while queue.trouble and (patience_s := self._patience_s()) > 0:
            await self.wait(patience_s)
        wanted = self._wanted()
        try:
            if self._ticket is None:
                self._take(await self._executor.call(lambda: queue.take(wanted)))
            else:
                self._ticket = wanted
                await self._executor.call(lambda: queue.update(wanted))
        except YarnamError as error:
            self._has_failed(error)
            return False
        self._trouble = ""
        return True

    async def others(self) -> TicketList | None:
        """None: there are no tickets now."""
        queue = self._queue
        if queue is None or self._ticket is None:
            return None
        self._changed.clear()
        try:
            return await self._executor.call(queue.others)
        except YarnamError as error:
            self._has_failed(error)
            return None

    # ---- the policy of the queue -------------------------------------------------------------

    def note_policy(self, chosen: QueuePolicy) -> None:
        """What has been read with the others' tickets. In any thread."""
        if chosen == self._chosen:
            return
        self._chosen, self.in_force = chosen, in_force(chosen)
        if self.in_force is None:
            self.row = None
        if self._ticket is not None:
            self._ticket = replace(self._ticket, policy=self._policy_ticket())

    async def look_at_policy(self) -> bool:
        """Reads what is chosen for the queue, for a job that does not wait; False: the queue does
        not answer."""
        queue = self._queue
        if queue is None:
            return False
        try:
            self.note_policy(await self._executor.call(queue.policy))
        except YarnamError as error:
            self._has_failed(error)
            return False
        self._trouble = ""
        if self._gang is not None:
            self.show(self._gang)
        return True

    async def seen_by_policy(self) -> tuple[TicketList, Ticket | RunningGang] | None:
        """The others, and what they see of this job while its gang runs or is suspended; None: that
        is not known now."""
        queue, state = self._queue, self._state
        if queue is None or state is None:
            return None
        mine: Ticket | RunningGang
        if isinstance(state, RunningTicket):
            mine = state.gang
        else:
            mine = replace(self._wanted(), policy=self._policy_ticket())
        try:
            return await self._executor.call(queue.others), mine
        except YarnamError as error:
            self._has_failed(error)
            return None

    async def set_aside(self, why: str) -> None:
        """The job waits for its turn, not for free GPUs; empty: it waits for those."""
        queue, ticket = self._queue, self._ticket
        if why == self._aside or queue is None or ticket is None:
            return
        self._aside = why
        self._ticket = shown = replace(ticket, aside=why)
        try:
            await self._executor.call(lambda: queue.update(shown))
        except YarnamError as error:
            self._has_failed(error)

    def _policy_ticket(self) -> PolicyTicket | None:
        if self.in_force is None:
            return None
        told = self._describe(self.in_force.version)
        return told if told is not None and told.gpus else None

    # ---- asking ------------------------------------------------------------------------------

    async def claim(self, claim: Claim) -> bool | None:
        """Whether the job may ask now, and the others know for what; None: there are no tickets
        now."""
        queue, asked = self._queue, self._ticket
        if queue is None or asked is None:
            return None

        def remembered(listed: TicketList) -> Ticket | None:
            nonlocal asked
            asked = claim(listed)
            return asked

        try:
            is_ours = await self._executor.call(lambda: queue.claim(remembered))
        except YarnamError as error:
            self._has_failed(error)
            return None
        if is_ours:
            self._ticket = asked
        return is_ours

    async def show_forecast(self, wait_s: float) -> None:
        """Notes the first forecast with the ticket: how well it holds tells others how far to
        trust theirs."""
        queue, ticket = self._queue, self._ticket
        if queue is None or ticket is None or ticket.forecast_s is not None:
            return
        waited_s = max(0.0, self._clock.now_s() - ticket.taken_at_s)
        self._forecast_s = waited_s + wait_s
        self._ticket = shown = replace(ticket, forecast_s=self._forecast_s)
        try:
            await self._executor.call(lambda: queue.update(shown))
        except YarnamError as error:
            self._has_failed(error)

    def pass_over(self, why: str) -> None:
        """The job goes on without the wait queue, for now."""
        log.warning("going on without the wait queue: %s", why)
        self._trouble = why

    async def wait(self, limit_s: float) -> bool:
        """Waits until something has changed since ``others``, but no longer than the limit; returns
        whether it did."""
        await self._either(self._changed, limit_s)
        has_changed = self._changed.is_set()
        self._changed.clear()
        return has_changed

    @property
    def waiting_ticket(self) -> Ticket:
        """The job's ticket, or the one that it would take."""
        return self._ticket or self._wanted()

    # ---- for a gang that grows ---------------------------------------------------------------

    def waiters(self) -> tuple[WaitingJob, ...]:
        """The other jobs that wait with a ticket (``waiting_jobs``). Blocks like the queue."""
        if self._queue is None or self._queue.trouble:
            return ()
        try:
            tickets = self._queue.others().tickets
        except YarnamError as error:
            log.warning("the wait queue is unknown: %s", error.message)
            return ()
        return waiting_jobs(tickets, self._job.queue)

    # ---- for the loop ------------------------------------------------------------------------

    def show(self, gang: Gang) -> None:
        """Takes the gang's new state. Returns at once; the queue is written to in the
        background."""
        if not self.is_there:
            return
        self._gang = gang
        if not gang.is_pre_run:
            self._asked_for = self._job
        state = self._state_of(gang)
        if state is not None and state != self._state:
            self._state = state
            self._shown.set()

    def _state_of(self, gang: Gang) -> TicketState | None:
        phase = gang.phase
        if phase is Phase.RUNNING:
            self.ran_at_s = self._clock.now_s()
        if phase not in RUNNING_PHASES:
            self._launched_at_s = None
        if phase in {Phase.ACQUIRING, Phase.REPLACING}:
            missing = [m for m in gang.members if m.state is MemberState.ASKED]
            return AcquiringTicket(asked_demands(member.target for member in missing))
        if phase in RUNNING_PHASES:
            return RunningTicket(self._running(gang))
        if phase is Phase.BACKING_OFF:
            return AsideTicket(BACKS_OFF)
        if phase is Phase.SUSPENDED:
            return AsideTicket(SUSPENDED, gang.is_yielding)
        return None  # PENDING: AdmissionPoller holds the ticket. The end: the queue is closed.

    def _running(self, gang: Gang) -> RunningGang:
        if self._launched_at_s is None:
            self._launched_at_s = gang.since_s
            if self._forecast_s is not None:
                waited_s = gang.since_s - self._taken_at_s
                self._wait_ratio = wait_ratio(waited_s, self._forecast_s)
                self._forecast_s = None
        held = [member for member in gang.everyone if member.is_holding]
        duration_s = self._asked_for.duration_s
        shown = RunningGang(
            job=self._application,
            queue=self._job.queue,
            gpus=sum(member.target.resources.gpus for member in held),
            ends_at_s=None if duration_s is None else self._launched_at_s + duration_s,
            nodes=gang.gpus_by_node,
            since_s=self._launched_at_s,
            wait_ratio=self._wait_ratio,
            user=self._job.user,
        )
        told = self._policy_ticket()
        return shown if told is None else replace(shown, policy=as_running(told, shown))

    async def _keep_shown(self) -> None:
        """Writes the newest state to the queue, again while it does not answer, and gives signs
        of life while containers are on their way."""
        written: TicketState | None = None
        while True:
            await self._either(self._shown, self._settings.sign_of_life_s)
            self._shown.clear()
            state = self._state
            if state is None or self._queue is None:
                written = None
                continue
            if (
                isinstance(state, AcquiringTicket)
                and isinstance(written, AcquiringTicket)
                and state != written
            ):
                await self._let_polls_age()
                if not isinstance(self._state, AcquiringTicket):
                    self._shown.set()
                    continue
            if await self._write_once(state):
                written = state
            else:
                await self._sleep(self._settings.retry_pause_s)
            if written != self._state:
                self._shown.set()

    async def _let_polls_age(self) -> None:
        """Others add what is on its way to what they saw in use a moment ago: a grant may be
        counted twice for that moment, but never be missed."""
        ends_at_s = self._clock.now_s() + self._settings.shrink_delay_s
        while isinstance(self._state, AcquiringTicket):
            left_s = ends_at_s - self._clock.now_s()
            if left_s <= 0:
                return
            await self._either(self._shown, left_s)
            self._shown.clear()

    async def _write_once(self, state: TicketState) -> bool:
        queue = self._queue
        assert queue is not None
        try:
            if isinstance(state, RunningTicket):
                self._ticket = None
                await self._executor.call(lambda: queue.set_running(state.gang))
                return True
            if self._ticket is None:
                self._take(await self._executor.call(lambda: queue.take(self._wanted())))
            assert self._ticket is not None
            ticket = self._ticket
            if isinstance(state, AcquiringTicket):
                demands = state.demands or ticket.demands
                ticket = replace(ticket, demands=demands, is_acquiring=True, aside="")
                self._aside = ""
            else:
                told = self._policy_ticket() if state.is_yielding else None
                ticket = replace(ticket, is_acquiring=False, aside=state.why, policy=told)
            await self._executor.call(lambda: queue.update(ticket))
        except YarnamError as error:
            self._has_failed(error)
            return False
        self._trouble = ""
        return True

    # ---- inside ------------------------------------------------------------------------------

    async def _either(self, event: asyncio.Event, limit_s: float) -> None:
        """Waits until the event is set, but no longer than the limit."""
        waiting = [
            asyncio.ensure_future(event.wait()),
            asyncio.ensure_future(self._sleep(limit_s)),
        ]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()

    def _take(self, ticket: Ticket) -> None:
        self._ticket = ticket
        if ticket.number != self._number:
            log.info("ticket %d", ticket.number)
            self._number, self._taken_at_s = ticket.number, ticket.taken_at_s
            self._remember(TicketRecord(ticket.number, ticket.taken_at_s))

    def _wanted(self) -> Ticket:
        taken_at_s = self._taken_at_s or self._clock.now_s()
        job, targets = self._asked_for, self._targets
        ticket = job_ticket(job, targets, self._application, self._number, taken_at_s)
        told = self._policy_ticket()
        return replace(ticket, forecast_s=self._forecast_s, policy=told, aside=self._aside)

    def _patience_s(self) -> float:
        """Of the start: the queue is connected to while the AM starts, so there is little left."""
        passed_s = self._clock.now_s() - self._opened_at_s
        return max(0.0, self._settings.ticket_patience_s - passed_s)

    def _has_failed(self, error: YarnamError) -> None:
        if error.message != self._trouble:
            log.warning("no tickets for now: %s", error)
        self._trouble = error.message

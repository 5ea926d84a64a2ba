"""Folds what happens in the wait queue into the queue client of the core, and carries out what it
says: calls, sleeps and tasks. It decides nothing.

Events are stepped one after the other, those that plan or compute a schedule in the thread of the
cluster's view. The ticket queue has a thread of its own, and its answers come back as events. When
it does not answer, the job continues without it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from math import isfinite
from typing import Any, Protocol

from yarnam.am.am_settings import AmSettings
from yarnam.am.serial_executor import SerialExecutor
from yarnam.core.admission import Ask, Decision
from yarnam.core.admission.forecast import Forecast, as_status, forecast
from yarnam.core.gang import Gang
from yarnam.core.gang.elastic.sizing import WaitingJob, waiting_jobs
from yarnam.core.model.tickets import PolicyTicket, Ticket
from yarnam.core.policies.chosen_policy import active_policy
from yarnam.core.policies.schedule import JobDecision
from yarnam.core.queue_client import QueueClient, QueuedJob, new_client, step
from yarnam.core.queue_client import client_actions as ca
from yarnam.core.queue_client import client_events as ce
from yarnam.core.queue_client.admission_rules import claim_decision
from yarnam.core.queue_client.cluster_poll import ClusterPoll, PlanOutcome
from yarnam.core.queue_client.gang_view import GangView, gang_view, settled_end_s
from yarnam.core.queue_client.ticket_list import NOBODY, TicketList
from yarnam.core.queue_client.wait_status import is_same_position, waiting_text
from yarnam.errors import YarnamError
from yarnam.errors.exhaustive import assert_never
from yarnam.ports import Clock, ClusterView, Inbox
from yarnam.ports.ticket_queue import TicketQueue
from yarnam.wire.records import TicketRecord

log = logging.getLogger("yarnam.am")

HEAVY = (ce.TicketsRead, ce.ClusterPolled, ce.SnapshotRead)
"""Events whose step plans, or computes a schedule: up to seconds on a large cluster."""

SHOWS_POLICY = (ce.TicketsRead, ce.ClaimEnded, ce.PolicyRead)
"""Events by which the client may learn that its queue has a policy."""


class Poll(Protocol):
    """Polls the cluster. ``max_age_s``: see ``ports.ClusterView.snapshot``."""

    def __call__(self, max_age_s: float | None = None) -> Awaitable[ClusterPoll]: ...


Answer = tuple[ClusterPoll, PlanOutcome]


class QueueClientShell:
    """Thread-safe in nothing but ``waiters``: all else is for the AM's event loop.

    Args:
        open_queue: opens the ticket queue, in its executor, since what it loads takes a while.
            ``None`` if there is none.
        gang: the gang as it is now.
        describe: what the job reports to the policy of its queue now.
        wait_ends_at_s: when the machine's WAIT timer ends the job, if it runs.
    """

    def __init__(
        self,
        job: QueuedJob,
        *,
        is_pre_run: bool,
        open_queue: Callable[[], TicketQueue] | None,
        queue_executor: SerialExecutor,
        view: ClusterView,
        view_executor: SerialExecutor,
        clock: Clock,
        inbox: Inbox,
        settings: AmSettings,
        draw: Callable[[], float],
        gang: Callable[[], Gang],
        describe: Callable[[], PolicyTicket | None] = lambda: None,
        wait_ends_at_s: Callable[[], float | None] = lambda: None,
        remember: Callable[[TicketRecord], None] = lambda record: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.client: QueueClient = new_client(job, is_pre_run=is_pre_run)
        self._open_queue = open_queue
        self._queue: TicketQueue | None = None
        self._queue_executor = queue_executor
        self._view = view
        self._view_executor = view_executor
        self._clock = clock
        self._inbox = inbox
        self._settings = settings
        self._draw = draw
        self._gang = gang
        self._describe = describe
        self._wait_ends_at_s = wait_ends_at_s
        self._remember = remember
        self._sleep = sleep
        self._events: asyncio.Queue[ce.ClientEvent] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake: asyncio.Task[None] | None = None
        self._poll: Poll | None = None
        self._answer: asyncio.Future[Answer] | None = None
        self._shown: GangView | None = None

    # ---- life --------------------------------------------------------------------------------

    def open(self) -> None:
        """Begins to fold events, and to connect. Returns immediately."""
        self._start(self._fold_all())
        if self._open_queue is not None and self.client.has_queue:
            self._events.put_nowait(ce.Opened())
            self._start(self._connect(self._open_queue))
            self._start(self._look_at_policy())

    async def _connect(self, make: Callable[[], TicketQueue]) -> None:
        loop = asyncio.get_running_loop()

        def changed() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._queue_changed)

        try:
            queue = await self._queue_executor.call(make)
            queue.open(changed)
        except Exception as error:
            # No safety rests on it: at random intervals the job gets its gang as well.
            log.exception("wait queue unavailable; retrying at random intervals")
            self._put(ce.OpenFailed(str(error)))
        else:
            self._queue = queue
            self._put(ce.Connected(queue.trouble))

    def _queue_changed(self) -> None:
        if self._queue is not None:
            self._put(ce.QueueChanged(self._queue.trouble))

    async def _look_at_policy(self) -> None:
        """Each look shortened or prolonged by up to a quarter."""
        while self.client.has_queue:
            await self._sleep(self._settings.policy_look_s * (0.75 + 0.5 * self._draw()))
            self._put(ce.PolicyLookDue(gang_view(self._gang(), self.client.job.size)))

    def resume(self, record: TicketRecord) -> None:
        """Returns to the position of an earlier AM attempt, which had this number."""
        self._put(ce.Resumed(record.number, record.taken_at_s))

    async def close(self) -> None:
        """Leaves the queue: the job's ticket and its record of a running gang go."""
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._queue is not None:
            await self._queue_executor.call(self._queue.close)

    # ---- for the loop ------------------------------------------------------------------------

    @property
    def trouble(self) -> str:
        """Why there are no tickets for now although there is a queue; empty if there are."""
        return (self._queue.trouble if self._queue else "") or self.client.trouble

    def moved(self, queue: str) -> None:
        """Takes the queue that YARN has the job in now."""
        self._put(ce.Moved(queue))

    def show(self, gang: Gang, ends_at_s: float | None = None) -> None:
        """Takes the gang's new state, and its end by its program's own count of steps. Returns
        immediately."""
        if not self.client.has_queue:
            return
        shown_s = self._shown.ends_at_s if self._shown is not None else None
        ends_at_s = settled_end_s(shown_s, ends_at_s, self._clock.now_s())
        view = gang_view(gang, self.client.job.size, ends_at_s)
        if view != self._shown:
            self._shown = view
            self._put(ce.GangChanged(view))

    def waiters(self) -> tuple[WaitingJob, ...]:
        """The other jobs that wait with a ticket (``waiting_jobs``). Blocks like the queue."""
        if self._queue is None or self._queue.trouble:
            return ()
        try:
            tickets = self._queue.others().tickets
        except YarnamError as error:
            log.warning("the wait queue is unknown: %s", error.message)
            return ()
        return waiting_jobs(tickets, self.client.job.queue)

    # ---- for the planner ---------------------------------------------------------------------

    async def admitted(self, poll: Poll, *, needs_admission: bool) -> Answer:
        """The poll and the plan to act upon, or why there is none. Raises what ``poll`` raises."""
        self._poll = poll
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._answer = answer
        self._put(ce.PlanWanted(needs_admission))
        try:
            return await answer
        finally:
            if self._answer is answer:
                self._answer = None
                if not answer.done() or answer.cancelled() or answer.exception() is not None:
                    self._put(ce.PlanWithdrawn())

    def _fail(self, error: BaseException) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    # ---- folding -----------------------------------------------------------------------------

    def _put(self, event: ce.ClientEvent) -> None:
        self._events.put_nowait(event)

    async def _fold_all(self) -> None:
        while True:
            event = await self._events.get()
            try:
                await self._fold(event)
            except Exception as error:
                # A fault of the planner must not leave the gang waiting forever for an answer.
                log.exception("the queue client failed at %s", type(event).__name__)
                self._fail(error)

    async def _fold(self, event: ce.ClientEvent) -> None:
        before, moment = self.client, self._moment(may_learn=isinstance(event, SHOWS_POLICY))
        if isinstance(event, HEAVY):
            self.client, actions = await self._view_executor.call(
                partial(step, before, event, moment)
            )
        else:
            self.client, actions = step(before, event, moment)
        self._note(before)
        for action in actions:
            self._perform(action)

    def _moment(self, *, may_learn: bool) -> ce.Moment:
        """``may_learn``: the client may learn that its queue has a policy."""
        may_learn = may_learn or self.client.policy is not None
        return ce.Moment(
            self._clock.now_s(),
            self._draw(),
            self._describe() if may_learn else None,
            self._wait_ends_at_s(),
        )

    def _note(self, before: QueueClient) -> None:
        client = self.client
        if client.trouble and client.trouble != before.trouble:
            log.warning("without the wait queue for now: %s", client.trouble)
        shown, shown_before = client.waiting, before.waiting
        if shown is not None and (
            shown_before is None or not is_same_position(shown, shown_before)
        ):
            log.info("%s", waiting_text(shown))

    # ---- carrying out ------------------------------------------------------------------------

    def _perform(self, action: ca.ClientAction) -> None:
        match action:
            case ca.AnswerPlan(poll=poll, outcome=outcome):
                if self._answer is not None and not self._answer.done():
                    self._answer.set_result((poll, outcome))
            case ca.Remember(number=number, taken_at_s=taken_at_s):
                log.info("ticket %d", number)
                self._remember(TicketRecord(number, taken_at_s))
            case ca.Send(event=event):
                log.info("by the queue's policy: %s", event)
                self._inbox(event)
            case ca.WakeAt(at_s=at_s):
                if self._wake is not None:
                    self._wake.cancel()
                self._wake = self._start(self._later(at_s - self._clock.now_s(), ce.Woken()))
            case ca.Pause(serial=serial, pause_s=pause_s):
                self._start(self._later(pause_s, ce.PauseOver(serial)))
            case ca.PollCluster() | ca.ReadSnapshot() | ca.Foresee():
                self._start(self._ask_cluster(action))
            case _:
                self._start(self._ask_queue(action))

    async def _later(self, pause_s: float, event: ce.ClientEvent) -> None:
        await self._sleep(max(0.0, pause_s))
        self._put(event)

    async def _ask_cluster(self, action: ca.PollCluster | ca.ReadSnapshot | ca.Foresee) -> None:
        match action:
            case ca.PollCluster(serial=serial, max_age_s=max_age_s):
                if self._poll is None:
                    return
                try:
                    self._put(ce.ClusterPolled(serial, await self._poll(max_age_s)))
                except Exception as error:  # noqa: BLE001 - whoever waits for the plan gets it
                    self._fail(error)
            case ca.ReadSnapshot(serial=serial, max_age_s=max_age_s):
                queue, snapshot = self.client.job.queue, None
                try:
                    snapshot = await self._view_executor.call(
                        lambda: self._view.snapshot(queue, max_age_s=max_age_s)
                    )
                except YarnamError as error:
                    log.info("the queue's policy is not followed for now: %s", error.message)
                self._put(ce.SnapshotRead(serial, snapshot))
            case ca.Foresee():
                self._put(await self._foreseen(action))
            case _:
                assert_never(action)

    async def _foreseen(self, action: ca.Foresee) -> ce.ForecastMade:
        try:
            foreseen = await self._view_executor.call(lambda: forecast(action.me, action.seen))
        except Exception:
            # Nothing depends on it: the job waits all the same.
            log.exception("the forecast failed")
            return ce.ForecastMade(action.serial, None)
        start = as_status(foreseen, action.seen.now_s)
        if isinstance(foreseen, Forecast) and isfinite(foreseen.unwidened_s):
            return ce.ForecastMade(action.serial, start, foreseen.unwidened_s)
        return ce.ForecastMade(action.serial, start)

    async def _ask_queue(
        self,
        action: ca.WriteTicket | ca.WriteRunning | ca.ReadTickets | ca.ReadPolicy | ca.ClaimTurn,
    ) -> None:
        queue = self._queue
        if queue is None:
            self._put(ce.QueueFailed(action.serial, "the wait queue is not open"))
            return
        if isinstance(action, ca.ClaimTurn):
            client, moment = self.client, self._moment(may_learn=True)
            call: Callable[[], ce.ClientEvent] = partial(_claimed, queue, action, client, moment)
        else:
            call = partial(_called, queue, action)
        try:
            self._put(await self._queue_executor.call(call))
        except YarnamError as error:
            self._put(ce.QueueFailed(action.serial, error.message))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _called(  # noqa: RET503 - assert_never does not return
    queue: TicketQueue, action: ca.WriteTicket | ca.WriteRunning | ca.ReadTickets | ca.ReadPolicy
) -> ce.ClientEvent:
    """In the queue's thread."""
    match action:
        case ca.WriteTicket(serial=serial, ticket=ticket, is_taken=is_taken):
            if is_taken:
                queue.update(ticket)
                return ce.TicketWritten(serial)
            return ce.TicketWritten(serial, queue.take(ticket))
        case ca.WriteRunning(serial=serial, gang=gang):
            queue.set_running(gang)
            return ce.TicketWritten(serial)
        case ca.ReadTickets(serial=serial):
            return ce.TicketsRead(serial, queue.others())
        case ca.ReadPolicy(serial=serial):
            chosen = queue.policy()
            return ce.PolicyRead(serial, chosen, active_policy(chosen))
        case _:
            assert_never(action)


def _claimed(
    queue: TicketQueue, action: ca.ClaimTurn, client: QueueClient, moment: ce.Moment
) -> ce.ClaimEnded:
    decided: tuple[Decision | None, JobDecision | None] = None, client.decision
    listed = NOBODY

    def claim(others: TicketList) -> Ticket | None:
        nonlocal decided, listed
        listed, decided = others, claim_decision(client, action.poll, others, moment)
        return decided[0].ticket if isinstance(decided[0], Ask) else None

    is_ours = queue.claim(claim)
    return ce.ClaimEnded(action.serial, is_ours, *decided, listed)

"""Waits until the whole gang fits and the job may ask for it.

Called by ``PlanService`` for a gang that has nothing yet. With tickets the question to the planner
is answered only when ``admission.decide`` says so. Until then the job polls the cluster again and
again, sooner when something changes among the others, and asks YARN for nothing. None of that goes
through the gang machine, so it uses up no attempt; the machine's WAIT timer bounds it. A job that
waits for long for others to take GPUs that lie idle waits for them no longer (``delay_limit``).
Jobs that wait share their snapshots of the cluster; by another job's snapshot a job may wait, but
it never acts: before that it asks the ResourceManager itself.
Without tickets there is one poll, or two where room is scarce, and the machine backs off between
them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from math import isfinite
from typing import Protocol

from yarnam.am.am_settings import AmSettings
from yarnam.am.serial_executor import SerialExecutor
from yarnam.am.ticket_holder import TicketHolder
from yarnam.core.admission import Ask, Contention, Decision, Planner, decide
from yarnam.core.admission.decision import clear_rungs
from yarnam.core.admission.delay_limit import Delay
from yarnam.core.admission.entitlement import ClaimHistory
from yarnam.core.admission.forecast import Forecast, as_status, forecast
from yarnam.core.admission.polling import (
    PollHistory,
    accepted_age_s,
    confirm_delay_s,
    may_confirm,
    must_confirm,
    poll_after_change_s,
    poll_interval_s,
)
from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_status import StartForecast, WaitQueueStatus
from yarnam.core.model.plans import NoFit, PlacementPlan, Reason
from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.core.model.tickets import NOT_ITS_TURN, MustWait, Ticket, in_same_partitions
from yarnam.core.placement.planner import PlanOutcome
from yarnam.core.placement.prelaunch import has_spare_capacity
from yarnam.core.policies.cells import closed_to
from yarnam.core.policies.chosen_policy import PolicyInForce
from yarnam.core.policies.queue_schedule import decide_by_policy
from yarnam.ports import Clock
from yarnam.ports.ticket_queue import TicketList

log = logging.getLogger("yarnam.am")

FORECAST_EVERY_S = 60.0
"""Seconds between two forecasts of the start. A forecast takes up to a second of CPU behind many
other jobs, so it takes at most a fiftieth of the time."""

UNCONFIRMED = "another job's snapshot shows room that was not there a moment ago"

OUTDATED = "another gang has just started"

LEFT_TO_QUOTAS = "free nodes are left to the quotas of other queues (placement.cells)"

CLOCKS_DIFFER_S = 2.0
"""By how much the clocks of two nodes may differ without harm. Those of a cluster are within
milliseconds as a rule; the seconds cost now and then a poll that was not needed."""


@dataclass(frozen=True, slots=True)
class ClusterPoll:
    """One poll of the cluster, with the planner's answer."""

    snapshot: ClusterSnapshot
    outcome: PlanOutcome
    plan: Planner
    """Plans again on this snapshot, with other limits than ``outcome`` was planned with."""
    excluded: frozenset[NodeId] = frozenset()
    """Nodes that the job may not use at all."""
    asked_at_s: float = 0.0
    """When the cluster was asked, by the clock of this AM."""
    took_s: float = 0.0

    @property
    def fits(self) -> bool:
        return isinstance(self.outcome, PlacementPlan)


class Poll(Protocol):
    """Polls the cluster. ``max_age_s``: see ``ports.ClusterView.snapshot``."""

    def __call__(self, max_age_s: float | None = None) -> Awaitable[ClusterPoll]: ...


class AdmissionPoller:
    """``wait_ends_at_s`` tells when the machine's WAIT timer ends the job; None: not known."""

    def __init__(
        self,
        holder: TicketHolder,
        executor: SerialExecutor,
        clock: Clock,
        settings: AmSettings,
        draw: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        wait_ends_at_s: Callable[[], float | None] = lambda: None,
        *,
        respects_cells: bool = False,
    ) -> None:
        self._holder = holder
        self._respects_cells = respects_cells
        self._executor = executor
        self._clock = clock
        self._settings = settings
        self._draw = draw
        self._sleep = sleep
        self._wait_ends_at_s = wait_ends_at_s
        self._has_waited = False
        self._delay = Delay()
        self._history = PollHistory()
        self._claims = ClaimHistory()
        self._claimed_at_s: float | None = None
        """When the job asked for what others hold; None: the last time it asked, it did not."""
        self._took_s = 0.0
        """Seconds that the last own poll took."""
        self._listed: TicketList | None = None
        self._started: frozenset[str] = frozenset()
        """Gangs that ran already when the cluster was last asked because of one of them."""
        self._start: StartForecast | None = None
        self._next_forecast_s = 0.0
        self.waiting: WaitQueueStatus | None = None
        """The job's position in the queue; None while it does not wait."""

    async def admitted(self, poll: Poll) -> ClusterPoll:
        """Polls until there is an answer to act upon: a plan for now, or why there is none."""
        self.waiting = None
        last: MustWait | None = None
        lost_at_s: float | None = None
        self._note_claim()
        # After an attempt that failed the job trusts nobody at first.
        self._history = PollHistory()
        while True:
            polled, decision = await self._poll_and_decide(poll, last)
            if isinstance(decision, Ask):
                self._has_waited = False
                self._claimed_at_s = self._clock.now_s() if decision.is_claim else None
                return replace(polled, outcome=decision.plan)
            if isinstance(decision, NoFit):
                return replace(polled, outcome=decision)
            if decision is not None:
                lost_at_s, last = None, decision
                self._has_waited = True
                await self._holder.set_aside(NOT_ITS_TURN if decision.is_by_policy else "")
                if self._has_been_delayed(decision, polled):
                    self._holder.pass_over(_overdue(decision))
                    self.waiting = None
                    return await self._without_tickets(poll, polled)
                await self._foresee(polled)
                self._show(decision, polled.outcome)
                if self._is_over():
                    return replace(polled, outcome=self._refusal(polled.outcome))
                await self._pause(decision, polled)
                continue
            # The ticket queue does not answer. A job that was in it a moment ago waits for a while.
            if lost_at_s is None:
                lost_at_s = self._clock.now_s()
            patience_s = lost_at_s + self._settings.ticket_grace_s - self._clock.now_s()
            if last is None or patience_s <= 0:
                self.waiting = None
                own = await poll() if polled.snapshot.is_shared else polled
                return await self._without_tickets(poll, own)
            await self._sleep(min(self._settings.retry_pause_s, patience_s))

    # ---- with tickets ------------------------------------------------------------------------

    async def _poll_and_decide(
        self, poll: Poll, last: MustWait | None
    ) -> tuple[ClusterPoll, Decision | None]:
        """One poll, and what follows from it; None: there are no tickets now. By another job's
        snapshot the job may wait, no more."""
        now_s = self._clock.now_s()
        max_age_s = accepted_age_s(self._history, last, now_s) if last else None
        is_queued, polled = await asyncio.gather(self._holder.wait_in_queue(), poll(max_age_s))
        is_confirmed = True
        if last is not None and polled.snapshot.is_shared:
            decision = await self._decide_cached(polled) if is_queued else None
            if decision is None or isinstance(decision, MustWait):
                return polled, decision
            if not may_confirm(self._history, last, now_s):
                return polled, replace(last, reason=UNCONFIRMED)
            polled, is_confirmed = await poll(0.0), False
        if isinstance(polled.outcome, NoFit) and polled.outcome.is_never:
            return polled, polled.outcome
        decision = await self._decide(polled) if is_queued else None
        if isinstance(decision, MustWait) and decision.reason == OUTDATED:
            polled = await poll(0.0)
            decision = await self._decide(polled)
        self._took_s = polled.took_s
        if isinstance(decision, MustWait):
            unconfirmed = 0 if is_confirmed else self._history.unconfirmed + 1
            history = replace(self._history, unconfirmed=unconfirmed)
            self._history = history.after_own_poll(decision, self._clock.now_s(), self._draw())
        return polled, decision

    def _note_claim(self) -> None:
        """The gang has to be acquired anew. How long ago was its claim, if it has run since?"""
        if self._claimed_at_s is not None:
            now_s, has_run = self._clock.now_s(), self._holder.ran_at_s >= self._claimed_at_s
            lasted_s = now_s - self._claimed_at_s if has_run else 0.0
            self._claims = self._claims.after(now_s, lasted_s)
            self._claimed_at_s = None

    def _has_been_delayed(self, decision: MustWait, polled: ClusterPoll) -> bool:
        """Whether others have left GPUs idle for too long. By this job's own polls; another's can
        only show that the GPUs have been in use meanwhile."""
        now_s = self._clock.now_s()
        if decision.is_by_policy:
            self._delay = Delay()
            return False
        if polled.snapshot.is_shared:
            if not polled.fits:
                self._delay = self._delay.after(decision, now_s, fits=False)
            return False
        self._delay = self._delay.after(decision, now_s, fits=polled.fits)
        return self._delay.is_over(self._holder.waiting_ticket, decision)

    async def _decide_cached(self, polled: ClusterPoll) -> Decision | None:
        """Decides by the cached copy of the other jobs' tickets; None: there are no tickets now."""
        listed = await self._holder.others()
        if listed is None:
            return None
        self._listed = listed
        return await self._executor.call(lambda: self._decided(polled, listed))

    def _decided(self, polled: ClusterPoll, listed: TicketList) -> Decision:
        now_s, holder = self._clock.now_s(), self._holder
        holder.note_policy(listed.policy)
        me, in_force = holder.waiting_ticket, holder.in_force
        seen = _seen(me, polled, listed, now_s)
        closed = closed_to(me, seen) if self._respects_cells else frozenset[NodeId]()
        if not closed:
            return self._decided_on(polled, me, seen, listed, in_force)
        inside = _without(polled, closed)
        decision = self._decided_on(inside, me, seen, listed, in_force)
        if isinstance(decision, MustWait) and polled.fits and isinstance(inside.plan(), NoFit):
            return replace(decision, reason=LEFT_TO_QUOTAS, is_by_policy=True)
        return decision

    def _decided_on(
        self,
        polled: ClusterPoll,
        me: Ticket,
        seen: Contention,
        listed: TicketList,
        in_force: PolicyInForce | None,
    ) -> Decision:
        now_s, holder = seen.now_s, self._holder
        may_claim = self._claims.may_claim(now_s)
        if in_force is None or not me.gpus:
            return decide(
                me, seen, polled.plan, may_fit=polled.fits, excluded=polled.excluded,
                may_claim=may_claim,
            )  # fmt: skip
        decision, holder.row = decide_by_policy(
            me, seen, polled.plan, in_force, listed.recorded_gpu_s, may_fit=polled.fits,
            excluded=polled.excluded, may_claim=may_claim,
        )  # fmt: skip
        return decision

    async def _decide(self, polled: ClusterPoll) -> Decision | None:
        """Decides with the other jobs' tickets; None: there are no tickets now. The first poll
        reads them only for the claim, which mostly succeeds. Later polls decide from the cached
        copy first, and read the tickets again for the claim."""
        mine = self._holder.waiting_ticket
        decision: Decision | None = None
        if self.waiting is not None or not polled.fits:
            decision = await self._decide_cached(polled)
            if not isinstance(decision, Ask):
                return decision

        def claim(listed: TicketList) -> Ticket | None:
            nonlocal decision
            if self._is_outdated(polled, listed):
                decision = MustWait(0, mine, OUTDATED)
                return None
            decision = self._decided(polled, listed)
            return decision.ticket if isinstance(decision, Ask) else None

        is_ours = await self._holder.claim(claim)
        if is_ours is None or decision is None:
            return None
        if not isinstance(decision, Ask):
            return decision
        if not is_ours:
            # Overtaken several times in a row: others are on their way, so poll again.
            return MustWait(0, mine, "other jobs asked first")
        return decision

    def _is_outdated(self, polled: ClusterPoll, listed: TicketList) -> bool:
        """Whether a gang runs whose containers the snapshot may not show, because they were granted
        after it. Its ticket has gone, so nothing else tells of them."""
        since_s = polled.asked_at_s - CLOCKS_DIFFER_S
        new = any(
            gang.since_s is not None and gang.since_s >= since_s and gang.job not in self._started
            for gang in listed.running
        )
        if new:
            self._started = frozenset(gang.job for gang in listed.running)
        return new

    async def _pause(self, last: MustWait, polled: ClusterPoll) -> None:
        """Sleeps until the next poll. A change among the other jobs brings it forward, in the order
        of the queue, so that they do not all poll at once."""
        # Polling a large cluster is work for the ResourceManager: let it rest ten times as long.
        rest_s = 0.0 if polled.snapshot.is_shared else 10 * polled.took_s
        pause_s = max(rest_s, poll_interval_s(last, self._draw()))
        ends_at_s = self._wait_ends_at_s()
        if ends_at_s is not None:
            left_s = ends_at_s - self._settings.last_reason_s - self._clock.now_s()
            pause_s = max(0.0, min(pause_s, left_s))
        began_s = self._clock.now_s()
        if await self._holder.wait(pause_s):
            left_s = began_s + pause_s - self._clock.now_s()
            soon_s = max(rest_s, poll_after_change_s(last, self._draw(), self._took_s))
            await self._sleep(max(0.0, min(left_s, soon_s)))

    async def _foresee(self, polled: ClusterPoll) -> None:
        """When the job is likely to start. Computed now and then, as it takes a while."""
        began_s, listed = self._clock.now_s(), self._listed
        if self._holder.in_force is not None:
            self._start = None  # Forecasts know the order of today's rules only.
            return
        if listed is None or began_s < self._next_forecast_s:
            return
        me = self._holder.waiting_ticket
        seen = _seen(me, polled, listed, began_s)
        try:
            found = await self._executor.call(lambda: forecast(me, seen))
        except Exception:
            # Nothing depends on it: the job waits all the same.
            log.exception("the forecast failed")
            self._start = None
        else:
            self._start = as_status(found, began_s)
            if isinstance(found, Forecast) and isfinite(found.unwidened_s):
                await self._holder.show_forecast(found.unwidened_s)
        now_s = self._clock.now_s()
        self._next_forecast_s = now_s + max(FORECAST_EVERY_S, 50.0 * (now_s - began_s))

    def _is_over(self) -> bool:
        """Whether the gang machine is about to end all waiting. It gets the reason before that."""
        ends_at_s = self._wait_ends_at_s()
        if ends_at_s is None:
            return False
        return self._clock.now_s() >= ends_at_s - self._settings.last_reason_s

    def _refusal(self, outcome: PlanOutcome) -> NoFit:
        if isinstance(outcome, NoFit):
            return outcome
        assert self.waiting is not None
        return NoFit(
            Reason.WAITING_FOR_ADMISSION, is_never=False, message=waiting_text(self.waiting)
        )

    def _show(self, last: MustWait, outcome: PlanOutcome) -> None:
        ticket, head = self._holder.ticket, last.head
        shown = WaitQueueStatus(
            ticket=ticket.number if ticket else 0,
            ahead=last.ahead,
            head=head.job if last.ahead else "",
            head_name=head.name if last.ahead else "",
            head_gpus=head.gpus if last.ahead else 0,
            reason=last.reason,
            missing=outcome.message if isinstance(outcome, NoFit) else "",
            start=self._start,
            trouble=self._listed.trouble if self._listed else "",
        )
        if self.waiting is None or _news(shown) != _news(self.waiting):
            log.info("%s", waiting_text(shown))
        self.waiting = shown

    # ---- without -----------------------------------------------------------------------------

    async def _without_tickets(self, poll: Poll, polled: ClusterPoll) -> ClusterPoll:
        """Without tickets: where capacity is scarce, poll again after a random pause, and ask only
        if the GPUs are still free."""
        outcome = polled.outcome
        has_spare = isinstance(outcome, PlacementPlan) and has_spare_capacity(
            polled.snapshot, outcome.rungs[0]
        )
        if must_confirm(outcome, has_spare=has_spare, has_waited=self._has_waited):
            await self._sleep(confirm_delay_s(self._draw()))
            polled = await poll()
        self._has_waited = not polled.fits
        return polled


def _without(polled: ClusterPoll, closed: frozenset[NodeId]) -> ClusterPoll:
    """The same poll for a gang that does not use these nodes, by rungs that leave YARN no choice if
    there are any. They may be open to it later."""

    def plan(avoid: tuple[NodeId, ...] = (), *, blind: bool = False) -> PlanOutcome:
        found = polled.plan((*avoid, *sorted(closed)), blind=blind)
        if isinstance(found, NoFit):
            return replace(found, is_never=False)
        return clear_rungs(found, closed, polled.snapshot) or found

    return replace(polled, plan=plan, excluded=polled.excluded | closed)


def _seen(me: Ticket, polled: ClusterPoll, listed: TicketList, now_s: float) -> Contention:
    tickets = in_same_partitions(me, listed.tickets)
    return Contention(polled.snapshot, tickets, listed.running, now_s)


def _news(status: WaitQueueStatus) -> WaitQueueStatus:
    """The part of the status that is logged when it changes."""
    return replace(status, reason="", start=None)


def _overdue(last: MustWait) -> str:
    return (
        "the gang has fitted for long on GPUs that the jobs ahead of it do not take (first of them "
        f"{last.head.name} ({last.head.job}): {last.reason}). If they should: "
        "docs/how-to/zookeeper.md"
    )


def waiting_text(status: WaitQueueStatus) -> str:
    """One line for a person to read."""
    text = _waiting_text(status)
    return f"{text}; {status.trouble}" if status.trouble else text


def _waiting_text(status: WaitQueueStatus) -> str:
    if status.ahead:
        head = f"{status.head_name} ({status.head})" if status.head_name else status.head
        needs = f" needs {status.head_gpus} GPUs" if status.head_gpus else " is first"
        ahead = "1 job" if status.ahead == 1 else f"{status.ahead} jobs"
        return f"waiting behind {ahead} ({head}{needs}): {status.missing or status.reason}"
    # The planner says better what is missing, but it knows no queue and no ends.
    if status.missing and status.reason.startswith("first in the queue"):
        return f"waiting for free GPUs: {status.reason}: {status.missing}"
    return f"waiting for free GPUs: {status.missing or status.reason}"

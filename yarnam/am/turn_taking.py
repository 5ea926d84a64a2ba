"""Waiting for the whole gang's room, in turn with other jobs.

Called by ``Planning`` for a gang that has nothing yet. With tickets the question to the planner is
answered only when it is this job's turn and its gang fits: until then the job looks again and
again, sooner when something changes among the others, and asks YARN for nothing. Nothing of that
goes through the gang machine, so it uses up no attempt; the machine's WAIT timer bounds it. Without
tickets there is one look, or two where room is scarce, and the machine backs off between them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Union

from yarnam.am.lanes import Lane
from yarnam.am.line import Line
from yarnam.am.settings import AmSettings
from yarnam.model.ids import NodeId
from yarnam.model.placement import NoFit, PlacementPlan, Reason
from yarnam.model.snapshot import ClusterSnapshot
from yarnam.model.status import StartForecast, TurnStatus
from yarnam.model.tickets import MayAsk, Ticket, Turn, WaitTurn
from yarnam.placement.early import has_room_to_spare
from yarnam.ports import Clock
from yarnam.ports.tickets import TicketList
from yarnam.queues import (
    clear_of,
    look_after_change_s,
    look_interval_s,
    second_look_s,
    turn,
)
from yarnam.queues.forecast import as_status, forecast

log = logging.getLogger("yarnam.am")

Outcome = Union[PlacementPlan, NoFit]


FORECAST_EVERY_S = 60.0
"""Between two forecasts of the start, which take up to a second of CPU with a long line; they take
at most a fiftieth of the time."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the cluster, and what the planner says to it."""

    snapshot: ClusterSnapshot
    outcome: Outcome
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Search:
    """How one question to the planner is answered. ``plan`` is pure: it takes the nodes to leave
    out besides, and whether to take everything usable as free. ``barred``: the nodes that the job
    may not use at all."""

    look: Callable[[], Awaitable[Look]]
    plan: Callable[[ClusterSnapshot, tuple[NodeId, ...], bool], Outcome]
    barred: Callable[[ClusterSnapshot], frozenset[NodeId]] = lambda snapshot: frozenset()


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows from one look and the others' tickets. ``plan`` None: wait."""

    turn: Turn
    plan: PlacementPlan | None = None


class TurnTaking:
    """``wait_ends_at_s`` tells when the machine's WAIT timer ends the job; None: not known."""

    def __init__(
        self,
        line: Line,
        lane: Lane,
        clock: Clock,
        settings: AmSettings,
        draw: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        wait_ends_at_s: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._line = line
        self._lane = lane
        self._clock = clock
        self._settings = settings
        self._draw = draw
        self._sleep = sleep
        self._wait_ends_at_s = wait_ends_at_s
        self._has_waited = False
        self._listed: TicketList | None = None
        self._start: StartForecast | None = None
        self._next_forecast_s = 0.0
        self.waiting: TurnStatus | None = None
        """The job's place, while it waits in line."""

    async def answer(self, search: Search) -> Look:
        """The look to act upon: a plan for now, or why there is none."""
        self.waiting = None
        is_waiting = False
        lost_at_s: float | None = None
        while True:
            in_line, look = await asyncio.gather(self._line.stand_in(), search.look())
            if isinstance(look.outcome, NoFit) and look.outcome.is_never:
                return look
            decision = await self._decide(search, look) if in_line else None
            if decision is not None:
                lost_at_s = None
                if decision.plan is not None:
                    self._has_waited = False
                    return replace(look, outcome=decision.plan)
                self._has_waited = is_waiting = True
                await self._foresee(look)
                self._show(decision.turn, look.outcome)
                if self._is_over():
                    return replace(look, outcome=self._refusal(decision.turn, look.outcome))
                await self._pause(decision.turn, look)
                continue
            # The office does not answer. Who was in line a moment ago waits for it a while.
            if lost_at_s is None:
                lost_at_s = self._clock.now_s()
            patience_s = lost_at_s + self._settings.office_grace_s - self._clock.now_s()
            if not is_waiting or patience_s <= 0:
                self.waiting = None
                return await self._without_turns(search, look)
            await self._sleep(min(self._settings.retry_pause_s, patience_s))

    # ---- with tickets ------------------------------------------------------------------------

    async def _decide(self, search: Search, look: Look) -> Decision | None:
        """None: there are no turns now. The others are asked twice: by the copy that follows them,
        and afresh when it comes to the claim; that alone for the first look, which mostly fits."""
        decision: Decision | None = None

        def decide(listed: TicketList) -> Decision:
            return decided(self._mine(look.outcome), listed, look, search, self._clock.now_s())

        if self.waiting is not None or isinstance(look.outcome, NoFit):
            listed = await self._line.others()
            if listed is None:
                return None
            self._listed = listed
            decision = await self._lane.call(lambda: decide(listed))
            if decision.plan is None:
                return decision

        def may(listed: TicketList) -> bool:
            nonlocal decision
            decision = decide(listed)
            return decision.plan is not None

        is_ours = await self._line.claim(self._mine(look.outcome), may)
        if is_ours is None or decision is None:
            return None
        if not is_ours and decision.plan is not None:
            # Overtaken several times in a row: others are on their way, so look again.
            return Decision(decision.turn)
        return decision

    def _mine(self, outcome: Outcome) -> Ticket:
        return self._line.ticket_for(outcome if isinstance(outcome, PlacementPlan) else None)

    async def _pause(self, last: Turn, look: Look) -> None:
        """Until the next look. A change among the others brings it forward, in the order of the
        line, so that not all of them look together."""
        # A look at a large cluster is work for the ResourceManager: let it rest ten times as long.
        rest_s = 10 * look.took_s
        pause_s = max(rest_s, look_interval_s(last, self._draw()))
        ends_at_s = self._wait_ends_at_s()
        if ends_at_s is not None:
            left_s = ends_at_s - self._settings.last_word_s - self._clock.now_s()
            pause_s = max(0.0, min(pause_s, left_s))
        began_s = self._clock.now_s()
        if await self._line.wait(pause_s):
            left_s = began_s + pause_s - self._clock.now_s()
            soon_s = max(rest_s, look_after_change_s(last, self._draw()))
            await self._sleep(max(0.0, min(left_s, soon_s)))

    async def _foresee(self, look: Look) -> None:
        """When the job is likely to start: worked out now and then, since it takes a while."""
        began_s, listed = self._clock.now_s(), self._listed
        if listed is None or began_s < self._next_forecast_s:
            return
        seen = look.snapshot
        me = self._line.ticket_for(None)
        try:
            found = await self._lane.call(
                lambda: forecast(me, listed.tickets, seen, listed.running, began_s)
            )
        except Exception:
            # Nothing depends on it: the job waits all the same.
            log.exception("the forecast failed")
            self._start = None
        else:
            self._start = as_status(found, began_s)
        now_s = self._clock.now_s()
        self._next_forecast_s = now_s + max(FORECAST_EVERY_S, 50.0 * (now_s - began_s))

    def _is_over(self) -> bool:
        """Whether the machine is about to end all waiting: it is told the reason before."""
        ends_at_s = self._wait_ends_at_s()
        if ends_at_s is None:
            return False
        return self._clock.now_s() >= ends_at_s - self._settings.last_word_s

    def _refusal(self, last: Turn, outcome: Outcome) -> NoFit:
        if isinstance(outcome, NoFit):
            return outcome
        assert self.waiting is not None
        return NoFit(Reason.WAITING_FOR_TURN, is_never=False, message=waiting_words(self.waiting))

    def _show(self, last: Turn, outcome: Outcome) -> None:
        ticket = self._line.ticket
        number = ticket.number if ticket else 0
        missing = f"{outcome.message}" if isinstance(outcome, NoFit) else ""
        if isinstance(last, WaitTurn):
            head = last.head
            is_first = last.ahead == 0
            shown = TurnStatus(
                ticket=number,
                ahead=last.ahead,
                head="" if is_first else head.job,
                head_name="" if is_first else head.name,
                head_gpus=0 if is_first else head.gpus,
                reason=last.reason,
                missing=missing,
                start=self._start,
            )
        else:
            shown = TurnStatus(number, 0, reason=last.reason, missing=missing, start=self._start)
        if self.waiting is None or _news(shown) != _news(self.waiting):
            log.info("%s", waiting_words(shown))
        self.waiting = shown

    # ---- without -----------------------------------------------------------------------------

    async def _without_turns(self, search: Search, look: Look) -> Look:
        """By jitter alone: where room is scarce others may have seen the same GPUs, so look again
        after a random while and ask only if they are still free."""
        if isinstance(look.outcome, NoFit):
            self._has_waited = True
            return look
        if not self._has_waited and has_room_to_spare(look.snapshot, look.outcome.rungs[0]):
            return look
        await self._sleep(second_look_s(self._draw()))
        again = await search.look()
        self._has_waited = isinstance(again.outcome, NoFit)
        return again


def decided(me: Ticket, listed: TicketList, look: Look, search: Search, now_s: float) -> Decision:
    """Whose turn it is, and the plan that goes with it: around the nodes that are kept for others,
    or for room that is about to come free."""
    fits = isinstance(look.outcome, PlacementPlan)
    # Its ticket says what its user said; what it has learnt to avoid counts for itself only.
    barred = search.barred(look.snapshot)
    me, seen = replace(me, excluded=tuple(sorted({*me.excluded, *barred}))), look.snapshot

    def ask(fits_now: bool) -> Turn:
        return turn(me, listed.tickets, seen, listed.running, fits_now=fits_now, now_s=now_s)

    verdict = ask(fits)
    if isinstance(verdict, WaitTurn):
        return Decision(verdict)
    plan = _plan_for(verdict, look, search)
    if plan is not None:
        return Decision(verdict, plan)
    waits = ask(False) if fits else verdict
    if fits and isinstance(waits, WaitTurn):
        waits = replace(waits, reason="there is room only on nodes that are kept for others")
    return Decision(waits)


def _plan_for(verdict: MayAsk, look: Look, search: Search) -> PlacementPlan | None:
    """What the job may ask for, if it can be had so."""
    outcome = look.outcome
    if verdict.is_accumulating:
        outcome = search.plan(look.snapshot, (), True)
    elif verdict.avoid:
        outcome = search.plan(look.snapshot, verdict.avoid, False)
    if isinstance(outcome, NoFit):
        return None
    clear = clear_of(outcome, verdict.avoid, look.snapshot)
    return clear if verdict.is_strict else clear or outcome


def _news(place: TurnStatus) -> TurnStatus:
    """What is worth a line in the log when it changes."""
    return replace(place, reason="", start=None)


def waiting_words(place: TurnStatus) -> str:
    """One line for people."""
    if place.ahead:
        head = f"{place.head_name} ({place.head})" if place.head_name else place.head
        needs = f" needing {place.head_gpus} GPUs" if place.head_gpus else ""
        why = place.missing or place.reason
        return f"WAITING for its turn ({place.ahead} ahead, head is {head}{needs}): {why}"
    # The planner says better what is missing, but it knows no line and no ends.
    if place.missing and place.reason.startswith("first in line"):
        return f"WAITING for room: {place.reason} ({place.missing})"
    return f"WAITING for room: {place.missing or place.reason}"

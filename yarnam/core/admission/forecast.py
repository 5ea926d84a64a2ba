"""``forecast``: when a job that waits is likely to start, if no others come.

The wait queue is played forward by the rules of ``decide``: gangs end, those that wait start in
order, nodes are reserved for a head, until this job may ask. When gangs end is known only roughly,
so there are many plays, each with other ends, and the answer is a range. How far it reaches
follows from how long those waited who have just started (``widening``).

How an end is drawn:

- A declared end is a limit that most stay far below: what is left is taken to be uniform between
  nothing and all of it (Mu'alem and Feitelson, "Utilization, predictability, workloads, and user
  runtime estimates in scheduling the IBM SP2 with backfilling", TPDS 2001: the share of the
  estimate that jobs use is about uniform).
- Of an undeclared one only its age is known. What is left of a heavy-tailed time is as long again
  in the median: age * u / (1 - u), the remaining time of a Pareto distribution of shape 1.

The draws are computed from the numbers of gang and play: the same question has the same answer.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Union

from yarnam.core.admission.decision import open_ledger, reserve_for_head, unknown_gpus
from yarnam.core.admission.reservations import LEAST_LEFT_S, NodeShare
from yarnam.core.admission.wait_queue import (
    LENIENT,
    QueueSnapshot,
    backlog_of,
    backlog_s,
    exceeds_maximum,
    is_silent,
    patience_s,
    queues_of,
    wait_queue,
)
from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_status import StartForecast
from yarnam.core.model.resources import Resources
from yarnam.core.model.tickets import RunningGang, Ticket

PLAYS = 20
SOONEST, LIKELY, LATEST = 0.1, 0.7, 0.95
"""The shares of the plays that start by the soonest, the likely and the latest time of a forecast.
Plays start sooner than jobs do: no other jobs come in them. In simulated worlds half of the jobs
start by the time by which 70 % of the plays do (tests/benchmarks/forecast_sweep.py)."""

PRIOR_RATIOS = (0.4, 0.6, 0.8, 1.0)
MOST_WHERE_DECLARED, MOST_WHERE_UNDECLARED = 1.1, 2.0
"""Waits as multiples of their forecasts: the prior before any job has waited here. The largest is
the one where all running gangs have declared their ends or the one where none has, and between them
by the square of the undeclared share: fitted to replayed traces (forecast_sweep)."""
STILL_WAITS = 1.5
"""A job that has waited longer than forecast is expected to wait this much longer in all. The
figure is our own choice."""
LEAST_WAIT_S = 60.0
"""Waits and forecasts below this count as this: 3 s or 30 s make no difference to users."""
LEAST_WIDENING, MOST_WIDENING = 0.6, 8.0

MOST_STEPS = 2000
"""A play in which the job has not started by then counts as "later than can be foreseen"."""

LONGEST_S = 100.0
"""An undeclared gang is not taken to run longer than this many times its age: beyond that the tail
of the distribution is a guess."""

PACE = 3.0
"""How well the draws fit this cluster's jobs is not known either: in each play all ends are later
or sooner by up to this factor. With 1 and 2 the ranges held too little of what happened in
simulations (tests/sim/test_forecast.py)."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Seconds from now."""

    soonest_s: float
    likely_s: float
    """Half of the jobs start by then."""
    latest_s: float
    """Nine of ten do. Infinite: in more than one of twenty plays the job does not start."""
    bypassed_until_s: float = 0.0
    """How much longer smaller jobs that come later may go first; 0 if no longer."""
    unwidened_s: float = 0.0
    """``latest_s`` before the errors of earlier forecasts widened it."""


@dataclass(frozen=True, slots=True)
class UnknownStart:
    """Why the start cannot be foreseen."""

    reason: str


ForecastResult = Union[Forecast, UnknownStart]


def forecast(me: Ticket, seen: QueueSnapshot, plays: int = PLAYS) -> ForecastResult:
    """When the holder of ``me`` may ask YARN. Takes up to a second of CPU behind many others."""
    return from_plays(me, seen, play_starts(me, seen, plays))


def from_plays(me: Ticket, seen: QueueSnapshot, starts: Sequence[float]) -> ForecastResult:
    """The forecast where the plays have ended like this; see ``play_starts``."""
    now_s, plays = seen.now_s, len(starts)
    soonest_s, likely_s, latest_s = (
        starts[ceil(share * plays) - 1] for share in (SOONEST, LIKELY, LATEST)
    )
    if likely_s == inf:
        return UnknownStart(_why_never(me, seen))
    factor = widening(me, seen)
    waited_s = now_s - me.taken_at_s
    bypassed_s = LENIENT * patience_s(me, backlog_of(me, seen)) - waited_s
    others_smaller = me.gpus > 1
    return Forecast(
        soonest_s=soonest_s,
        likely_s=likely_s,
        latest_s=max(likely_s, factor * latest_s),
        bypassed_until_s=max(0.0, bypassed_s) if others_smaller else 0.0,
        unwidened_s=latest_s,
    )


def play_starts(me: Ticket, seen: QueueSnapshot, plays: int) -> list[float]:
    """When the job starts in each play, in seconds from now, the soonest first; infinite where it
    does not."""
    return sorted(_Play(me, seen, number).starts_s() - seen.now_s for number in range(plays))


def widening(me: Ticket, seen: QueueSnapshot) -> float:
    """The factor of the latest start: the ratio that nine of ten waits stayed below, of the gangs
    that run and the jobs that have waited for longer than was forecast.

    Gangs that all run longer than their ages and declared durations suggest, and jobs that keep
    coming, make all forecasts wrong alike: so the last forecasts show how wrong the next will be
    (conformal prediction: Vovk, Gammerman and Shafer, "Algorithmic learning in a random world",
    2005).
    """
    ratios = [*PRIOR_RATIOS, _largest_prior(seen)]
    ratios += [gang.wait_ratio for gang in seen.running if gang.wait_ratio is not None]
    for ticket in seen.tickets:
        if ticket.job != me.job and ticket.forecast_s is not None:
            ratio = wait_ratio(seen.now_s - ticket.taken_at_s, ticket.forecast_s)
            if ratio > 1.0:
                ratios.append(STILL_WAITS * ratio)
    ratios.sort()
    found = ratios[ceil(0.9 * len(ratios)) - 1]
    return min(MOST_WIDENING, max(LEAST_WIDENING, found))


def _largest_prior(seen: QueueSnapshot) -> float:
    gpus = sum(gang.gpus for gang in seen.running)
    declared = sum(
        gang.gpus
        for gang in seen.running
        if gang.ends_at_s is not None and gang.ends_at_s > seen.now_s
    )
    undeclared = 1.0 - declared / gpus if gpus else 1.0
    span = MOST_WHERE_UNDECLARED - MOST_WHERE_DECLARED
    return MOST_WHERE_DECLARED + span * undeclared**2


def wait_ratio(waited_s: float, forecast_s: float) -> float:
    """A wait as a multiple of its forecast."""
    return max(LEAST_WAIT_S, waited_s) / max(LEAST_WAIT_S, forecast_s)


def as_status(found: ForecastResult, now_s: float) -> StartForecast:
    """The forecast as points in time, for the status."""
    if isinstance(found, UnknownStart):
        return StartForecast(now_s, unknown_why=found.reason)
    return StartForecast(
        made_at_s=now_s,
        soonest_at_s=now_s + found.soonest_s,
        likely_at_s=now_s + found.likely_s,
        latest_at_s=None if found.latest_s == inf else now_s + found.latest_s,
        passed_until_s=now_s + found.bypassed_until_s if found.bypassed_until_s else None,
    )


class _Play:
    """One course of events: lives inside one call of ``forecast``."""

    def __init__(self, me: Ticket, seen: QueueSnapshot, number: int) -> None:
        self._me = me
        self._number = number
        self._pace = float(PACE ** (2.0 * _draw(number, 0) - 1.0))
        self._now_s = now_s = seen.now_s
        self._snapshot = seen.snapshot
        self._queues = queues_of(seen.snapshot)
        self._ledger = open_ledger(me, seen)
        self._running = {gang.job: gang for gang in seen.running}
        self._ends: list[tuple[float, str]] = []
        self._held: dict[str, list[NodeShare]] = {}
        self._draws = 0
        self._waiting = [me] + [
            ticket
            for ticket in seen.tickets
            if ticket.job != me.job and not is_silent(ticket, now_s)
            if not ticket.is_acquiring
        ]
        used = {node.node_id: node.used for node in seen.snapshot.nodes}
        for gang in seen.running:
            self._held[gang.job] = [
                (name, _part(used[name], gpus)) for name, gpus in gang.nodes if name in used
            ]
            heapq.heappush(self._ends, (now_s + self._left_s(gang), gang.job))

    def starts_s(self) -> float:
        """When the job starts, in seconds since the epoch; infinite: not within the play."""
        for _ in range(MOST_STEPS):
            if self._start_those_in_turn():
                return self._now_s
            next_s = min(self._ends[0][0] if self._ends else inf, self._next_due_s())
            if next_s == inf:
                return inf
            self._now_s = next_s
            while self._ends and self._ends[0][0] <= next_s:
                self._end(heapq.heappop(self._ends)[1])
        return inf

    def _start_those_in_turn(self) -> bool:
        """Whether the job itself was among them."""
        snapshot = replace(
            self._snapshot,
            queue=self._queues[self._snapshot.queue.name],
            queues=tuple(self._queues.values()),
        )
        running = tuple(self._running.values())
        seen = QueueSnapshot(snapshot, self._waiting, running, self._now_s)
        waiting = wait_queue(self._me, seen)
        kept = None
        for ticket in waiting.order:
            queue = self._queues.get(ticket.queue)
            if queue is not None and exceeds_maximum(ticket, queue):
                continue
            closed = kept.closed_to(ticket, self._now_s) if kept else frozenset[NodeId]()
            taken = self._ledger.reserve(ticket, closed=closed)
            if taken is None:
                if ticket is waiting.head:
                    kept = reserve_for_head(ticket, self._ledger, waiting, seen)
                continue
            if ticket.job == self._me.job:
                return True
            self._start(ticket, taken)
        return False

    def _start(self, ticket: Ticket, taken: list[NodeShare]) -> None:
        now_s = self._now_s
        ends_at_s = None if ticket.duration_s is None else now_s + ticket.duration_s
        on = tuple((name, amount.gpus) for name, amount in taken)
        gang = RunningGang(
            ticket.job, ticket.queue, ticket.gpus, ends_at_s, on, now_s, user=ticket.user
        )
        self._waiting.remove(ticket)
        self._running[ticket.job] = gang
        self._held[ticket.job] = taken
        self._use(ticket.queue, ticket.user, taken, is_more=True)
        heapq.heappush(self._ends, (now_s + self._left_s(gang), ticket.job))

    def _end(self, job: str) -> None:
        gang = self._running.pop(job)
        held = self._held.pop(job)
        self._ledger.release(held)
        self._use(gang.queue, gang.user, held, is_more=False)

    def _use(self, name: str, user: str, what: Iterable[NodeShare], *, is_more: bool) -> None:
        queue = self._queues.get(name)
        if queue is None:
            return
        used, left = queue.used, queue.headroom
        by_user = dict(queue.used_by)
        for _, amount in what:
            if queue.user_limit is not None:
                has = by_user.get(user, Resources())
                by_user[user] = has.plus(amount) if is_more else has.minus(amount)
            used = used.plus(amount) if is_more else used.minus(amount)
            if left is not None:
                left = left.minus(amount) if is_more else left.plus(amount)
        self._queues[name] = replace(
            queue, used=used, headroom=left, used_by=tuple(by_user.items())
        )

    def _next_due_s(self) -> float:
        """When the order may change on its own: a ticket has waited for long enough."""
        waiting = sum(ticket.gpus for ticket in self._waiting)
        backlog = backlog_s(waiting, self._running.values(), self._now_s)
        dues = (
            ticket.taken_at_s + times * patience_s(ticket, backlog)
            for ticket in self._waiting
            for times in (1.0, LENIENT)
        )
        return min((at_s for at_s in dues if at_s > self._now_s + 1.0), default=inf)

    def _left_s(self, gang: RunningGang) -> float:
        """How long the gang still runs, in this play."""
        self._draws += 1
        u, pace = _draw(self._number, self._draws), self._pace
        if gang.ends_at_s is not None and gang.ends_at_s > self._now_s:
            return float(u ** (1.0 / pace)) * (gang.ends_at_s - self._now_s)
        has_run_s = self._now_s - gang.since_s if gang.since_s is not None else 0.0
        return pace * max(LEAST_LEFT_S, has_run_s) * min(LONGEST_S, u / (1.0 - u))


def _why_never(me: Ticket, seen: QueueSnapshot) -> str:
    unknown = unknown_gpus(seen)
    if unknown:
        return f"{unknown} GPUs are in use by jobs that take no tickets"
    queue = queues_of(seen.snapshot).get(me.queue)
    if queue is not None and queue.maximum is not None:
        return f"too few GPUs come free within the maximum of queue {queue.name}"
    return "too few GPUs come free, whenever the running jobs end"


def _part(used: Resources, gpus: int) -> Resources:
    """The part of a node's used resources that goes with this many GPUs."""
    if not used.gpus:
        return Resources(0, 0, gpus)
    share = min(1.0, gpus / used.gpus)
    return Resources(int(used.memory_mib * share), int(used.vcores * share), gpus)


def _draw(play: int, number: int) -> float:
    """Uniform in (0, 1), from two counts: splitmix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    mask = 2**64 - 1
    z = (play * 0x9E3779B97F4A7C15 + number * 0xD1B54A32D192ED03 + 0x2545F4914F6CDD1D) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return ((z ^ (z >> 31)) + 0.5) / 2**64

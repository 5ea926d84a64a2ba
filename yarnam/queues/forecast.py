"""``forecast``: when a job that waits is likely to start, if no others come.

The line is played forward by the rules of ``turn``: gangs end, those in line start in order, nodes
are kept for a head, until it is this job's turn. When gangs end is known only roughly, so it is
played many times, each time with other ends, and what is told is a range.

How an end is drawn:

- A declared end is a limit that most stay far below: what is left is taken to be uniform between
  nothing and all of it (Mu'alem and Feitelson, "Utilization, predictability, workloads, and user
  runtime estimates in scheduling the IBM SP2 with backfilling", TPDS 2001: the share of the
  estimate that jobs use is about uniform).
- Of an undeclared one only its age is known. What is left of a heavy-tailed time is as long again
  in the median: age * u / (1 - u), the remaining time of a Pareto distribution of shape 1.

The draws are worked out from the numbers of gang and play: the same question has the same answer.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Union

from yarnam.model.ids import NodeId
from yarnam.model.resources import Resources
from yarnam.model.snapshot import ClusterSnapshot
from yarnam.model.status import StartForecast
from yarnam.model.tickets import RunningGang, Ticket
from yarnam.queues.floor import LEAST_LEFT_S
from yarnam.queues.line import LENIENT, exceeds_maximum, in_line, is_silent, patience_s, queues_of
from yarnam.queues.turns import barred_for, floor_beside, kept_on

PLAYS = 20
"""Of these, the second soonest and the second latest are the ends of the range: 80 % in between."""

MOST_STEPS = 2000
"""A play that has not come to the job's turn by then counts as "later than can be told"."""

LONGEST_S = 100.0
"""An undeclared gang is not taken to run longer than so many times its age: beyond that the tail of
the distribution is a guess."""

PACE = 3.0
"""How well the draws fit this cluster's jobs is not known either: in each play all ends are later
or sooner by up to this factor. With 1 and 2 the ranges held too little of what happened in
simulations (tests/sim/test_forecast.py)."""

Share = tuple[NodeId, Resources]


@dataclass(frozen=True, slots=True)
class Forecast:
    """Seconds from now; four of five plays lie between ``soonest_s`` and ``latest_s``."""

    soonest_s: float
    likely_s: float
    """The median."""
    latest_s: float
    """Infinite: in more than one of ten plays the job has not come to its turn."""
    passed_until_s: float = 0.0
    """So long, from now, may smaller jobs that come later go first; 0: no longer."""


@dataclass(frozen=True, slots=True)
class Untold:
    """It cannot be told, and why."""

    reason: str


Outlook = Union[Forecast, Untold]


def forecast(
    me: Ticket,
    tickets: Sequence[Ticket],
    snapshot: ClusterSnapshot,
    running: Sequence[RunningGang],
    now_s: float,
    plays: int = PLAYS,
) -> Outlook:
    """When the holder of ``me`` may ask YARN. Arguments as of ``turn``."""
    starts = sorted(
        _Play(me, tickets, snapshot, running, now_s, number).starts_s() - now_s
        for number in range(plays)
    )
    likely_s = starts[plays // 2]
    if likely_s == inf:
        return Untold(_why_never(me, tickets, snapshot, running))
    edge = plays // 10
    waited_s = now_s - me.taken_at_s
    passed_s = LENIENT * patience_s(running, now_s) - waited_s
    others_smaller = me.gpus > 1
    return Forecast(
        soonest_s=starts[edge],
        likely_s=likely_s,
        latest_s=starts[-1 - edge],
        passed_until_s=max(0.0, passed_s) if others_smaller else 0.0,
    )


def as_status(found: Outlook, now_s: float) -> StartForecast:
    """In points in time, for the status."""
    if isinstance(found, Untold):
        return StartForecast(now_s, untold=found.reason)
    return StartForecast(
        made_at_s=now_s,
        soonest_at_s=now_s + found.soonest_s,
        likely_at_s=now_s + found.likely_s,
        latest_at_s=None if found.latest_s == inf else now_s + found.latest_s,
        passed_until_s=now_s + found.passed_until_s if found.passed_until_s else None,
    )


class _Play:
    """One course of events: lives inside one call of ``forecast``."""

    def __init__(
        self,
        me: Ticket,
        tickets: Sequence[Ticket],
        snapshot: ClusterSnapshot,
        running: Sequence[RunningGang],
        now_s: float,
        number: int,
    ) -> None:
        self._me = me
        self._number = number
        self._pace = float(PACE ** (2.0 * _draw(number, 0) - 1.0))
        self._now_s = now_s
        self._snapshot = snapshot
        self._queues = queues_of(snapshot)
        self._floor = floor_beside(me, tickets, snapshot, now_s)
        self._running = {gang.job: gang for gang in running}
        self._ends: list[tuple[float, str]] = []
        self._held: dict[str, list[Share]] = {}
        self._draws = 0
        self._waiting = [me] + [
            ticket
            for ticket in tickets
            if ticket.number != me.number and not is_silent(ticket, now_s)
            if not ticket.is_acquiring
        ]
        used = {node.node_id: node.used for node in snapshot.nodes}
        for gang in running:
            self._held[gang.job] = [
                (name, _part(used[name], gpus)) for name, gpus in gang.nodes if name in used
            ]
            heapq.heappush(self._ends, (now_s + self._left_s(gang), gang.job))

    def starts_s(self) -> float:
        """When it is the job's turn, in seconds since the epoch; infinite: not within the play."""
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
        line = in_line(self._me, self._waiting, snapshot, running, self._now_s)
        kept = None
        for ticket in line.order:
            queue = self._queues.get(ticket.queue)
            if queue is not None and exceeds_maximum(ticket, queue):
                continue
            barred = barred_for(kept, ticket, self._now_s)
            laid = self._floor.place(ticket, barred=barred)
            if laid is None:
                if ticket is line.head:
                    kept = kept_on(self._floor, line, running, self._now_s)
                continue
            if ticket.number == self._me.number:
                return True
            self._start(ticket, laid)
        return False

    def _start(self, ticket: Ticket, laid: list[Share]) -> None:
        now_s = self._now_s
        ends_at_s = None if ticket.duration_s is None else now_s + ticket.duration_s
        on = tuple((name, amount.gpus) for name, amount in laid)
        gang = RunningGang(ticket.job, ticket.queue, ticket.gpus, ends_at_s, on, now_s)
        self._waiting.remove(ticket)
        self._running[ticket.job] = gang
        self._held[ticket.job] = laid
        self._use(ticket.queue, laid, is_more=True)
        heapq.heappush(self._ends, (now_s + self._left_s(gang), ticket.job))

    def _end(self, job: str) -> None:
        gang = self._running.pop(job)
        held = self._held.pop(job)
        self._floor.give(held)
        self._use(gang.queue, held, is_more=False)

    def _use(self, name: str, what: Iterable[Share], *, is_more: bool) -> None:
        queue = self._queues.get(name)
        if queue is None:
            return
        used = queue.used
        for _, amount in what:
            used = used.plus(amount) if is_more else _less(used, amount)
        self._queues[name] = replace(queue, used=used)

    def _next_due_s(self) -> float:
        """When the order may change by itself: a ticket has waited for long enough."""
        limit_s = patience_s(self._running.values(), self._now_s)
        dues = (
            ticket.taken_at_s + times * limit_s
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


def _why_never(
    me: Ticket,
    tickets: Sequence[Ticket],
    snapshot: ClusterSnapshot,
    running: Sequence[RunningGang],
) -> str:
    used = sum(node.used.gpus for node in snapshot.nodes if node.is_usable)
    known = sum(gang.gpus for gang in running)
    known += sum(ticket.gpus for ticket in tickets if ticket.is_acquiring)
    if used > known:
        return f"{used - known} GPUs are held by jobs that tell nothing of themselves"
    queue = queues_of(snapshot).get(me.queue)
    if queue is not None and queue.maximum is not None:
        return f"too little comes free within the maximum of queue {queue.name}"
    return "too little comes free, however the jobs that run end"


def _part(used: Resources, gpus: int) -> Resources:
    """What goes with so many GPUs of what is used on a node."""
    if not used.gpus:
        return Resources(0, 0, gpus)
    share = min(1.0, gpus / used.gpus)
    return Resources(int(used.memory_mib * share), int(used.vcores * share), gpus)


def _less(used: Resources, amount: Resources) -> Resources:
    return Resources(
        max(0, used.memory_mib - amount.memory_mib),
        max(0, used.vcores - amount.vcores),
        max(0, used.gpus - amount.gpus),
    )


def _draw(play: int, number: int) -> float:
    """Uniform in (0, 1), from two counts: splitmix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    mask = 2**64 - 1
    z = (play * 0x9E3779B97F4A7C15 + number * 0xD1B54A32D192ED03 + 0x2545F4914F6CDD1D) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return ((z ^ (z >> 31)) + 0.5) / 2**64

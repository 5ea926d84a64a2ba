"""The line: which of the tickets count for a job, in which order they are served, and which of them
nodes are kept for.

**Queues first.** Tickets of queues that have their fair share come after those of queues that have
not, as YARN itself would deal. A ticket that no free GPU could help (its queue is at its
maximum, its attempt backs off) stands aside and is in nobody's way, nor is one whose holder is
silent or one that could not want the same nodes.

**The smallest first**, by GPUs (Majumdar, Eager and Bunt, "Scheduling in multiprogrammed parallel
systems", SIGMETRICS 1988), then by number of ticket. Run times are heavy-tailed and half of them
are not known, sizes always are: whoever serves by arrival keeps many small jobs waiting behind a
large one that fits nowhere yet. In simulations this halves the mean wait
(docs/explanation/contention.md).

**By priority within a queue** (``priority``): its jobs exchange the places that they have so far.

**Nobody for ever.** A job that has waited for ``patience_s`` (three times as long where its queue
has its share) is *due*. The first that is due, by
number, is the *head*: it goes before all others, and nodes are kept for it. Only one has nodes
kept: more would leave most of a busy cluster waiting for the few.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from yarnam.model.snapshot import ClusterSnapshot, QueueView
from yarnam.model.tickets import LINE_RULES, RunningGang, Ticket
from yarnam.queues.priority import by_priority

PASS_OVER_S = 60.0
"""A ticket whose holder gave no sign of life for so long is passed over: the longest interval of
looks (45 s, ``looks``) and a retried call of the ResourceManager's REST API (10 s)."""

LEAST_PATIENCE_S, MOST_PATIENCE_S = 300.0, 1800.0
"""Bounds of how long others go first. Of 15, 30, 45 and 60 minutes, half an hour came out best in
simulations of four workloads (docs/explanation/contention.md)."""

PATIENCE_IN_AGES = 2.0
"""A job is due after so many times the median age of the gangs that run: where jobs take a minute,
half an hour would be for ever. Ours."""

LENIENT = 3.0
"""Gangs of unknown duration may pass the head until it has waited so many times the patience. Of 2,
3 and 4 times the second came out best in simulations with the longest patience (30 minutes)."""

CERTAIN = 6.0
"""After so many times the patience nobody asks any more for what YARN might grant on the head's
nodes (``MayAsk.is_strict``). With no such limit YARN's choice of nodes could hold a head up for
ever; how soon it should come was tried at one seed only, where earlier meant longer waits."""


@dataclass(frozen=True, slots=True)
class Line:
    """The tickets that count, in the order in which they are served."""

    order: tuple[Ticket, ...]
    head: Ticket | None
    """The one that nodes are kept for, the first of all; None: nobody has waited long enough."""
    is_firm: bool = False
    """The head has waited so long that nobody passes it who is not known to end in time."""
    is_strict: bool = False
    """It has waited so long that nothing more is left to chance."""


def in_line(
    me: Ticket,
    tickets: Iterable[Ticket],
    snapshot: ClusterSnapshot,
    running: Sequence[RunningGang],
    now_s: float,
) -> Line:
    """``me`` is always among them."""
    queues = queues_of(snapshot)
    counted, is_mixed = [me], False
    for ticket in tickets:
        # Of the whole line: those who contend with other jobs than this one have to agree too.
        is_mixed |= ticket.rules != LINE_RULES and not is_silent(ticket, now_s)
        if ticket.number != me.number and _counts(ticket, me, snapshot, queues, now_s):
            counted.append(ticket)
    if is_mixed:
        return Line(tuple(sorted(counted, key=lambda ticket: ticket.number)), None)
    has_share = {name: _has_its_share(queue) for name, queue in queues.items()}
    limit_s = _limit_s(counted, running, now_s)
    head = _head(counted, has_share, limit_s, now_s)
    first = None if head is None else head.number
    waited_s = 0.0 if head is None else now_s - head.taken_at_s

    def key(ticket: Ticket) -> tuple[bool, bool, int, int]:
        is_rich = has_share.get(ticket.queue, False)
        return ticket.number != first, is_rich, ticket.gpus, ticket.number

    order = sorted(counted, key=key)
    kept = order[:1] if head is not None else []
    ranked = (*kept, *by_priority(order[len(kept) :], now_s))
    return Line(ranked, head, waited_s >= LENIENT * limit_s, waited_s >= CERTAIN * limit_s)


def patience_s(running: Iterable[RunningGang], now_s: float) -> float:
    """How long a job is passed over by smaller ones at most, before nodes are kept for it."""
    ages = sorted(now_s - gang.since_s for gang in running if gang.since_s is not None)
    if not ages:
        return MOST_PATIENCE_S
    typical_s = PATIENCE_IN_AGES * ages[len(ages) // 2]
    return max(LEAST_PATIENCE_S, min(MOST_PATIENCE_S, typical_s))


def queues_of(snapshot: ClusterSnapshot) -> dict[str, QueueView]:
    return {queue.name: queue for queue in (*snapshot.queues, snapshot.queue)}


def exceeds_maximum(ticket: Ticket, queue: QueueView) -> bool:
    """Whether its queue's maximum keeps it out now, whatever is free."""
    if queue.maximum is None:
        return False
    need = queue.used
    for demand in ticket.demands:
        need = need.plus(demand.resources.times(demand.count))
    return not need.fits_in(queue.maximum)


def is_silent(ticket: Ticket, now_s: float) -> bool:
    return ticket.seen_at_s is not None and now_s - ticket.seen_at_s > PASS_OVER_S


def _counts(
    ticket: Ticket,
    me: Ticket,
    snapshot: ClusterSnapshot,
    queues: dict[str, QueueView],
    now_s: float,
) -> bool:
    if is_silent(ticket, now_s) or not _contends(ticket, me, snapshot):
        return False
    if ticket.is_acquiring:
        return True
    queue = queues.get(ticket.queue)
    return not ticket.aside and (queue is None or not exceeds_maximum(ticket, queue))


def _contends(ticket: Ticket, me: Ticket, snapshot: ClusterSnapshot) -> bool:
    """Whether both could want the same node."""
    if not ticket.is_choosy and not me.is_choosy:
        return True
    usable = [node for node in snapshot.nodes if node.is_usable]
    return not ticket.nodes_of(usable).isdisjoint(me.nodes_of(usable))


def _limit_s(counted: Sequence[Ticket], running: Sequence[RunningGang], now_s: float) -> float:
    """``patience_s``, worked out only where somebody has waited long enough for it to matter."""
    if any(now_s - ticket.taken_at_s >= LEAST_PATIENCE_S for ticket in counted):
        return patience_s(running, now_s)
    return MOST_PATIENCE_S


def _head(
    counted: Sequence[Ticket], has_share: dict[str, bool], limit_s: float, now_s: float
) -> Ticket | None:
    """The first that is due. Who has asked already needs no nodes kept. Jobs of a queue that has
    its share are due later: until then queues that have not come first."""

    def is_rich(ticket: Ticket) -> bool:
        return has_share.get(ticket.queue, False)

    due = [
        ticket
        for ticket in counted
        if not ticket.is_acquiring
        and now_s - ticket.taken_at_s >= limit_s * (LENIENT if is_rich(ticket) else 1.0)
    ]
    return min(due, key=lambda ticket: (is_rich(ticket), ticket.number), default=None)


def _has_its_share(queue: QueueView) -> bool:
    """Whether YARN would serve queues below their share before this one. Counts GPUs: they are
    what gangs contend for."""
    share = queue.fair_share or queue.steady_share
    return share is not None and share.gpus > 0 and queue.used.gpus >= share.gpus

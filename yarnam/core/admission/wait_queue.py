"""The wait queue: which tickets count for a job, in which order they are served, and which job is
the *head*, for which nodes are reserved.

**Queues first.** Tickets of YARN queues that have their fair share come after those of queues that
have not, as YARN itself would serve them. A ticket that no free GPU could help (its queue is at its
maximum, its attempt backs off) is set aside and blocks nobody; neither does one whose holder is
silent, nor one that cannot use the same nodes.

**The smallest first**, by GPUs (Majumdar, Eager and Bunt, "Scheduling in multiprogrammed parallel
systems", SIGMETRICS 1988), then by arrival. Run times are heavy-tailed and half of them are
unknown; sizes are always known. Serving by arrival keeps many small jobs waiting behind a large one
that fits nowhere yet. In simulations this halves the mean wait (docs/explanation/contention.md).

**By priority within a queue.** The jobs of one queue swap the places that they have so far by
``gang.priority``, with aging. A queue gains nothing over others by what its users say of their
jobs.

**Nobody waits forever.** A job that has waited for ``patience_s`` (three times as long where its
queue has its share) is *due*. The due job that came first is the head: it goes before all others,
and nodes are reserved for it. There is only one: reservations for more would leave most of a busy
cluster waiting for a few. A gang that the cluster could not hold if it were empty is no head.

A policy that orders jobs differently belongs in ``_serving_order``: it must be a pure function of
tickets and snapshot, since each ApplicationMaster computes it alone, and a change to it raises
``ADMISSION_RULES``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from yarnam.core.model.snapshot import ClusterSnapshot, QueueView
from yarnam.core.model.tickets import ADMISSION_RULES, RunningGang, Ticket

SILENT_AFTER_S = 60.0
"""A ticket whose holder gave no sign of life for so long is passed over: the longest poll interval
(45 s, ``polling``) and a retried call of the ResourceManager's REST API (10 s)."""

LEAST_PATIENCE_S, MOST_PATIENCE_S = 300.0, 1800.0
"""Bounds of how long others go first. Of 15, 30, 45 and 60 minutes, half an hour came out best in
simulations of four workloads (docs/explanation/contention.md)."""

PATIENCE_IN_AGES = 2.0
"""A job is due after so many times the median age of the running gangs: where jobs take a minute,
half an hour would be forever. Ours."""

LENIENT = 3.0
"""Gangs of unknown duration may pass the head until it has waited so many times the patience. Of 2,
3 and 4 times the second came out best in simulations with the longest patience (30 minutes)."""

CERTAIN = 6.0
"""After so many times the patience nobody asks any more for what YARN might grant on the head's
nodes (``Admitted.is_strict``). With no such limit YARN's choice of nodes could delay a head
forever; how soon it should come was tried at one seed only, where earlier meant longer waits."""

PRIORITY_STEP_S = 900.0
"""Waiting for so long is worth one step of priority, up to the highest in the queue: from then on
only the order among jobs of equal priority lets others pass. With the range of -10 to 10 that is
after five hours at the latest. Ours."""


@dataclass(frozen=True, slots=True)
class Contention:
    """What all ApplicationMasters see alike: the cluster, and the jobs that contend for it."""

    snapshot: ClusterSnapshot
    tickets: Sequence[Ticket]
    """All there are, with or without the job's own."""
    running: Sequence[RunningGang]
    now_s: float
    """Seconds since the epoch, by the clock of all other times given."""


@dataclass(frozen=True, slots=True)
class WaitQueue:
    """The tickets that count, in the order in which they are served."""

    order: tuple[Ticket, ...]
    head: Ticket | None
    """The first of all, for which nodes are reserved; None: nobody has waited long enough."""
    is_firm: bool = False
    """The head has waited so long that only jobs known to end in time may pass it."""
    is_strict: bool = False
    """It has waited so long that nothing more is left to chance."""

    def ahead_of(self, me: Ticket) -> tuple[Ticket, ...]:
        """Those that are served before this one."""
        place = next(i for i, ticket in enumerate(self.order) if ticket.job == me.job)
        return self.order[:place]


def wait_queue(me: Ticket, seen: Contention) -> WaitQueue:
    """The queue as the holder of ``me`` sees it; ``me`` is always in it."""
    now_s = seen.now_s
    queues = queues_of(seen.snapshot)
    counted, is_mixed = [me], False
    for ticket in seen.tickets:
        # Of the whole queue: those who contend with other jobs than this one have to agree too.
        is_mixed |= ticket.rules != ADMISSION_RULES and not is_silent(ticket, now_s)
        if ticket.job != me.job and _counts(ticket, me, seen, queues):
            counted.append(ticket)
    if is_mixed:
        return WaitQueue(tuple(sorted(counted, key=arrival)), None)
    has_share = {name: _has_its_share(queue) for name, queue in queues.items()}
    limit_s = _limit_s(counted, seen.running, now_s)
    head = _head(counted, has_share, limit_s, seen)
    waited_s = 0.0 if head is None else now_s - head.taken_at_s
    order = _serving_order(counted, head, has_share, now_s)
    return WaitQueue(order, head, waited_s >= LENIENT * limit_s, waited_s >= CERTAIN * limit_s)


def _serving_order(
    counted: Iterable[Ticket], head: Ticket | None, has_share: dict[str, bool], now_s: float
) -> tuple[Ticket, ...]:
    first = None if head is None else head.job

    def key(ticket: Ticket) -> tuple[bool, bool, int, Arrival]:
        is_rich = has_share.get(ticket.queue, False)
        return ticket.job != first, is_rich, ticket.gpus, arrival(ticket)

    order = sorted(counted, key=key)
    start = 0 if head is None else 1
    return (*order[:start], *by_priority(order[start:], now_s))


def by_priority(order: Sequence[Ticket], now_s: float) -> list[Ticket]:
    """The same order with the jobs of each queue sorted by priority within the places of their
    queue. Jobs of equal priority keep their order."""
    by_queue: dict[str, list[Ticket]] = {}
    for ticket in order:
        by_queue.setdefault(ticket.queue, []).append(ticket)
    if all(len({ticket.priority for ticket in mine}) == 1 for mine in by_queue.values()):
        return list(order)
    served = {queue: iter(_aged(mine, now_s)) for queue, mine in by_queue.items()}
    return [next(served[ticket.queue]) for ticket in order]


def _aged(tickets: Sequence[Ticket], now_s: float) -> list[Ticket]:
    highest = max(ticket.priority for ticket in tickets)

    def reached(ticket: Ticket) -> int:
        steps = int(max(0.0, now_s - ticket.taken_at_s) // PRIORITY_STEP_S)
        return min(highest, ticket.priority + steps)

    return sorted(tickets, key=lambda ticket: -reached(ticket))


def patience_s(running: Iterable[RunningGang], now_s: float) -> float:
    """How long smaller jobs may pass a job at most, before nodes are reserved for it."""
    ages = sorted(now_s - gang.since_s for gang in running if gang.since_s is not None)
    if not ages:
        return MOST_PATIENCE_S
    typical_s = PATIENCE_IN_AGES * ages[len(ages) // 2]
    return max(LEAST_PATIENCE_S, min(MOST_PATIENCE_S, typical_s))


def queues_of(snapshot: ClusterSnapshot) -> dict[str, QueueView]:
    """All queues that the snapshot knows, by name."""
    return {queue.name: queue for queue in (*snapshot.queues, snapshot.queue)}


def exceeds_maximum(ticket: Ticket, queue: QueueView) -> bool:
    """Whether its queue's maximum keeps it out now, whatever is free."""
    if queue.maximum is None:
        return False
    need = queue.used
    for demand in ticket.demands:
        need = need.plus(demand.resources.times(demand.count))
    return not need.fits_in(queue.maximum)


Arrival = tuple[float, int, str]


def arrival(ticket: Ticket) -> Arrival:
    """Orders tickets by when they were taken. The number alone is no measure: whoever makes a
    ticket's node chooses its name, but nobody is believed to have taken a ticket before its
    application was there (``ticket_checks``)."""
    return ticket.taken_at_s, ticket.number, ticket.job


def could_ever_fit(ticket: Ticket, snapshot: ClusterSnapshot) -> bool:
    """Whether the cluster with all its nodes, those that are away too, could hold each of its
    demands if it were empty."""
    nodes = snapshot.nodes
    if ticket.is_choosy:
        usable = ticket.nodes_of(nodes)
        nodes = tuple(node for node in nodes if node.node_id in usable)
    sizes = Counter(node.total for node in nodes)
    return all(
        sum(demand.resources.count_in(total) * many for total, many in sizes.items())
        >= demand.count
        for demand in ticket.demands
    )


def is_silent(ticket: Ticket, now_s: float) -> bool:
    """Whether its holder has given no sign of life for ``SILENT_AFTER_S``."""
    return ticket.seen_at_s is not None and now_s - ticket.seen_at_s > SILENT_AFTER_S


def _counts(ticket: Ticket, me: Ticket, seen: Contention, queues: dict[str, QueueView]) -> bool:
    if is_silent(ticket, seen.now_s) or not _contends(ticket, me, seen.snapshot):
        return False
    if ticket.is_acquiring:
        return True
    queue = queues.get(ticket.queue)
    return not ticket.aside and (queue is None or not exceeds_maximum(ticket, queue))


def _contends(ticket: Ticket, me: Ticket, snapshot: ClusterSnapshot) -> bool:
    """Whether both could use the same node."""
    if not ticket.is_choosy and not me.is_choosy:
        return True
    usable = [node for node in snapshot.nodes if node.is_usable]
    return not ticket.nodes_of(usable).isdisjoint(me.nodes_of(usable))


def _limit_s(counted: Sequence[Ticket], running: Sequence[RunningGang], now_s: float) -> float:
    """``patience_s``, computed only where somebody has waited long enough for it to matter."""
    if any(now_s - ticket.taken_at_s >= LEAST_PATIENCE_S for ticket in counted):
        return patience_s(running, now_s)
    return MOST_PATIENCE_S


def _head(
    counted: Sequence[Ticket], has_share: dict[str, bool], limit_s: float, seen: Contention
) -> Ticket | None:
    """The first that is due. A job that has already asked needs no nodes reserved. Jobs of a queue
    that has its share are due later: until then queues that have not come first."""
    now_s = seen.now_s

    def is_rich(ticket: Ticket) -> bool:
        return has_share.get(ticket.queue, False)

    due = [
        ticket
        for ticket in counted
        if not ticket.is_acquiring
        and now_s - ticket.taken_at_s >= limit_s * (LENIENT if is_rich(ticket) else 1.0)
    ]
    due.sort(key=lambda ticket: (is_rich(ticket), arrival(ticket)))
    return next((ticket for ticket in due if could_ever_fit(ticket, seen.snapshot)), None)


def _has_its_share(queue: QueueView) -> bool:
    """Whether YARN would serve queues below their share before this one. Counts GPUs: they are
    what gangs contend for."""
    share = queue.fair_share or queue.steady_share
    return share is not None and share.gpus > 0 and queue.used.gpus >= share.gpus

"""The wait queue: which tickets count for a job, in which order they are served, and which job is
the *head*, for which nodes are reserved.

**Queues first.** Tickets of YARN queues that have their fair share come after those of queues that
have not, as YARN itself would serve them. A ticket that no free GPU could help (its queue is at its
maximum, its attempt backs off) is *blocked* and holds up no others; nor does one whose holder is
silent, or one that cannot use the same nodes.

**The smallest first**, by GPUs (Majumdar, Eager and Bunt, "Scheduling in multiprogrammed parallel
systems", SIGMETRICS 1988), then by arrival. Run times are heavy-tailed and half of them are
unknown; sizes are always known. Serving by arrival keeps many small jobs waiting behind a large one
that fits nowhere yet. In simulations this halves the mean wait (docs/explanation/contention.md).

**By priority within a queue.** The jobs of one queue swap the places that they have so far by
``gang.priority``, with aging. A queue gains nothing over others by the priorities of its users'
jobs.

**No job waits forever.** A job that has waited for ``patience_s`` is *due*. The due job that came
first is the head: it goes before all others, and nodes are reserved for it. If its queue has its
share, it is due after a quarter as long again. There is only one: reservations for more would leave
most of a busy cluster waiting for a few. A gang that would not fit on the empty cluster cannot be
the head.

**The longer the queue, the longer the patience.** In a short queue, nodes reserved for a large gang
cost the others next to nothing, so it need not wait. In a long one, each job would become due
before its predecessor has started, and the queue would be one by arrival. So patience follows the
time in which the waiting gangs could start one after the other (``backlog_s``). It is shorter for
large gangs: they take longest to fit.

A policy that orders jobs differently belongs in ``_serving_order``: it must be a pure function of
tickets and snapshot, since each ApplicationMaster computes it alone, and a change to it raises
``ADMISSION_RULES``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf, sqrt

from yarnam.core.admission.places_ahead import PlacesAhead
from yarnam.core.admission.queue_lines import (
    Arrival,
    Entry,
    QueueLine,
    arrival,
    first_of_each_size,
    line_of,
    merged,
)
from yarnam.core.admission.reservations import GangsOnNodes, ReservationLedger
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, Node, QueueView
from yarnam.core.model.tickets import ADMISSION_RULES, RunningGang, Ticket

SILENT_AFTER_S = 60.0
"""A ticket whose holder gave no sign of life for this long is bypassed: the longest poll
interval (45 s, ``polling``) and a retried call of the ResourceManager's REST API (10 s)."""

LEAST_PATIENCE_S, MOST_PATIENCE_S = 300.0, 14_400.0
"""Bounds of how long others go first. Lower bound: gangs that have all just started say little
about when they end, so the backlog is not a guide then; 2, 5 and 10 minutes gave the same waits in
simulations. Upper bound: where a backlog takes hours, two hours made every job due, so that all
waited behind one head after the other; four hours gave a mean wait 5 % shorter at load 1.5, and the
same longest wait (docs/explanation/contention.md)."""

AT_ITS_SHARE = 1.25
"""A job of a queue that has its share is due after this many times its patience: a queue below its
share is served first, for a time. Of 1, 1.25, 1.5, 2 and 3 times the smaller ones gave the shorter
longest wait in simulations, and the larger ones the shorter mean."""

DUE_AFTER_ONE_BACKLOG_GPUS = 8
"""A gang of this many GPUs is due after one backlog, one of ``n`` times as many after that divided
by the square root of ``n``. Of the powers 0, 1/4, 1/2, 3/4 and 1 that of 1/2 gave the shortest
waits in simulations, each with its best factor."""

LENIENT = 1.5
"""Gangs of unknown duration may pass the head until it has waited this many times its patience. Of
1.25, 1.5, 2 and 3 times this came out best in simulations."""

CERTAIN = 2.0
"""After this many times its patience no job requests any more the GPUs that YARN might grant on the
head's nodes (``Admitted.is_strict``). Without such a limit YARN's choice of nodes could delay a
head forever."""

PRIORITY_STEP_S = 900.0
"""A wait of this length raises the priority by one step, up to the highest in the queue: from then
on only the order among jobs of equal priority lets others pass. With the range of -10 to 10 that is
after five hours at the latest. The figure is our own choice."""


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """The input that all ApplicationMasters share: the cluster, and the jobs that contend for
    it."""

    snapshot: ClusterSnapshot
    tickets: Sequence[Ticket]
    """All tickets, with or without the job's own."""
    running: Sequence[RunningGang]
    now_s: float
    """Seconds since the epoch, by the clock of all other times given."""
    presorted: PresortedTickets | None = None
    """The order of these tickets for the queues of this snapshot; ``wait_queue`` sorts them itself
    if it is ``None``."""
    ages: GangAges | None = None
    """The ages of the running gangs; computed on demand if ``None``."""
    requested: ReservationLedger | None = None
    """The room of this snapshot beside the requests of these tickets (``decision.requested``), if
    none is silent; computed on demand if ``None``. Copy it, never change it."""
    gangs_on: GangsOnNodes | None = None
    """The nodes of the running gangs; computed on demand if ``None``."""
    places: list[PlacesAhead] | None = field(default=None, compare=False)
    """The places that the jobs ahead take of this snapshot at this time, cached for other jobs that
    decide at the same moment; computed on demand if ``None``."""


@dataclass(frozen=True, slots=True)
class PresortedTickets:
    """The parts of the wait queue that depend neither on time nor on the job that decides
    (``presorted``)."""

    lines: Mapping[str, QueueLine]
    """The tickets that free GPUs could help, by YARN queue."""
    limits: Mapping[str, object]
    """The limits that keep tickets out of their line, by YARN queue."""
    has_share: Mapping[str, bool]
    sizes: Mapping[Resources, int]
    """The number of nodes of each size."""
    entries: tuple[Entry, ...]
    """The entries of all lines, in serving order while there is no head."""
    below: int
    """How many of them are from queues below their share."""
    order: tuple[Ticket, ...]
    """The tickets of ``entries``."""
    candidates: tuple[Ticket, ...]
    """The tickets that could be the head, by arrival: from queues with their share and from the
    others, the first of each size. Those of one size become due in turn."""
    last: list[_Headed] = field(default_factory=list["_Headed"], compare=False)
    """The result of the last decision, for other jobs that decide at the same moment."""

    @property
    def waiting_gpus(self) -> int:
        return sum(line.waiting_gpus for line in self.lines.values())

    @property
    def first_taken_at_s(self) -> float:
        """When the first ticket of ``order`` was taken; infinite if it is empty."""
        return min((line.first_taken_at_s for line in self.lines.values()), default=inf)

    def position_of(self, ticket: Ticket) -> int:
        """Where in ``order`` it is, or would be."""
        first, last = 0, self.below
        if self.has_share.get(ticket.queue, False):
            first, last = last, len(self.entries)
        return bisect_left(self.entries, (ticket.gpus, arrival(ticket)), first, last)


@dataclass(frozen=True, slots=True)
class WaitQueue:
    """The tickets that count, in serving order."""

    order: tuple[Ticket, ...]
    head: Ticket | None
    """The first of all, for which nodes are reserved; ``None`` if no job has waited long enough."""
    is_firm: bool = False
    """The head has waited so long that only jobs known to end in time may bypass it."""
    is_strict: bool = False
    """It has waited so long that nothing more is left to chance."""
    position: int | None = field(default=None, compare=False)
    """The position of the deciding job, if known."""

    def ahead_of(self, me: Ticket) -> tuple[Ticket, ...]:
        """The tickets that are served before this one."""
        position = self.position
        if position is None or self.order[position].job != me.job:
            position = next(i for i, ticket in enumerate(self.order) if ticket.job == me.job)
        return self.order[:position]


@dataclass(frozen=True, slots=True)
class _Headed:
    """``PresortedTickets`` at one moment."""

    ages: GangAges | None
    now_s: float
    queue: WaitQueue
    head_at: int
    """The place that the head would have without being one."""


def wait_queue(me: Ticket, seen: QueueSnapshot) -> WaitQueue:
    """The queue as the holder of ``me`` sees it; ``me`` is always in it."""
    if seen.presorted is not None and not me.is_choosy and not me.priority:
        found = _from_presorted(me, seen, seen.presorted)
        if found is not None:
            return found
    now_s = seen.now_s
    queues = queues_of(seen.snapshot)
    counted, is_mixed = [me], False
    for ticket in seen.tickets:
        # Count the whole queue: jobs that contend with other jobs than this one have to agree too.
        is_mixed |= ticket.rules != ADMISSION_RULES and not is_silent(ticket, now_s)
        if ticket.job != me.job and _counts(ticket, me, seen, queues):
            counted.append(ticket)
    if is_mixed:
        return WaitQueue(tuple(sorted(counted, key=arrival)), None)
    known_gpus = gpus_by_queue((me, *(one for one in seen.tickets if one.job != me.job)), seen)
    has_share = _shares(queues, known_gpus)
    backlog = inf
    if any(now_s - ticket.taken_at_s >= LEAST_PATIENCE_S for ticket in counted):
        backlog = backlog_of(me, seen)
    head = _head(sorted(counted, key=arrival), has_share, seen, backlog)
    order = _serving_order(counted, head, has_share, now_s)
    return _queue_of(order, head, backlog, now_s)


def _queue_of(
    order: tuple[Ticket, ...],
    head: Ticket | None,
    backlog: float,
    now_s: float,
    position: int | None = None,
) -> WaitQueue:
    if head is None:
        return WaitQueue(order, None, position=position)
    patiences = (now_s - head.taken_at_s) / patience_s(head, backlog)
    return WaitQueue(order, head, patiences >= LENIENT, patiences >= CERTAIN, position)


def _serving_key(ticket: Ticket, has_share: Mapping[str, bool]) -> tuple[bool, int, Arrival]:
    """The place in the queue while there is no head."""
    return has_share.get(ticket.queue, False), ticket.gpus, arrival(ticket)


def _serving_order(
    counted: Iterable[Ticket], head: Ticket | None, has_share: Mapping[str, bool], now_s: float
) -> tuple[Ticket, ...]:
    first = None if head is None else head.job
    order = sorted(counted, key=lambda one: (one.job != first, _serving_key(one, has_share)))
    start = 0 if head is None else 1
    return (*order[:start], *by_priority(order[start:], now_s))


def presorted(
    snapshot: ClusterSnapshot,
    tickets: Iterable[Ticket],
    sizes: Mapping[Resources, int],
    known_gpus: Mapping[str, int],
) -> PresortedTickets | None:
    """The same tickets, sorted for ``QueueSnapshot.presorted``. ``None`` if their order differs
    from job to job, or changes with time (``_has_own_order``).

    Args:
        sizes: the number of the snapshot's nodes of each size, including lost ones.
        known_gpus: the GPUs of these tickets and the running gangs (``gpus_by_queue``).
    """
    by_queue: dict[str, list[Ticket]] = {}
    for ticket in tickets:
        if _has_own_order(ticket):
            return None
        by_queue.setdefault(ticket.queue, []).append(ticket)
    queues = queues_of(snapshot)
    fits = partial(_fits_sizes, sizes=sizes)
    lines = {
        name: line_of((one for one in mine if _is_served(one, inf, queues)), fits)
        for name, mine in by_queue.items()
    }
    return _presorted(lines, _limits(queues), _shares(queues, known_gpus), sizes)


def resorted(
    known: PresortedTickets,
    gone: Sequence[Ticket],
    come: Sequence[Ticket],
    snapshot: ClusterSnapshot,
    tickets: Sequence[Ticket],
    known_gpus: Mapping[str, int],
) -> PresortedTickets | None:
    """``known`` without those that are ``gone`` and with those that have ``come``, as ``presorted``
    finds ``tickets``: all there are now. The nodes are the same."""
    if any(_has_own_order(ticket) for ticket in come):
        return None
    queues = queues_of(snapshot)
    limits, has_share = _limits(queues), _shares(queues, known_gpus)
    lines = dict(known.lines)
    fits = partial(_fits_sizes, sizes=known.sizes)
    for name in {ticket.queue for ticket in (*gone, *come)}:
        went = [ticket for ticket in gone if ticket.queue == name]
        came = [one for one in come if one.queue == name and _is_served(one, inf, queues)]
        if went or came:
            lines[name] = lines.get(name, QueueLine()).after(went, came, fits)
    for name in limits.keys() | known.limits.keys():
        if limits.get(name) != known.limits.get(name):
            served = (one for one in tickets if one.queue == name and _is_served(one, inf, queues))
            lines[name] = line_of(served, fits)
    lines = {name: line for name, line in lines.items() if line.entries}
    if (lines, limits, has_share) == (known.lines, known.limits, known.has_share):
        return known
    return _presorted(lines, limits, has_share, known.sizes)


def _presorted(
    lines: Mapping[str, QueueLine],
    limits: Mapping[str, object],
    has_share: Mapping[str, bool],
    sizes: Mapping[Resources, int],
) -> PresortedTickets:
    lines = {name: line for name, line in lines.items() if line.entries}
    groups = [
        {name: one for name, one in lines.items() if has_share.get(name, False) is has}
        for has in (False, True)
    ]
    below, above = (merged(group) for group in groups)
    entries = (*below, *above)
    candidates = [one for group in groups for one in first_of_each_size(group).values()]
    return PresortedTickets(
        lines=lines,
        limits=limits,
        has_share=has_share,
        sizes=sizes,
        entries=entries,
        below=len(below),
        order=tuple(ticket for _, _, ticket in entries),
        candidates=tuple(sorted(candidates, key=arrival)),
    )


def gpus_by_queue(tickets: Iterable[Ticket], seen: QueueSnapshot) -> Mapping[str, int]:
    """The GPUs of gangs that run, or whose containers have been requested."""
    found = Counter[str]()
    for gang in seen.running:
        found[gang.queue] += gang.gpus
    for ticket in tickets:
        if ticket.is_acquiring and not is_silent(ticket, seen.now_s):
            found[ticket.queue] += ticket.gpus
    return found


def _shares(queues: Mapping[str, QueueView], known_gpus: Mapping[str, int]) -> Mapping[str, bool]:
    return {name: _has_its_share(queue, known_gpus.get(name, 0)) for name, queue in queues.items()}


def _limits(queues: Mapping[str, QueueView]) -> Mapping[str, object]:
    """All that ``_is_served`` takes of each queue that has limits."""
    return {
        name: (queue.used, queue.maximum, queue.headroom, queue.user_limit, queue.used_by)
        for name, queue in queues.items()
        if not (queue.maximum is None and queue.headroom is None and queue.user_limit is None)
    }


def _has_own_order(ticket: Ticket) -> bool:
    """Whether the queue differs from job to job, or changes with time alone, because this ticket is
    choosy, has a priority, is of another version, or may become silent."""
    return (
        ticket.is_choosy
        or bool(ticket.priority)
        or ticket.seen_at_s is not None
        or ticket.rules != ADMISSION_RULES
    )


def _from_presorted(me: Ticket, seen: QueueSnapshot, known: PresortedTickets) -> WaitQueue | None:
    """The result of ``wait_queue``; ``None`` if the presorted tickets are not enough for it."""
    position = known.position_of(me)
    if position == len(known.order):
        return None
    ticket = known.order[position]
    is_shown = ticket is me or ticket == me
    if not is_shown and not _is_resized(me, ticket, known, seen):
        return None
    found = _headed(known, seen)
    queue = found.queue
    if queue.head is not None:
        at = found.head_at
        position = 0 if position == at else position + (position < at)
    if is_shown:
        return WaitQueue(queue.order, queue.head, queue.is_firm, queue.is_strict, position)
    order = (*queue.order[:position], me, *queue.order[position + 1 :])
    head = me if queue.head is ticket else queue.head
    return replace(queue, order=order, head=head, position=position)


def _headed(known: PresortedTickets, seen: QueueSnapshot) -> _Headed:
    """The order with the head at the front, which is the same for all jobs at one moment."""
    now_s, ages = seen.now_s, seen.ages
    if ages is not None and known.last:
        last = known.last[0]
        if last.ages is ages and last.now_s == now_s:
            return last
    backlog = inf
    if now_s - known.first_taken_at_s >= LEAST_PATIENCE_S:
        summed = gang_ages(seen.running) if ages is None else ages
        backlog = _backlog_s(known.waiting_gpus, summed, now_s)
    order, at = known.order, 0
    head = next(_due(known.candidates, known.has_share, now_s, backlog), None)
    if head is not None:
        at = known.position_of(head)
        order = (head, *order[:at], *order[at + 1 :])
    found = _Headed(ages, now_s, _queue_of(order, head, backlog, now_s), at)
    known.last[:] = [found]
    return found


def _is_resized(me: Ticket, ticket: Ticket, known: PresortedTickets, seen: QueueSnapshot) -> bool:
    """Whether ``me`` is this ticket in containers of another size, which changes nothing for the
    others: it could be the head in both, or in neither, since one of the same size came first."""
    if ticket.gpus != me.gpus or ticket != replace(me, demands=ticket.demands):
        return False
    has_share = known.has_share.get(me.queue, False)
    is_known = any(
        _fits_sizes(me, known.sizes)
        if one is ticket
        else one.gpus == me.gpus
        and known.has_share.get(one.queue, False) == has_share
        and arrival(one) < arrival(me)
        for one in known.candidates
    )
    return is_known and _is_served(me, inf, queues_of(seen.snapshot))


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


def patience_s(ticket: Ticket, backlog_s: float) -> float:
    """How long others may pass a job before nodes are reserved for it."""
    typical_s = backlog_s * sqrt(DUE_AFTER_ONE_BACKLOG_GPUS / max(1, ticket.gpus))
    return max(LEAST_PATIENCE_S, min(MOST_PATIENCE_S, typical_s))


def backlog_s(waiting_gpus: int, running: Iterable[RunningGang], now_s: float) -> float:
    """The time in which as many GPUs come free as are waited for, in seconds; infinite if unknown.

    In a steady state what is left of a running gang's time is distributed as its age is (renewal
    theory: D. R. Cox, "Renewal Theory", 1962, chapter 5). So all GPUs in use come free about once
    within the mean age of the gangs on them.
    """
    return _backlog_s(waiting_gpus, gang_ages(running), now_s)


@dataclass(frozen=True, slots=True)
class GangAges:
    """The starts of the gangs that report them."""

    gpus: int
    gpus_since_s: float
    """GPUs times the time since when, summed up (epoch seconds)."""
    latest_s: float
    """When the last of them began."""
    began: tuple[tuple[int, float], ...]
    """GPUs and since when, of each."""


def gang_ages(running: Iterable[RunningGang]) -> GangAges:
    gpus, gpus_since_s, latest_s = 0, 0.0, -inf
    began: list[tuple[int, float]] = []
    for gang in running:
        since_s = gang.since_s
        if since_s is not None:
            began.append((gang.gpus, since_s))
            gpus += gang.gpus
            gpus_since_s += gang.gpus * since_s
            latest_s = max(latest_s, since_s)
    return GangAges(gpus, gpus_since_s, latest_s, tuple(began))


def _backlog_s(waiting_gpus: int, ages: GangAges, now_s: float) -> float:
    if not ages.gpus:
        return inf
    if ages.latest_s <= now_s:
        mean_age_s = now_s - ages.gpus_since_s / ages.gpus
    else:
        # The clocks of some are ahead.
        aged = sum(gpus * max(0.0, now_s - since_s) for gpus, since_s in ages.began)
        mean_age_s = aged / ages.gpus
    return waiting_gpus / ages.gpus * mean_age_s


def backlog_of(me: Ticket, seen: QueueSnapshot) -> float:
    """``backlog_s`` of all waiting jobs, whichever nodes they can use: each job has to compute the
    same value."""
    queues = queues_of(seen.snapshot)
    others = (ticket for ticket in seen.tickets if ticket.job != me.job)
    waiting = sum(
        ticket.gpus
        for ticket in (me, *others)
        if not ticket.is_acquiring and _is_served(ticket, seen.now_s, queues)
    )
    return backlog_s(waiting, seen.running, seen.now_s)


def queues_of(snapshot: ClusterSnapshot) -> dict[str, QueueView]:
    """All queues that the snapshot knows, by name."""
    return {queue.name: queue for queue in (*snapshot.queues, snapshot.queue)}


def sum_of_demands(ticket: Ticket) -> Resources:
    """The resources of its whole gang."""
    need = Resources()
    for demand in ticket.demands:
        need = need.plus(demand.resources.times(demand.count))
    return need


def exceeds_maximum(ticket: Ticket, queue: QueueView) -> bool:
    """Whether the maximum of its queue, or of one above it, or what one user may have of it, keeps
    it out now, whatever is free."""
    need = sum_of_demands(ticket)
    if queue.headroom is not None and not need.fits_in(queue.headroom):
        return True
    if queue.maximum is not None and not queue.used.plus(need).fits_in(queue.maximum):
        return True
    return exceeds_user_limit(ticket, queue, need)


def exceeds_user_limit(ticket: Ticket, queue: QueueView, need: Resources) -> bool:
    """See ``QueueView``; False if the ticket's user is unknown."""
    sizes = (demand.resources for demand in ticket.demands)
    last = max(sizes, key=lambda one: (one.gpus, one.memory_mib, one.vcores), default=Resources())
    return bool(ticket.user) and queue.exceeds_user_limit(ticket.user, need, last)


def could_ever_fit(ticket: Ticket, snapshot: ClusterSnapshot) -> bool:
    """Whether the empty cluster with all its nodes, including lost ones, could hold each of its
    demands."""
    nodes = snapshot.nodes
    if ticket.is_choosy:
        usable = ticket.nodes_of(nodes)
        nodes = tuple(node for node in nodes if node.node_id in usable)
    return _fits_sizes(ticket, node_sizes(nodes))


def node_sizes(nodes: Iterable[Node]) -> Mapping[Resources, int]:
    """How many nodes there are of each size."""
    return Counter(node.total for node in nodes)


def _fits_sizes(ticket: Ticket, sizes: Mapping[Resources, int]) -> bool:
    return all(
        sum(demand.resources.count_in(total) * many for total, many in sizes.items())
        >= demand.count
        for demand in ticket.demands
    )


def is_silent(ticket: Ticket, now_s: float) -> bool:
    """Whether its holder has given no sign of life for ``SILENT_AFTER_S``."""
    return ticket.seen_at_s is not None and now_s - ticket.seen_at_s > SILENT_AFTER_S


def _counts(ticket: Ticket, me: Ticket, seen: QueueSnapshot, queues: dict[str, QueueView]) -> bool:
    return _contends(ticket, me, seen.snapshot) and _is_served(ticket, seen.now_s, queues)


def _is_served(ticket: Ticket, now_s: float, queues: dict[str, QueueView]) -> bool:
    """Whether free GPUs could help it now."""
    if is_silent(ticket, now_s):
        return False
    if ticket.is_acquiring:
        return True
    queue = queues.get(ticket.queue)
    return not ticket.blocked_reason and (queue is None or not exceeds_maximum(ticket, queue))


def _contends(ticket: Ticket, me: Ticket, snapshot: ClusterSnapshot) -> bool:
    """Whether both could use the same node."""
    if not ticket.is_choosy and not me.is_choosy:
        return True
    usable = [node for node in snapshot.nodes if node.is_usable]
    return not ticket.nodes_of(usable).isdisjoint(me.nodes_of(usable))


def _head(
    by_arrival: Iterable[Ticket], has_share: Mapping[str, bool], seen: QueueSnapshot, backlog: float
) -> Ticket | None:
    """The first that is due. A job that has already asked needs no nodes reserved."""
    waiting = (ticket for ticket in by_arrival if not ticket.is_acquiring)
    due = _due(waiting, has_share, seen.now_s, backlog)
    return next((ticket for ticket in due if could_ever_fit(ticket, seen.snapshot)), None)


def _due(
    by_arrival: Iterable[Ticket], has_share: Mapping[str, bool], now_s: float, backlog: float
) -> Iterator[Ticket]:
    for ticket in by_arrival:
        waited_s = now_s - ticket.taken_at_s
        if waited_s < LEAST_PATIENCE_S:
            return  # Those that came later have waited less.
        times = AT_ITS_SHARE if has_share.get(ticket.queue, False) else 1.0
        if waited_s >= times * patience_s(ticket, backlog):
            yield ticket


def _has_its_share(queue: QueueView, known_gpus: int) -> bool:
    """Whether YARN would serve queues below their share before this one. GPUs are counted, since
    gangs contend for them. Requested GPUs count as used: otherwise, when two nodes come free
    simultaneously, one queue would take both. Both ``known_gpus`` and ``used`` include those that
    are already granted, so the larger one counts."""
    share = queue.fair_share or queue.steady_share
    used = max(queue.used.gpus, known_gpus)
    return share is not None and share.gpus > 0 and used >= share.gpus

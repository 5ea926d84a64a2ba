"""Free capacity per node while the gangs that wait are placed on it one after the other. Lives
inside one admission decision; nothing is asked of YARN here."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import islice, repeat
from math import inf

from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, Node
from yarnam.core.model.tickets import Demand, RunningGang, Ticket

LEAST_LEFT_S = 900.0
"""A gang with no declared end is expected to run at least so much longer."""

RACK_SLACK, RACK_SLACK_S = 1.5, 300.0
"""Nodes of one rack are reserved if at most half as much work again is left on them as on the best
ones, and 300 s for each GPU. Ours."""

UNKNOWN_LEFT_S = 3600.0
"""How long GPUs of unknown jobs are expected to stay in use. Only for the choice of nodes: a gang
that has just ended or is just being acquired looks the same, so such GPUs may be free in the next
second."""


GpuRelease = tuple[float, int, bool]
"""When GPUs of a gang on a node come free (epoch seconds), how many, and whether its end is
declared; else it is estimated from how long the gang has run. A tuple, since there are
thousands."""

GpuReleases = Mapping[NodeId, Sequence[GpuRelease]]
"""What comes free on each node, soonest first."""

SLOTS_AT_ONCE = 8
"""A node has eight GPUs as a rule, and its slots are mostly wanted one after the other."""

NodeShare = tuple[NodeId, Resources]

_Slot = tuple[float, int, float, bool, NodeId]
"""Room for one container: behind how much work (GPU-seconds) and how many busy GPUs, when (epoch
seconds), whether by declared ends alone, and where."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes reserved for a gang that does not fit yet, and when it is expected to fit on them."""

    nodes: frozenset[NodeId]
    ready_at_s: float
    """Epoch seconds, as far as is known; infinite when the gang could never fit."""
    is_declared: bool
    """Whether that follows from declared ends alone."""
    work_gpu_s: float
    """GPU-seconds that still run on what it needs there."""


class ReservationLedger:
    """Free capacity of each usable node, before (``free``) and after (``left``) the reservations
    made so far."""

    __slots__ = ("_closed", "_soonest", "_too_many", "free", "left", "nodes", "touched")

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.nodes: dict[NodeId, Node] = {}
        self.free: dict[NodeId, Resources] = {}
        for node in snapshot.nodes:
            if node.is_usable:
                self.nodes[node.node_id] = node
                self.free[node.node_id] = node.free
        self.left: dict[NodeId, Resources] = dict(self.free)
        self.touched: set[NodeId] = set()
        self._closed: dict[object, frozenset[NodeId]] = {}
        self._too_many: dict[tuple[Resources, frozenset[NodeId]], int] = {}
        # How many containers of a size there was no room for: what is left only shrinks.
        self._soonest: list[tuple[Ticket, Sequence[RunningGang], float, Reservation]] = []
        # The last answer of ``soonest_for``, shared with copies until one of them reserves more.

    def reserve(
        self, ticket: Ticket, *, closed: frozenset[NodeId] = frozenset()
    ) -> list[NodeShare] | None:
        """Reserve room for the whole gang, the biggest tasks first, the tightest nodes first: what
        it takes on which node. None, and nothing is reserved, when not all of it fits."""
        demands = ticket.demands
        if len(demands) == 1 and self._too_many and not ticket.is_choosy:
            # Most of those that wait behind one that found no room ask for more of the same.
            too_many = self._too_many.get((demands[0].resources, closed))
            if too_many is not None and demands[0].count >= too_many:
                return None
        closed = _either(self._closed_to(ticket), closed)
        before: list[NodeShare] = []
        taken: list[NodeShare] = []
        for demand in _biggest_first(ticket.demands):
            kind = (demand.resources, closed)
            too_many = self._too_many.get(kind)
            fits = too_many is None or demand.count < too_many
            picks = self._picks(demand, closed) if fits else []
            if sum(count for _, count in picks) < demand.count:
                for name, left in reversed(before):
                    self.left[name] = left
                if fits and not before:
                    self._too_many[kind] = demand.count
                return None
            for name, count in picks:
                amount = demand.resources.times(count)
                before.append((name, self.left[name]))
                taken.append((name, amount))
                self.left[name] = self.left[name].minus(amount)
        self.touched.update(name for name, _ in before)
        self._soonest = []
        return taken

    def moved_to(self, snapshot: ClusterSnapshot) -> ReservationLedger:
        """The ledger of another snapshot, with no reservations. Only nodes that differ are looked
        at."""
        usable = {node.node_id: node for node in snapshot.nodes if node.is_usable}
        if list(usable) != list(self.nodes):
            return ReservationLedger(snapshot)
        twin = copy(self)
        twin.nodes, twin.free, twin.touched = usable, dict(self.free), set()
        for name, node in usable.items():
            if self.nodes[name] is not node:
                twin.free[name] = node.free
        twin.left = dict(twin.free)
        twin._closed, twin._too_many, twin._soonest = {}, {}, []  # noqa: SLF001 - of the same class
        return twin

    def copy(self) -> ReservationLedger:
        """The same free capacity and reservations, for one who goes on from here alone."""
        twin = copy(self)
        twin.left, twin.touched = dict(self.left), set(self.touched)
        twin._too_many = dict(self._too_many)  # noqa: SLF001 - of the same class
        return twin

    def release(self, what: Iterable[NodeShare]) -> None:
        """This comes free."""
        self._soonest = []
        self._too_many.clear()
        for name, amount in what:
            if name in self.left:
                self.left[name] = self.left[name].plus(amount)

    def could_reserve(self, ticket: Ticket, *, closed: frozenset[NodeId] = frozenset()) -> bool:
        """Whether each demand alone would fit on what is left. Cheap; if not, ``reserve`` fails,
        now and after more reservations."""
        closed = _either(self._closed_to(ticket), closed)
        return all(
            sum(count for _, count in self._picks(demand, closed)) >= demand.count
            for demand in ticket.demands
        )

    def reserve_what_fits(self, ticket: Ticket) -> None:
        """Reserve as many of its containers as there is room for: they are on their way."""
        self._soonest = []
        refused = self._closed_to(ticket)
        for demand in _biggest_first(ticket.demands):
            closed = refused
            if demand.nodes or demand.racks:
                there = frozenset((*demand.nodes, *self._in_racks(demand.racks)))
                closed = _either(refused, frozenset(self.nodes) - there)
            for name, count in self._picks(demand, closed):
                self.left[name] = self.left[name].minus(demand.resources.times(count))
                self.touched.add(name)

    def soonest_for(
        self, ticket: Ticket, running: Sequence[RunningGang], now_s: float
    ) -> Reservation:
        """The nodes with the least work left on what this gang needs of them; those of one rack
        where that is not much more. YARN is asked for racks, not for all nodes but some: so the
        other racks stay open to others.

        Work is GPUs times the time until they are expected to come free. The time alone would be
        the measure if it were known; since declared times overstate, it would change the choice
        with every job that ends early, and give away what has come free so far.

        Kept for copies of this ledger that ask for the same ticket at the same time."""
        for known, of, at_s, reservation in self._soonest:
            if known is ticket and of is running and at_s == now_s:
                return reservation
        found = self._soonest_for(ticket, releases_of(running, now_s), now_s)
        self._soonest[:] = [(ticket, running, now_s, found)]
        return found

    def _soonest_for(self, ticket: Ticket, releases: GpuReleases, now_s: float) -> Reservation:
        closed = self._closed_to(ticket)
        usable = tuple(name for name in self.nodes if name not in closed)
        choices = [
            _DemandSlots(self, demand, releases, now_s) for demand in _biggest_first(ticket.demands)
        ]
        best = _cheapest(choices, usable, now_s, most_gpu_s=inf) or _NOWHERE
        if len({self.nodes[name].rack for name in best.nodes}) < 2:
            return best
        racks: dict[str, list[NodeId]] = {}
        for name in usable:
            racks.setdefault(self.nodes[name].rack, []).append(name)
        most_gpu_s = RACK_SLACK * best.work_gpu_s + RACK_SLACK_S * ticket.gpus
        in_rack = None
        for rack in sorted(racks):
            if len(racks[rack]) < len(best.nodes):
                continue
            found = _cheapest(choices, racks[rack], now_s, most_gpu_s)
            if found is not None and (in_rack is None or found.work_gpu_s < in_rack.work_gpu_s):
                in_rack, most_gpu_s = found, found.work_gpu_s
        return in_rack or best

    def contested_nodes(self, ticket: Ticket) -> frozenset[NodeId]:
        """Nodes on which this gang could take what is reserved there, however YARN places it:
        those with reservations that could take a container of it and could not take all of it
        besides."""
        closed = self._closed_to(ticket)
        whole = Resources()
        for demand in ticket.demands:
            whole = whole.plus(demand.resources.times(demand.count))
        return frozenset(
            name
            for name in self.touched
            if not whole.fits_in(self.left[name])
            and name not in closed
            and any(d.resources.fits_in(self.free[name]) for d in ticket.demands)
        )

    def _picks(self, demand: Demand, closed: Collection[NodeId]) -> list[tuple[NodeId, int]]:
        """Nodes and how many containers go there: may be fewer than wanted in all."""
        want = demand.resources
        hosts: list[tuple[int, int, NodeId]] = []
        for name, left in self.left.items():
            if left.gpus < want.gpus or name in closed:
                continue
            count = want.count_in(left)
            if count > 0:
                hosts.append((-min(count, demand.count), left.gpus, name))
        hosts.sort()
        picks: list[tuple[NodeId, int]] = []
        missing = demand.count
        for fitting, _, name in hosts:
            if not missing:
                break
            take = min(-fitting, missing)
            picks.append((name, take))
            missing -= take
        return picks

    def _in_racks(self, racks: Collection[RackId]) -> Iterator[NodeId]:
        # A ticket of others may name thousands, which are in no set.
        wanted = frozenset(racks)
        return (name for name, node in self.nodes.items() if node.rack in wanted)

    def _closed_to(self, ticket: Ticket) -> frozenset[NodeId]:
        """Nodes that the gang may not use. Its GPU model is required of its tasks without GPUs
        too: few jobs have such tasks, and they mostly run beside the others."""
        if not ticket.is_choosy:
            return frozenset()
        constraint = (ticket.gpu_model, ticket.included, ticket.excluded)
        if constraint not in self._closed:
            self._closed[constraint] = frozenset(self.nodes) - ticket.nodes_of(self.nodes.values())
        return self._closed[constraint]


def releases_of(running: Iterable[RunningGang], now_s: float) -> GpuReleases:
    """The ends to come, node by node. A gang that does not report its nodes is skipped; one that
    is past its declared end is about to end."""
    found: dict[NodeId, list[GpuRelease]] = {}
    for gang in running:
        ends_at_s = gang.ends_at_s
        is_declared = ends_at_s is not None and ends_at_s > now_s
        if ends_at_s is None or not is_declared:
            has_run_s = now_s - gang.since_s if gang.since_s is not None else 0.0
            ends_at_s = now_s + max(LEAST_LEFT_S, has_run_s)
        for name, gpus in gang.nodes:
            ends = found.get(name)
            if ends is None:
                ends = found[name] = []
            ends.append((ends_at_s, gpus, is_declared))
    for ends in found.values():
        ends.sort()
    return found


_NOWHERE = Reservation(frozenset(), inf, is_declared=False, work_gpu_s=inf)


class _DemandSlots:
    """The slots that each node could ever have for a demand, soonest first. Made a few at a time,
    as many as are wanted: a node has room for thousands of tiny containers, and most nodes are
    asked for their first slot only. Kept: a node is looked at among all, and within its rack."""

    __slots__ = ("_left", "_made", "_most", "_nodes", "_now_s", "_releases", "_rest", "_want",
                 "count")  # fmt: skip

    def __init__(
        self, ledger: ReservationLedger, demand: Demand, releases: GpuReleases, now_s: float
    ) -> None:
        self.count = demand.count
        self._want = demand.resources
        self._nodes, self._left = ledger.nodes, ledger.left
        self._releases, self._now_s = releases, now_s
        self._most: dict[Resources, int] = {}
        self._made: dict[NodeId, list[_Slot]] = {}
        self._rest: dict[NodeId, Iterator[_Slot]] = {}

    def least(self, nodes: Iterable[NodeId]) -> list[_Slot]:
        """The first ``count`` slots of all these nodes in order, or as many as there are."""
        heap = [(slot, 0, name) for name in nodes if (slot := self._first(name)) is not None]
        heapq.heapify(heap)
        found: list[_Slot] = []
        while heap and len(found) < self.count:
            # Two slots in the heap are of two nodes, so they differ.
            slot, index, name = heap[0]
            found.append(slot)
            index += 1
            made = self._made.get(name, ())
            following = made[index] if index < len(made) else self._at(name, index)
            if following is None:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (following, index, name))
        return found

    def _first(self, name: NodeId) -> _Slot | None:
        made = self._made.get(name)
        if made is None:
            slot = self._soon(name)
            if slot is None:
                return self._at(name, 0)
            made = self._made[name] = [slot]
        return made[0] if made else None

    def _soon(self, name: NodeId) -> _Slot | None:
        """The first of ``_slots``, where it is there already or comes with the first release."""
        want, left, now_s = self._want, self._left[name], self._now_s
        if left.gpus >= want.gpus:
            has_room = self.count and want.fits_in(left)
            return (0.0, 0, now_s, True, name) if has_room else None
        ends = self._releases.get(name)
        missing = want.gpus - left.gpus
        if not ends or ends[0][1] < missing or not self._most_on(name):
            return None
        at_s, gpus, is_declared = ends[0]
        ready_at_s = max(now_s, at_s) if is_declared else max(now_s, now_s + (at_s - now_s))
        return gpus * (at_s - now_s), missing, ready_at_s, is_declared, name

    def _at(self, name: NodeId, index: int) -> _Slot | None:
        """The slot with this index, where those before it have been asked for; None: no more."""
        made = self._made.setdefault(name, [])
        if index == len(made):
            rest = self._rest.get(name)
            if rest is None:
                rest = self._rest[name] = islice(self._slots_of(name), len(made), None)
            made.extend(islice(rest, SLOTS_AT_ONCE))
        return made[index] if index < len(made) else None

    def _slots_of(self, name: NodeId) -> Iterator[_Slot]:
        most, ends = self._most_on(name), self._releases.get(name, ())
        return _slots(name, self._want, most, self._left[name], ends, self._now_s)

    def _most_on(self, name: NodeId) -> int:
        total = self._nodes[name].total
        most = self._most.get(total)
        if most is None:
            most = self._most[total] = min(self.count, self._want.count_in(total))
        return most


def _cheapest(
    choices: Iterable[_DemandSlots], nodes: Iterable[NodeId], now_s: float, most_gpu_s: float
) -> Reservation | None:
    """For each demand the slots with the least work on these nodes. None: that is more than
    ``most_gpu_s``."""
    reserved: set[NodeId] = set()
    ready_at_s, is_declared, work_gpu_s = now_s, True, 0.0
    for slots in choices:
        needed = slots.least(name for name in nodes if name not in reserved)
        reserved.update(slot[4] for slot in needed)
        if len(needed) < slots.count:
            ready_at_s = work_gpu_s = inf  # Nodes are away; whatever there is, is reserved.
        for work, _, at_s, is_known, _ in needed:
            ready_at_s = max(ready_at_s, at_s)
            is_declared &= is_known
            work_gpu_s += work
        if work_gpu_s > most_gpu_s:
            return None
    return Reservation(frozenset(reserved), ready_at_s, is_declared, work_gpu_s)


def _slots(
    name: NodeId,
    want: Resources,
    most: int,
    left: Resources,
    ends: Sequence[GpuRelease],
    now_s: float,
) -> Iterator[_Slot]:
    """Up to ``most`` slots for containers of this size, in order. GPUs are what gangs wait for;
    memory and cores are taken to come free with them.

    Of several estimated ends all must come: the last of ``n`` alike is expected after
    1 + 1/2 + ... + 1/n times the one (the maximum of n exponential times)."""
    now = min(most, want.count_in(left)) if left.gpus >= want.gpus else 0
    yield from repeat((0.0, 0, now_s, True, name), now)
    coming = iter(ends)
    freed = estimated = 0
    work, declared_s, left_s, stretch = 0.0, now_s, 0.0, 0.0
    for number in range(now + 1, most + 1):
        missing = max(0, number * want.gpus - left.gpus)
        while freed < missing:
            end = next(coming, None)
            if end is None:
                break
            at_s, gpus, is_declared = end
            freed += gpus
            work += gpus * (at_s - now_s)
            if is_declared:
                declared_s = at_s
            else:
                estimated += 1
                stretch += 1.0 / estimated
                left_s = at_s - now_s
        unknown = max(0, missing - freed)
        ready_at_s = max(declared_s, now_s + left_s * stretch)
        is_known = not estimated and not unknown
        yield work + unknown * UNKNOWN_LEFT_S, missing, ready_at_s, is_known, name


def _either(one: frozenset[NodeId], other: frozenset[NodeId]) -> frozenset[NodeId]:
    """Their union, and no copy where one is empty: it is a key, so its hash is kept."""
    return one | other if one and other else one or other


def _biggest_first(demands: Sequence[Demand]) -> Sequence[Demand]:
    if len(demands) == 1:
        return demands
    return sorted(
        demands,
        key=lambda d: (d.resources.gpus, d.resources.memory_mib, d.resources.vcores),
        reverse=True,
    )

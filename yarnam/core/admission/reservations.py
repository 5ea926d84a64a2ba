"""Free capacity per node while the gangs that wait are placed on it one after the other. Lives
inside one admission decision; nothing is asked of YARN here."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, Node
from yarnam.core.model.tickets import Demand, RunningGang, Ticket

LEAST_LEFT_S = 900.0
"""A gang without a declared end is expected to run at least this much longer."""

RACK_SLACK, RACK_SLACK_S = 1.5, 300.0
"""Nodes of one rack are reserved if at most half as much work again is left on them as on the best
ones, and 300 s for each GPU. The figures are our own choice."""

UNKNOWN_LEFT_S = 3600.0
"""How long GPUs of unknown jobs are expected to stay in use. Only for the choice of nodes: a gang
that has just ended or is just being acquired looks the same, so such GPUs may be free in the next
second."""


GpuRelease = tuple[float, int, bool]
"""When GPUs of a gang on a node come free (epoch seconds), how many, and whether its end is
declared; else it is estimated from how long the gang has run. A tuple, since there are
thousands."""

GangsOnNodes = Mapping[NodeId, Sequence[tuple[RunningGang, int]]]
"""Which gangs run on each node, and on how many of its GPUs."""

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

    __slots__ = (
        "_closed",
        "_counts",
        "_layouts",
        "_of",
        "_releases",
        "_soonest",
        "_too_many",
        "free",
        "left",
        "nodes",
        "touched",
    )

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._of = snapshot.nodes
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
        self._releases: list[_Releases] = []
        # The last ones, shared with all copies: they follow from the gangs and the time alone.
        self._layouts: dict[tuple[Resources, frozenset[NodeId]], _Layout] = {}
        # The parts of it that time does not change, since jobs ask at different times. Shared in
        # the same way.
        self._counts: dict[tuple[Resources, frozenset[NodeId]], int] = {}
        # The number of containers of a size that fit. Shared in the same way.

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
        self._forget()
        return taken

    def moved_to(self, snapshot: ClusterSnapshot) -> ReservationLedger:
        """The ledger of another snapshot, with no reservations. Only nodes that differ are looked
        at."""
        if len(self._of) != len(snapshot.nodes):
            return ReservationLedger(snapshot)
        nodes = zip(self._of, snapshot.nodes, strict=True)
        pairs = [(old, new) for old, new in nodes if old is not new]
        if any(_identity(old) != _identity(new) for old, new in pairs):
            return ReservationLedger(snapshot)
        twin = self._twin()
        twin._of = snapshot.nodes  # noqa: SLF001 - of the same class
        twin.nodes, twin.free, twin.touched = dict(self.nodes), dict(self.free), set()
        for _, node in pairs:
            if node.is_usable:
                twin.nodes[node.node_id], twin.free[node.node_id] = node, node.free
        twin.left = dict(twin.free)
        twin._closed, twin._too_many = {}, {}  # noqa: SLF001 - of the same class
        twin._forget()  # noqa: SLF001 - of the same class
        return twin

    def copy(self) -> ReservationLedger:
        """The same free capacity and reservations, for one who continues from here alone."""
        twin = self._twin()
        twin.left, twin.touched = dict(self.left), set(self.touched)
        twin._too_many = dict(self._too_many)  # noqa: SLF001 - of the same class
        return twin

    def _twin(self) -> ReservationLedger:
        """Copy it as ``copy.copy`` does, but without its overhead: a poll makes many copies."""
        twin = object.__new__(ReservationLedger)
        for name in ReservationLedger.__slots__:
            setattr(twin, name, getattr(self, name))
        return twin

    def release(self, what: Iterable[NodeShare]) -> None:
        """This comes free."""
        self._forget()
        self._too_many.clear()
        for name, amount in what:
            if name in self.left:
                self.left[name] = self.left[name].plus(amount)

    def could_reserve(self, ticket: Ticket, *, closed: frozenset[NodeId] = frozenset()) -> bool:
        """Whether each demand alone would fit on what is left. Cheap; if not, ``reserve`` fails,
        now and after more reservations."""
        closed = _either(self._closed_to(ticket), closed)
        return all(
            self._count_of(demand.resources, closed) >= demand.count for demand in ticket.demands
        )

    def holds(self, ticket: Ticket, *, closed: frozenset[NodeId] = frozenset()) -> bool:
        """Whether ``reserve`` would find room. Nothing is reserved."""
        if len(ticket.demands) == 1:
            return self.could_reserve(ticket, closed=closed)
        return self.copy().reserve(ticket, closed=closed) is not None

    def _count_of(self, want: Resources, closed: frozenset[NodeId]) -> int:
        room = self._counts.get((want, closed))
        if room is None:
            room = self._counts[want, closed] = sum(
                want.count_in(left)
                for name, left in self.left.items()
                if left.gpus >= want.gpus and name not in closed
            )
        return room

    def reserve_what_fits(self, ticket: Ticket) -> None:
        """Reserve as many of its containers as there is room for: they are on their way."""
        self._forget()
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
        self,
        ticket: Ticket,
        running: Sequence[RunningGang],
        now_s: float,
        gangs_on: GangsOnNodes | None = None,
    ) -> Reservation:
        """The nodes with the least work left on what this gang needs of them; those of one rack if
        that is not much more. YARN is asked for racks, not for all nodes but some: so the other
        racks stay open to others.

        Work is GPUs times the time until they are expected to come free. The time alone would be
        the measure if it were known; since declared times overstate, it would change the choice
        with every job that ends early, and give away what has come free so far.

        Kept for copies of this ledger that ask for the same ticket at the same time.

        ``gangs_on``: ``gangs_on_nodes`` of those that run, where that is known.
        """
        for known, of, at_s, reservation in self._soonest:
            if known is ticket and of is running and at_s == now_s:
                return reservation
        on = gangs_on_nodes(running) if gangs_on is None else gangs_on
        if not self._releases or not self._releases[0].are_of(on, now_s):
            self._releases[:] = [_Releases(on, now_s)]
        found = self._soonest_for(ticket, self._releases[0], now_s)
        self._soonest[:] = [(ticket, running, now_s, found)]
        return found

    def _soonest_for(self, ticket: Ticket, releases: _Releases, now_s: float) -> Reservation:
        closed = self._closed_to(ticket)
        choices = [
            _DemandSlots(self, demand, self._layout(demand.resources, closed, releases), releases)
            for demand in _biggest_first(ticket.demands)
        ]
        best = _cheapest(choices, None, now_s, most_gpu_s=inf) or _NOWHERE
        if len({self.nodes[name].rack for name in best.nodes}) < 2:
            return best
        sizes = Counter(node.rack for name, node in self.nodes.items() if name not in closed)
        most_gpu_s = RACK_SLACK * best.work_gpu_s + RACK_SLACK_S * ticket.gpus
        in_rack = None
        for rack in sorted(sizes):
            if sizes[rack] < len(best.nodes):
                continue
            found = _cheapest(choices, rack, now_s, most_gpu_s)
            if found is not None and (in_rack is None or found.work_gpu_s < in_rack.work_gpu_s):
                in_rack, most_gpu_s = found, found.work_gpu_s
        return in_rack or best

    def _layout(self, want: Resources, closed: frozenset[NodeId], releases: _Releases) -> _Layout:
        known = self._layouts.get((want, closed))
        if known is None or known.gangs_on is not releases.gangs_on:
            known = self._layouts[want, closed] = _Layout(self, want, closed, releases.gangs_on)
        return known

    def _forget(self) -> None:
        """Drop the cached soonest nodes, layouts and counts: they no longer hold."""
        self._soonest, self._layouts, self._counts = [], {}, {}

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


def _identity(node: Node) -> tuple[NodeId, bool]:
    return node.node_id, node.is_usable


def gangs_on_nodes(running: Iterable[RunningGang]) -> GangsOnNodes:
    """A gang that does not report its nodes is on none."""
    found: dict[NodeId, list[tuple[RunningGang, int]]] = {}
    for gang in running:
        for name, gpus in gang.nodes:
            found.setdefault(name, []).append((gang, gpus))
    return found


def gangs_on_nodes_after(
    on: GangsOnNodes, gone: RunningGang | None, come: RunningGang | None
) -> GangsOnNodes:
    """The same after one of these gangs has ended, and another one has started."""
    found = dict(on)
    if gone is not None:
        for name, _ in gone.nodes:
            left = [share for share in found.pop(name, ()) if share[0] is not gone]
            if left:
                found[name] = left
    if come is not None:
        for name, gpus in come.nodes:
            found[name] = [*found.get(name, ()), (come, gpus)]
    return found


class _Releases:
    """The ends to come, node by node."""

    __slots__ = ("_on", "_slots", "gangs_on", "now_s")

    def __init__(self, gangs_on: GangsOnNodes, now_s: float) -> None:
        self.now_s = now_s
        self.gangs_on = gangs_on
        self._on: dict[NodeId, Sequence[GpuRelease]] = {}
        self._slots: dict[tuple[NodeId, int], _Slot] = {}

    def are_of(self, gangs_on: GangsOnNodes, now_s: float) -> bool:
        return self.gangs_on is gangs_on and self.now_s == now_s

    def slot(self, name: NodeId, missing: int) -> _Slot:
        """Room on this node for which this many GPUs are missing."""
        found = self._slots.get((name, missing))
        if found is None:
            found = _busy_slot(name, missing, self.on(name), self.now_s)
            self._slots[name, missing] = found
        return found

    def end_of(self, gang: RunningGang) -> tuple[float, bool]:
        """When, and whether that is declared. A gang that is past its declared end is about to
        end."""
        ends_at_s, since_s, now_s = gang.ends_at_s, gang.since_s, self.now_s
        if ends_at_s is not None and ends_at_s > now_s:
            return ends_at_s, True
        has_run_s = now_s - since_s if since_s is not None else 0.0
        return now_s + max(LEAST_LEFT_S, has_run_s), False

    def on(self, name: NodeId) -> Sequence[GpuRelease]:
        """The resources that come free on this node, soonest first."""
        known = self._on.get(name)
        if known is not None:
            return known
        found: list[GpuRelease] = []
        for gang, gpus in self.gangs_on.get(name, ()):
            at_s, is_declared = self.end_of(gang)
            found.append((at_s, gpus, is_declared))
        if len(found) > 1:
            found.sort()
        self._on[name] = found
        return found


_NOWHERE = Reservation(frozenset(), inf, is_declared=False, work_gpu_s=inf)


class _Layout:
    """The parts of the first slots for containers of one size that time does not change, node by
    node."""

    __slots__ = ("alone", "fitting", "free", "gangs_on", "shared")

    def __init__(
        self,
        ledger: ReservationLedger,
        want: Resources,
        closed: Collection[NodeId],
        gangs_on: GangsOnNodes,
    ) -> None:
        self.gangs_on = gangs_on
        self.fitting: dict[NodeId, int] = {}
        """How many each node could hold if empty, for nodes that could hold any."""
        self.free: list[NodeId] = []
        """Nodes with room now."""
        self.alone: list[tuple[NodeId, int, RunningGang, int]] = []
        """Where the end of the only gang will do: how many GPUs are missing, which gang runs there,
        and on how many."""
        self.shared: list[tuple[NodeId, int]] = []
        """The other nodes that could hold one: how many GPUs are missing."""
        total, room = None, 0
        for name, node in ledger.nodes.items():
            if name in closed:
                continue
            if node.total is not total:
                total, room = node.total, want.count_in(node.total)
            if room <= 0:
                continue
            self.fitting[name] = room
            missing = want.gpus - ledger.left[name].gpus
            gangs = gangs_on.get(name, ())
            if missing <= 0:
                self.free.append(name)
            elif len(gangs) == 1 and gangs[0][1] >= missing:
                gang, gpus = gangs[0]
                self.alone.append((name, missing, gang, gpus))
            else:
                self.shared.append((name, missing))


class _DemandSlots:
    """The slots that each node could ever have for a demand, soonest first. The first slot of each
    node is made immediately, the others when they are needed: a node has room for thousands of tiny
    containers, and most nodes are asked for their first slot only. They are kept, because a node is
    considered both among all nodes and within its rack."""

    __slots__ = ("_firsts", "_fitting", "_left", "_nodes", "_racks", "_releases", "_want", "count")

    def __init__(
        self,
        ledger: ReservationLedger,
        demand: Demand,
        layout: _Layout,
        releases: _Releases,
    ) -> None:
        self.count = demand.count
        self._want = demand.resources
        self._nodes, self._left = ledger.nodes, ledger.left
        self._releases = releases
        self._fitting = layout.fitting
        self._firsts = _first_slots(layout, releases) if demand.count else []
        self._racks: dict[str, list[_Slot]] = {}

    def least(
        self, rack: str | None, taken: Container[NodeId], most_gpu_s: float
    ) -> list[_Slot] | None:
        """The first ``count`` slots in order, or as many as there are: of the nodes of this rack,
        or of all, without those that are taken. ``None`` if that is more work than
        ``most_gpu_s``."""
        firsts = self._firsts if rack is None else self._of_rack(rack)
        found: list[_Slot] = []
        later: list[tuple[_Slot, int]] = []
        work_gpu_s, position = 0.0, 0
        while len(found) < self.count:
            while position < len(firsts) and firsts[position][4] in taken:
                position += 1
            # Two slots that are compared are of two nodes, so they differ.
            if position < len(firsts) and not (later and later[0][0] < firsts[position]):
                slot, index = firsts[position], 0
                position += 1
            elif later:
                slot, index = heapq.heappop(later)
            else:
                break
            found.append(slot)
            work_gpu_s += slot[0]
            if work_gpu_s > most_gpu_s:
                return None
            following = self._at(slot[4], index + 1)
            if following is not None:
                heapq.heappush(later, (following, index + 1))
        return found

    def _of_rack(self, rack: str) -> list[_Slot]:
        if not self._racks:
            for slot in self._firsts:
                self._racks.setdefault(self._nodes[slot[4]].rack, []).append(slot)
        return self._racks.get(rack, [])

    def _at(self, name: NodeId, index: int) -> _Slot | None:
        """The slot with this index; ``None`` if the node could never have this many."""
        if index >= min(self.count, self._fitting[name]):
            return None
        left, want = self._left[name], self._want
        if left.gpus >= want.gpus and index < want.count_in(left):
            return 0.0, 0, self._releases.now_s, True, name
        missing = max(0, (index + 1) * want.gpus - left.gpus)
        return self._releases.slot(name, missing)


def _cheapest(
    choices: Iterable[_DemandSlots], rack: str | None, now_s: float, most_gpu_s: float
) -> Reservation | None:
    """For each demand the slots with the least work, on the nodes of this rack or on all. ``None``
    if that is more than ``most_gpu_s``."""
    reserved: set[NodeId] = set()
    ready_at_s, is_declared, work_gpu_s = now_s, True, 0.0
    for slots in choices:
        needed = slots.least(rack, reserved, most_gpu_s)
        if needed is None:
            return None
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


def _first_slots(layout: _Layout, releases: _Releases) -> list[_Slot]:
    """The first slot of each node, in order."""
    now_s = releases.now_s
    found: list[_Slot] = [(0.0, 0, now_s, True, name) for name in layout.free]
    for name, missing, gang, gpus in layout.alone:
        at_s, is_declared = releases.end_of(gang)
        left_s = at_s - now_s
        ready_at_s = at_s if is_declared else now_s + left_s
        found.append((gpus * left_s, missing, ready_at_s, is_declared, name))
    for name, missing in layout.shared:
        found.append(releases.slot(name, missing))
    found.sort()
    return found


def _busy_slot(name: NodeId, missing: int, ends: Sequence[GpuRelease], now_s: float) -> _Slot:
    """Room for which this many GPUs are missing. GPUs are what gangs wait for; memory and cores are
    taken to come free with them.

    Of several estimated ends all must come: the last of ``n`` alike is expected after
    1 + 1/2 + ... + 1/n times the one (the maximum of n exponential times)."""
    freed = estimated = 0
    work, declared_s, left_s, stretch = 0.0, now_s, 0.0, 0.0
    for at_s, gpus, is_declared in ends:
        if freed >= missing:
            break
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
    return work + unknown * UNKNOWN_LEFT_S, missing, ready_at_s, is_known, name


def _either(one: frozenset[NodeId], other: frozenset[NodeId]) -> frozenset[NodeId]:
    """Their union, without a copy if one is empty: it is a key, so its hash is kept."""
    return one | other if one and other else one or other


def _biggest_first(demands: Sequence[Demand]) -> Sequence[Demand]:
    if len(demands) == 1:
        return demands
    return sorted(
        demands,
        key=lambda d: (d.resources.gpus, d.resources.memory_mib, d.resources.vcores),
        reverse=True,
    )

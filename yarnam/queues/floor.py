"""What is free on each node, while one waiting gang after another is laid on it. Lives inside one
call of ``turn``; nothing is asked of YARN here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from yarnam.model.ids import NodeId
from yarnam.model.resources import Resources
from yarnam.model.snapshot import ClusterSnapshot, Node
from yarnam.model.tickets import Demand, RunningGang, Ticket

LEAST_LEFT_S = 900.0
"""A gang whose end is not declared is expected to run at least so much longer."""

RACK_SLACK, RACK_SLACK_S = 1.5, 300.0
"""Nodes of one rack are kept if at most half as much work again is left on them as on the best
ones, and 300 s for each GPU. Ours."""

UNKNOWN_LEFT_S = 3600.0
"""How long GPUs are expected to stay taken by what tells nothing of itself. Only for the choice of
nodes: a gang that has just ended or is just being acquired looks the same, so such GPUs may as
well be free in the next second."""


Release = tuple[float, int, bool]
"""When GPUs of a gang on a node come free (epoch seconds), how many, and whether by a declared end;
else it is an estimate, from how long the gang has run. A tuple, since there are thousands."""

Releases = Mapping[NodeId, Sequence[Release]]
"""What comes free on each node, soonest first."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Nodes kept for a gang that does not fit yet, and when it is expected to fit on them."""

    nodes: frozenset[NodeId]
    ready_at_s: float
    """Epoch seconds, not later than what is known says; infinite when it never could."""
    is_declared: bool
    """Whether that follows from declared ends alone."""
    work_gpu_s: float
    """GPU-seconds that still run on what it needs there."""


class Floor:
    """Free room per usable node, before (``free``) and after (``left``) what was laid on it."""

    __slots__ = ("_not_for", "_too_many", "free", "left", "nodes", "touched")

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.nodes: dict[NodeId, Node] = {}
        self.free: dict[NodeId, Resources] = {}
        for node in snapshot.nodes:
            if node.is_usable:
                self.nodes[node.node_id] = node
                self.free[node.node_id] = node.free
        self.left: dict[NodeId, Resources] = dict(self.free)
        self.touched: set[NodeId] = set()
        self._not_for: dict[object, frozenset[NodeId]] = {}
        self._too_many: dict[tuple[Resources, frozenset[NodeId]], int] = {}
        # How many containers of a size there was no room for: what is left only shrinks.

    def lay(self, ticket: Ticket, *, barred: frozenset[NodeId] = frozenset()) -> bool:
        """Lay the whole gang on what is left, the biggest tasks first, the tightest nodes first;
        lays nothing when not all of it fits."""
        return self.place(ticket, barred=barred) is not None

    def place(
        self, ticket: Ticket, *, barred: frozenset[NodeId] = frozenset()
    ) -> list[tuple[NodeId, Resources]] | None:
        """``lay``, and what it takes where; None: not all of it fits."""
        barred = self._barred(ticket) | barred
        taken: list[tuple[NodeId, Resources]] = []
        laid: list[tuple[NodeId, Resources]] = []
        for demand in _biggest_first(ticket.demands):
            kind = (demand.resources, barred)
            too_many = self._too_many.get(kind)
            fits = too_many is None or demand.count < too_many
            picks = self._picks(demand, barred) if fits else []
            if sum(count for _, count in picks) < demand.count:
                for name, before in reversed(taken):
                    self.left[name] = before
                if fits and not taken:
                    self._too_many[kind] = demand.count
                return None
            for name, count in picks:
                amount = demand.resources.times(count)
                taken.append((name, self.left[name]))
                laid.append((name, amount))
                self.left[name] = self.left[name].minus(amount)
        self.touched.update(name for name, _ in taken)
        return laid

    def give(self, what: Iterable[tuple[NodeId, Resources]]) -> None:
        """This comes free."""
        self._too_many.clear()
        for name, amount in what:
            if name in self.left:
                self.left[name] = self.left[name].plus(amount)

    def could_lay(self, ticket: Ticket) -> bool:
        """Whether each demand alone would fit on what is left: cheap, and if not, ``lay`` fails."""
        barred = self._barred(ticket)
        return all(
            sum(count for _, count in self._picks(demand, barred)) >= demand.count
            for demand in ticket.demands
        )

    def lay_what_fits(self, ticket: Ticket) -> None:
        """Lay as many of its containers as there is room for: they are on their way."""
        barred = self._barred(ticket)
        for demand in _biggest_first(ticket.demands):
            for name, count in self._picks(demand, barred):
                self.left[name] = self.left[name].minus(demand.resources.times(count))
                self.touched.add(name)

    def keep_for(self, ticket: Ticket, releases: Releases, now_s: float) -> Keep:
        """The nodes with the least work left on what this gang needs of them; those of one rack
        where that is not much more. YARN is asked for racks, not for all nodes but some: so the
        other racks stay open to others.

        Work is GPUs times the time until they are expected to come free. The time alone would be
        the measure if it were known; as declared times overstate, it would change the choice
        with every job that ends early, and give away what has come free so far."""
        barred = self._barred(ticket)
        usable = tuple(name for name in self.nodes if name not in barred)
        keep = self._keep_on(ticket, releases, now_s, usable)
        racks: dict[str, list[NodeId]] = {}
        for name in usable:
            racks.setdefault(self.nodes[name].rack, []).append(name)
        if len(racks) < 2 or len({self.nodes[name].rack for name in keep.nodes}) < 2:
            return keep
        in_racks = [
            self._keep_on(ticket, releases, now_s, racks[rack])
            for rack in sorted(racks)
            if len(racks[rack]) >= len(keep.nodes)
        ]
        best = min(in_racks, key=lambda one: one.work_gpu_s, default=keep)
        most = RACK_SLACK * keep.work_gpu_s + RACK_SLACK_S * ticket.gpus
        return best if best.work_gpu_s <= most else keep

    def _keep_on(
        self, ticket: Ticket, releases: Releases, now_s: float, nodes: Sequence[NodeId]
    ) -> Keep:
        kept: set[NodeId] = set()
        ready_at_s, is_declared, work_gpu_s = now_s, True, 0.0
        for demand in _biggest_first(ticket.demands):
            slots = self._slots(demand, releases, kept, now_s, nodes)
            slots.sort()
            needed = slots[: demand.count]
            kept.update(slot[4] for slot in needed)
            if len(needed) < demand.count:
                ready_at_s = work_gpu_s = inf  # Nodes are away; whatever there is, is kept.
            for work, _, at_s, is_known, _ in needed:
                ready_at_s = max(ready_at_s, at_s)
                is_declared &= is_known
                work_gpu_s += work
        return Keep(frozenset(kept), ready_at_s, is_declared, work_gpu_s)

    def out_of_bounds(self, ticket: Ticket) -> frozenset[NodeId]:
        """Nodes on which this gang could take what was laid there, however YARN places it: those
        that have been laid on, could take a container of it and could not take all of it
        besides."""
        barred = self._barred(ticket)
        whole = Resources()
        for demand in ticket.demands:
            whole = whole.plus(demand.resources.times(demand.count))
        return frozenset(
            name
            for name in self.touched
            if not whole.fits_in(self.left[name])
            and name not in barred
            and any(d.resources.fits_in(self.free[name]) for d in ticket.demands)
        )

    def _picks(self, demand: Demand, barred: Collection[NodeId]) -> list[tuple[NodeId, int]]:
        """Nodes and how many containers go there: may be fewer than wanted in all."""
        want = demand.resources
        hosts: list[tuple[int, int, NodeId]] = []
        for name, left in self.left.items():
            if left.gpus < want.gpus or name in barred:
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

    def _slots(
        self,
        demand: Demand,
        releases: Releases,
        barred: Collection[NodeId],
        now_s: float,
        nodes: Iterable[NodeId],
    ) -> list[tuple[float, int, float, bool, NodeId]]:
        """For each container that a node could ever host: behind how much work (GPU-seconds) and
        how many busy GPUs, when, whether by declared ends alone, and where."""
        want = demand.resources
        slots: list[tuple[float, int, float, bool, NodeId]] = []
        most_of: dict[Resources, int] = {}
        for name in nodes:
            if name in barred:
                continue
            node = self.nodes[name]
            most = most_of.get(node.total)
            if most is None:
                most = most_of[node.total] = min(demand.count, want.count_in(node.total))
            left = self.left[name]
            now = min(most, want.count_in(left)) if left.gpus >= want.gpus else 0
            slots.extend((0.0, 0, now_s, True, name) for _ in range(now))
            ends = releases.get(name, ())
            for number in range(now + 1, most + 1):
                missing = max(0, number * want.gpus - left.gpus)
                work, at_s, is_declared = _until_free(missing, ends, now_s)
                slots.append((work, missing, at_s, is_declared, name))
        return slots

    def _barred(self, ticket: Ticket) -> frozenset[NodeId]:
        """Nodes that the gang may not use. What its GPUs must be is asked of its tasks without
        any too: few have such, and they mostly stand beside the others."""
        if not ticket.is_choosy:
            return frozenset()
        wish = (ticket.gpu_model, ticket.included, ticket.excluded)
        if wish not in self._not_for:
            self._not_for[wish] = frozenset(self.nodes) - ticket.nodes_of(self.nodes.values())
        return self._not_for[wish]


def releases_of(running: Iterable[RunningGang], now_s: float) -> Releases:
    """The ends to come, node by node. A gang that does not tell its nodes is left out; one that is
    over its declared end is about to end."""
    found: dict[NodeId, list[Release]] = {}
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


def _until_free(gpus: int, ends: Sequence[Release], now_s: float) -> tuple[float, float, bool]:
    """GPU-seconds that run until so many GPUs have come free, when that is expected, and whether
    by declared ends alone. GPUs are what gangs wait for; memory and cores are taken to come free
    with them.

    Of several estimated ends all must come: the last of ``n`` alike is expected after
    1 + 1/2 + ... + 1/n times the one (the maximum of n exponential times)."""
    work, declared_s, left_s, stretch, estimated = 0.0, now_s, 0.0, 0.0, 0
    for at_s, freed, is_declared in ends:
        if gpus <= 0:
            break
        gpus -= freed
        work += freed * (at_s - now_s)
        if is_declared:
            declared_s = at_s
        else:
            estimated += 1
            stretch += 1.0 / estimated
            left_s = at_s - now_s
    if gpus > 0:
        work += gpus * UNKNOWN_LEFT_S
        estimated += 1
    return work, max(declared_s, now_s + left_s * stretch), not estimated


def _biggest_first(demands: Iterable[Demand]) -> list[Demand]:
    return sorted(
        demands,
        key=lambda d: (d.resources.gpus, d.resources.memory_mib, d.resources.vcores),
        reverse=True,
    )

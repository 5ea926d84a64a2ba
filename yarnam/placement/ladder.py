"""Which places to declare at submit: as few services as give the best locality."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from yarnam.model.ids import NodeId, RackId
from yarnam.model.job import JobSpec, PackOrSpread, PlacementWish, TopologyWish
from yarnam.model.placement import PlanPolicy
from yarnam.model.snapshot import Node
from yarnam.placement.judging import Fewest, fewest_nodes
from yarnam.placement.packing import hosts, pack
from yarnam.placement.places import (
    ANYWHERE,
    MOST_NODES_LISTED,
    Candidate,
    Place,
    rack_names,
    targets_at,
)
from yarnam.placement.rooms import Room, by_rack
from yarnam.placement.search import PackRules
from yarnam.placement.shapes import Shape, tasks_of

REQUIRED, UNCONSTRAINED = TopologyWish.REQUIRED, TopologyWish.UNCONSTRAINED

SETS_IF_PREFERRED = 2
"""Exact node sets for a mere preference: when both are taken, a rack is still near. Each costs a
service, and a service costs 0.1 to 0.3 s of submit time (skein-on-yarn.md, 11a)."""


def build_ladder(
    job: JobSpec,
    policy: PlanPolicy,
    shapes: Sequence[Shape],
    total: Sequence[Room],
    free: Sequence[Room],
    barred: Collection[NodeId],
    nodes: Iterable[Node],
) -> tuple[Candidate, ...]:
    """The candidates to declare. ``shapes`` are in order of preference; at least one can be held
    by ``total``."""
    able = [shape for shape in shapes if is_able(job, shape, total)]
    primary = able[0]
    excluded = _excluded_by_rack(nodes, barred)
    places = _places(job, policy, primary, total, free, excluded)
    candidates = [Candidate(primary, p, targets_at(primary, p, name)) for p, name in places]
    finer = _finer(job, able, free)
    if finer is not None:
        loosest = [(p, name) for p, name in places if not p.nodes and not p.racks]
        for place, name in loosest or [(p, n) for p, n in places if n.startswith("r-")]:
            candidates.append(Candidate(finer, place, targets_at(finer, place, name)))
    return tuple(candidates)


def is_able(job: JobSpec, shape: Shape, rooms: Sequence[Room]) -> bool:
    """Whether these rooms hold the whole shape, by the job's hard wishes."""
    wish = job.placement
    rules = PackRules(
        node_limit=wish.max_nodes, one_task_per_node=wish.strategy is PackOrSpread.SPREAD
    )
    if wish.rack is REQUIRED:
        return any(pack(members, shape, rules) for members in by_rack(rooms).values())
    return pack(rooms, shape, rules) is not None


def _finer(job: JobSpec, able: Sequence[Shape], free: Sequence[Room]) -> Shape | None:
    """A second shape of smaller containers, for a cluster whose free GPUs lie scattered: the
    largest that fits now, else half the size of the first."""
    if len(able) < 2 or job.placement.node is REQUIRED:
        return None
    for shape in able[1:]:
        if is_able(job, shape, free):
            return shape
    half = able[0][0].resources.gpus // 2
    return next((s for s in able[1:] if s[0].resources.gpus <= half), able[-1])


def _places(
    job: JobSpec,
    policy: PlanPolicy,
    shape: Shape,
    total: Sequence[Room],
    free: Sequence[Room],
    excluded: dict[RackId, set[NodeId]],
) -> list[tuple[Place, str]]:
    """Places for the first shape, with their names, tightest first."""
    wish = job.placement
    fewest = fewest_nodes(shape, wish, total)
    racks = _racks(wish, policy, shape, total, free)
    names = rack_names(racks)
    found: list[tuple[Place, str]] = []
    members = by_rack(total)
    for rack in racks:
        found.append(
            (_without_excluded(Place(racks=(rack,)), members[rack], excluded), names[rack])
        )
    if wish.rack is not REQUIRED or len(members) == 1:
        found.append((_without_excluded(ANYWHERE, total, excluded), "any"))
    sets = _node_sets(wish, policy, shape, fewest, total, free)
    covered = {frozenset(room.node for room in place.rooms(total)) for place, _ in found}
    exact = [nodes for nodes in sets if frozenset(nodes) not in covered]
    return [(Place(nodes=nodes), f"n{i}") for i, nodes in enumerate(exact)] + found


def _racks(
    wish: PlacementWish,
    policy: PlanPolicy,
    shape: Shape,
    total: Sequence[Room],
    free: Sequence[Room],
) -> list[RackId]:
    """Racks that could hold the gang, best first: fits now, most nodes able to host a task, fewest
    nodes needed, name. None when the cluster is one rack or racks do not matter."""
    in_all, in_free = by_rack(total), by_rack(free)
    if len(in_all) < 2 or wish.rack is UNCONSTRAINED:
        return []
    rules = PackRules(
        node_limit=wish.max_nodes, one_task_per_node=wish.strategy is PackOrSpread.SPREAD
    )
    ranked: list[tuple[bool, int, int, RackId]] = []
    for rack, rooms in in_all.items():
        could = pack(rooms, shape, rules)
        if could is None:
            continue
        now = pack(in_free.get(rack, []), shape, rules)
        count = len((now or could).nodes)
        ranked.append((now is None, -hosts(in_free.get(rack, []), shape), count, rack))
    return [rack for *_, rack in sorted(ranked)[: policy.max_racks]]


def _node_sets(
    wish: PlacementWish,
    policy: PlanPolicy,
    shape: Shape,
    fewest: Fewest,
    total: Sequence[Room],
    free: Sequence[Room],
) -> list[tuple[NodeId, ...]]:
    """Disjoint sets of the fewest nodes, those that fit now first, in different racks if there
    are. None are needed where every task takes a node of its own: any place gives the fewest nodes
    then."""
    limit = fewest.nodes
    if wish.node is UNCONSTRAINED or limit is None or tasks_of(shape) <= limit:
        return []
    most = policy.max_node_sets
    if wish.node is not REQUIRED:
        most = min(most, SETS_IF_PREFERRED)
    rules = PackRules(node_limit=limit, one_task_per_node=wish.strategy is PackOrSpread.SPREAD)
    in_racks = fewest.has_rack and wish.rack is not UNCONSTRAINED
    found: list[tuple[NodeId, ...]] = []
    taken: set[NodeId] = set()
    rack_of = {room.node: room.rack for room in total}
    for rooms in (free, total):
        while len(found) < most:
            left = [room for room in rooms if room.node not in taken]
            pools = list(by_rack(left).values()) if in_racks else [left]
            packings = [p for pool in pools if (p := pack(pool, shape, rules)) is not None]
            if not packings:
                break
            used_racks = {rack_of[node] for node in taken}
            best = min(
                packings,
                key=lambda p: (
                    sum(rack_of[n] in used_racks for n in p.nodes),
                    len(p.nodes),
                    p.nodes,
                ),
            )
            found.append(best.nodes)
            taken.update(best.nodes)
    return found


def _without_excluded(
    place: Place, rooms: Sequence[Room], excluded: dict[RackId, set[NodeId]]
) -> Place:
    """Skein cannot ask for "all but these": a short list of the others does the same."""
    hit = any(excluded.get(rack) for rack in place.racks) if place.racks else bool(excluded)
    if not hit or len(rooms) > MOST_NODES_LISTED:
        return place
    return Place(nodes=tuple(sorted(room.node for room in rooms)))


def _excluded_by_rack(
    nodes: Iterable[Node], barred: Collection[NodeId]
) -> dict[RackId, set[NodeId]]:
    found: dict[RackId, set[NodeId]] = {}
    for node in nodes:
        if node.node_id in barred:
            found.setdefault(node.rack, set()).add(node.node_id)
    return found

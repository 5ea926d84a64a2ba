"""Which places to declare at submit: as few services as give the best locality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from yarnam.model.ids import NodeId, RackId
from yarnam.model.job import PackOrSpread, TopologyWish
from yarnam.model.placement import PlanPolicy, Target
from yarnam.placement.bounds import MOST_NODES_LISTED, Bounds
from yarnam.placement.ground import Ground
from yarnam.placement.judging import Fewest, fewest_nodes
from yarnam.placement.models import Choice
from yarnam.placement.places import ANYWHERE, Place, rack_names, target_at
from yarnam.placement.search import Packing, PackRules
from yarnam.placement.shapes import Shape, of_models, tasks_of
from yarnam.placement.view import View

REQUIRED, UNCONSTRAINED = TopologyWish.REQUIRED, TopologyWish.UNCONSTRAINED

SETS_IF_PREFERRED = 2
"""Exact node sets for a mere preference: when both are taken, a rack is still near. Each costs a
service, and a service costs 0.1 to 0.3 s of submit time (skein-on-yarn.md, 11a)."""
MOST_RACKS_TOGETHER = 16
"""Racks of a set of racks, for a gang that no single one can hold."""
RACKS_PACKED = 4
"""Of a gang of several roles this many times ``max_racks`` racks are packed in full, those with
the most nodes able to host it: packing several roles is dear."""
MOST_MODELS = 3
"""Models of GPU that get places of their own, those that fit now first."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A place for a shape, with the name that its services get."""

    shape: Shape
    place: Place
    name: str


def build_ladder(
    view: View,
    policy: PlanPolicy,
    cuts: Sequence[Shape],
    choices: Sequence[Choice],
    *,
    is_bounded: bool = True,
) -> tuple[Target, ...]:
    """The targets to declare. ``cuts`` are the ways to cut the job, in order of preference, and
    ``choices`` the models of GPU that it may get; at least one of each can be held. Not
    ``is_bounded``: nodes that must not be used are left to the judging of grants."""
    primary = next(cut for cut in cuts if any(is_able(view, of_models(cut, c)) for c in choices))
    shapes = [of_models(primary, c) for c in choices if is_able(view, of_models(primary, c))]
    shapes.sort(key=lambda shape: not view.free.may_hold(shape, view.rules))
    shapes = [_careful(view, shape) for shape in shapes]
    bounds = Bounds(view)
    plots = _plots(view, policy, shapes[:MOST_MODELS])
    finer = _finer(view, cuts, primary, shapes[0])
    if finer is not None:
        loosest = [plot for plot in plots if plot.shape == shapes[0] and plot.place == ANYWHERE]
        racks = [plot for plot in plots if plot.shape == shapes[0] and plot.name.startswith("r-")]
        plots += [replace(plot, shape=finer) for plot in loosest or racks]
    targets = [
        target_at(group, bounds.bounded(plot.place, group) if is_bounded else plot.place, plot.name)
        for plot in plots
        for group in plot.shape
    ]
    return tuple(dict.fromkeys(targets))


def is_able(view: View, shape: Shape, ground: Ground | None = None) -> bool:
    """Whether this ground (by default all of the cluster, as if nothing ran) holds the whole
    shape, by the job's hard wishes."""
    ground = view.total if ground is None else ground
    if view.job.placement.rack is REQUIRED:
        return any(_holds(rack, shape, view.rules) for rack in ground.racks.values())
    return _holds(ground, shape, view.rules)


def _holds(ground: Ground, shape: Shape, rules: PackRules) -> bool:
    return ground.may_hold(shape, rules) and ground.fewest(shape, rules) is not None


def _careful(view: View, shape: Shape) -> Shape:
    """The shape kept to nodes whose model is known, where those can hold it."""
    if not any(group.model for group in shape):
        return shape
    careful = tuple(replace(group, has_trust=False) for group in shape)
    return careful if is_able(view, careful) else shape


def _finer(view: View, cuts: Sequence[Shape], primary: Shape, with_models: Shape) -> Shape | None:
    """A second shape of smaller containers, for a cluster whose free GPUs lie scattered: the
    largest that fits now, else half the size of the first."""
    if view.job.placement.node is REQUIRED:
        return None
    models = {group.role: group.model for group in with_models if group.model}
    smaller = [_careful(view, of_models(c, models)) for c in cuts[cuts.index(primary) + 1 :]]
    smaller = [shape for shape in smaller if is_able(view, shape)]
    if not smaller:
        return None
    for shape in smaller:
        if is_able(view, shape, view.free):
            return shape
    half = primary[0].resources.gpus // 2
    return next((shape for shape in smaller if shape[0].resources.gpus <= half), smaller[-1])


def _plots(view: View, policy: PlanPolicy, shapes: Sequence[Shape]) -> list[Plot]:
    """Places for the first cut, for each model of GPU, tightest first."""
    wish = view.job.placement
    by_rack: list[tuple[tuple[object, ...], RackId, Shape]] = []
    sets: list[Plot] = []
    wide: list[Plot] = []
    for number, shape in enumerate(shapes):
        suffix = f"-m{number}" if len(shapes) > 1 else ""
        racks = _racks(view, policy, shape)
        by_rack += [(rank, rack, shape) for rank, rack in racks]
        if not racks and wish.rack is not UNCONSTRAINED:
            together = _racks_together(view, shape)
            wide += [Plot(shape, p, f"rs{i}{suffix}") for i, p in enumerate(together)]
        if wish.rack is not REQUIRED or len(view.total.racks) == 1:
            wide.append(Plot(shape, ANYWHERE, f"any{suffix}"))
        found = _node_sets(view, policy, shape, fewest_nodes(view, shape))
        sets += [Plot(shape, Place(nodes=n), f"n{i}{suffix}") for i, n in enumerate(found)]
    chosen = sorted(by_rack, key=lambda item: item[:2])[: policy.max_racks]
    names = rack_names({rack for _, rack, _ in chosen})
    single = [
        Plot(
            shape,
            Place(racks=(rack,)),
            names[rack] + (f"-m{shapes.index(shape)}" * (shape != shapes[0])),
        )
        for _, rack, shape in chosen
    ]
    covered = {
        (plot.shape, frozenset(room.node for room in view.total.at(plot.place).rooms))
        for plot in single
    }
    if sets and len(view.total.rooms) <= MOST_NODES_LISTED:
        everywhere = frozenset(room.node for room in view.total.rooms)
        covered |= {(plot.shape, everywhere) for plot in wide if plot.place == ANYWHERE}
    sets = [plot for plot in sets if (plot.shape, frozenset(plot.place.nodes)) not in covered]
    return [*sets, *single, *wide]


def _racks(view: View, policy: PlanPolicy, shape: Shape) -> list[tuple[tuple[object, ...], RackId]]:
    """Racks that could hold the gang, best first: fits now, most nodes able to host a task, fewest
    nodes needed, most bytes of input, the job's own order, name. None when the cluster is one rack
    or racks do not matter."""
    racks = view.total.racks
    if len(racks) < 2 or view.job.placement.rack is UNCONSTRAINED:
        return []
    empty = Ground(())
    free = view.free.racks
    able = [
        (-free.get(name, empty).able(shape), name)
        for name, rack in racks.items()
        if rack.may_hold(shape, view.rules)
    ]
    if len(shape) > 1:
        able = sorted(able)[: policy.max_racks * RACKS_PACKED]
    by_rack = dict(view.data.racks) if view.taste.local else {}
    ranked: list[tuple[tuple[object, ...], RackId]] = []
    for minus_hosts, name in able:
        now = free.get(name, empty).fewest(shape, view.rules)
        count = now if now is not None else racks[name].fewest(shape, view.rules)
        if count is None:
            continue
        bytes_there = by_rack.get(name, 0)
        rank = (now is None, minus_hosts, count, -bytes_there, view.taste.order(name))
        ranked.append((rank, name))
    ranked.sort()
    return ranked[: policy.max_racks]


def _racks_together(view: View, shape: Shape) -> list[Place]:
    """For a gang that no rack can hold: the fewest racks that can, twice if there are enough. The
    racks with the most room first, so that the gang crosses few boundaries."""
    found: list[Place] = []
    taken: set[RackId] = set()
    for ground in (view.free, view.total):
        while len(found) < SETS_IF_PREFERRED:
            racks = [(name, rack) for name, rack in ground.racks.items() if name not in taken]
            ranked = sorted(racks, key=lambda item: (-_weight(item[1], shape), item[0]))
            chosen = _first_that_hold(view, [name for name, _ in ranked], ground, shape)
            if chosen is None or len(chosen) >= len(view.total.racks):
                break
            found.append(Place(racks=tuple(sorted(chosen))))
            taken.update(chosen)
    return found


def _weight(rack: Ground, shape: Shape) -> int:
    return sum(sum(rack.counts(group, group.count)) for group in shape)


def _first_that_hold(
    view: View, names: Sequence[RackId], ground: Ground, shape: Shape
) -> list[RackId] | None:
    reach = 0
    need = tasks_of(shape)
    for count, name in enumerate(names[:MOST_RACKS_TOGETHER], 1):
        reach += _weight(ground.racks[name], shape)
        if reach >= need and count > 1:
            chosen = list(names[:count])
            if ground.at(Place(racks=tuple(chosen))).pack(shape, view.rules) is not None:
                return chosen
    return None


def _node_sets(
    view: View, policy: PlanPolicy, shape: Shape, fewest: Fewest
) -> list[tuple[NodeId, ...]]:
    """Disjoint sets of the fewest nodes, those that fit now first, in different racks if there
    are. None are needed where every task takes a node of its own: any place gives the fewest nodes
    then."""
    wish, limit = view.job.placement, fewest.nodes
    if wish.node is UNCONSTRAINED or limit is None or tasks_of(shape) <= limit:
        return []
    if limit > MOST_NODES_LISTED:
        return []
    most = policy.max_node_sets
    if wish.node is not REQUIRED:
        most = min(most, SETS_IF_PREFERRED)
    rules = replace(view.rules, node_limit=limit)
    in_racks = fewest.has_rack and wish.rack is not UNCONSTRAINED
    found: list[tuple[NodeId, ...]] = []
    taken: set[NodeId] = set()
    used_racks: dict[RackId, int] = {}
    for ground in (view.free, view.total):
        pools = dict(ground.racks) if in_racks else {RackId(""): ground}
        packings = {name: pool.pack(shape, rules) for name, pool in pools.items()}
        while len(found) < most:
            # What was taken from a pool is gone from it: only that pool is packed anew.
            for name, packing in packings.items():
                if packing is not None and taken & set(packing.nodes):
                    left = [room for room in pools[name].rooms if room.node not in taken]
                    packings[name] = Ground(left, view.taste).pack(shape, rules)
            best = _best_set(view, packings, used_racks)
            if best is None:
                break
            found.append(best.nodes)
            taken.update(best.nodes)
            for node in best.nodes:
                rack = view.total.by_node[node].rack
                used_racks[rack] = used_racks.get(rack, 0) + 1
    return found


def _best_set(
    view: View, packings: dict[RackId, Packing | None], used_racks: dict[RackId, int]
) -> Packing | None:
    """Away from the racks in use, the fewest nodes, the tightest fit, the most bytes of input, the
    job's own order."""
    rooms, local = view.free.by_node, view.taste.local

    def key(packing: Packing) -> tuple[int, int, int, int, int, tuple[NodeId, ...]]:
        nodes = packing.nodes
        return (
            sum(rooms[node].rack in used_racks for node in nodes),
            len(nodes),
            sum(rooms[node].gpus for node in nodes),
            -sum(local.get(node, 0) for node in nodes),
            view.taste.order(nodes[0]),
            nodes,
        )

    return min((p for p in packings.values() if p is not None), key=key, default=None)


def is_spread(view: View) -> bool:
    return view.job.placement.strategy is PackOrSpread.SPREAD

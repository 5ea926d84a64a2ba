"""Which targets to declare at submit: as few Skein services as give the best locality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.job_spec import TopologyConstraint
from yarnam.core.model.plans import PlanPolicy, Target
from yarnam.core.placement.candidates import Fewest, can_hold, fewest_nodes
from yarnam.core.placement.domains import ANYWHERE, PlacementDomain, rack_names, target_in
from yarnam.core.placement.gang_shape import Group, Shape, tasks_of, with_gpu_models
from yarnam.core.placement.gpu_model_choice import GpuModelChoice
from yarnam.core.placement.job_view import JobView
from yarnam.core.placement.packing.bin_packing import Packing
from yarnam.core.placement.packing.capacity_index import CapacityIndex
from yarnam.core.placement.targets.target_bounds import MOST_NODES_LISTED, Bounds

REQUIRED, UNCONSTRAINED = TopologyConstraint.REQUIRED, TopologyConstraint.UNCONSTRAINED

SETS_IF_PREFERRED = 2
"""Exact node sets if few nodes are only preferred: when both are taken, a rack is nearly as good.
Each is a service, and a service costs 0.1 to 0.3 s of submit time (skein-on-yarn.md, 11a)."""
MOST_RACKS_TOGETHER = 16
"""Racks of a set of racks, for a gang that no single one can hold."""
RACKS_PACKED = 4
"""The number of racks that are packed in full for a gang of several roles, as a multiple of
``max_racks``; those with the most nodes able to host it, since packing several roles is slow."""
MOST_MODELS = 3
"""GPU models that get domains of their own, those that fit now first."""


@dataclass(frozen=True, slots=True)
class TargetDomain:
    """A domain for a shape, with the name that its services get."""

    shape: Shape
    domain: PlacementDomain
    name: str


def targets_to_declare(
    view: JobView,
    policy: PlanPolicy,
    sizes: Sequence[Shape],
    choices: Sequence[GpuModelChoice],
    *,
    is_bounded: bool = True,
) -> tuple[Target, ...]:
    """The targets to declare. ``sizes`` are the shapes of the job in order of preference and
    ``choices`` the GPU models that it may get; the view can hold at least one of each. Unless
    ``is_bounded``, targets cover nodes that must not be used, and the AM checks each grant."""
    largest, shapes = next((s, found) for s in sizes if (found := _able(view, s, choices)))
    domains = _target_domains(view, policy, shapes[:MOST_MODELS])
    finer = _finer(view, sizes[sizes.index(largest) + 1 :], shapes[0])
    if finer is not None:
        first = [one for one in domains if one.shape == shapes[0]]
        loosest = [one for one in first if one.domain == ANYWHERE]
        racks = [one for one in first if one.name.startswith("r-")]
        domains += [replace(one, shape=finer) for one in loosest or racks]
    bounds = Bounds(view)
    targets = [
        target_in(
            group, _domain_asked(view, one.domain, group, bounds if is_bounded else None), one.name
        )
        for one in domains
        for group in one.shape
    ]
    return tuple(dict.fromkeys(targets))


def _domain_asked(
    view: JobView, domain: PlacementDomain, group: Group, bounds: Bounds | None
) -> PlacementDomain:
    """The domain as YARN is asked for it: within ``bounds``, and by the names of its nodes where
    the scheduler grants no strict asks for racks. A node that joins a rack later is then none of
    the target's."""
    if bounds is not None:
        domain = bounds.bounded(domain, group)
    if not domain.racks or domain.nodes or view.snapshot.grants_rack_asks:
        return domain
    inside = view.idle.within(domain).capacities
    return PlacementDomain(nodes=tuple(sorted(capacity.node for capacity in inside)))


def _able(view: JobView, size: Shape, choices: Sequence[GpuModelChoice]) -> list[Shape]:
    """The shape with each choice of GPU models that the cluster could hold, those that fit now
    first."""
    shapes = [with_gpu_models(size, choice) for choice in choices]
    shapes = [shape for shape in shapes if can_hold(view, shape)]
    shapes.sort(key=lambda shape: not view.free.may_hold(shape, view.rules))
    return [_of_known_models(view, shape) for shape in shapes]


def _of_known_models(view: JobView, shape: Shape) -> Shape:
    """The shape kept to nodes whose model is known, where those can hold it."""
    if not any(group.model for group in shape):
        return shape
    known_only = tuple(replace(group, has_trust=False) for group in shape)
    return known_only if can_hold(view, known_only) else shape


def _finer(view: JobView, smaller: Sequence[Shape], first: Shape) -> Shape | None:
    """A second shape of smaller containers, for a cluster whose free GPUs are scattered: the
    largest that fits now, else half the size of the ``first``, with the same GPU models."""
    if view.job.placement.node is REQUIRED:
        return None
    models = {group.role: group.model for group in first if group.model}
    shapes = [_of_known_models(view, with_gpu_models(size, models)) for size in smaller]
    shapes = [shape for shape in shapes if can_hold(view, shape)]
    if not shapes:
        return None
    for shape in shapes:
        if can_hold(view, shape, view.free):
            return shape
    half = first[0].resources.gpus // 2
    return next((shape for shape in shapes if shape[0].resources.gpus <= half), shapes[-1])


def _target_domains(
    view: JobView, policy: PlanPolicy, shapes: Sequence[Shape]
) -> list[TargetDomain]:
    """Domains for the shapes, which differ in their GPU models only; tightest first."""
    by_rack: list[tuple[tuple[object, ...], RackId, Shape]] = []
    node_sets: list[TargetDomain] = []
    wide: list[TargetDomain] = []
    for number, shape in enumerate(shapes):
        suffix = f"-m{number}" if len(shapes) > 1 else ""
        racks = _racks(view, policy, shape)
        by_rack += [(rank, rack, shape) for rank, rack in racks]
        wide += _wide_domains(view, shape, suffix, has_racks=bool(racks))
        found = _node_sets(view, policy, shape, fewest_nodes(view, shape))
        node_sets += [
            TargetDomain(shape, PlacementDomain(nodes=nodes), f"n{i}{suffix}")
            for i, nodes in enumerate(found)
        ]
    chosen = sorted(by_rack, key=lambda item: item[:2])[: policy.max_racks]
    names = rack_names({rack for _, rack, _ in chosen})
    single = [
        TargetDomain(
            shape,
            PlacementDomain(racks=(rack,)),
            names[rack] + (f"-m{shapes.index(shape)}" * (shape != shapes[0])),
        )
        for _, rack, shape in chosen
    ]
    covered = {(one.shape, frozenset(view.total.within(one.domain).by_node)) for one in single}
    if node_sets and len(view.total.capacities) <= MOST_NODES_LISTED:
        everywhere = frozenset(view.total.by_node)
        covered |= {(one.shape, everywhere) for one in wide if one.domain == ANYWHERE}
    node_sets = [o for o in node_sets if (o.shape, frozenset(o.domain.nodes)) not in covered]
    return [*node_sets, *single, *wide]


def _wide_domains(
    view: JobView, shape: Shape, suffix: str, *, has_racks: bool
) -> list[TargetDomain]:
    """Sets of racks where no single rack holds the gang, and the whole cluster where allowed."""
    rack = view.job.placement.rack
    wide: list[TargetDomain] = []
    if not has_racks and rack is not UNCONSTRAINED:
        together = _racks_together(view, shape)
        wide += [TargetDomain(shape, found, f"rs{i}{suffix}") for i, found in enumerate(together)]
    if rack is not REQUIRED or len(view.total.racks) == 1:
        wide.append(TargetDomain(shape, ANYWHERE, f"any{suffix}"))
    return wide


def _racks(
    view: JobView, policy: PlanPolicy, shape: Shape
) -> list[tuple[tuple[object, ...], RackId]]:
    """Racks that could hold the gang, best first: fits now, most nodes able to host a task, fewest
    nodes needed, most bytes of input, the job's own order, name. Empty if the cluster is one rack
    or the job leaves racks unconstrained."""
    racks = view.total.racks
    if len(racks) < 2 or view.job.placement.rack is UNCONSTRAINED:
        return []
    empty = CapacityIndex(())
    free = view.free.racks
    able = [
        (-free.get(name, empty).able_hosts(shape), name)
        for name, rack in racks.items()
        if rack.may_hold(shape, view.rules)
    ]
    if len(shape) > 1:
        able = sorted(able)[: policy.max_racks * RACKS_PACKED]
    by_rack = dict(view.data.racks) if view.tie_break.local else {}
    ranked: list[tuple[tuple[object, ...], RackId]] = []
    for minus_hosts, name in able:
        now = free.get(name, empty).fewest(shape, view.rules)
        count = now if now is not None else racks[name].fewest(shape, view.rules)
        if count is None:
            continue
        bytes_there = by_rack.get(name, 0)
        rank = (now is None, minus_hosts, count, -bytes_there, view.tie_break.order(name))
        ranked.append((rank, name))
    ranked.sort()
    return ranked[: policy.max_racks]


def _racks_together(view: JobView, shape: Shape) -> list[PlacementDomain]:
    """The domain of a gang that no rack can hold: the fewest racks that can, twice if there are
    enough. The racks with the most capacity come first, so that the gang crosses few rack
    boundaries."""
    found: list[PlacementDomain] = []
    taken: set[RackId] = set()
    for index in (view.free, view.total):
        while len(found) < SETS_IF_PREFERRED:
            racks = [(name, rack) for name, rack in index.racks.items() if name not in taken]
            ranked = sorted(racks, key=lambda item: (-_hosted_tasks(item[1], shape), item[0]))
            chosen = _first_that_hold(view, [name for name, _ in ranked], index, shape)
            if chosen is None or len(chosen) >= len(view.total.racks):
                break
            found.append(PlacementDomain(racks=tuple(sorted(chosen))))
            taken.update(chosen)
    return found


def _hosted_tasks(rack: CapacityIndex, shape: Shape) -> int:
    return sum(sum(rack.counts(group, group.count)) for group in shape)


def _first_that_hold(
    view: JobView, names: Sequence[RackId], index: CapacityIndex, shape: Shape
) -> list[RackId] | None:
    reach = 0
    need = tasks_of(shape)
    for count, name in enumerate(names[:MOST_RACKS_TOGETHER], 1):
        reach += _hosted_tasks(index.racks[name], shape)
        if reach >= need and count > 1:
            chosen = list(names[:count])
            together = index.within(PlacementDomain(racks=tuple(chosen)))
            if together.pack(shape, view.rules) is not None:
                return chosen
    return None


def _node_sets(
    view: JobView, policy: PlanPolicy, shape: Shape, fewest: Fewest
) -> list[tuple[NodeId, ...]]:
    """Disjoint sets of the fewest nodes, those that fit now first, in different racks if possible.
    None are needed where every task takes a node of its own: every domain gives the fewest nodes
    then."""
    placement, limit = view.job.placement, fewest.nodes
    if placement.node is UNCONSTRAINED or limit is None:
        return []
    if tasks_of(shape) <= limit or limit > MOST_NODES_LISTED:
        return []
    most = policy.max_node_sets
    if placement.node is not REQUIRED:
        most = min(most, SETS_IF_PREFERRED)
    rules = view.rules_within(limit)
    in_racks = fewest.has_rack and placement.rack is not UNCONSTRAINED
    found: list[tuple[NodeId, ...]] = []
    taken: set[NodeId] = set()
    used_racks: set[RackId] = set()
    for index in (view.free, view.total):
        pools = dict(index.racks) if in_racks else {RackId(""): index}
        packings = {name: pool.pack(shape, rules) for name, pool in pools.items()}
        while len(found) < most:
            # Pack again only a pool that has lost nodes.
            for name, packing in packings.items():
                if packing is not None and taken & set(packing.nodes):
                    packings[name] = pools[name].without(taken).pack(shape, rules)
            best = _best_set(view, packings, used_racks)
            if best is None:
                break
            found.append(best.nodes)
            taken.update(best.nodes)
            used_racks |= {view.total.by_node[node].rack for node in best.nodes}
    return found


def _best_set(
    view: JobView, packings: dict[RackId, Packing | None], used_racks: set[RackId]
) -> Packing | None:
    """The best of the packings: outside the racks in use, the fewest nodes, the tightest fit, the
    most bytes of input, the job's own order."""
    capacities, local = view.free.by_node, view.tie_break.local

    def key(packing: Packing) -> tuple[int, int, int, int, int, tuple[NodeId, ...]]:
        nodes = packing.nodes
        return (
            sum(capacities[node].rack in used_racks for node in nodes),
            len(nodes),
            sum(capacities[node].gpus for node in nodes),
            -sum(local.get(node, 0) for node in nodes),
            view.tie_break.order(nodes[0]),
            nodes,
        )

    return min((p for p in packings.values() if p is not None), key=key, default=None)

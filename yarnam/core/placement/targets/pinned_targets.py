"""Pinned targets: one strict target per node, where YARN must have no choice.

With one target for all tasks YARN may put them all on the node whose heartbeat comes first, or one
on each node, and again after the misfits are released: a spread gang of four took four attempts
that way. Pinned targets are for gangs whose tasks keep apart (``spread``, anti-affinity) and for
those with a node limit, in domains that have more nodes. Each is a service, so only a limited
number of nodes gets one (``PlanPolicy.max_pinned_targets``); a gang that needs other nodes is asked
for at the wider targets, and the AM checks its grants one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_spec import PackOrSpread
from yarnam.core.model.plans import Target, TargetAsk
from yarnam.core.model.resources import Resources
from yarnam.core.placement.candidates import RankedCandidate
from yarnam.core.placement.domains import PlacementDomain, target_in
from yarnam.core.placement.gang_shape import biggest, tasks_of
from yarnam.core.placement.job_view import JobView
from yarnam.core.placement.packing.node_capacity import may_host

PINNED = "pin"
"""The names of pinned domains: this and a number."""

PinnedTargets = Mapping[tuple[str, Resources, NodeId], Target]
"""The pinned target of a role's container on a node."""


def needs_pinned_targets(view: JobView, ranked: Iterable[RankedCandidate]) -> bool:
    """Whether YARN could fill some domain of this job in a way that breaks its constraints."""
    placement = view.job.placement
    if view.job.tasks < 2:
        return False
    if placement.strategy is PackOrSpread.SPREAD or placement.anti_affinity:
        return True
    return any(not one.is_sure for one in ranked)


def pinned_targets(
    view: JobView, ranked: Sequence[RankedCandidate], most: int
) -> tuple[Target, ...]:
    """Pinned targets for every role of the first shape, at most ``most`` in all: on the nodes of
    the best placements, then on those with the most free GPUs. Empty if they could not hold the
    gang."""
    if not ranked or not needs_pinned_targets(view, ranked):
        return ()
    shape = ranked[0].candidate.shape
    planned = [
        node
        for one in ranked
        if one.candidate.shape == shape and one.packing
        for node in one.packing.nodes
    ]
    group = biggest(shape)
    able = [host[6] for host in view.total.hosts(group, group.count)]
    free = view.free.by_node
    tie_break = view.tie_break
    able.sort(
        key=lambda r: (-free[r.node].gpus if r.node in free else 0, tie_break.order(r.node), r)
    )
    chosen = list(dict.fromkeys([*planned, *(capacity.node for capacity in able)]))
    chosen = chosen[: most // len(shape)]
    needed = ranked[0].packing.nodes if ranked[0].packing else ()
    if len(chosen) < len(needed) or tasks_of(shape) < 2:
        return ()
    return tuple(
        target_in(group, PlacementDomain(nodes=(node,)), f"{PINNED}{number}")
        for number, node in enumerate(chosen)
        for group in shape
        if group.label is None or may_host(group, view.total.by_node[node])
    )


def split_pinned(targets: Iterable[Target]) -> tuple[PinnedTargets, tuple[Target, ...]]:
    """The pinned ones among the declared targets, and the others."""
    pinned: dict[tuple[str, Resources, NodeId], Target] = {}
    others: list[Target] = []
    for target in targets:
        if target.domain.startswith(PINNED):
            pinned[target.role, target.resources, target.nodes[0]] = target
        else:
            others.append(target)
    return pinned, tuple(others)


def pin_asks(asks: Sequence[TargetAsk], pinned: PinnedTargets) -> tuple[TargetAsk, ...]:
    """The same gang on the pinned targets of its expected nodes; unchanged if one of those nodes
    has none."""
    found: list[TargetAsk] = []
    for ask in asks:
        target = ask.target
        if len(ask.expected_nodes) != ask.count:
            return tuple(asks)
        for node in dict.fromkeys(ask.expected_nodes):
            target_there = pinned.get((target.role, target.resources, node))
            if target_there is None:
                return tuple(asks)
            count = ask.expected_nodes.count(node)
            found.append(TargetAsk(target_there, count, (node,) * count))
    return tuple(found)

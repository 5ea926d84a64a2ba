"""Where further tasks of a gang can go beside those that stand: replacements, or growth.

The wanted tasks are planned as a gang of their own on what is free; what binds the whole gang (one
rack, one task per node, the most nodes) is kept by leaving out the nodes that would break it.
Places near the standing tasks come first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from yarnam.model.ids import NodeId
from yarnam.model.job import JobSpec, RoleSpec, TopologyWish
from yarnam.model.placement import NoFit, PlacementPlan, Rung, Supplement, Target, TargetAsk
from yarnam.model.snapshot import ClusterSnapshot
from yarnam.placement.planner import plan


def plan_beside(
    snapshot: ClusterSnapshot,
    job: JobSpec,
    supplement: Supplement,
    excluded: Iterable[NodeId] = (),
    *,
    targets: tuple[Target, ...],
) -> PlacementPlan | NoFit:
    """The rungs for the wanted tasks alone; their limits are those of the whole gang."""
    roles = {role.name: role for role in job.roles}
    wanted = tuple(_role(roles[ask.target.role], ask) for ask in _summed(supplement.wanted))
    part = replace(
        job,
        roles=wanted,
        flexible_shape=False,
        placement=replace(
            job.placement,
            node=TopologyWish.UNCONSTRAINED,
            rack=TopologyWish.UNCONSTRAINED if supplement.rung.same_rack else job.placement.rack,
            max_nodes=_nodes_left(job, supplement),
        ),
    )
    names = {role.name for role in wanted}
    sizes = {(role.name, role.resources) for role in wanted}
    models = {(ask.target.role, ask.target.gpu_model) for ask in supplement.wanted}
    mine = tuple(
        t
        for t in targets
        if t.role in names and (t.role, t.resources) in sizes and (t.role, t.gpu_model) in models
    )
    barred = {*excluded, *_barred(snapshot, supplement)}
    found = plan(snapshot, part, barred, targets=mine)
    if isinstance(found, NoFit):
        return found
    racks = {standing.rack for standing in supplement.standing}
    rack_of = {node.node_id: node.rack for node in snapshot.nodes}

    def away(rung: Rung) -> int:
        return sum(
            rack_of.get(node) not in racks for ask in rung.asks for node in ask.expected_nodes
        )

    rungs = sorted(found.rungs, key=away)
    return replace(found, rungs=tuple(_of_whole(rung, job, supplement) for rung in rungs))


def _summed(wanted: tuple[TargetAsk, ...]) -> tuple[TargetAsk, ...]:
    """One ask for each role and size, wherever its tasks were before."""
    counts: dict[tuple[object, ...], TargetAsk] = {}
    for ask in wanted:
        key = (ask.target.role, ask.target.resources)
        known = counts.get(key)
        counts[key] = replace(ask, count=ask.count + known.count) if known else ask
    return tuple(counts.values())


def _role(role: RoleSpec, ask: TargetAsk) -> RoleSpec:
    return replace(
        role,
        tasks=ask.count,
        min_tasks=None,
        resources=ask.target.resources,
        processes_per_task=ask.target.processes_per_task,
    )


def _nodes_left(job: JobSpec, supplement: Supplement) -> int | None:
    if job.placement.max_nodes is None:
        return None
    used = {standing.node for standing in supplement.standing}
    return max(1, job.placement.max_nodes - len(used))


def _barred(snapshot: ClusterSnapshot, supplement: Supplement) -> set[NodeId]:
    """Nodes on which a task would break what the whole gang must keep."""
    racks = {standing.rack for standing in supplement.standing}
    nodes = {standing.node for standing in supplement.standing}
    barred: set[NodeId] = set()
    if supplement.rung.same_rack and racks:
        barred |= {node.node_id for node in snapshot.nodes if node.rack not in racks}
    if supplement.rung.one_task_per_node:
        barred |= nodes
    return barred


def _of_whole(rung: Rung, job: JobSpec, supplement: Supplement) -> Rung:
    """A rung of the wanted tasks with the limits of the whole gang."""
    whole = supplement.rung
    return replace(
        rung,
        level=max(rung.level, whole.level),
        node_limit=job.placement.max_nodes,
        one_task_per_node=whole.one_task_per_node,
        same_rack=whole.same_rack,
    )

"""Where further tasks of a running gang can go: replacements, or growth.

The wanted tasks are planned as a gang of their own on what is free. What binds the whole gang (one
rack, one task per node, the node limit) is kept by excluding the nodes that would break it. Nodes
in the racks of the running tasks come first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_spec import JobSpec, RoleSpec, TopologyConstraint
from yarnam.core.model.plans import NoFit, Rung, Supplement, Target, TargetAsk
from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.core.placement.planner import PlanOutcome, plan

UNCONSTRAINED = TopologyConstraint.UNCONSTRAINED


def plan_supplement(
    snapshot: ClusterSnapshot,
    job: JobSpec,
    supplement: Supplement,
    excluded: Iterable[NodeId] = (),
    *,
    targets: tuple[Target, ...],
) -> PlanOutcome:
    """The rungs for the wanted tasks alone, with the limits of the whole gang."""
    roles = {role.name: role for role in job.roles}
    wanted = tuple(
        _role(roles[ask.target.role], ask) for ask in _by_role_and_size(supplement.wanted)
    )
    part = replace(
        job,
        roles=wanted,
        flexible_shape=False,
        placement=replace(
            job.placement,
            node=UNCONSTRAINED,
            rack=UNCONSTRAINED if supplement.rung.same_rack else job.placement.rack,
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
    excluded = {*excluded, *_excluded_for(snapshot, supplement)}
    found = plan(snapshot, part, excluded, targets=mine)
    if isinstance(found, NoFit):
        return found
    racks = {task.rack for task in supplement.held}
    rack_of = {node.node_id: node.rack for node in snapshot.nodes}

    def away(rung: Rung) -> int:
        return sum(
            rack_of.get(node) not in racks for ask in rung.asks for node in ask.expected_nodes
        )

    rungs = sorted(found.rungs, key=away)
    return replace(found, rungs=tuple(_with_gang_limits(rung, job, supplement) for rung in rungs))


def _by_role_and_size(wanted: tuple[TargetAsk, ...]) -> tuple[TargetAsk, ...]:
    """One ask for each role and size, wherever the tasks were before."""
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
    used = {task.node for task in supplement.held}
    return max(1, job.placement.max_nodes - len(used))


def _excluded_for(snapshot: ClusterSnapshot, supplement: Supplement) -> set[NodeId]:
    """Nodes on which a task would break the limits of the whole gang."""
    racks = {task.rack for task in supplement.held}
    nodes = {task.node for task in supplement.held}
    excluded: set[NodeId] = set()
    if supplement.rung.same_rack and racks:
        excluded |= {node.node_id for node in snapshot.nodes if node.rack not in racks}
    if supplement.rung.one_task_per_node:
        excluded |= nodes
    return excluded


def _with_gang_limits(rung: Rung, job: JobSpec, supplement: Supplement) -> Rung:
    """A rung for the wanted tasks, with the limits of the whole gang."""
    whole = supplement.rung
    return replace(
        rung,
        level=max(rung.level, whole.level),
        node_limit=job.placement.max_nodes,
        one_task_per_node=whole.one_task_per_node,
        same_rack=whole.same_rack,
    )

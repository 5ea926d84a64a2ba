"""The largest size of an elastic gang that fits. The planner knows one size at a time.

What fits at one size nearly always fits at every smaller one (part of a packing is a packing), so
bisection finds the largest. A constraint may break that rule (fewest nodes *required*): the result
still fits then, but a larger size may be missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.plans import NoFit, PlacementPlan, PlanPolicy, Supplement, Target
from yarnam.core.model.snapshot import NO_DATA, BytesByNode, ClusterSnapshot
from yarnam.core.placement.gang_shape import resized
from yarnam.core.placement.packing.index_memory import IndexMemory
from yarnam.core.placement.planner import (
    DEFAULT_POLICY,
    PlanOutcome,
    declared_targets,
    ladder_for_submit,
)
from yarnam.core.placement.supplement import plan_supplement

MOST_EXTRA_TARGETS = 8
"""Services declared for the least size beside those of the largest, at most: each costs 0.1 to
0.3 s of submit time (skein-on-yarn.md, 11a)."""


def largest_fit(fits: Callable[[int], PlanOutcome], least: int, most: int) -> PlanOutcome:
    """The plan of the largest size in [``least``, ``most``] that has one, else the refusal of
    ``least``."""
    best = fits(most)
    if isinstance(best, PlacementPlan) or least >= most:
        return best
    best = fits(least)
    if isinstance(best, NoFit):
        return best
    low, high = least, most
    while high - low > 1:
        middle = (low + high) // 2
        outcome = fits(middle)
        if isinstance(outcome, PlacementPlan):
            low, best = middle, outcome
        else:
            high = middle
    return best


def plan_largest(
    job: JobSpec,
    plan_size: Callable[[JobSpec], PlanOutcome],
    most: int | None = None,
    least: int | None = None,
) -> PlanOutcome:
    """Plans the largest size that fits; ``plan_size`` plans a job of one size. ``most`` and
    ``least`` bound the tasks of the elastic role; ``None`` for the job's own bound."""
    role = job.elastic_role
    if role is None or role.min_tasks is None:
        return plan_size(job)
    top = role.tasks if most is None else max(role.min_tasks, min(role.tasks, most))
    bottom = role.min_tasks if least is None else max(role.min_tasks, min(top, least))
    return largest_fit(lambda tasks: plan_size(job.at_size(tasks)), bottom, top)


def spare_tasks(plan_growth: Callable[[Supplement], PlanOutcome], growth: Supplement) -> int:
    """How many of the wanted tasks of ``growth``, all of one role, fit beside the running ones.
    ``plan_growth`` plans a supplement."""
    [wanted] = growth.wanted
    outcome = largest_fit(
        lambda tasks: plan_growth(replace(growth, wanted=(replace(wanted, count=tasks),))),
        1,
        wanted.count,
    )
    return 0 if isinstance(outcome, NoFit) else outcome.rungs[0].tasks


def spare_for_growth(
    snapshot: ClusterSnapshot,
    job: JobSpec,
    targets: tuple[Target, ...],
    growth: Supplement,
    excluded: Iterable[NodeId] = (),
) -> int:
    """The same, by the planner of supplements; 0 where none is wanted."""
    if not growth.wanted[0].count:
        return 0
    return spare_tasks(
        lambda part: plan_supplement(snapshot, job, part, excluded, targets=targets), growth
    )


def settled_shape(
    snapshot: ClusterSnapshot, job: JobSpec, policy: PlanPolicy = DEFAULT_POLICY
) -> JobSpec:
    """An elastic job that gives only its GPUs, with the size of its tasks chosen for this cluster.

    The containers of a job keep one size while it grows and shrinks, so it is chosen once: the
    largest task that divides both ends of the range and of which this cluster could hold the
    most GPUs. Other jobs are returned as they are.
    """
    role = job.elastic_role
    if role is None or not job.flexible_shape or not role.resources.gpus:
        return job
    best, best_gpus = job, 0
    for gpus in range(role.resources.gpus, 0, -1):
        if role.resources.gpus % gpus:
            continue
        sized = replace(job, roles=(resized(role, gpus),), flexible_shape=False)
        ladder = _ladder(snapshot, sized, policy)
        if isinstance(ladder, PlacementPlan) and ladder.rungs[0].gpus > best_gpus:
            best, best_gpus = sized, ladder.rungs[0].gpus
    return best if best_gpus else replace(job, roles=(resized(role, 1),), flexible_shape=False)


def elastic_ladder(
    snapshot: ClusterSnapshot,
    job: JobSpec,
    policy: PlanPolicy = DEFAULT_POLICY,
    *,
    data: BytesByNode = NO_DATA,
    seed: str = "",
    memory: IndexMemory | None = None,
) -> PlanOutcome:
    """The ladder to declare at submit for a job whose shape is settled: the ladder of the largest
    size that this cluster could ever hold, so that its targets hold the gang at every size, and
    besides the domains that only the least size fits into (as ``extra_targets``). For a job of
    one size it is the planner's own. ``data``, ``seed`` and ``memory`` as for ``plan``."""
    role = job.elastic_role
    ladder = _ladder(snapshot, job, policy, data, seed, memory)
    if isinstance(ladder, NoFit) or role is None or role.min_tasks is None:
        return ladder
    least = job.at_size(role.min_tasks)
    small = ladder_for_submit(snapshot, least, policy, data=data, seed=seed, memory=memory)
    if isinstance(small, NoFit):
        return ladder
    known = declared_targets(ladder)
    domains = {(target.nodes, target.racks) for target in known}
    further = [t for t in declared_targets(small) if (t.nodes, t.racks) not in domains]
    names = {target.service for target in known}
    extra = [_renamed(target, names) for target in further[:MOST_EXTRA_TARGETS]]
    return replace(ladder, extra_targets=(*ladder.extra_targets, *extra))


def _ladder(
    snapshot: ClusterSnapshot,
    job: JobSpec,
    policy: PlanPolicy,
    data: BytesByNode = NO_DATA,
    seed: str = "",
    memory: IndexMemory | None = None,
) -> PlanOutcome:
    def of(one: JobSpec) -> PlanOutcome:
        return ladder_for_submit(snapshot, one, policy, data=data, seed=seed, memory=memory)

    role = job.elastic_role
    if role is None or role.min_tasks is None:
        return of(job)
    return largest_fit(
        lambda tasks: of(job.at_size(tasks)),
        role.min_tasks,
        role.tasks,
    )


def _renamed(target: Target, taken: Iterable[str]) -> Target:
    """Under a name of its own: both ladders count their node sets from 0."""
    if target.service not in taken:
        return target
    domain = f"{target.domain}-least"
    return replace(target, service=f"{target.service}-least", domain=domain)

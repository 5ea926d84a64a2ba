"""The largest size that fits: elastic gangs before the planner, which knows one size at a time.

What fits at one size mostly fits at every smaller one (a part of a packing is a packing), so the
largest is found by bisection; where a wish breaks that rule (fewest nodes *required*) the answer
still fits, only a larger one may be missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Union

from yarnam.model.job import JobSpec, RoleSpec
from yarnam.model.locality import NO_DATA, BytesByNode
from yarnam.model.placement import NoFit, PlacementPlan, PlanPolicy, Supplement, Target
from yarnam.model.resources import Resources
from yarnam.model.snapshot import ClusterSnapshot
from yarnam.placement.planner import DEFAULT_POLICY, declared_targets, ladder_for_submit

Answer = Union[PlacementPlan, NoFit]

MOST_EXTRA_TARGETS = 8
"""Services declared for the least size beside those of the largest, at most: each costs 0.1 to
0.3 s of submit time (skein-on-yarn.md, 11a)."""


def largest(fits: Callable[[int], Answer], least: int, most: int) -> Answer:
    """The answer for the largest size in [``least``, ``most``] that has a plan; the refusal of
    ``least`` when none has."""
    best = fits(most)
    if isinstance(best, PlacementPlan) or least >= most:
        return best
    best = fits(least)
    if isinstance(best, NoFit):
        return best
    low, high = least, most
    while high - low > 1:
        middle = (low + high) // 2
        answer = fits(middle)
        if isinstance(answer, PlacementPlan):
            low, best = middle, answer
        else:
            high = middle
    return best


def at_largest(
    job: JobSpec,
    at: Callable[[JobSpec], Answer],
    most: int | None = None,
    least: int | None = None,
) -> Answer:
    """``at`` plans a job of one size; this asks it for the largest size that fits. ``most`` and
    ``least``: not beyond so many tasks of the elastic role; None: as the job has it."""
    role = job.elastic_role
    if role is None or role.min_tasks is None:
        return at(job)
    top = role.tasks if most is None else max(role.min_tasks, min(role.tasks, most))
    bottom = role.min_tasks if least is None else max(role.min_tasks, min(top, least))
    return largest(lambda tasks: at(job.at_size(tasks)), bottom, top)


def spare_tasks(beside: Callable[[Supplement], Answer], growth: Supplement) -> int:
    """How many of the wanted tasks of ``growth`` (of one role) fit beside those that stand;
    ``beside`` plans a supplement."""
    [wanted] = growth.wanted
    answer = largest(
        lambda tasks: beside(replace(growth, wanted=(replace(wanted, count=tasks),))),
        1,
        wanted.count,
    )
    return 0 if isinstance(answer, NoFit) else answer.rungs[0].tasks


def settled_shape(
    snapshot: ClusterSnapshot, job: JobSpec, policy: PlanPolicy = DEFAULT_POLICY
) -> JobSpec:
    """An elastic job of which only the GPUs were given, with its tasks cut for this cluster.

    Containers of one job keep one size while it grows and shrinks, so it is chosen once: the
    largest task that divides both ends of the range and of which this cluster could hold the
    most GPUs. Other jobs are unchanged.
    """
    role = job.elastic_role
    if role is None or not job.flexible_shape or not role.resources.gpus:
        return job
    best, best_gpus = job, 0
    for gpus in range(role.resources.gpus, 0, -1):
        if role.resources.gpus % gpus:
            continue
        cut = replace(job, roles=(_recut(role, gpus),), flexible_shape=False)
        ladder = _ladder(snapshot, cut, policy)
        if isinstance(ladder, PlacementPlan) and ladder.rungs[0].gpus > best_gpus:
            best, best_gpus = cut, ladder.rungs[0].gpus
    return best if best_gpus else replace(job, roles=(_recut(role, 1),), flexible_shape=False)


def elastic_ladder(
    snapshot: ClusterSnapshot,
    job: JobSpec,
    policy: PlanPolicy = DEFAULT_POLICY,
    *,
    data: BytesByNode = NO_DATA,
    seed: str = "",
) -> Answer:
    """The ladder to declare at submit for a job whose shape is settled: that of the largest size
    which this cluster could ever hold, so that its targets hold the gang at every size, and
    beside it the places that only the least size fits into (as ``seats``). For a job of one size
    it is the planner's own. ``data`` and ``seed`` as for ``plan``."""
    role = job.elastic_role
    ladder = _ladder(snapshot, job, policy, data, seed)
    if isinstance(ladder, NoFit) or role is None or role.min_tasks is None:
        return ladder
    least = job.at_size(role.min_tasks)
    small = ladder_for_submit(snapshot, least, policy, data=data, seed=seed)
    if isinstance(small, NoFit):
        return ladder
    known = declared_targets(ladder)
    places = {(target.nodes, target.racks) for target in known}
    further = [t for t in declared_targets(small) if (t.nodes, t.racks) not in places]
    names = {target.service for target in known}
    extra = [_renamed(target, names) for target in further[:MOST_EXTRA_TARGETS]]
    return replace(ladder, seats=(*ladder.seats, *extra))


def _ladder(
    snapshot: ClusterSnapshot,
    job: JobSpec,
    policy: PlanPolicy,
    data: BytesByNode = NO_DATA,
    seed: str = "",
) -> Answer:
    role = job.elastic_role
    if role is None or role.min_tasks is None:
        return ladder_for_submit(snapshot, job, policy, data=data, seed=seed)
    return largest(
        lambda tasks: ladder_for_submit(snapshot, job.at_size(tasks), policy, data=data, seed=seed),
        role.min_tasks,
        role.tasks,
    )


def _renamed(target: Target, taken: Iterable[str]) -> Target:
    """Both ladders count their node sets from 0."""
    if target.service not in taken:
        return target
    place = f"{target.place}-least"
    return replace(target, service=f"{target.service}-least", place=place)


def _recut(role: RoleSpec, gpus: int) -> RoleSpec:
    """The same GPUs in tasks of another size, with the same share of everything."""
    old = role.resources
    each = role.processes_per_task // old.gpus
    return replace(
        role,
        tasks=role.tasks * old.gpus // gpus,
        min_tasks=(role.min_tasks or role.tasks) * old.gpus // gpus,
        resources=Resources(
            memory_mib=-(-old.memory_mib * gpus // old.gpus),
            vcores=-(-old.vcores * gpus // old.gpus),
            gpus=gpus,
        ),
        processes_per_task=max(1, each * gpus),
    )

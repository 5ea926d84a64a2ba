"""Shapes: into how many containers of which size a job is cut."""

from __future__ import annotations

from dataclasses import dataclass

from yarnam.model.job import JobSpec, RoleSpec
from yarnam.model.resources import Resources


@dataclass(frozen=True, slots=True)
class Group:
    """``count`` equal tasks of one role. ``resources`` and ``processes`` are for one task."""

    role: str
    count: int
    resources: Resources
    processes: int


Shape = tuple[Group, ...]
"""The whole gang, one group per role, in the order of the spec."""


def shape_of(job: JobSpec) -> Shape:
    """The shape as the spec has it."""
    return tuple(
        Group(role.name, role.tasks, role.resources, role.processes_per_task) for role in job.roles
    )


def shapes_of(job: JobSpec) -> tuple[Shape, ...]:
    """All shapes of a job, fewest servers first. Explicit roles have one; ``gpus: N`` has one for
    each way to cut N GPUs into equal whole tasks with the same processes in total."""
    if not job.flexible_shape or len(job.roles) != 1 or job.roles[0].resources.gpus == 0:
        return (shape_of(job),)
    role = job.roles[0]
    gpus = role.tasks * role.resources.gpus
    return tuple(
        (_recut(role, gpus_per_task),)
        for gpus_per_task in range(gpus, 0, -1)
        if gpus % gpus_per_task == 0
        and (role.processes_per_task * gpus_per_task) % role.resources.gpus == 0
    )


def total_of(shape: Shape) -> Resources:
    """What the whole gang takes."""
    total = Resources()
    for group in shape:
        total = total.plus(group.resources.times(group.count))
    return total


def tasks_of(shape: Shape) -> int:
    return sum(group.count for group in shape)


def biggest(shape: Shape) -> Group:
    """The group that is hardest to place."""
    return max(shape, key=lambda group: size_key(group.resources))


def size_key(resources: Resources) -> tuple[int, int, int]:
    return resources.gpus, resources.memory_mib, resources.vcores


def _recut(role: RoleSpec, gpus_per_task: int) -> Group:
    old = role.resources
    return Group(
        role=role.name,
        count=role.tasks * old.gpus // gpus_per_task,
        resources=Resources(
            memory_mib=_share(old.memory_mib, gpus_per_task, old.gpus),
            vcores=_share(old.vcores, gpus_per_task, old.gpus),
            gpus=gpus_per_task,
        ),
        processes=role.processes_per_task * gpus_per_task // old.gpus,
    )


def _share(amount: int, part: int, whole: int) -> int:
    """``amount * part / whole``, rounded up: a task never gets less per GPU than was asked."""
    return -(-amount * part // whole)

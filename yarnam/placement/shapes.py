"""Shapes: into how many containers of which size a job is cut."""

from __future__ import annotations

from dataclasses import dataclass, replace

from yarnam.model.ids import NodeId, RackId
from yarnam.model.job import JobSpec, RoleSpec
from yarnam.model.resources import Resources
from yarnam.model.snapshot import AllocationSteps

AS_ASKED = AllocationSteps()


@dataclass(frozen=True, slots=True)
class Group:
    """``count`` equal tasks of one role. ``resources`` and ``processes`` are for one task."""

    role: str
    count: int
    resources: Resources
    processes: int
    model: str = ""
    """Of GPU, as in ``Target.gpu_model``; empty: any."""
    has_trust: bool = True
    """Whether it may stand on a node whose model is not known."""
    within_nodes: frozenset[NodeId] | None = None
    """The only nodes for it; None: all of the place."""
    within_racks: frozenset[RackId] | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether it is asked for in other bounds than the rest of the gang."""
        return self.within_nodes is not None or self.within_racks is not None

    @property
    def is_choosy(self) -> bool:
        """Whether it may not stand on just any node with room."""
        return bool(self.model) or self.is_bounded


Shape = tuple[Group, ...]
"""The whole gang, one group per role, in the order of the spec."""


def shape_of(job: JobSpec, steps: AllocationSteps = AS_ASKED) -> Shape:
    """The shape as the spec has it; sizes as YARN rounds them."""
    return tuple(
        Group(role.name, role.tasks, steps.rounded(role.resources), role.processes_per_task)
        for role in job.roles
    )


def shapes_of(job: JobSpec, steps: AllocationSteps = AS_ASKED) -> tuple[Shape, ...]:
    """All shapes of a job, fewest servers first. Explicit roles have one; ``gpus: N`` has one for
    each way to cut N GPUs into equal whole tasks with the same processes in total."""
    if not job.flexible_shape or len(job.roles) != 1 or job.roles[0].resources.gpus == 0:
        return (shape_of(job, steps),)
    role = job.roles[0]
    gpus = role.tasks * role.resources.gpus
    return tuple(
        (_recut(role, gpus_per_task, steps),)
        for gpus_per_task in range(gpus, 0, -1)
        if gpus % gpus_per_task == 0
        and (role.processes_per_task * gpus_per_task) % role.resources.gpus == 0
    )


def of_models(shape: Shape, models: dict[str, str]) -> Shape:
    """The shape with a GPU model for each role that has one in ``models``."""
    if not models:
        return shape
    return tuple(replace(group, model=models.get(group.role, "")) for group in shape)


def only(shape: Shape) -> Group:
    """The group of a gang of one role."""
    return next(iter(shape))


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


def _recut(role: RoleSpec, gpus_per_task: int, steps: AllocationSteps) -> Group:
    old = role.resources
    cut = Resources(
        memory_mib=_share(old.memory_mib, gpus_per_task, old.gpus),
        vcores=_share(old.vcores, gpus_per_task, old.gpus),
        gpus=gpus_per_task,
    )
    return Group(
        role=role.name,
        count=role.tasks * old.gpus // gpus_per_task,
        resources=steps.rounded(cut),
        processes=role.processes_per_task * gpus_per_task // old.gpus,
    )


def _share(amount: int, part: int, whole: int) -> int:
    """``amount * part / whole``, rounded up: a task never gets less per GPU than was asked."""
    return -(-amount * part // whole)

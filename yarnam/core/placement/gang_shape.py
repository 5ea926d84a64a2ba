"""Shapes: how many containers of which size a gang consists of."""

from __future__ import annotations

from dataclasses import dataclass, replace

from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.job_spec import JobSpec, RoleSpec
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import AllocationSteps

AS_ASKED = AllocationSteps()


@dataclass(frozen=True, slots=True)
class Group:
    """``count`` equal tasks of one role. ``resources`` and ``processes`` are for one task."""

    role: str
    count: int
    resources: Resources
    processes: int
    model: str = ""
    """The model of its GPUs, as in ``Target.gpu_model``; empty for any."""
    has_trust: bool = True
    """Whether it may use a node of an unknown model."""
    within_nodes: frozenset[NodeId] | None = None
    """The only nodes for it; ``None`` for all of the domain."""
    within_racks: frozenset[RackId] | None = None
    label: str | None = None
    """The only nodes for it are those with this label (empty: without one); ``None`` if the nodes
    of the whole gang have one label."""

    @property
    def is_bounded(self) -> bool:
        """Whether its bounds differ from those of the rest of the gang."""
        return self.within_nodes is not None or self.within_racks is not None

    @property
    def is_choosy(self) -> bool:
        """Whether it may not use just any node with enough capacity."""
        return bool(self.model) or self.is_bounded or self.label is not None


Shape = tuple[Group, ...]
"""The whole gang, one group per role, in the order of the spec."""


def shape_of(job: JobSpec, steps: AllocationSteps = AS_ASKED) -> Shape:
    """The shape as the spec has it, with sizes rounded as YARN rounds them."""
    return tuple(_group(role, steps) for role in job.roles)


def shapes_of(job: JobSpec, steps: AllocationSteps = AS_ASKED) -> tuple[Shape, ...]:
    """All shapes of a job, the one with the largest tasks first. Explicit roles have one shape;
    ``gpus: N`` has one for each way to split N GPUs into equal tasks with the same number of
    processes in total."""
    if not job.flexible_shape or len(job.roles) != 1 or job.roles[0].resources.gpus == 0:
        return (shape_of(job, steps),)
    role = job.roles[0]
    gpus = role.tasks * role.resources.gpus
    return tuple(
        (_group(resized(role, gpus_per_task), steps),)
        for gpus_per_task in range(gpus, 0, -1)
        if gpus % gpus_per_task == 0
        and (role.processes_per_task * gpus_per_task) % role.resources.gpus == 0
    )


def with_gpu_models(shape: Shape, models: dict[str, str]) -> Shape:
    """The shape with the GPU model of each role that ``models`` names."""
    if not models:
        return shape
    return tuple(replace(group, model=models.get(group.role, "")) for group in shape)


def only_group(shape: Shape) -> Group:
    """The group of a gang of one role."""
    [group] = shape
    return group


def total_of(shape: Shape) -> Resources:
    """The resources of the whole gang."""
    total = Resources()
    for group in shape:
        total = total.plus(group.resources.times(group.count))
    return total


def tasks_of(shape: Shape) -> int:
    """The tasks of the whole gang."""
    return sum(group.count for group in shape)


def biggest(shape: Shape) -> Group:
    """The group that is hardest to place."""
    return max(shape, key=lambda group: size_key(group.resources))


def size_key(resources: Resources) -> tuple[int, int, int]:
    """Sorts tasks by how hard they are to place: GPUs, then MiB, then vcores."""
    return resources.gpus, resources.memory_mib, resources.vcores


def resized(role: RoleSpec, gpus_per_task: int) -> RoleSpec:
    """The same GPUs in tasks of another size, which has to divide them. Memory and vcores per task
    round up: a task never gets less per GPU than the user asked for."""
    old = role.resources

    def share(amount: int) -> int:
        return -(-amount * gpus_per_task // old.gpus)

    return replace(
        role,
        tasks=role.tasks * old.gpus // gpus_per_task,
        min_tasks=None if role.min_tasks is None else role.min_tasks * old.gpus // gpus_per_task,
        resources=Resources(share(old.memory_mib), share(old.vcores), gpus_per_task),
        processes_per_task=max(1, role.processes_per_task * gpus_per_task // old.gpus),
    )


def _group(role: RoleSpec, steps: AllocationSteps) -> Group:
    return Group(
        role.name,
        role.tasks,
        steps.rounded(role.resources),
        role.processes_per_task,
        label=role.node_label,
    )

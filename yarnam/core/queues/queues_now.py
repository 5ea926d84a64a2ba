"""Queues, nodes and jobs of the cluster at one instant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from yarnam.core.model.job_status import AwaitedJob
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import Closures, Node, Scheduler
from yarnam.core.model.tickets import AdmissionDecision, Demand, RunningGang, Ticket
from yarnam.core.queues.queue_state import QueueState


class Stage(Enum):
    """How far a job has come."""

    WAITS_FOR_AM = "waits for its ApplicationMaster"
    WAITS_FOR_GANG = "waits for its gang"
    RUNNING = "running"


@dataclass(frozen=True, slots=True)
class QueueJob:
    """An application that has not ended."""

    application: str
    name: str
    user: str
    queue: str
    stage: Stage
    since_s: float
    """When it was submitted, took its ticket or started its gang, in seconds since the epoch."""
    submitted_at_s: float = 0.0
    is_gang: bool = True
    """The application is one of yarnam's."""
    demands: tuple[Demand, ...] = ()
    """The demands of its gang; empty if unknown."""
    gpus: int | None = None
    """The GPUs that its gang needs or has; ``None`` if unknown."""
    am: Resources = Resources(1536, 1, 0)
    """The resources of its ApplicationMaster, as YARN rounds them."""
    ticket: Ticket | None = None
    """The ticket of a job that waits for its gang; ``None`` if it has none, or it is unknown."""
    gang: RunningGang | None = None
    """Its gang by its own report, while it runs; ``None`` if unknown."""
    expected_by_s: float | None = None
    """When its gang starts at the latest, by the first forecast and the errors of earlier ones;
    ``None`` without a forecast."""
    awaited: tuple[AwaitedJob, ...] = ()
    """The jobs that it waits for, if its own status is known."""

    @property
    def awaits_gang(self) -> bool:
        """Whether it waits for its gang without a ticket."""
        return self.is_gang and self.stage is Stage.WAITS_FOR_GANG and self.ticket is None


@dataclass(frozen=True)
class QueuesNow:
    """One instant. ``weights`` and ``am_shares`` are those of the allocation file, where it can be
    read: under the Fair Scheduler the ResourceManager does not report them."""

    taken_at_s: float
    root: QueueState
    nodes: tuple[Node, ...] = ()
    jobs: tuple[QueueJob, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    am_shares: Mapping[str, float] = field(default_factory=dict[str, float])
    preempts: bool = False
    scheduler: Scheduler = Scheduler.FAIR
    closures: Closures = Closures()
    """What yarnam's administrators keep closed; ``nodes`` show their part of it."""
    admission: Callable[[Ticket], AdmissionDecision] | None = None
    """Whether the holder of a ticket may ask now, if its gang fits (``core.admission``); ``None``
    without a wait queue."""
    all_nodes: tuple[Node, ...] = ()
    """The nodes of all partitions; ``nodes`` are those of the one in view."""
    troubles: tuple[str, ...] = ()
    """The parts of it that are missing, and why."""
    knows_gangs: bool = True
    """The wait queue was read: jobs without a ticket and a gang have none."""

    @cached_property
    def by_name(self) -> Mapping[str, QueueState]:
        """All queues by their full names."""
        return {queue.name: queue for queue in self.root.walk()}

    @cached_property
    def free_gpus(self) -> int:
        """On nodes that take containers."""
        return sum(node.free.gpus for node in self.nodes if node.is_usable)

    def path(self, name: str) -> tuple[QueueState, ...]:
        """The queue and those above it, nearest first; empty if there is no such queue."""
        found: list[QueueState] = []
        while name in self.by_name:
            found.append(self.by_name[name])
            name = name.rpartition(".")[0]
        return tuple(found)

    def own_maximum(self, queue: QueueState) -> Resources:
        """The queue's limit. As much of a resource as the cluster has is none."""
        size, shown = self.root.maximum, queue.maximum
        return Resources(
            shown.memory_mib if shown.memory_mib < size.memory_mib else _NO_LIMIT,
            shown.vcores if shown.vcores < size.vcores else _NO_LIMIT,
            shown.gpus if shown.gpus < size.gpus else _NO_LIMIT,
        )

    def usable_gpus(self, queue: QueueState) -> int:
        """How many more GPUs jobs of this queue could take now: free ones, within the limits of the
        queue and of those above it."""
        return min(
            [
                self.free_gpus,
                *(self.own_maximum(one).minus(one.used).gpus for one in self.path(queue.name)),
            ]
        )


_NO_LIMIT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LargestGang:
    """How many GPUs the largest gang has that fits now, if each task has this many."""

    gpus_per_task: int
    on_node: int
    in_rack: int
    in_cluster: int


def largest_gangs(nodes: tuple[Node, ...]) -> tuple[LargestGang, ...]:
    """Count tasks of 1, 2, 4, ... GPUs, up to the largest node, by GPUs alone: memory and cores of
    a task are unknown here."""
    usable = [node for node in nodes if node.is_usable]
    most = max((node.total.gpus for node in usable), default=0)
    found: list[LargestGang] = []
    size = 1
    while size <= most:
        racks: dict[str, int] = {}
        on_node = 0
        for node in usable:
            fits = node.free.gpus // size * size
            racks[node.rack] = racks.get(node.rack, 0) + fits
            on_node = max(on_node, fits)
        found.append(
            LargestGang(size, on_node, max(racks.values(), default=0), sum(racks.values()))
        )
        size = size * 2 if size * 2 <= most or size == most else most
    return tuple(found)

"""The queues as the ResourceManager reports them now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import AllocationSteps, Node, QueueView, Scheduler


@dataclass(frozen=True, slots=True)
class QueueState:
    """One queue, and those below it. ``maximum`` is cut to the cluster's size, as the
    ResourceManager shows it. Under the Capacity Scheduler the shares and the minimum are the
    queue's capacity."""

    name: str
    """Full, as in ``root.dl``."""
    policy: str = ""
    """``fair``, ``fifo`` or ``drf``; under the Capacity Scheduler the order of its jobs."""
    steady_share: Resources = Resources()
    fair_share: Resources = Resources()
    """The instantaneous one."""
    minimum: Resources = Resources()
    maximum: Resources = Resources()
    max_container: Resources | None = None
    """``None`` means no limit of its own."""
    used: Resources = Resources()
    demand: Resources = Resources()
    """What its jobs use and ask for."""
    am_used: Resources = Resources()
    am_limit: Resources = Resources()
    am_part: float | None = None
    """The part of what the queue may have that ApplicationMasters may use; ``None`` means not
    reported."""
    pending_containers: int = 0
    reserved_containers: int = 0
    running_jobs: int = 0
    pending_jobs: int = 0
    """Jobs whose ApplicationMaster has not started."""
    max_jobs: int | None = None
    user_limit: Resources | None = None
    """What one user may use; ``None`` means as much as the queue."""
    used_by: Mapping[str, Resources] = field(default_factory=dict[str, Resources])
    """Of each user with jobs there, where there are limits of users."""
    is_preemptable: bool = True
    children: tuple[QueueState, ...] = ()
    is_leaf: bool = True

    def walk(self) -> Iterator[QueueState]:
        """This queue and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def find(self, name: str) -> QueueState | None:
        """By its full name."""
        return next((queue for queue in self.walk() if queue.name == name), None)

    @property
    def pending(self) -> Resources:
        """What its jobs ask for and do not have."""
        return self.demand.minus(self.used)


@dataclass(frozen=True, slots=True)
class QueueReport:
    """What the ResourceManager reports of queues and nodes at one instant."""

    root: QueueState
    nodes: tuple[Node, ...]
    steps: AllocationSteps = AllocationSteps()
    """How it rounds what it is asked for."""
    preempts: bool = False
    """It takes containers from queues above their share for those below."""
    scheduler: Scheduler = Scheduler.FAIR
    leaves: tuple[QueueView, ...] = ()
    """The leaf queues, as a snapshot has them."""

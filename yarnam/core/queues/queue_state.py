"""The queues as the ResourceManager reports them now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import AllocationSteps, Node, QueueView, Scheduler


def names_queue(reported: str, full_name: str) -> bool:
    """Whether YARN means this queue. The Capacity Scheduler reports the last part of the name."""
    return reported == full_name or full_name.endswith(f".{reported}")


def full_queue(reported: str, names: Iterable[str]) -> str:
    """The one queue of these that YARN means; empty if none or several have the name."""
    meant = [name for name in names if names_queue(reported, name)]
    return reported if reported in meant else meant[0] if len(meant) == 1 else ""


@dataclass(frozen=True, slots=True)
class QueueState:
    """One queue, and those below it. ``maximum`` is cut to the cluster's size, as the
    ResourceManager shows it. Under the Capacity Scheduler the shares and the minimum are the
    queue's capacity."""

    name: str
    """The full name, as in ``root.dl``."""
    policy: str = ""
    """``fair``, ``fifo`` or ``drf``; under the Capacity Scheduler the order of its jobs."""
    steady_share: Resources = Resources()
    fair_share: Resources = Resources()
    """The instantaneous fair share."""
    minimum: Resources = Resources()
    maximum: Resources = Resources()
    max_container: Resources | None = None
    """``None`` if it has no limit of its own."""
    used: Resources = Resources()
    demand: Resources = Resources()
    """The resources that its jobs use and ask for."""
    am_used: Resources = Resources()
    am_limit: Resources = Resources()
    am_part: float | None = None
    """The part of the queue's possible resources that ApplicationMasters may use; ``None`` if not
    reported."""
    pending_containers: int = 0
    reserved_containers: int = 0
    running_jobs: int = 0
    pending_jobs: int = 0
    """Jobs whose ApplicationMaster has not started."""
    max_jobs: int | None = None
    user_limit: Resources | None = None
    """The most that one user may use; ``None`` for as much as the queue."""
    used_by: Mapping[str, Resources] = field(default_factory=dict[str, Resources])
    """The resources of each user with jobs in the queue, if users have limits."""
    is_preemptable: bool = True
    children: tuple[QueueState, ...] = ()
    is_leaf: bool = True

    def walk(self) -> Iterator[QueueState]:
        """This queue and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def find(self, name: str) -> QueueState | None:
        """Find a queue by its full name."""
        return next((queue for queue in self.walk() if queue.name == name), None)

    @property
    def promised_gpus(self) -> int:
        """The fair shares of the queues directly below it. They are more than its own share if
        their minimums are."""
        return sum(child.fair_share.gpus for child in self.children)

    @property
    def pending(self) -> Resources:
        """The resources that its jobs ask for and do not have."""
        return self.demand.minus(self.used)


@dataclass(frozen=True, slots=True)
class QueueReport:
    """The ResourceManager's report of queues and nodes at one instant."""

    root: QueueState
    nodes: tuple[Node, ...]
    steps: AllocationSteps = AllocationSteps()
    """The steps to which it rounds requests."""
    preempts: bool = False
    """It takes containers from queues above their share for those below."""
    scheduler: Scheduler = Scheduler.FAIR
    leaves: tuple[QueueView, ...] = ()
    """The leaf queues, as a snapshot has them."""

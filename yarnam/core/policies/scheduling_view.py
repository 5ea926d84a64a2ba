"""The input of a policy: tickets, free capacity, and the time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.core.model.tickets import PolicyTicket

if TYPE_CHECKING:
    from typing_extensions import Self


class Capacity(Protocol):
    """GPUs to give to gangs: all of a gang or nothing. A policy works on copies."""

    @property
    def total_gpus(self) -> int: ...

    @property
    def free_gpus(self) -> int: ...

    def copy(self) -> Self: ...

    def emptied(self) -> Self:
        """The same, as if no gang ran. ``take`` leaves a running gang where it is if its nodes have
        not been taken meanwhile."""
        ...

    def take(self, ticket: PolicyTicket, gpus: int) -> bool:
        """Take this many for the whole gang; ``False`` means it does not fit, and nothing was
        taken."""
        ...

    def overlap(self, later: Self) -> Self:
        """The capacity that is free both here and in ``later``, the same cluster at another
        time."""
        ...

    def take_as(self, other: Self, ticket: PolicyTicket, gpus: int) -> None:
        """Take what the gang has in ``other``."""
        ...

    def give(self, ticket: PolicyTicket) -> None:
        """The gang holds nothing any more."""
        ...

    def out_of_reach(self, ticket: PolicyTicket) -> Self:
        """The free capacity that this gang could never use."""
        ...

    def least_nodes(self, ticket: PolicyTicket) -> int:
        """The fewest nodes on which the gang of a running job would fit now, with its own GPUs
        counted as free; 0 if nodes are unknown."""
        ...


@dataclass(slots=True)
class GpuCount:
    """Capacity as a number of GPUs, wherever they are."""

    total_gpus: int
    free_gpus: int

    def copy(self) -> GpuCount:
        return GpuCount(self.total_gpus, self.free_gpus)

    def emptied(self) -> GpuCount:
        return GpuCount(self.total_gpus, self.total_gpus)

    def take(self, ticket: PolicyTicket, gpus: int) -> bool:
        del ticket
        if gpus > self.free_gpus:
            return False
        self.free_gpus -= gpus
        return True

    def overlap(self, later: GpuCount) -> GpuCount:
        return GpuCount(self.total_gpus, min(self.free_gpus, later.free_gpus))

    def take_as(self, other: GpuCount, ticket: PolicyTicket, gpus: int) -> None:
        del other, ticket
        self.free_gpus -= gpus

    def give(self, ticket: PolicyTicket) -> None:
        self.free_gpus += ticket.gpus

    def out_of_reach(self, ticket: PolicyTicket) -> GpuCount:
        del ticket
        return GpuCount(self.total_gpus, 0)

    def least_nodes(self, ticket: PolicyTicket) -> int:
        del ticket
        return 0


@dataclass(frozen=True, slots=True)
class SchedulingView:
    """All that a decision depends on, besides the settings."""

    tickets: Sequence[PolicyTicket]
    """All waiting and running jobs, in any order."""
    capacity: Capacity
    """The capacity that the running jobs leave free."""
    now_s: float
    snapshot: ClusterSnapshot | None = None
    """Nodes and queues, if known: ``smallest-first`` counts shares by it."""
    late_s: float = 0.0
    """The longest delay until a change is noticed and decided, where jobs poll."""

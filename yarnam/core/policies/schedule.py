"""A policy's answer: which jobs run now, on how many GPUs, in which order, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf

from yarnam.core.model.tickets import PolicyTicket
from yarnam.core.policies.scheduling_view import Capacity


class Act(Enum):
    """The action of a job now."""

    RUN = "run"
    """Ask for the gang, or keep it running."""
    WAIT = "wait"
    YIELD = "yield"
    """Suspend: give all GPUs back at a checkpoint."""
    RESIZE = "size"
    """Continue with another number of GPUs."""
    MOVE = "move"
    """Suspend, and restart immediately on fewer nodes."""


@dataclass(frozen=True, slots=True)
class JobDecision:
    """The decision for one job."""

    job: str
    act: Act
    gpus: int
    """The GPUs that it holds from now on; 0 for none."""
    rank: int
    """The rank in the order of the policy, from 1."""
    why: str
    is_promoted: bool = False
    """It has waited so long that its service counts from zero when it runs next."""


Explain = Callable[[PolicyTicket], str]
"""One sentence on why this job runs, waits or yields."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The decision over all jobs. Each job carries out its own part and no other."""

    order: Sequence[PolicyTicket]
    """The tickets by rank."""
    gpus: Mapping[str, int]
    """The GPUs of each job that is to run; all other jobs hold none."""
    left: Capacity
    """The capacity that is free once all of these jobs run."""
    explain: Explain
    next_change_s: float = inf
    """The time at which the decision may change without an event (a demotion, the end of a
    slice)."""
    promoted: frozenset[str] = frozenset()
    """Jobs whose ``counted_gpu_s`` starts from zero when they run next."""
    moved: frozenset[str] = frozenset()
    """Jobs that keep running, but on other nodes."""

    def of(self, job: str) -> JobDecision:
        """The row of one job. Raises KeyError: it has no ticket."""
        for rank, ticket in enumerate(self.order, 1):
            if ticket.job == job:
                return self._decision(ticket, rank)
        raise KeyError(job)

    def decisions(self) -> tuple[JobDecision, ...]:
        """All rows, by rank."""
        return tuple(self._decision(ticket, rank) for rank, ticket in enumerate(self.order, 1))

    def _decision(self, ticket: PolicyTicket, rank: int) -> JobDecision:
        gpus = self.gpus.get(ticket.job, 0)
        if not gpus:
            act = Act.YIELD if ticket.is_running else Act.WAIT
        elif ticket.is_running and ticket.job in self.moved:
            act = Act.MOVE
        elif ticket.is_running and gpus != ticket.gpus:
            act = Act.RESIZE
        else:
            act = Act.RUN
        is_promoted = ticket.job in self.promoted
        return JobDecision(ticket.job, act, gpus, rank, self.explain(ticket), is_promoted)

"""What a policy answers: who runs now, on how many GPUs, in which order, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf

from yarnam.core.model.tickets import PolicyTicket
from yarnam.core.policies.scheduling_view import Capacity


class Act(Enum):
    """What a job does now."""

    RUN = "run"
    """Ask for the gang; or continue as it runs."""
    WAIT = "wait"
    YIELD = "yield"
    """Suspend: give all GPUs back at a checkpoint."""
    RESIZE = "size"
    """Go on with another number of GPUs."""
    MOVE = "move"
    """Suspend, and start again at once on fewer nodes."""


@dataclass(frozen=True, slots=True)
class JobDecision:
    """One job's row."""

    job: str
    act: Act
    gpus: int
    """That it holds from now on; 0 means none."""
    rank: int
    """In the order of the policy, from 1."""
    why: str
    is_promoted: bool = False
    """It has waited so long that its service counts anew when it runs next."""


Explain = Callable[[PolicyTicket], str]
"""One sentence on why this job runs, waits or yields."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The decision over all jobs. Each job carries out its own row and no other."""

    order: Sequence[PolicyTicket]
    """By rank."""
    gpus: Mapping[str, int]
    """What each job that is to run holds; all others hold nothing."""
    left: Capacity
    """What is free once all that are to run do."""
    explain: Explain
    next_change_s: float = inf
    """When time alone may change the decision (a demotion, the end of a slice)."""
    promoted: frozenset[str] = frozenset()
    """Jobs whose ``counted_gpu_s`` begins anew when they run next."""
    moved: frozenset[str] = frozenset()
    """Jobs that run on, but on other nodes."""

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

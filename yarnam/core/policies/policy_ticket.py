"""What a job tells of itself to the policy of its queue: small, typed, and changed only when the
job's own state changes. What time alone changes (how long it has run, its attained service) follows
from ``since_s``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

POLICY_RULES = 1
"""The version of what policies decide, one more whenever a shipped policy orders differently. Jobs
of two versions fall back to the order by arrival (``policy_registry.decide``)."""


class JobState(Enum):
    """Whether a job holds GPUs."""

    WAITING = "waiting"
    """It has never run."""
    RUNNING = "running"
    SUSPENDED = "suspended"
    """It has run, and waits at a checkpoint."""


@dataclass(frozen=True, slots=True)
class PolicyTicket:
    """One job, waiting or running. Times are seconds by one clock."""

    job: str
    number: int
    """Grows with the time of submission; settles ties."""
    submitted_at_s: float
    gpus: int
    """Of its gang: what it holds while it runs, else what it waits for."""
    queue: str = ""
    state: JobState = JobState.WAITING
    since_s: float = 0.0
    """When this state began."""
    service_gpu_s: float = 0.0
    """Attained service, GPUs times seconds executed, up to ``since_s``."""
    counted_gpu_s: float = 0.0
    """The part of it since the last promotion (``Schedule.promoted``)."""
    remaining_s: float | None = None
    """How long it still runs on ``gpus``, from ``since_s`` on, as declared or predicted."""
    can_suspend: bool = False
    """It has checkpoints, so it loses nothing but the cost of the pause."""
    pause_cost_s: float = 0.0
    """What one suspend and resume have taken of its gang's time, as measured."""
    least_gpus: int = 0
    """The smallest gang of an elastic job; 0: its gang has one size."""
    most_gpus: int = 0
    """The largest gang of an elastic job; 0: its gang has one size."""
    rates: tuple[tuple[int, float], ...] = ()
    """Steps in a second by GPUs, measured or fitted: of the sizes that an elastic job may have."""
    remaining_steps: float | None = None
    """By its loss curve or its spec, as of ``since_s``."""
    nodes: int = 0
    """On how many nodes its gang runs; 0: unknown."""
    is_skewed: bool | None = None
    """One of its tensors holds much of the model, so it suffers when spread; None: unknown."""
    rules: int = POLICY_RULES
    settings_version: int = 0
    """Of the queue's policy and settings that the job knows."""

    @property
    def is_running(self) -> bool:
        return self.state is JobState.RUNNING

    @property
    def is_elastic(self) -> bool:
        return self.most_gpus > self.least_gpus > 0

    @property
    def smallest(self) -> int:
        """The fewest GPUs that its gang can run on."""
        return self.least_gpus if self.is_elastic else self.gpus

    def service(self, now_s: float) -> float:
        """Attained service so far: GPU-seconds."""
        return self.service_gpu_s + self._running_gpu_s(now_s)

    def counted(self, now_s: float) -> float:
        """Attained service since the last promotion."""
        return self.counted_gpu_s + self._running_gpu_s(now_s)

    def left_s(self, now_s: float) -> float | None:
        """How long it still runs; at least 0. None: unknown."""
        if self.remaining_s is None:
            return None
        if self.state is not JobState.RUNNING:
            return self.remaining_s
        return max(0.0, self.remaining_s - (now_s - self.since_s))

    def rate(self, gpus: int) -> float:
        """Steps in a second on so many GPUs: told, else between and beyond the told ones in
        proportion; 0: nothing is known."""
        told = dict(self.rates)
        if gpus in told:
            return told[gpus]
        below = max((size for size in told if size < gpus), default=0)
        above = min((size for size in told if size > gpus), default=0)
        if below and above:
            share = (gpus - below) / (above - below)
            return told[below] + share * (told[above] - told[below])
        nearest = below or above
        return told[nearest] * min(1.0, gpus / nearest) if nearest else 0.0

    def _running_gpu_s(self, now_s: float) -> float:
        if self.state is not JobState.RUNNING:
            return 0.0
        return self.gpus * max(0.0, now_s - self.since_s)


Arrival = tuple[float, int, str]


def arrival(ticket: PolicyTicket) -> Arrival:
    """Orders jobs by submission; no two are equal."""
    return ticket.submitted_at_s, ticket.number, ticket.job


def believed(
    ticket: PolicyTicket, recorded_gpu_s: Mapping[str, float], now_s: float
) -> PolicyTicket:
    """The ticket with no less attained service than the ResourceManager has recorded for the
    application. A job that understates it would be served first under ``tiresias`` and the like;
    one that overstates it harms only itself. What a job says of the time that it still needs is its
    own word: under ``srtf`` and ``srsf`` it can gain by understating it, until its declared end has
    passed (it then counts as one that has nothing left and is never suspended for a shorter one),
    so these two are for queues whose users trust each other."""
    recorded = recorded_gpu_s.get(ticket.job)
    if recorded is None or recorded <= ticket.service(now_s):
        return ticket
    missing = recorded - ticket.service(now_s)
    return replace(
        ticket,
        service_gpu_s=ticket.service_gpu_s + missing,
        counted_gpu_s=ticket.counted_gpu_s + missing,
    )

"""What a job looks like from outside: the value behind ``status``, ``watch`` and ``--json``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from yarnam.model.outcomes import Verdict


class Phase(Enum):
    """Phases of the gang machine."""

    PENDING = "PENDING"
    ACQUIRING = "ACQUIRING"
    LAUNCHING = "LAUNCHING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    BACKING_OFF = "BACKING_OFF"
    SUSPENDED = "SUSPENDED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


FINAL_PHASES = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED})
RECOVERY_POINTS = FINAL_PHASES | {Phase.PENDING, Phase.BACKING_OFF, Phase.SUSPENDED}


class JobState(Enum):
    """What the user is told: never RUNNING while the job waits."""

    QUEUED = "QUEUED"
    ACQUIRING = "ACQUIRING"
    STAGING = "STAGING"
    RUNNING = "RUNNING"
    STORING = "STORING"
    SUSPENDED = "SUSPENDED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def is_final(self) -> bool:
        return self in {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED}


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """One member of the gang. ``state`` is one of asked, granted, ready, started, exited, lost."""

    task: str
    ask: str
    state: str
    node: str = ""
    rack: str = ""
    container: str = ""
    ranks: tuple[int, ...] = ()
    gpu_ids: tuple[str, ...] = ()
    log_address: str = ""
    exit_text: str = ""
    step: int | None = None
    loss: float | None = None
    metrics: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One try to acquire and run the gang, for the history in status and diagnostics."""

    attempt: int
    rung: int
    level: str
    started_at_s: float
    ended_at_s: float | None = None
    asked: int = 0
    granted: int = 0
    outcome: str = ""
    """Why it ended, in words; empty while it goes on."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A whole job at one instant. Times in seconds since the epoch."""

    application: str
    name: str
    user: str
    queue: str
    state: JobState
    phase: str = ""
    reason: str = ""
    """Why the job is in this state, in one line."""
    at_s: float = 0.0
    submitted_at_s: float = 0.0
    attempt: int = 0
    max_attempts: int = 0
    am_attempt: int = 0
    asked: int = 0
    granted: int = 0
    granted_by_level: tuple[tuple[str, int], ...] = ()
    ready: int = 0
    deadline_s: float | None = None
    """When the current wait ends by its limit (hold, launch, stop) or the back-off is over."""
    step: int | None = None
    total_steps: int | None = None
    loss: float | None = None
    metrics: tuple[tuple[str, float], ...] = ()
    tasks: tuple[TaskStatus, ...] = ()
    history: tuple[AttemptRecord, ...] = ()
    verdict: Verdict | None = None
    tracking_url: str = ""
    checkpoint: str = ""

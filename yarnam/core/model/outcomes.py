"""How things ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ContainerEnd(Enum):
    """Why a container is gone, as YARN reports it."""

    LOST = "lost"
    """Its node or its NodeManager is gone, or the grant expired."""
    PREEMPTED = "preempted"
    FAILED = "failed"
    """It ended by itself with a failure, or could not be started."""
    EXITED = "exited"
    """It ended by itself with success."""
    RELEASED = "released"
    """We gave it back."""


class ExitKind(Enum):
    """How one training process, or a whole task, ended."""

    OK = "ok"
    NON_ZERO = "non-zero"
    SIGNAL = "signal"
    COMMAND_NOT_FOUND = "command-not-found"
    NOT_STARTED = "not-started"
    """The agent could not prepare it: file missing, lease or port not to be had, disk full."""
    STOPPED = "stopped"
    """We stopped it."""


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """The end of one training process. ``code`` is set for NON_ZERO, ``signal`` for SIGNAL."""

    local_rank: int
    kind: ExitKind
    code: int = 0
    signal: int = 0
    ended_at_s: float = 0.0
    last_lines: tuple[str, ...] = ()
    """The end of its output, decoded with replacement, long lines cut."""


class VerdictKind(Enum):
    """The final states of a job."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The persisted final decision, obeyed by every later AM attempt."""

    kind: VerdictKind
    exit_code: int
    """One of ``yarnam.errors.ExitCode``."""
    message: str
    hint: str = ""
    decided_at_s: float = 0.0

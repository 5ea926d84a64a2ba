"""What the gang machine wants done. Each action is idempotent per (attempt, kind, target)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from yarnam.model.events import TimerId
from yarnam.model.ids import AskId, NodeId, TaskId
from yarnam.model.outcomes import Verdict
from yarnam.model.placement import Placed, Target


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """Call the planner on a fresh snapshot, from ladder rung ``first_rung`` on."""

    attempt: int
    first_rung: int
    excluded: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True)
class DrawJitter:
    attempt: int


@dataclass(frozen=True, slots=True)
class AskContainer:
    """Ask YARN for one container."""

    ask: AskId
    target: Target


@dataclass(frozen=True, slots=True)
class ReleaseContainer:
    """Withdraw the ask, or give the container back, whichever it is by now."""

    ask: AskId
    reason: str


@dataclass(frozen=True, slots=True)
class StartTimer:
    timer: TimerId
    delay_s: float


@dataclass(frozen=True, slots=True)
class CancelTimer:
    timer: TimerId


@dataclass(frozen=True, slots=True)
class GangMember:
    """One task of the complete gang. The tuple of all members, in this order, fixes the ranks:
    global rank = number of processes of the members before it + local rank (node-major)."""

    ask: AskId
    task: TaskId
    placed: Placed


@dataclass(frozen=True, slots=True)
class LaunchGang:
    """Order every member to start its processes. ``members`` are in rank order."""

    attempt: int
    members: tuple[GangMember, ...]


@dataclass(frozen=True, slots=True)
class StopTask:
    """SIGTERM the task's processes, SIGKILL after ``grace_s``; the agent reports their end."""

    ask: AskId
    attempt: int
    grace_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Finish:
    """Persist the verdict, release what is left, end the application."""

    verdict: Verdict


Action = Union[
    RequestPlan,
    DrawJitter,
    AskContainer,
    ReleaseContainer,
    StartTimer,
    CancelTimer,
    LaunchGang,
    StopTask,
    Finish,
]

ACTION_TYPES: tuple[type, ...] = (
    RequestPlan,
    DrawJitter,
    AskContainer,
    ReleaseContainer,
    StartTimer,
    CancelTimer,
    LaunchGang,
    StopTask,
    Finish,
)
"""All members of ``Action``."""

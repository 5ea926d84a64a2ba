"""The actions that the gang machine orders. Each is idempotent per (attempt, kind, target)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from yarnam.core.model.events import TimerId
from yarnam.core.model.ids import AskId, ContainerId, NodeId, TaskId
from yarnam.core.model.outcomes import Verdict
from yarnam.core.model.plans import Placed, Supplement, Target


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """Call the planner on a fresh snapshot, from ladder rung ``first_rung`` on; with a
    ``supplement`` only for its tasks."""

    attempt: int
    first_rung: int
    excluded: tuple[NodeId, ...] = ()
    suspects: tuple[NodeId, ...] = ()
    """Nodes to use last: this job has had trouble there, but not enough to exclude them."""
    doubtful: tuple[NodeId, ...] = ()
    """Nodes to use after all but the suspects: other jobs have had trouble there, or no grant
    came."""
    supplement: Supplement | None = None
    most_tasks: int | None = None
    """The most tasks of the elastic role, where there is one; ``None`` for the job's own limit."""
    least_tasks: int | None = None
    """The fewest tasks of the elastic role that will do now; ``None`` for the job's own limit."""
    memory_level: int = 0
    """How often the containers have been enlarged."""
    is_pre_run: bool = False
    """The plan is for the pre-run's only task, not for the gang."""


@dataclass(frozen=True, slots=True)
class CancelPlanRequest:
    """The answer to ``RequestPlan`` is no longer wanted."""

    attempt: int


@dataclass(frozen=True, slots=True)
class ProbeCluster:
    """See how many tasks of ``growth`` would fit beside those that stand, whether others wait, and
    whether the queue is over its share. Asks nothing of YARN."""

    attempt: int
    growth: Supplement
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
class CheckPeer:
    """A node to which a link is measured, and where its agent serves (host:port)."""

    node: NodeId
    address: str


@dataclass(frozen=True, slots=True)
class CheckedNode:
    """A node to check, by the agent of this ask. ``peers``: one for each round."""

    ask: AskId
    node: NodeId
    peers: tuple[CheckPeer, ...]


@dataclass(frozen=True, slots=True)
class CheckNodes:
    """Have all of these nodes checked simultaneously; answered by ``NodeChecked``. ``check`` is a
    number that is used once."""

    attempt: int
    check: int
    is_full: bool
    limit_s: float
    nodes: tuple[CheckedNode, ...]


@dataclass(frozen=True, slots=True)
class PrepareGang:
    """Order every member to bring to its node what its processes will read, before any of them
    starts. ``members`` are as in ``LaunchGang``. Comes again when a member was replaced."""

    attempt: int
    members: tuple[GangMember, ...]


@dataclass(frozen=True, slots=True)
class LaunchGang:
    """Order every member to start its processes. ``members`` are in rank order."""

    attempt: int
    members: tuple[GangMember, ...]
    waiting: tuple[AskId, ...] = ()
    """Members that are not to start, or not yet: the action comes again when some of them are."""


@dataclass(frozen=True, slots=True)
class AdoptedTask:
    """A task whose container and agent an earlier AM attempt started, and how far it had come."""

    ask: AskId
    container: ContainerId
    node: NodeId
    is_started: bool = False
    is_ready: bool = False
    has_exited: bool = False
    log_address: str = ""
    """Where its agent listens for clients (host:port)."""


@dataclass(frozen=True, slots=True)
class AdoptGang:
    """Take over the containers and agents of an earlier AM attempt. What is launched is as in
    ``LaunchGang``, and changes nothing for tasks that run."""

    attempt: int
    members: tuple[GangMember, ...]
    waiting: tuple[AskId, ...]
    tasks: tuple[AdoptedTask, ...]


@dataclass(frozen=True, slots=True)
class ReleaseKept:
    """Give back containers of an earlier AM attempt that YARN has kept."""

    containers: tuple[ContainerId, ...]


@dataclass(frozen=True, slots=True)
class StopTask:
    """SIGTERM the task's processes, SIGKILL after ``grace_s``; the agent reports their end."""

    ask: AskId
    attempt: int
    grace_s: float
    reason: str
    idle_grace_s: float | None = None
    """The grace where none of the processes writes a checkpoint; ``None`` for ``grace_s``."""
    agreeing: int = 0
    """How many tasks end after the same step, if their code reports its steps; 0 if each ends on
    its own."""


@dataclass(frozen=True, slots=True)
class StoreOutputs:
    """Make what these tasks wrote in this attempt the job's output. ``tasks`` are in rank order."""

    attempt: int
    tasks: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class StopStoring:
    """Store no more; answered by ``OutputsStored`` if it was too late for that, else by
    ``StoringFailed``."""

    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class ShareStrike:
    """Tell other jobs that this one had trouble with a node. A hint, best effort."""

    node: NodeId
    reason: str


@dataclass(frozen=True, slots=True)
class Finish:
    """Persist the verdict, release what is left, end the application."""

    verdict: Verdict


Action = Union[
    RequestPlan,
    CancelPlanRequest,
    ProbeCluster,
    DrawJitter,
    AskContainer,
    ReleaseContainer,
    StartTimer,
    CancelTimer,
    CheckNodes,
    PrepareGang,
    LaunchGang,
    AdoptGang,
    ReleaseKept,
    StopTask,
    StoreOutputs,
    StopStoring,
    ShareStrike,
    Finish,
]

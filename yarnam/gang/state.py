"""The state of a gang, and the policy it lives by. Values only: see ``machine`` for what happens.

A Gang is rebuilt by folding the journal's events over ``step``, so nothing in it may depend on
anything but those events and the job.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from yarnam.model.events import AgentRegistered, ContainerGranted, TimerId, TimerKind
from yarnam.model.ids import AskId, NodeId, TaskId
from yarnam.model.job import JobSpec
from yarnam.model.outcomes import ExitKind, ProcessExit, Verdict
from yarnam.model.placement import LocalityLevel, Rung, Target
from yarnam.model.status import AttemptRecord, Phase

PS_ROLE = "ps"
"""Parameter servers need not end: the job is over when all the others are (OpenPAI's completion
preset for TensorFlow: ``worker minSucceeded = N, ps none``)."""

CHIEF_ROLE = "chief"
"""Takes rank 0, as TensorFlow's ``task_type chief`` does."""


class MemberState(Enum):
    """How far one member has come within its attempt."""

    ASKED = "asked"
    GRANTED = "granted"
    READY = "ready"
    STARTED = "started"
    EXITED = "exited"
    LOST = "lost"


class LossKind(Enum):
    """How the platform took a member that had been launched."""

    NODE = "node lost"
    PREEMPTED = "preempted"
    ENDED = "container ended"
    """The container ended, and its agent has not said why (yet)."""
    SILENT = "agent silent"
    UNABLE = "agent unable"
    UNABLE_USER = "agent unable, the job's own fault"


@dataclass(frozen=True, slots=True)
class Loss:
    """``at_s`` is when it happened as near as known: a silent agent is lost since it last spoke."""

    kind: LossKind
    at_s: float
    noticed_at_s: float
    text: str


@dataclass(frozen=True, slots=True)
class Member:
    """One task of the gang, from its ask to its end."""

    ask: AskId
    target: Target
    level: LocalityLevel
    state: MemberState = MemberState.ASKED
    grant: ContainerGranted | None = None
    agent: AgentRegistered | None = None
    """May come before the grant: the agent can be quicker than YARN's report."""
    task: TaskId | None = None
    first_rank: int = 0
    exits: tuple[ProcessExit, ...] = ()
    loss: Loss | None = None

    @property
    def is_ok(self) -> bool:
        return (
            self.state is MemberState.EXITED
            and bool(self.exits)
            and all(process.kind is ExitKind.OK for process in self.exits)
        )

    @property
    def is_holding(self) -> bool:
        """Whether a container is (or may still be) ours."""
        if self.state is MemberState.LOST:
            return self.loss is not None and self.loss.kind in {
                LossKind.SILENT,
                LossKind.UNABLE,
                LossKind.UNABLE_USER,
            }
        return self.state is not MemberState.ASKED

    @property
    def name(self) -> str:
        return str(self.task) if self.task else str(self.ask)


class StopKind(Enum):
    """Why a launched gang is being stopped."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Stopping:
    kind: StopKind
    text: str
    was_running: bool
    """Whether every process had started: decides between a restart and a failed attempt."""


@dataclass(frozen=True, slots=True)
class Timer:
    """A timer that runs. One that fires and is not among the gang's timers is stale."""

    timer: TimerId
    deadline_s: float


@dataclass(frozen=True, slots=True)
class GangPolicy:
    """What a gang lives by: the limits of its job. Times in seconds."""

    roles: tuple[tuple[str, int], ...]
    """Processes wanted of each role; a plan must give exactly these, in whatever shape."""
    hold_timeout_s: float
    ask_timeout_s: float
    launch_timeout_s: float
    wait_timeout_s: float
    attempts: int
    backoff_base_s: float
    backoff_cap_s: float
    relax_after_attempts: int
    max_restarts: int
    user_retries: int
    stop_grace_s: float
    excluded: tuple[NodeId, ...] = ()
    stop_margin_s: float = 5.0
    """Added to the grace before a task that does not stop is given up: the agent's SIGKILL, its
    report (heartbeats come every 2 s) and one retry of it."""
    explain_grace_s: float = 2.0
    """How long an unexplained end of a container waits for the agent's own report: the report
    goes straight to the AM, the end takes a heartbeat of NodeManager and AM (0.5 to 1 s each)."""
    backoff_floor_s: float = 1.0
    """Least back-off: released GPUs are free again after 0.5 to 1.5 s (skein-on-yarn.md, 12)."""
    look_cap_s: float = 30.0
    """Cap of the wait between two looks at a full cluster. A look is one call of the RM's REST
    API, so it may come more often than a failed attempt, which held others' GPUs."""
    reasks_per_task: int = 4
    """Containers replaced within one attempt, per task, before the attempt is given up."""
    user_faults: int = 2
    """Agents that must blame the job's own files or settings: one alone may be a sick node."""

    @property
    def tasks_order(self) -> tuple[str, ...]:
        """Roles in rank order: chief first, ps last, the others as the spec has them."""
        names = [name for name, _ in self.roles]
        return tuple(sorted(names, key=lambda name: (name == PS_ROLE, name != CHIEF_ROLE)))


@dataclass(frozen=True, slots=True)
class Gang:
    """Everything known about the gang of one job. See ``machine`` for the meaning of phases."""

    size: int
    """Tasks wanted; the chosen shape may change it for a job that gave only ``gpus``."""
    max_attempts: int
    phase: Phase = Phase.PENDING
    since_s: float = 0.0
    """When the phase was entered."""
    am_attempt: int = 1
    is_started: bool = False
    """JobStarted has been seen."""
    attempt: int = 1
    rung: Rung | None = None
    members: tuple[Member, ...] = ()
    next_number: int = 0
    """Number of the next ask of this attempt."""
    failures: int = 0
    """Failed acquisitions in a row; this is what ``attempts`` bounds and what the ladder's rung
    and the back-off follow. A gang that runs sets it back to 0."""
    looks: int = 0
    """Refusals "not now" in a row."""
    restarts: int = 0
    user_retries: int = 0
    preemptions: int = 0
    misfits: int = 0
    """Grants refused in this attempt because they were not where they were asked for."""
    reasks: int = 0
    user_faults: int = 0
    timers: tuple[Timer, ...] = ()
    reason: str = ""
    """Why the gang waits, or what the last attempt died of."""
    stopping: Stopping | None = None
    history: tuple[AttemptRecord, ...] = ()
    verdict: Verdict | None = None

    def find(self, ask: AskId) -> Member | None:
        return next((member for member in self.members if member.ask == ask), None)

    def deadline_s(self, kind: TimerKind) -> float | None:
        return next((t.deadline_s for t in self.timers if t.timer.kind is kind), None)

    def timer(self, kind: TimerKind) -> Timer | None:
        return next((t for t in self.timers if t.timer.kind is kind), None)


def policy_for(job: JobSpec) -> GangPolicy:
    """The limits that a job's spec sets."""
    gang = job.gang
    return GangPolicy(
        roles=tuple((role.name, role.tasks * role.processes_per_task) for role in job.roles),
        hold_timeout_s=gang.hold_timeout_s,
        ask_timeout_s=gang.ask_timeout_s,
        launch_timeout_s=gang.launch_timeout_s,
        wait_timeout_s=gang.wait_timeout_s,
        attempts=max(1, gang.attempts),
        backoff_base_s=gang.backoff_base_s,
        backoff_cap_s=gang.backoff_cap_s,
        relax_after_attempts=max(1, gang.relax_after_attempts),
        max_restarts=job.retry.max_restarts,
        user_retries=job.retry.on_user_failure,
        stop_grace_s=job.am.stop_grace_s,
        excluded=tuple(NodeId(node) for node in job.placement.exclude_nodes),
    )


def initial(job: JobSpec) -> Gang:
    """A gang that nothing has happened to yet."""
    return Gang(size=job.tasks, max_attempts=max(1, job.gang.attempts))

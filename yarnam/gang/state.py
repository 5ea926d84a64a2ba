"""The state of a gang, and the policy it lives by. Values only: see ``machine`` for what happens.

A Gang is rebuilt by folding the journal's events over ``step``, so nothing in it may depend on
anything but those events and the job.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from yarnam.gang.sizing import SizePolicy, size_policy
from yarnam.model.events import (
    AgentRegistered,
    ContainerGranted,
    OutputsStored,
    TimerId,
    TimerKind,
)
from yarnam.model.ids import AskId, NodeId, TaskId
from yarnam.model.job import BlacklistSpec, JobSpec
from yarnam.model.outcomes import ExitKind, ProcessExit, Verdict, VerdictKind
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
    is_staged: bool = False
    """What its processes read lies on its node."""
    is_gone: bool = False
    """Its container or agent went after its processes had ended: nothing of it can be kept."""

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
    REFUSED = "refused"
    """Its inputs are corrupt, and its policy is not to go on with that."""
    RESIZED = "resized"
    """An elastic gang changes its size: it starts again with other members."""


@dataclass(frozen=True, slots=True)
class Stopping:
    kind: StopKind
    text: str
    was_running: bool
    """Whether every process had started: decides between a restart and a failed attempt."""
    ran_s: float = 0.0
    """For how long they all ran."""
    to: int | None = None
    """RESIZED: tasks of the elastic role that stay; None: all of them do."""


@dataclass(frozen=True, slots=True)
class Storing:
    """The gang has succeeded, and its outputs are being stored."""

    text: str
    """How it succeeded."""
    ending: VerdictKind | None = None
    """What the job ends with once storing has stopped; None: it goes on."""
    why: str = ""
    """Why it is being stopped."""


@dataclass(frozen=True, slots=True)
class Strike:
    """One counted fault of a node. ``weight`` is as many strikes as it stands for."""

    node: NodeId
    at_s: float
    weight: int
    why: str


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A node that the job refuses for a while."""

    node: NodeId
    since_s: float
    until_s: float
    why: str


@dataclass(frozen=True, slots=True)
class Crash:
    """A process of the job's own was the first to fail, by a signal, on this node."""

    node: NodeId
    at_s: float


@dataclass(frozen=True, slots=True)
class Recovery:
    """A gang that ran has lost tasks, and is made whole again in place: the other containers are
    held, their agents parked."""

    text: str
    """What was lost, and how: for the status."""
    missing: tuple[Target, ...]
    """What is not asked for yet: the planner looks for room, or the next look is due."""
    is_looking: bool = False
    """A question to the planner is out."""
    avoid: tuple[NodeId, ...] = ()
    """Nodes from which no grant came in this recovery: to be used last."""
    is_first: bool = False
    """The gang has not stood yet: what is missing was asked for where nothing can help, and goes
    elsewhere while the HOLD timer lasts."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Grants on one node that were given back, of one service, in the current attempt."""

    node: NodeId
    role: str
    service: str
    why: str
    """The last one."""
    times: int = 1
    is_unfit: bool = False
    """For the rest of the attempt, by what the node is: its GPUs. What the job's lists say is not
    remembered here, since it may change."""


@dataclass(frozen=True, slots=True)
class Growth:
    """An elastic gang that runs is getting further containers; they join it all together."""

    to: int
    """Tasks of the elastic role, with them."""
    text: str
    members: tuple[Member, ...] = ()
    """Empty while the planner looks for room."""
    rung: Rung | None = None
    """Theirs, with the limits of the whole gang."""


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
    """By the job's own spec, for good."""
    included: tuple[NodeId, ...] = ()
    """The only nodes that tasks may use, by the job's own spec; empty: all."""
    gpu_models: tuple[tuple[str, str], ...] = ()
    """What GPUs each role with any wants: a model's words, ``same`` or ``any``."""
    recovery_timeout_s: float = 0.0
    """0: a lost task is never replaced in place."""
    blacklist: BlacklistSpec = BlacklistSpec()
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
    recovery_look_s: float = 3.0
    """Longest wait between two looks for room for a lost task: the rest of the gang stands idle
    meanwhile, and a look is one call of the RM's REST API."""
    recovery_grant_share: float = 1 / 3
    """Of the recovery timeout: how long an ask for a lost task waits for its grant before it is
    withdrawn and the planner looks elsewhere. A node may be dead long before the RM notices
    (10 min by default) and look free until then."""
    steady_run_s: float = 600.0
    """A gang that has run for so long is not one that is preempted again and again: its back-off
    starts anew."""
    refusals_per_node: int = 3
    """Grants of one service on one unfit node before it is not asked for any more where YARN may
    choose that node again. One is chance, and other nodes may come free in between."""
    reasks_per_task: int = 4
    """Containers replaced within one attempt, per task, before the attempt is given up."""
    user_faults: int = 2
    """Agents that must blame the job's own files or settings: one alone may be a sick node."""
    size: SizePolicy | None = None
    """None: the gang has one size."""
    staging_timeout_s: float = 0.0
    """0: no inputs are brought to the nodes."""
    store_timeout_s: float | None = None
    """None: the job has no outputs to store."""
    store_margin_s: float = 30.0
    """For storing to stop and say how far it had come: one call to HDFS (8 s), twice, and what a
    fail-over of its NameNode adds."""

    @property
    def ranges(self) -> tuple[tuple[str, int, int], ...]:
        """Of each role the fewest and the most processes of a whole gang."""
        size = self.size
        return tuple(
            (role, size.least * size.processes_per_task, most)
            if size is not None and role == size.role
            else (role, most, most)
            for role, most in self.roles
        )

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
    preempted_in_row: int = 0
    """Preemptions without a steady run in between: the back-off follows."""
    misfits: int = 0
    """Grants refused in this attempt because they were not what was asked for."""
    refusals: tuple[Refusal, ...] = ()
    """Of this attempt, by node and service."""
    reasks: int = 0
    user_faults: int = 0
    timers: tuple[Timer, ...] = ()
    reason: str = ""
    """Why the gang waits, or what the last attempt died of."""
    stopping: Stopping | None = None
    history: tuple[AttemptRecord, ...] = ()
    recovery: Recovery | None = None
    """While lost tasks are being replaced in place; ``rung`` is then that of the whole gang."""
    strikes: tuple[Strike, ...] = ()
    exclusions: tuple[Exclusion, ...] = ()
    """The node blacklist, oldest first. Lives over all attempts and AM attempts."""
    crashes: tuple[Crash, ...] = ()
    suspicions: tuple[tuple[NodeId, float], ...] = ()
    """Other jobs' hints: the node, and when it was last told."""
    cluster_nodes: int = 0
    """Usable nodes at the last look; 0: not known."""
    avoid: tuple[NodeId, ...] = ()
    """Nodes where the last attempt expected grants that did not come: the next one uses them last,
    since others may be there first, or a node may be dead long before the RM notices."""
    wish: int | None = None
    """Tasks of the elastic role that a user asked for; None: the job chooses."""
    growth: Growth | None = None
    is_looking_around: bool = False
    over_since_s: float | None = None
    """Since when every look has found the queue over its share with others waiting."""
    storing: Storing | None = None
    """Since the gang has succeeded, if the job has outputs; kept in the final phases."""
    stored: OutputsStored | None = None
    verdict: Verdict | None = None

    @property
    def everyone(self) -> tuple[Member, ...]:
        """The members, and those that are about to join them."""
        return self.members if self.growth is None else (*self.members, *self.growth.members)

    @property
    def is_staging(self) -> bool:
        """The whole gang stands and none of its processes runs: inputs are on their way."""
        return self.phase is Phase.LAUNCHING and self.timer(TimerKind.STAGING) is not None

    def find(self, ask: AskId) -> Member | None:
        return next((member for member in self.everyone if member.ask == ask), None)

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
        size=size_policy(job),
        staging_timeout_s=job.staging.timeout_s if job.is_staged else 0.0,
        excluded=tuple(NodeId(node) for node in job.placement.exclude_nodes),
        included=tuple(NodeId(node) for node in job.placement.include_nodes),
        gpu_models=tuple(
            (role.name, role.gpu_model or job.placement.gpu_model)
            for role in job.roles
            if role.resources.gpus
        ),
        recovery_timeout_s=gang.recovery_timeout_s,
        blacklist=job.retry.blacklist,
        store_timeout_s=job.storing.timeout_s if job.output else None,
    )


def initial(job: JobSpec) -> Gang:
    """A gang that nothing has happened to yet."""
    return Gang(size=job.tasks, max_attempts=max(1, job.gang.attempts))

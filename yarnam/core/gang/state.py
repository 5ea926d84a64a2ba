"""The state of a gang. Values only: see ``transitions`` for what happens to them.

A Gang is rebuilt by folding the journal's events over ``step``, so nothing in it may depend on
anything but those events and the job.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from yarnam.core.model.events import (
    AgentRegistered,
    ContainerGranted,
    CordonedNode,
    GangHung,
    OutputsStored,
    TimerId,
    TimerKind,
)
from yarnam.core.model.ids import AskId, NodeId, TaskId
from yarnam.core.model.job_spec import JobCondition, JobSpec
from yarnam.core.model.job_status import (
    AttemptRecord,
    AwaitedJob,
    Phase,
    PreRunState,
    PreRunStatus,
)
from yarnam.core.model.outcomes import (
    ExitKind,
    Finding,
    FirstCause,
    NodeMeasures,
    ProcessExit,
    Verdict,
    VerdictKind,
)
from yarnam.core.model.plans import LocalityLevel, Rung, Target


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
    """The container ended, and its agent has not reported why (yet)."""
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
    finding: Finding | None = None
    """YARN's text about it."""


@dataclass(frozen=True, slots=True)
class Member:
    """One task of the gang, from its ask to its end."""

    ask: AskId
    target: Target
    level: LocalityLevel
    state: MemberState = MemberState.ASKED
    is_later: bool = False
    """It is not asked for before those that lead are granted (``PlacementPlan.lead``)."""
    grant: ContainerGranted | None = None
    agent: AgentRegistered | None = None
    """May come before the grant: the agent can be quicker than YARN's report."""
    task: TaskId | None = None
    first_rank: int = 0
    exits: tuple[ProcessExit, ...] = ()
    loss: Loss | None = None
    is_staged: bool = False
    """The inputs of its processes lie on its node."""
    check: int = 0
    """The number of the check in which its agent measures the node; 0 without one."""
    measures: NodeMeasures | None = None
    """Its agent's answer; ``None`` until it comes."""
    is_checked: bool = False
    """Its node was checked, and is good."""
    leaves: str = ""
    """Why YARN is about to take its container; empty if it is not."""
    is_gone: bool = False
    """Its container or agent went after its processes had ended: nothing of it can be kept."""
    is_waiting: bool = False
    """The barrier is open, and its processes have not been ordered to start."""
    is_serving: bool = False
    """Its processes are ready, by their word or by their port."""
    is_tolerated: bool = False
    """It failed or was lost, and the gang continues without it."""

    @property
    def is_ok(self) -> bool:
        return (
            self.state is MemberState.EXITED
            and bool(self.exits)
            and all(process.kind is ExitKind.OK for process in self.exits)
        )

    @property
    def is_to_start(self) -> bool:
        """Its processes wait for those of other roles."""
        return self.is_waiting and self.state is MemberState.READY

    @property
    def has_ended(self) -> bool:
        return self.state in {MemberState.EXITED, MemberState.LOST}

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
    """Its inputs are corrupt, and its policy is not to continue with that."""
    LEFT = "left"
    """YARN is about to take some of its containers: it leaves as one before that."""
    RESIZED = "resized"
    """An elastic gang changes its size: it starts again with other members."""
    SLOWED = "slowed"
    """Some nodes slow it: what runs there moves."""
    SUSPENDED = "suspended"
    """A user wants it to hold nothing for a while."""
    FLAT = "flat"
    """Its loss has been flat, or its notebook unused, for as long as its spec requires: the job has
    succeeded."""
    TIMED_OUT = "timed out"
    """It has run for as long as its spec allows."""
    UNMET = "unmet"
    """A task has not done what its role has to, although nothing of it has failed."""


WELL_ENDED = frozenset({StopKind.SUCCEEDED, StopKind.FLAT})
"""The stops of a gang that has reached its goal."""


@dataclass(frozen=True, slots=True)
class Stopping:
    kind: StopKind
    text: str
    was_running: bool
    """Whether every process had started: decides between a restart and a failed attempt."""
    ran_s: float = 0.0
    """How long all of them ran."""
    to: int | None = None
    """RESIZED: tasks of the elastic role that stay; ``None`` for all of them."""
    cause: FirstCause | None = None
    """Once every end is known."""
    hang: GangHung | None = None
    """It is stopped because it hangs."""
    slow_nodes: tuple[NodeId, ...] = ()
    """SLOWED: the nodes whose tasks are replaced."""
    hint: str = ""
    """UNMET: the hint for the user."""
    limit_s: float = 0.0
    """SUSPENDED: after how long it resumes on its own."""
    is_policy: bool = False
    """SUSPENDED: the policy of its queue did it."""


@dataclass(frozen=True, slots=True)
class Storing:
    """The gang has succeeded, and its outputs are being stored."""

    text: str
    """How it succeeded."""
    ending: VerdictKind | None = None
    """The verdict that ends the job once storing has stopped; ``None`` while it continues."""
    why: str = ""
    """The reason for stopping it."""


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
class Search:
    """Some tasks have no place: the gang asks the planner for one and holds its other
    containers."""

    why: str
    """REPLACING: the loss. ACQUIRING: why the place asked for cannot help."""
    missing: tuple[Target, ...]
    """Targets that are not asked for yet: the planner works on them, or the next request is due."""
    is_planning: bool = False
    """A plan request is out."""
    avoid: tuple[NodeId, ...] = ()
    """Nodes to be used last: those from which no grant came in this search, or an unfit one."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Grants on one node that were released, of one service, in the current attempt."""

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
    """An elastic gang that runs is getting more containers; they join it all together."""

    to: int
    """Tasks of the elastic role, with them."""
    text: str
    members: tuple[Member, ...] = ()
    """Empty while the plan request is out."""
    rung: Rung | None = None
    """Theirs, with the limits of the whole gang."""


@dataclass(frozen=True, slots=True)
class Timer:
    """A timer that runs. One that fires and is not among the gang's timers is stale."""

    timer: TimerId
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Acquisition:
    """The counts of a gang's attempts to get its containers."""

    next_number: int = 0
    """Number of the next ask of this attempt."""
    failures: int = 0
    """Failed acquisitions in a row; this is what ``attempts`` bounds and what the ladder's rung
    and the back-off follow. A gang that runs sets it back to 0."""
    refused_plans: int = 0
    """Plan requests answered with "not now", in a row."""
    misfits: int = 0
    """Grants refused in this attempt because they were not what was asked for."""
    refusals: tuple[Refusal, ...] = ()
    """Refused grants of this attempt, keyed by node and service."""
    reasks: int = 0
    """Containers of this attempt that were asked for again."""
    user_faults: int = 0
    """Agents that reported the job's own fault since the gang ran."""
    avoid: tuple[NodeId, ...] = ()
    """Nodes where the last attempt expected grants that did not come, or where its tasks were not
    ready in time: the next one uses them last, since others may be there first, or a node may be
    dead long before the RM notices; and those that were ready have the job's files by then."""


@dataclass(frozen=True, slots=True)
class Retries:
    """The counts of attempts that ran and did not end well, from which the budgets are taken."""

    max_attempts: int = 1
    restarts: int = 0
    user_retries: int = 0
    memory_level: int = 0
    """How often the containers have been enlarged, after a process ran out of memory."""
    straggler_moves: int = 0
    """How often tasks were moved because they slowed the gang."""
    preemptions: int = 0
    preempted_in_row: int = 0
    """Preemptions without a steady run in between: the back-off follows."""
    transients_in_row: int = 0
    """Free retries without a steady run or progress in between: the back-off follows."""
    transient_since_s: float | None = None
    """When the first of these was."""
    furthest_step: int | None = None
    """The furthest training step of all attempts; ``None`` if none was reported."""
    stuck: int = 0
    """Failures in a row that got no further than that."""


@dataclass(frozen=True, slots=True)
class NodeRecords:
    """The faults that were seen on nodes. They live over all attempts and AM attempts."""

    strikes: tuple[Strike, ...] = ()
    exclusions: tuple[Exclusion, ...] = ()
    """The node blacklist, oldest first."""
    crashes: tuple[Crash, ...] = ()
    suspicions: tuple[tuple[NodeId, float], ...] = ()
    """Other jobs' hints: the node, and when it was last reported."""
    cordoned: tuple[CordonedNode, ...] = ()
    """Nodes that an administrator keeps gangs off."""
    cluster_nodes: int = 0
    """Usable nodes at the last plan; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class SizeRequest:
    """The size of the elastic role that somebody has asked for."""

    tasks: int | None = None
    """``None`` if the job chooses."""
    is_by_policy: bool = False
    """The policy of its queue requested this size."""
    is_by_program: bool = False
    """The job's program or its schedule requested it."""
    program_tasks: int | None = None
    """The size that the program or the schedule requested last, whether it applies now or not."""
    scheduled: int = 0
    """How many sizes of ``elastic.schedule`` have been due."""

    @property
    def is_by_user(self) -> bool:
        """Whether a user has asked for the size: that comes before all other wishes."""
        return self.tasks is not None and not (self.is_by_policy or self.is_by_program)

    @property
    def requester(self) -> str:
        """Who has asked for the size, for people. Without such a request: whose it would be."""
        if self.is_by_program:
            return "the program"
        return "the queue's policy" if self.is_by_policy else "a user"


@dataclass(frozen=True, slots=True)
class Resizing:
    """The change of size that a running elastic gang makes, or looks for."""

    growth: Growth | None = None
    leaving: tuple[Member, ...] = ()
    """In place: their processes are leaving, and the gang continues without them."""
    leave_grace_s: float = 0.0
    """For those that have been given notice, between SIGTERM and SIGKILL once NOTICE is over."""
    group: int = 0
    """In place: the number of the newest group of processes that the framework has formed; 0 if it
    has reported none."""
    group_before: int = 0
    """``group`` when the members changed for the last time: a later one is without those that left,
    and with those that joined."""
    grouped: tuple[AskId, ...] = ()
    """The members of the newest group; empty if it is not of all members."""
    is_probing: bool = False
    """Whether the answer to ``ProbeCluster`` is awaited."""
    over_since_s: float | None = None
    """Since when every probe has found that it should give GPUs to others: its queue is over its
    share while they wait, or a job of higher priority waits."""


@dataclass(frozen=True, slots=True)
class Gang:
    """Everything known about the gang of one job. See ``machine`` for the meaning of phases."""

    size: int
    """Tasks wanted; the chosen shape may change it for a job that gave only ``gpus``."""
    phase: Phase = Phase.PENDING
    since_s: float = 0.0
    """When the phase was entered."""
    reason: str = ""
    """Why the gang waits, or why the last attempt ended."""
    am_attempt: int = 1
    is_started: bool = False
    """JobStarted has been seen."""
    is_yielding: bool = False
    """SUSPENDED by the policy of its queue, which resumes it."""
    timers: tuple[Timer, ...] = ()
    ran_s: float = 0.0
    """How long it has run in all earlier stretches, its pre-run not included."""
    awaited: tuple[AwaitedJob, ...] = ()
    """The jobs of ``depends_on``, until the last one has ended as it has to."""

    attempt: int = 1
    rung: Rung | None = None
    members: tuple[Member, ...] = ()
    search: Search | None = None
    """In REPLACING always, in ACQUIRING while some task needs another place; ``rung`` is then that
    of the whole gang."""
    checks: int = 0
    """Checks of nodes so far."""
    stopping: Stopping | None = None
    history: tuple[AttemptRecord, ...] = ()

    acquisition: Acquisition = Acquisition()
    retries: Retries = Retries()
    nodes: NodeRecords = NodeRecords()
    size_request: SizeRequest = SizeRequest()
    resizing: Resizing = Resizing()

    pre_run: PreRunStatus | None = None
    """``None`` if the job has none."""
    storing: Storing | None = None
    """Since the gang has succeeded, if the job has outputs; kept in the final phases."""
    stored: OutputsStored | None = None
    verdict: Verdict | None = None

    @property
    def is_pre_run(self) -> bool:
        """Whether all that is asked for and run is the pre-run's."""
        return self.pre_run is not None and self.pre_run.state is PreRunState.DUE

    @property
    def is_localizing(self) -> bool:
        """Whether all containers are granted and some agents are awaited: YARN brings the job's
        files to a node before it starts the agent there."""
        if self.phase not in {Phase.ACQUIRING, Phase.REPLACING}:
            return False
        states = {member.state for member in self.members}
        is_granted = MemberState.ASKED not in states and not (self.search and self.search.missing)
        return is_granted and MemberState.GRANTED in states

    @property
    def everyone(self) -> tuple[Member, ...]:
        """The members, those that are about to join them, and those that are leaving."""
        growth = self.resizing.growth
        joining = growth.members if growth is not None else ()
        return (*self.members, *joining, *self.resizing.leaving)

    @property
    def gpus_by_node(self) -> tuple[tuple[NodeId, int], ...]:
        """The GPUs that it holds, by its grants, including containers to grow by, which only the
        gang knows of yet."""
        gpus: dict[NodeId, int] = {}
        for member in self.everyone:
            if member.grant is not None and member.is_holding:
                node = member.grant.node
                gpus[node] = gpus.get(node, 0) + member.target.resources.gpus
        return tuple(sorted(gpus.items()))

    def granted_in(self, attempt: int) -> list[Member]:
        """The members whose containers were asked for in this attempt, and granted."""
        mine = (member for member in self.members if member.ask.attempt == attempt)
        return [member for member in mine if member.state is not MemberState.ASKED]

    def find(self, ask: AskId) -> Member | None:
        return next((member for member in self.everyone if member.ask == ask), None)

    def deadline_s(self, kind: TimerKind) -> float | None:
        return next((t.deadline_s for t in self.timers if t.timer.kind is kind), None)

    def timer(self, kind: TimerKind) -> Timer | None:
        return next((t for t in self.timers if t.timer.kind is kind), None)


def departed(before: Gang, after: Gang) -> tuple[AskId, ...]:
    """Asks that the gang no longer has after a step, whether their containers were released or have
    ended. One leaves when the gang gets smaller, or another is asked for in its place."""
    has_asked = before.acquisition.next_number != after.acquisition.next_number
    if not has_asked and len(before.everyone) <= len(after.everyone):
        return ()
    kept = {member.ask for member in after.everyone}
    return tuple(member.ask for member in before.everyone if member.ask not in kept)


def initial(job: JobSpec) -> Gang:
    """A gang that nothing has happened to yet."""
    begun = job.elastic.reached(0, 0)
    tasks = job.scheduled_tasks(begun)
    return Gang(
        size=job.tasks,
        retries=Retries(max_attempts=max(1, job.gang.attempts)),
        size_request=SizeRequest(
            tasks, is_by_program=tasks is not None, program_tasks=tasks, scheduled=begun
        ),
        pre_run=PreRunStatus() if job.pre_run.is_due else None,
        awaited=tuple(
            AwaitedJob(application, one.job, one.when is JobCondition.SUCCEEDED)
            for one in job.depends_on
            for application in one.applications
        ),
    )

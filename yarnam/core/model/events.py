"""The events of a gang. Every event carries its time, in seconds since the epoch.

The union ``Event`` is closed: ``match`` with ``assert_never`` lets the type checker find a
dropped case. A late or doubled event must be harmless.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Union

from yarnam.core.model.ids import AskId, ContainerId, NodeId, RackId
from yarnam.core.model.job_status import AwaitedJob
from yarnam.core.model.outcomes import (
    ContainerEnd,
    Finding,
    IdleGpus,
    NodeMeasures,
    ProcessExit,
    Straggler,
)
from yarnam.core.model.plans import NoFit, PlacementPlan


class TimerKind(Enum):
    """The named limits of the gang machine."""

    ASK = "ask"  # no container granted at all
    HOLD = "hold"  # not every container is granted
    LOCALIZE = "localize"  # not every agent has registered
    CHECK = "check"  # not every node has answered its check
    STAGING = "staging"  # not every node has its inputs
    LAUNCH = "launch"  # not every process has started
    BACKOFF = "backoff"  # time to try again
    STOP = "stop"  # the tasks do not stop
    WAIT = "wait"  # the whole time spent waiting for room
    RECOVERY = "recovery"  # a lost task of a running gang is not replaced
    PATIENCE = "patience"  # an elastic gang waits for room for its largest size
    RESIZE = "resize"  # time to probe whether an elastic gang has the right size
    GROWTH = "growth"  # the further containers of an elastic gang do not all come
    NOTICE = "notice"  # tasks that know that they have to leave do not leave
    REFORM = "reform"  # the processes of an in-place elastic gang do not re-form their group
    STORE = "store"  # the outputs are not stored
    PRE_RUN = "pre-run"  # the pre-run has lasted for long enough
    READY = "ready"  # a role that others start after is not ready
    LEAVE = "leave"  # time to leave a node that is about to leave the cluster
    SUSPENSION = "suspension"  # a suspended job resumes automatically
    TIME_LIMIT = "time-limit"  # the gang has run for as long as it may, but for its stop


@dataclass(frozen=True, slots=True)
class TimerId:
    """A timer is bound to its attempt: one of an older attempt changes nothing."""

    kind: TimerKind
    attempt: int

    def __str__(self) -> str:
        return f"{self.kind.value}@{self.attempt}"


@dataclass(frozen=True, slots=True)
class JobStarted:
    """The first AM attempt begins; nothing is known yet."""

    at_s: float


@dataclass(frozen=True, slots=True)
class AmRestarted:
    """A later AM attempt has read the journal. YARN has killed all containers of the earlier ones,
    but for those that are ``kept``."""

    at_s: float
    am_attempt: int
    kept: tuple[ContainerId, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanReady:
    """The planner's answer to ``RequestPlan``: the rungs at or below the requested one."""

    at_s: float
    attempt: int
    plan: PlacementPlan
    nodes: int = 0
    """Usable nodes in the snapshot, of which the cap on exclusions is a share; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class PlanRefused:
    at_s: float
    attempt: int
    no_fit: NoFit
    nodes: int = 0
    """As in ``PlanReady``."""


@dataclass(frozen=True, slots=True)
class JitterDrawn:
    """The answer to ``DrawJitter``: ``u`` is uniform in [0, 1)."""

    at_s: float
    attempt: int
    u: float


@dataclass(frozen=True, slots=True)
class ContainerGranted:
    """YARN gave a container for this ask. Its agent is starting."""

    at_s: float
    ask: AskId
    container: ContainerId
    node: NodeId
    rack: RackId
    http_address: str = ""
    """host:port of its NodeManager's web pages; empty if unknown."""


@dataclass(frozen=True, slots=True)
class ContainerEnded:
    """The container is gone; ``diagnostics`` is YARN's text."""

    at_s: float
    ask: AskId
    end: ContainerEnd
    diagnostics: str = ""
    finding: Finding | None = None
    """The finding in YARN's text; ``None`` if no rule knows it."""


@dataclass(frozen=True, slots=True)
class ContainersMarked:
    """YARN has announced that it will preempt the containers of these asks, seconds ahead (the Fair
    Scheduler's ``waitTimeBeforeKill``, 15 s).

    ``by``: a user who tries what the job does then, with all its containers; empty: YARN."""

    at_s: float
    asks: tuple[AskId, ...]
    by: str = ""


@dataclass(frozen=True, slots=True)
class NodeLeaving:
    """An admin takes the node out of the cluster (DECOMMISSIONING): what still runs there after
    ``timeout_s`` is killed."""

    at_s: float
    node: NodeId
    timeout_s: float


@dataclass(frozen=True, slots=True)
class AgentRegistered:
    """The agent in the container called the AM, holds its GPUs and ports and is parked."""

    at_s: float
    ask: AskId
    container: ContainerId
    node: NodeId
    address: str
    gpu_ids: tuple[str, ...]
    ports: tuple[tuple[str, int], ...]
    """Ports held by the agent until the user's process binds them, by name."""
    log_address: str = ""
    """host:port at which the agent serves its logs."""
    gpu_model: str = ""
    """The model of the leased GPUs, as the node's own tools name it; empty if there are none, or it
    is unknown."""


@dataclass(frozen=True, slots=True)
class AgentUnable:
    """The agent runs but cannot make its task ready (no lease, no port, staging failed)."""

    at_s: float
    ask: AskId
    message: str
    is_user_fault: bool = False
    is_node_busy: bool = False
    """Others on the node hold what the task needs: nothing speaks against the node itself."""


@dataclass(frozen=True, slots=True)
class AgentSilent:
    """Not heard of for longer than the limit."""

    at_s: float
    ask: AskId
    silent_s: float


@dataclass(frozen=True, slots=True)
class NodeChecked:
    """The agent has measured its node, as ``CheckNodes`` asked for."""

    at_s: float
    ask: AskId
    attempt: int
    check: int
    """Number of the check that it answers."""
    measures: NodeMeasures


@dataclass(frozen=True, slots=True)
class TaskStaged:
    """The inputs of the task's processes lie on its node."""

    at_s: float
    ask: AskId
    attempt: int


@dataclass(frozen=True, slots=True)
class TaskStarted:
    """All processes of the task run."""

    at_s: float
    ask: AskId
    attempt: int


@dataclass(frozen=True, slots=True)
class TaskReady:
    """All processes of the task are ready for those of the roles that start after its own."""

    at_s: float
    ask: AskId
    attempt: int


@dataclass(frozen=True, slots=True)
class TaskFailing:
    """A process of the task has failed. Its agent ends the task's other processes, and reports how
    all of them ended in ``TaskExited``."""

    at_s: float
    ask: AskId
    attempt: int
    exits: tuple[ProcessExit, ...]
    """The processes that have ended so far."""


@dataclass(frozen=True, slots=True)
class GangHung:
    """The processes wait for each other, and make no progress any more."""

    at_s: float
    attempt: int
    ranks: tuple[int, ...]
    """The processes that the others wait for; empty if unknown."""
    finding: Finding
    where: tuple[str, ...] = ()
    """Where processes were: ``rank 2: all_reduce (distributed.py:12)``."""


@dataclass(frozen=True, slots=True)
class StragglersFound:
    """The ranks that slow the running gang now, slowest first. Comes when they have changed; empty
    if none does any more."""

    at_s: float
    attempt: int
    stragglers: tuple[Straggler, ...]
    """Without their causes, which follow from the attempts before."""


@dataclass(frozen=True, slots=True)
class IdleGpusFound:
    """Whether the GPUs of the running gang idle now. Comes when that, or its likely cause, has
    changed; ``idle`` None: they do no longer."""

    at_s: float
    attempt: int
    idle: IdleGpus | None


@dataclass(frozen=True, slots=True)
class ConditionChanged:
    """An observer has found something about the running gang that users should see, and that
    changes nothing else."""

    at_s: float
    attempt: int
    type: str
    """The observer's name."""
    message: str
    """Empty once the condition has ended."""


@dataclass(frozen=True, slots=True)
class LossFlat:
    """The loss has been flat for as long as the spec's ``stop_early`` requires."""

    at_s: float
    attempt: int
    text: str


@dataclass(frozen=True, slots=True)
class NotebookIdle:
    """Nobody has used the notebook for as long as the spec's ``notebook.idle_timeout``."""

    at_s: float
    attempt: int
    text: str


@dataclass(frozen=True, slots=True)
class TaskExited:
    """All processes of the task have ended (one failed process ends its task's others)."""

    at_s: float
    ask: AskId
    attempt: int
    exits: tuple[ProcessExit, ...]


@dataclass(frozen=True, slots=True)
class TrainingReported:
    """The progress of the training, by the reports of rank 0. The machine ignores it: it is for the
    ledger. Written when something else happens, when a checkpoint has been saved, and periodically
    as the step grows."""

    at_s: float
    attempt: int
    step: int
    resumed_step: int | None = None
    """The step of the checkpoint that the attempt continued from; ``None`` if it began from the
    start, or the program does not use the SDK's checkpoints."""
    saved_step: int | None = None
    """The step of the newest checkpoint that the attempt has saved, if any."""
    saving_s: float = 0.0
    """How long the training has stood still for saving, in this attempt."""
    step_s: float | None = None
    """The median time of its last steps, and the part of it in the process itself; ``None`` if the
    program does not measure them (``train.compute``)."""
    compute_s: float | None = None
    total_steps: int | None = None


@dataclass(frozen=True, slots=True)
class CheckpointMirrored:
    """The newest set of the files of `checkpoint.mirror` is on HDFS, by the report of the first
    task that keeps any. The machine ignores it. ``size`` in bytes."""

    at_s: float
    attempt: int
    number: int
    files: int
    size: int
    saved_at_s: float


@dataclass(frozen=True, slots=True)
class TimerFired:
    at_s: float
    timer: TimerId


@dataclass(frozen=True, slots=True)
class CancelRequested:
    at_s: float
    by: str
    reason: str = ""


SUSPENSION_S = 7 * 86400.0
"""How long a job stays suspended unless the request says otherwise: its ApplicationMaster holds a
container meanwhile."""

MAX_SUSPENSION_S = 365 * 86400.0


@dataclass(frozen=True, slots=True)
class SuspendRequested:
    """Stop the gang at a checkpoint and hold nothing, until ``ResumeRequested`` or for ``limit_s``
    seconds. It changes nothing in a gang that is ending or being stopped for a failure."""

    at_s: float
    by: str
    limit_s: float
    reason: str = ""
    is_policy: bool = False
    """The policy of its queue requested it, not a user: the policy resumes it."""


@dataclass(frozen=True, slots=True)
class ResumeRequested:
    """Acquire the gang of a suspended job again."""

    at_s: float
    by: str
    is_policy: bool = False
    """The policy of its queue requested it: it affects only a job that the policy has suspended."""
    is_promoted: bool = False
    """It has waited so long that the policy counts its service from zero."""


@dataclass(frozen=True, slots=True)
class NodesSuspected:
    """Other jobs have had trouble with these nodes. A hint: it orders nodes last and adds to a
    strike of this job's own, but never excludes a node alone. It counts from ``at_s`` on; repeating
    it makes it fresh, not heavier."""

    at_s: float
    nodes: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True)
class ScaleRequested:
    """A user requests ``tasks`` tasks of the elastic role; with ``None`` the job chooses again. The
    last request counts; one outside of the job's range changes nothing."""

    at_s: float
    by: str
    tasks: int | None = None
    is_policy: bool = False
    """The policy of its queue requested it: it counts unless a user or the program has requested a
    size."""
    is_program: bool = False
    """The job's own program or its schedule requested it: it counts unless a user has requested a
    size, and again once the user leaves the size to the job."""
    scheduled: int = 0
    """How many sizes of ``elastic.schedule`` have had their time; by the program alone."""


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """The answer to ``ProbeCluster``."""

    at_s: float
    attempt: int
    spare: int
    """Further tasks of the elastic role that fit now, as many as were asked about at most."""
    excess: int = 0
    """Tasks of it that the queue is over its fair share, while others wait for GPUs."""
    waiting: int = 0
    """Jobs that wait for GPUs, as far as known."""
    u: float = 0.0
    """Uniform in [0, 1), for the time of the next probe."""
    outranked: int = 0
    """Those that wait in its own queue with a higher priority."""


@dataclass(frozen=True, slots=True)
class GroupFormed:
    """The framework of an in-place elastic gang has formed its group of processes, at the start or
    because tasks have left or joined."""

    at_s: float
    attempt: int
    number: int
    """Grows with each group of the attempt."""
    tasks: int
    """How many tasks its processes are from."""


@dataclass(frozen=True, slots=True)
class InputsRefused:
    """Inputs have been proved corrupt since the job was submitted, and its policy (``on_corrupt``,
    ``max_skipped``) is not to continue with that."""

    at_s: float
    message: str
    """Which files, and why."""


@dataclass(frozen=True, slots=True)
class OutputsStored:
    """The job's output is there, whole; also when it had been stored before."""

    at_s: float
    attempt: int
    files: int
    size_bytes: int
    renamed: int = 0
    """Files that several tasks had written under one name, and that got another."""


@dataclass(frozen=True, slots=True)
class StoringTroubled:
    """HDFS is in trouble that may pass; storing continues."""

    at_s: float
    attempt: int
    message: str


@dataclass(frozen=True, slots=True)
class StoringFailed:
    """The output is not there and will not be: storing was stopped, or cannot succeed. Nothing
    that the tasks wrote is lost."""

    at_s: float
    attempt: int
    exit_code: int
    """One of ``yarnam.errors.ExitCode``."""
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class CordonedNode:
    """A node that an administrator keeps gangs off."""

    node: NodeId
    why: str
    """``cordoned by ann: disk errors``."""
    leave_by_s: float | None = None
    """When the gangs on it have to have left, in seconds since the epoch; ``None`` if they may run
    to their end."""


@dataclass(frozen=True, slots=True)
class NodesCordoned:
    """All nodes that are cordoned now. Comes when that has changed."""

    at_s: float
    nodes: tuple[CordonedNode, ...]


@dataclass(frozen=True, slots=True)
class AwaitedJobsSeen:
    """The states of the jobs that this one waits for. Comes when one has changed."""

    at_s: float
    jobs: tuple[AwaitedJob, ...]


@dataclass(frozen=True, slots=True)
class SessionBegun:
    """A client has opened a session in a task: a command, a shell, a port-forward or a copy of
    files. The machine ignores it, and ``SessionClosed``: they are for the record."""

    at_s: float
    session: str
    by: str
    target: AskId
    """The task's; not ``ask``, as the session's end is recorded after the task's too."""
    kind: str
    what: str
    """The command, the ports or the path; cut at ``MAX_SESSION_TEXT`` characters."""


MAX_SESSION_TEXT = 1000


@dataclass(frozen=True, slots=True)
class SessionClosed:
    """A session has ended. ``outcome`` in words; never what was typed or printed."""

    at_s: float
    session: str
    target: AskId
    lasted_s: float
    outcome: str


@dataclass(frozen=True, slots=True)
class BrokerFailed:
    """The way to YARN is broken for good: Skein's AM has refused an ask."""

    at_s: float
    message: str


LeftRequest = Union[SuspendRequested, ResumeRequested, ScaleRequested]
"""The requests of a user that may wait for the next ApplicationMaster."""

Event = Union[
    JobStarted,
    AmRestarted,
    PlanReady,
    PlanRefused,
    JitterDrawn,
    ContainerGranted,
    ContainerEnded,
    ContainersMarked,
    NodeLeaving,
    AgentRegistered,
    AgentUnable,
    AgentSilent,
    NodeChecked,
    TaskStaged,
    TaskStarted,
    TaskReady,
    TaskFailing,
    GangHung,
    StragglersFound,
    IdleGpusFound,
    ConditionChanged,
    LossFlat,
    NotebookIdle,
    TaskExited,
    TrainingReported,
    CheckpointMirrored,
    TimerFired,
    CancelRequested,
    SuspendRequested,
    ResumeRequested,
    NodesSuspected,
    ScaleRequested,
    ClusterSeen,
    GroupFormed,
    InputsRefused,
    OutputsStored,
    StoringTroubled,
    StoringFailed,
    NodesCordoned,
    AwaitedJobsSeen,
    SessionBegun,
    SessionClosed,
    BrokerFailed,
]

"""A job as the core sees it: parsed, checked, with every default filled in.

``yarnam.spec`` makes a JobSpec from YAML; the AM receives it as JSON. Times are in seconds, sizes
in MiB, paths are strings (the core opens nothing).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from math import ceil

from yarnam.core.model.ids import PRE_RUN_ROLE, PS_ROLE, leading_role
from yarnam.core.model.job_status import JobState
from yarnam.core.model.outcomes import FailureRule
from yarnam.core.model.resources import Resources, am_memory_mib

MAX_TASKS = 10_000
"""Per job. Skein keeps one tracker entry and one thread hop per container."""

STOP_MARGIN_S = 5.0
"""Added to the grace of a stop before a task that does not stop is given up: the agent's SIGKILL,
its report (heartbeats come every 2 s) and one retry of it."""

SAME_GPU_MODEL = "same"
ANY_GPU_MODEL = "any"


class TopologyConstraint(Enum):
    """How much closeness at one level matters."""

    REQUIRED = "required"
    PREFERRED = "preferred"
    UNCONSTRAINED = "unconstrained"


class PackOrSpread(Enum):
    """Fill used nodes first, or put every task on a node of its own."""

    PACK = "pack"
    SPREAD = "spread"


class CompletionRule(Enum):
    """Which tasks of a role must end with success."""

    ALL = "all"
    ANY = "any"
    AT_LEAST = "at_least"
    CHIEF = "chief"
    """The chief alone: the role ``chief`` where the job has one, else the first task of the
    role."""


@dataclass(frozen=True, slots=True)
class Completion:
    """When a role is complete. A task that fails, or is lost, fails the gang only where the rule
    cannot be met without it."""

    rule: CompletionRule = CompletionRule.ALL
    at_least: int = 0
    """The number of tasks for AT_LEAST."""
    waits_for_all: bool = False
    """The role is complete only when all of its tasks have ended, however the others end."""

    @property
    def words(self) -> str:
        """``at least 3 tasks``."""
        plural = "" if self.at_least == 1 else "s"
        return {
            CompletionRule.ALL: "all tasks",
            CompletionRule.ANY: "any task",
            CompletionRule.AT_LEAST: f"at least {self.at_least} task{plural}",
            CompletionRule.CHIEF: "the chief",
        }[self.rule]


class EarlyExit(Enum):
    """The outcome when a task of a service succeeds before the other roles have ended."""

    ACCEPT = "accept"
    FAIL = "fail"


class StartCondition(Enum):
    """The state that the tasks of another role must have reached."""

    STARTED = "started"
    """All of their processes run, or have ended."""
    READY = "ready"
    """They have reported it by the SDK, or listen on their port (``ReadySpec``), or have ended."""
    ENDED = "ended"
    """They have ended."""


@dataclass(frozen=True, slots=True)
class After:
    """A role whose tasks come first."""

    role: str
    until: StartCondition = StartCondition.STARTED


@dataclass(frozen=True, slots=True)
class ReadySpec:
    """When a task of a role is ready for those that start after it."""

    port: str = ""
    """The port on which each of its processes then listens; empty if it reports by the SDK
    (``train.ready``)."""
    timeout_s: float = 300.0
    """The limit from the start of the role's last process. The roles that wait for it hold GPUs
    meanwhile; a parameter server or a scheduler is up within seconds, a server of a large model
    within minutes."""


@dataclass(frozen=True, slots=True)
class RoleSpec:
    """One kind of gang member. ``resources`` is for one task (one container)."""

    name: str
    tasks: int
    resources: Resources
    command: tuple[str, ...]
    """Argument vector; a shell line arrives as ``("/bin/bash", "-c", line)``."""
    processes_per_task: int = 1
    env: tuple[tuple[str, str], ...] = ()
    ports: tuple[str, ...] = ()
    """Names of extra ports, each process gets one of each as ``YARNAM_PORT_<NAME>``."""
    gpu_model: str = ""
    """The GPU model as in ``PlacementSpec``, for this role alone; empty for the job's."""
    node_label: str | None = None
    """The node label as in ``PlacementSpec``, if the roles of a job have different ones; ``None``
    for the job's."""
    min_tasks: int | None = None
    """The fewest tasks that the gang may run with, ``tasks`` being the most (an elastic role);
    ``None`` for exactly ``tasks``. At most one role of a job is elastic."""
    completion: Completion = Completion()
    service: bool | None = None
    """Whether the role runs until the other roles are complete, and is stopped then; ``None`` if
    that holds only for a role ``ps`` beside others."""
    early_exit: EarlyExit = EarlyExit.ACCEPT
    """The outcome if a service's task ends early."""
    optional: bool = False
    """Whether the gang survives the failure or loss of its tasks."""
    after: tuple[After, ...] = ()
    """The roles that must have come this far before its processes start; its containers wait at the
    barrier."""
    ready: ReadySpec = ReadySpec()

    @property
    def is_elastic(self) -> bool:
        return self.min_tasks is not None


class NodeCheck(Enum):
    """The extent of the check of a gang's nodes before its processes start."""

    OFF = "off"
    QUICK = "quick"
    """CPU, memory, disk and links, in some seconds."""
    FULL = "full"
    """The same for longer, and GPUs if the node has tools for them."""


@dataclass(frozen=True, slots=True)
class PlacementSpec:
    """The user's constraints on the placement."""

    node: TopologyConstraint = TopologyConstraint.PREFERRED
    """The whole gang on as few nodes as possible (REQUIRED: on exactly that few)."""
    rack: TopologyConstraint = TopologyConstraint.PREFERRED
    """The whole gang in one rack."""
    strategy: PackOrSpread = PackOrSpread.PACK
    exclude_nodes: tuple[str, ...] = ()
    max_nodes: int | None = None
    include_nodes: tuple[str, ...] = ()
    """The only nodes that tasks may use; empty for all."""
    gpu_model: str = SAME_GPU_MODEL
    """``same``: one model across the gang; ``any``; else words of a model's name (``A100``), and
    one model that has them across the gang."""
    anti_affinity: tuple[tuple[str, str], ...] = ()
    """Pairs of roles whose tasks share no node; a role with itself: its tasks share none."""
    node_label: str = ""
    """The label of the only nodes that tasks may use; empty for the nodes without a label. Only the
    Capacity Scheduler has labels."""
    near_data: bool = True
    """Prefer nodes that hold blocks of the inputs, among placements as good otherwise."""
    check: NodeCheck = NodeCheck.OFF
    """Check the nodes when the gang is complete, and replace those that are slow or broken."""
    cells: bool = False
    """Use no whole node that the quota of another queue covers, and none on which others run."""


@dataclass(frozen=True, slots=True)
class GangSpec:
    """How long to hold, how often to try, how to back off, when to relax."""

    hold_timeout_s: float = 120.0
    """The time from the first grant of an attempt until the last one."""
    localize_timeout_s: float = 1800.0
    """The time from the last grant until the last agent has registered: YARN copies the job's files
    to the nodes first, and unpacks its environment. 0 in jobs of earlier versions: there the hold
    lasts until then."""
    ask_timeout_s: float = 300.0
    """The time from the request until the first grant; nothing is held meanwhile."""
    launch_timeout_s: float = 60.0
    """The time from the launch order until every process has started."""
    attempts: int = 10
    backoff_base_s: float = 5.0
    backoff_cap_s: float = 300.0
    relax_after_attempts: int = 1
    """The ladder goes one rung down after this many failed attempts on a rung."""
    look_before_ask: bool = True
    """Ask YARN only when the snapshot shows that the whole gang fits now. Checks that find no room
    use up no attempt; they are bounded by ``wait_timeout_s``."""
    wait_timeout_s: float = 7 * 86400.0
    """Longest time, over all attempts, that the job waits before its first start."""
    recovery_timeout_s: float = 60.0
    """The time to replace a lost task of a running gang while the other containers are held; with 0
    the whole gang starts again. Held containers idle meanwhile: a new one takes 2 to 5 s on a
    cluster with room (skein-on-yarn.md, 11a), so a minute is enough if there is room, and little
    waste if there is none."""
    priority: int = 0
    """Among the waiting jobs of its queue: from -10 to 10, the higher the sooner. Without
    tickets it changes nothing."""
    ticket: bool = True
    """Whether the job waits in the ticket queue, if there is a ZooKeeper. A job that does not plan
    before it asks takes no ticket either."""


@dataclass(frozen=True, slots=True)
class BlacklistSpec:
    """When the job gives up a node, and for how long. Times in seconds.

    Two strikes and an hour are Spark's defaults (``spark.excludeOnFailure.application.
    maxFailedExecutorsPerNode``, ``spark.excludeOnFailure.timeout``); a third of the nodes is
    MapReduce's (``yarn.app.mapreduce.am.job.node-blacklisting.ignore-threshold-node-percent``)."""

    strikes: int = 2
    """Faults of a node before it is excluded; 0 disables the blacklist."""
    expiry_s: float = 3600.0
    """How long a strike counts."""
    cool_down_s: float = 3600.0
    """How long an excluded node remains excluded."""
    max_share: float = 0.34
    """The largest share of the cluster's nodes that may be excluded simultaneously: one of three is
    just allowed. Beyond it the oldest exclusions are lifted."""


@dataclass(frozen=True, slots=True)
class MoreMemorySpec:
    """How a gang that ran out of main memory is started again in larger containers."""

    factor: float = 1.5
    """Each restart gives all containers this many times the memory."""
    max_mib: int = 0
    """The most memory of one container; 0 for the limit of ``MOST_MEMORY_LEVELS`` enlargements."""


MOST_MEMORY_LEVELS = 3
"""How often containers may be enlarged. Each time is a further set of Skein services to declare at
submit; with the usual factor the last one has 3.4 times the memory, and a program that needs more
than that leaks."""


@dataclass(frozen=True, slots=True)
class RetrySpec:
    """How often a running gang is started again, and for whose faults."""

    max_restarts: int = 2
    """Restarts after faults of the infrastructure (lost node, silent agent); 0 disables them.
    Preemptions are free."""
    on_user_failure: int = 0
    """How many restarts a failure of the user's own code may use up."""
    rules: tuple[FailureRule, ...] = ()
    """The job's own, tried before the shipped ones."""
    blacklist: BlacklistSpec = BlacklistSpec()
    more_memory: MoreMemorySpec | None = None
    """``None`` if containers keep their size."""


@dataclass(frozen=True, slots=True)
class HangSpec:
    """When a gang that runs is taken to hang. Times in seconds."""

    detect: bool = True
    steps: float = 3.0
    """A gang may hang after this many times the usual step time (and some seconds) without a step:
    it does if one of its processes is stopped, or none of them is active."""
    idle_s: float = 300.0
    """How long all processes must do nothing (no CPU, no I/O, no output) besides: as long as the AM
    itself waits for HDFS (``AmSettings.journal_patience_s``), which they may wait for too."""
    timeout_s: float = 1800.0
    """A gang hangs after this long without a step whatever its processes do: NCCL's watchdog waits
    for 10 minutes, and a program that evaluates for half an hour can report that."""
    silence_s: float | None = None
    """The same for a gang without any step yet, when all processes have been inactive for this
    long; ``None`` disables it, since a program may wait for something outside."""


@dataclass(frozen=True, slots=True)
class StragglerSpec:
    """When a rank is taken to slow a gang that runs, and what follows."""

    detect: bool = True
    slowdown: float = 1.2
    """So many times as fast the gang would be without its stragglers, at least. ByteDance calls a
    job straggling from 1.1 on (Lin et al., "Understanding Stragglers in Large Model Training Using
    What-if Analysis", OSDI 2025), after the fact and over whole traces; NVIDIA's resiliency
    extension calls a rank slow from 1/0.7 on."""
    replace: bool = False
    """Move the task to another node, from its checkpoint."""
    max_replacements: int = 2
    """In the whole job: each costs a restart."""


@dataclass(frozen=True, slots=True)
class StopEarlySpec:
    """When a job ends well before its program does: its loss has been flat for this long."""

    flat_for_s: float = 3600.0
    within: float = 0.001
    """How much a flat loss may move, as a part of itself."""


NOTEBOOK_ROLE, NOTEBOOK_PORT = "notebook", "notebook"
"""The role of a job that is a notebook, and the port that its server listens on."""

NOTEBOOK_TOKEN = "YARNAM_NOTEBOOK_TOKEN"  # noqa: S105 - a variable's name
"""The secret variable with what the server asks of a browser. The submit makes the value."""

NOTEBOOK_FILES = "notebooks"
"""The directory of its files, below the working directory."""


@dataclass(frozen=True, slots=True)
class NotebookSpec:
    """A job whose one process is a server that its user works in."""

    server: str = "jupyterlab"
    """``jupyterlab`` or ``code-server``."""
    idle_timeout_s: float = 7200.0
    """So long without a busy kernel, a connected client and GPU use, and the job ends. A lunch or
    a meeting fits into it. Ours."""
    max_size_mib: int = 256
    """The most that its directory of files may hold to be kept: notebooks and code, not data, as
    each version of it is a whole copy. Ours."""


@dataclass(frozen=True, slots=True)
class ScheduledSize:
    """A size of an elastic gang from an epoch or a step on: exactly one of them is given."""

    size: int
    """In the unit of the spec (``ElasticSpec.counts_gpus``)."""
    epoch: int | None = None
    step: int | None = None

    @property
    def words(self) -> str:
        """``epoch 30``."""
        return f"step {self.step}" if self.epoch is None else f"epoch {self.epoch}"


class Batch(Enum):
    """How the batch follows the size of the gang."""

    GLOBAL = "global"
    """One batch, divided among the processes: the training has as many steps at each size."""
    PER_PROCESS = "per-process"
    """Each process has its own: the training has fewer steps with more processes."""


@dataclass(frozen=True, slots=True)
class AdvisedSize:
    """The size that a submit has chosen by advice. Times are seconds of one step."""

    reason: str
    step_s: float | None = None
    """The prediction; ``None`` if too little was known, so that it got its smallest size."""
    low_s: float | None = None
    high_s: float | None = None

    def words(self, measured_s: float | None) -> str:
        """The reason, and the prediction beside the measurement."""
        if self.step_s is None:
            return self.reason
        text = f"{self.reason}; predicted step {self.step_s:.3g} s"
        if self.low_s is not None and self.high_s is not None and self.high_s > self.low_s:
            text += f" ({self.low_s:.3g} to {self.high_s:.3g})"
        return text if measured_s is None else f"{text}, measured {measured_s:.3g} s"


@dataclass(frozen=True, slots=True)
class ElasticSpec:
    """How a gang with an elastic role changes its size. Times in seconds.

    Each change stops all processes and starts them again from their checkpoint, so it costs what
    the job needs to start plus what it has trained since its last checkpoint: these times keep it
    rare. Where ``restart`` is false the processes continue instead."""

    counts_gpus: bool = False
    """Whether the user counts in GPUs (``gpus: {min, max}``) or in tasks."""
    patience_s: float = 60.0
    """The time from the first plan request until the gang may start below its largest size."""
    grow: bool = True
    """Whether it grows on its own while GPUs are idle; what a user asks for counts in any case."""
    grow_interval_s: float = 60.0
    """The time between two probes of the cluster while the gang runs, each shortened by up to a
    quarter at random, so that jobs do not probe in step."""
    min_run_s: float = 300.0
    """Least time at one size before the gang resizes on its own again."""
    shrink_after_s: float = 60.0
    """How long the queue must be over its fair share, with others waiting, before the gang gives
    back what is over it."""
    checkpoint_grace_s: float = 60.0
    """The time between SIGTERM and SIGKILL at a resize, for writing a checkpoint."""
    reform_timeout_s: float = 300.0
    """Where ``restart`` is false: the time in which the processes that stay have to re-form their
    group after a change, and those that leave have to leave once they know. Horovod and torchrun
    wait for the next commit, or for the end of a collective operation."""
    schedule: tuple[ScheduledSize, ...] = ()
    """Sizes that the job takes in the course of its training, the earliest first."""
    restart: bool = True
    """Whether all processes restart at each change; else those that stay continue, and their
    framework re-forms the group."""
    by_advice: bool = False
    """Whether the submit chooses one size of the range for good."""
    batch: Batch | None = None
    """For a size by advice; ``None`` for what the measured compute suggests."""

    def reached(self, step: int, epoch: int) -> int:
        """How many sizes of the schedule have had their time at this step of this epoch (-1: not
        known)."""
        return sum(
            epoch >= one.epoch if one.epoch is not None else step >= (one.step or 0)
            for one in self.schedule
        )


MIRROR_RESTORE_S = 1800.0
"""For the files of `checkpoint.mirror`, which are brought back before the processes start: as long
as localizing may take (`gang.localize_timeout`)."""


COPIES_SHARE = 0.5
"""The part of a container's memory that copies of checkpoints may take (`checkpoint.memory`)."""

SAVES_IN_MEMORY = 4
"""A task's own newest save and the one being written, and both of another task's."""


@dataclass(frozen=True, slots=True)
class CheckpointSpec:
    """Where the training code keeps its checkpoints, and how ``yarnam.train.checkpoint`` does."""

    directory: str = ""
    keep: int = 3
    in_background: bool = False
    every: int = 0
    """Steps between two saves; 0 if the code decides."""
    keep_every: int = 0
    """One checkpoint of each this many steps is kept; 0 keeps none for that reason."""
    best_metric: str = ""
    """The metric by which the best checkpoints are kept; empty keeps none for that reason."""
    best_mode: str = "min"
    best_keep: int = 1
    restore: str = "newest"
    """``newest``, ``none`` or a step: what the job's first attempt begins with."""
    spool_limit_s: float = 3600.0
    """How long a checkpoint may wait on the local disk; 0 if none may."""
    spool_max_mib: int = 0
    """The most space of all waiting checkpoints; 0 for as much as leaves a tenth of the disk."""
    in_memory: bool = False
    """Each save stays also in the memory of its node and of another one."""
    mirror: str = ""
    """A directory below the working directory whose files the agent keeps as checkpoints, for a
    program that writes them itself; empty if there is none."""
    mirror_each: bool = False
    """Every task has one, and not only that of rank 0."""


@dataclass(frozen=True, slots=True)
class ShippedFile:
    """A file or directory that every container gets under ``name`` in its working directory."""

    name: str
    source: str
    """Local path (client side) or an hdfs:// URI once staged."""
    is_archive: bool = False
    sha256: str = ""
    executable: bool = False
    uses_git_ignore: bool = False
    """Whether what a directory's ``.gitignore`` files name is left out. ``.yarnamignore`` always
    counts."""


class OnCorrupt(Enum):
    """The treatment of an input's files that are known to be corrupt."""

    FAIL = "fail"
    SKIP = "skip"
    QUARANTINE = "quarantine"


class VerifyInput(Enum):
    """How much of an input is checked at submit, besides what is known already."""

    OFF = "off"
    SAMPLE = "sample"
    FULL = "full"


class InputMode(Enum):
    """Where the processes read an input."""

    STREAM = "stream"
    """The processes read it from where it is."""
    LOCALIZE = "localize"
    """They read a copy on the node's own disk, which is deleted with the container."""
    CACHE = "cache"
    """They read a copy on the node's own disk, which the user's next jobs find there."""


class Sharding(Enum):
    """Which process reads which files of an input."""

    NONE = "none"
    """Every process all of them."""
    FILES = "files"
    """Each file is one process's, within an epoch."""


@dataclass(frozen=True, slots=True)
class DataInput:
    """An input the job reads. It must exist at submit, unless a job that comes before writes it.
    ``env`` names the variable with its URI."""

    name: str
    uri: str
    on_corrupt: OnCorrupt = OnCorrupt.FAIL
    max_skipped: float = 0.001
    """The largest share, from 0 to 1, of its files and of its bytes that may be excluded."""
    verify: VerifyInput = VerifyInput.OFF
    skipped: tuple[str, ...] = ()
    """Files that are excluded, decided at submit: paths relative to ``uri``, in order."""
    skipped_share: float = 0.0
    """Their share of the input, from 0 to 1: of files or of bytes, whichever is more."""
    files: int = 0
    """Files of the input at submit, including the excluded ones; 0 if not counted."""
    length: int = 0
    """Bytes of them."""
    mode: InputMode = InputMode.STREAM
    shard: Sharding = Sharding.NONE
    pattern: str = ""
    """A shell pattern for the files below ``uri``; empty for all of them."""

    @property
    def is_read_by_name(self) -> bool:
        """Whether the processes only get its URI: no list of its files is made at the submit that
        they go by."""
        is_checked = self.verify is not VerifyInput.OFF
        return not (self.is_staged or is_checked or self.shard is Sharding.FILES)

    @property
    def is_staged(self) -> bool:
        """Whether agents bring it to the nodes' own disks."""
        return self.mode is not InputMode.STREAM


@dataclass(frozen=True, slots=True)
class StagingSpec:
    """How agents bring inputs to the nodes' own disks."""

    timeout_s: float = 3600.0
    """The time from the completion of the gang until every node has the inputs of its processes.
    The GPUs are idle meanwhile."""
    cache_max_mib: int = 0
    """The size of the user's cache on a node, over all its disks; 0 for half of each disk."""


@dataclass(frozen=True, slots=True)
class StoringSpec:
    """How the files that the tasks wrote become the job's output. Times in seconds."""

    replace: bool = False
    """Whether an existing output is replaced once the new one is complete."""
    keep_on_failure: bool = False
    """Whether the files that an unsuccessful job's tasks wrote are kept, beside the output."""
    timeout_s: float = 3600.0
    """The time from the gang's success until the output must be in place. No container is held
    meanwhile, so the limit outlasts a restart of the NameNode, which takes tens of minutes on a
    large cluster."""


BUNDLED_PYTHON = "bundled"
"""As ``EnvironmentSpec.python``: the interpreter that yarnam brings along for itself."""


class PackSource(Enum):
    """The source of a packed environment, by the spec's key."""

    REQUIREMENTS = "requirements"
    PYPROJECT = "pyproject"
    LOCK = "lock"
    VENV = "venv"
    PEX = "pex"
    CONDA = "conda"


@dataclass(frozen=True, slots=True)
class PackedFrom:
    """``path`` is of the submitting machine; for VENV it may be ``active``."""

    kind: PackSource
    path: str


class ContainerRuntime(Enum):
    """YARN's runtimes that start a container from an image (YARN_CONTAINER_RUNTIME_TYPE)."""

    DOCKER = "docker"
    RUNC = "runc"


@dataclass(frozen=True, slots=True)
class ContainerImage:
    """``mounts``: as YARN takes them, ``source:destination:mode`` with mode ``ro`` or ``rw``."""

    runtime: ContainerRuntime
    name: str
    mounts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """The user's own Python on the nodes."""

    python: str = "python3"
    archive: str = ""
    """An archive (tar.gz, zip) on HDFS or local, unpacked as ``environment``; python is inside."""
    packed_from: PackedFrom | None = None
    """The source of the archive, until the submit has made it."""
    layers: tuple[str, ...] = ()
    """Archives on HDFS with the large packages of an environment that the submit has made."""
    image: ContainerImage | None = None
    """The container image of the tasks; ``None`` if they run on the node itself."""


@dataclass(frozen=True, slots=True)
class AmSpec:
    """The ApplicationMaster's own container."""

    resources: Resources = Resources(am_memory_mib(1, has_inputs=False), vcores=1)
    attempts: int = 2
    attempts_interval_s: float = 3600.0
    """Only failed AM attempts within this last period count against ``attempts``."""
    agent_silence_s: float = 8.0
    """An agent not heard of for this long is lost (heartbeats come every 2 to 4 s)."""
    orphan_timeout_s: float = 30.0
    """An agent that cannot reach the AM for this long stops its processes and leaves, unless the
    job's directory shows that no other AM has taken over."""
    absence_s: float = 1800.0
    """The longest that the containers of a job live without an AM; 0 ends them with it."""
    stop_grace_s: float = 10.0
    """The time between SIGTERM and SIGKILL of the user's processes."""
    failure_grace_s: float = 2.0
    """The same when a part of the gang has failed or is lost, for processes that write no
    checkpoint: they wait for the others in vain. It suffices for a handler of SIGTERM that begins a
    checkpoint; a process that writes one has ``stop_grace_s``."""


class PreRunMode(Enum):
    """When one process of a job is tried before its gang is acquired."""

    OFF = "off"
    AUTO = "auto"
    """A pre-run for a large gang whose code, environment and command have not passed yet."""
    ALWAYS = "always"


PRE_RUN_RETRIES = 3
"""How often a pre-run is repeated that ended by a fault which is not the job's own. The gang is
acquired without it then: its own restarts are for such faults."""

PRE_RUN_START_S = 60.0
"""The time that other jobs expect a pre-run to take beside its time limit: the start of its
container and of its process."""


@dataclass(frozen=True, slots=True)
class PreRunSpec:
    """How one process of the job is tried before its gang is acquired."""

    mode: PreRunMode = PreRunMode.OFF
    """Off by default: a program that needs all its processes would fail alone, and only its author
    knows."""
    steps: int = 3
    """The SDK ends the pre-run after this many reported steps."""
    time_limit_s: float = 60.0
    """The time from the start of the process after which it has passed, unless it has failed."""
    min_gpus: int = 16
    """For AUTO: the fewest GPUs of the whole gang. Smaller gangs start sooner than a pre-run would
    end."""
    gpu: bool = True
    """Whether it gets the GPUs of one process."""
    is_due: bool = False
    """The submit decides it."""
    key: str = ""
    """The identity of the tested program: SHA-256 of code, environment and command, in hex. Known
    from the submit on."""


ENDS = (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)


class ChannelKind(Enum):
    """How a notification travels."""

    WEBHOOK = "webhook"
    """An HTTP POST with the notification as JSON."""
    SLACK = "slack"
    """An HTTP POST with ``{"text": ...}``, as Slack, Mattermost and Rocket.Chat take it."""
    MAIL = "mail"


@dataclass(frozen=True, slots=True)
class AccessSpec:
    """Who may look into and control the job besides its owner and YARN's administrators. An entry
    is a user's name, ``group:NAME``, or ``*`` for everybody."""

    view: tuple[str, ...] = ()
    modify: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.view or self.modify)


def acl_text(users: Iterable[str], groups: Iterable[str]) -> str:
    """An ACL as Hadoop's AccessControlList reads it: users, a space, groups; or ``*``."""
    return "*" if "*" in users else f"{','.join(users)} {','.join(groups)}"


def users_and_groups(entries: Iterable[str]) -> tuple[list[str], list[str]]:
    """The names in entries of ``AccessSpec``."""
    users = [entry for entry in entries if not entry.startswith(GROUP_PREFIX)]
    groups = [entry.removeprefix(GROUP_PREFIX) for entry in entries if entry not in users]
    return users, groups


GROUP_PREFIX = "group:"


@dataclass(frozen=True, slots=True)
class ChannelSpec:
    """One receiver, and the states that it is notified of."""

    kind: ChannelKind
    url: str = field(default="", repr=False)
    """A secret: it may carry a token or a password. Empty in the job's record."""
    states: tuple[JobState, ...] = ENDS
    to: tuple[str, ...] = ()
    """The recipients of a mail."""
    sender: str = ""


class JobCondition(Enum):
    """The end of another job that this job waits for."""

    SUCCEEDED = "succeeded"
    ENDED = "ended"
    """However it ended."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """A job that has to end before this job requests its gang."""

    job: str
    """Its name, its application id or the id of an array, as in the spec."""
    when: JobCondition = JobCondition.SUCCEEDED
    applications: tuple[str, ...] = ()
    """The applications that it refers to. The submit looks them up: all members of an array."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """Everything that defines a job."""

    name: str
    queue: str
    """The full name. In an ApplicationMaster the queue that YARN has put the job into, which its
    placement rules may have chosen."""
    user: str
    framework: str
    """Which variables the processes get beside the generic ones: a module's name in
    ``yarnam.core.frameworks.supported``."""
    roles: tuple[RoleSpec, ...]
    environment: EnvironmentSpec = field(default_factory=EnvironmentSpec)
    env: tuple[tuple[str, str], ...] = ()
    files: tuple[ShippedFile, ...] = ()
    inputs: tuple[DataInput, ...] = ()
    output: str = ""
    """The directory for the results; empty if there are none."""
    storing: StoringSpec = field(default_factory=StoringSpec)
    checkpoint: CheckpointSpec = field(default_factory=CheckpointSpec)
    placement: PlacementSpec = field(default_factory=PlacementSpec)
    gang: GangSpec = field(default_factory=GangSpec)
    retry: RetrySpec = field(default_factory=RetrySpec)
    am: AmSpec = field(default_factory=AmSpec)
    flexible_shape: bool = False
    """True when the user gave only ``gpus: N``: the planner may choose another tasks x GPUs shape
    for the single role, keeping the product and the resources per GPU."""
    advised: AdvisedSize | None = None
    """Set by the submit of a job whose size it chose."""
    duration_s: float | None = None
    """How long the user expects the gang to run, in seconds; ``None`` if unknown. Nothing ends when
    it is over."""
    time_limit_s: float | None = None
    """How long the gang may run, over all attempts; ``None`` if there is no limit."""
    tags: tuple[str, ...] = ()
    exact_queue: bool = False
    """It runs in no other queue than ``queue``, whatever YARN's placement rules say."""
    idempotency_key: str = ""
    """However often a user submits a job with this key, one application runs; if empty, each submit
    starts one."""
    notify: tuple[ChannelSpec, ...] = ()
    secret_env: tuple[str, ...] = ()
    """Names in ``env`` whose values are never shown."""
    elastic: ElasticSpec = field(default_factory=ElasticSpec)
    """It applies only to a job with an elastic role."""
    staging: StagingSpec = field(default_factory=StagingSpec)
    """It applies only if an input is staged."""
    hang: HangSpec = field(default_factory=HangSpec)
    stragglers: StragglerSpec = field(default_factory=StragglerSpec)
    pre_run: PreRunSpec = field(default_factory=PreRunSpec)
    stop_early: StopEarlySpec | None = None
    """``None`` if a flat loss does not stop the job."""
    compat: str = ""
    """Another system whose variables its processes get too (``tony``), if any."""
    keeps_files: bool = False
    """Whether its directory on HDFS stays for ever after its end."""
    acls: AccessSpec = field(default_factory=AccessSpec)
    depends_on: tuple[Dependency, ...] = ()
    interactive: bool = True
    """Whether its owner may open sessions in its tasks (``yarnam exec``)."""
    notebook: NotebookSpec | None = None
    """``None`` unless the job is a notebook."""

    @property
    def gpus(self) -> int:
        return sum(role.tasks * role.resources.gpus for role in self.roles)

    @property
    def tasks(self) -> int:
        return sum(role.tasks for role in self.roles)

    @property
    def node_labels(self) -> tuple[str, ...]:
        """The labels of its tasks' nodes, the first role's first; empty for the nodes without a
        label."""
        return tuple(dict.fromkeys(self.node_label(role.name) for role in self.roles))

    def node_label(self, role: str) -> str:
        """The node label of this role; for the job's pre-run, that of its leading role."""
        name = self.leading_role if role == PRE_RUN_ROLE else role
        own = next((spec.node_label for spec in self.roles if spec.name == name), None)
        return self.placement.node_label if own is None else own

    @property
    def is_staged(self) -> bool:
        """Whether any of its inputs is brought to the nodes' own disks."""
        return any(given.is_staged for given in self.inputs)

    @property
    def elastic_role(self) -> RoleSpec | None:
        """The role whose number of tasks may change; ``None`` if the gang has one size."""
        return next((role for role in self.roles if role.is_elastic), None)

    @property
    def resizes_in_place(self) -> bool:
        """Whether its processes continue when it changes its size."""
        return self.elastic_role is not None and not self.elastic.restart

    @property
    def services(self) -> frozenset[str]:
        """The roles that are stopped when the others are complete."""
        named = {role.name for role in self.roles if role.service}
        others = [role.name for role in self.roles if role.name not in named]
        by_name = {role.name for role in self.roles if role.service is None} & {PS_ROLE}
        return frozenset(named | by_name if set(others) - by_name else named)

    @property
    def auxiliary_roles(self) -> frozenset[str]:
        """The roles without which the others continue: services, and those that may fail."""
        return self.services | {role.name for role in self.roles if role.optional}

    @property
    def preparing_roles(self) -> frozenset[str]:
        """The roles that end before others start: the gang is whole without them then."""
        after = (one for role in self.roles for one in role.after)
        return frozenset(one.role for one in after if one.until is StartCondition.ENDED)

    @property
    def leading_role(self) -> str:
        """The leading role among those that are not services; see
        ``yarnam.core.model.ids.leading_role``."""
        trained = [role.name for role in self.roles if role.name not in self.services]
        return leading_role(trained or [role.name for role in self.roles])

    @property
    def memory_levels(self) -> int:
        """How often its containers can be enlarged."""
        sizes = [self.at_memory_level(level).roles for level in range(MOST_MEMORY_LEVELS + 1)]
        return len(dict.fromkeys(sizes)) - 1

    def at_memory_level(self, level: int) -> JobSpec:
        """The same job with containers enlarged ``level`` times."""
        more = self.retry.more_memory
        if more is None or level <= 0:
            return self
        roles = tuple(
            replace(role, resources=_enlarged(role.resources, more, level)) for role in self.roles
        )
        return replace(self, roles=roles)

    @property
    def may_have_pre_run(self) -> bool:
        """Whether it has one, unless its program has passed before."""
        is_large = self.gpus >= self.pre_run.min_gpus
        return self.pre_run.mode is PreRunMode.ALWAYS or (
            self.pre_run.mode is PreRunMode.AUTO and is_large
        )

    def as_pre_run(self) -> JobSpec:
        """The job that its pre-run is: one process of the leading role, with that process's part of
        its task's resources, wherever there is room. It has no outputs, and nothing of it is
        replaced in place."""
        role = next(role for role in self.roles if role.name == self.leading_role)
        place = self.placement
        return replace(
            self,
            roles=(
                replace(
                    role,
                    name=PRE_RUN_ROLE,
                    tasks=1,
                    min_tasks=None,
                    processes_per_task=1,
                    resources=_of_one_process(role, has_gpus=self.pre_run.gpu),
                    completion=Completion(),
                    service=False,
                    optional=False,
                    after=(),
                ),
            ),
            output="",
            placement=PlacementSpec(
                node=TopologyConstraint.UNCONSTRAINED,
                rack=TopologyConstraint.UNCONSTRAINED,
                exclude_nodes=place.exclude_nodes,
                include_nodes=place.include_nodes,
                gpu_model=place.gpu_model,
                node_label=place.node_label,
                near_data=False,
            ),
            gang=replace(self.gang, recovery_timeout_s=0.0),
            retry=replace(
                self.retry, max_restarts=PRE_RUN_RETRIES, on_user_failure=0, more_memory=None
            ),
            elastic=ElasticSpec(),
            flexible_shape=False,
            duration_s=self.pre_run.time_limit_s + PRE_RUN_START_S,
            pre_run=replace(self.pre_run, is_due=False),
        )

    def scheduled_tasks(self, number: int) -> int | None:
        """The tasks of the elastic role in the ``number``-th size of its schedule, counted from 1;
        ``None`` if there is no such size."""
        role, schedule = self.elastic_role, self.elastic.schedule
        if role is None or role.min_tasks is None or not 1 <= number <= len(schedule):
            return None
        each = max(1, role.resources.gpus) if self.elastic.counts_gpus else 1
        return max(role.min_tasks, min(role.tasks, schedule[number - 1].size // each))

    def at_size(self, tasks: int) -> JobSpec:
        """The same job with exactly this many tasks of its elastic role; a job without one is
        unchanged."""
        roles = tuple(
            replace(role, tasks=tasks, min_tasks=None) if role.is_elastic else role
            for role in self.roles
        )
        return replace(self, roles=roles)


def _enlarged(resources: Resources, more: MoreMemorySpec, level: int) -> Resources:
    memory_mib = ceil(resources.memory_mib * more.factor**level)
    if more.max_mib:
        memory_mib = max(resources.memory_mib, min(memory_mib, more.max_mib))
    return replace(resources, memory_mib=memory_mib)


def _of_one_process(role: RoleSpec, *, has_gpus: bool) -> Resources:
    """Its part of the task's container."""
    count, whole = role.processes_per_task, role.resources
    gpus = whole.gpus // count if has_gpus else 0
    return Resources(ceil(whole.memory_mib / count), ceil(whole.vcores / count), gpus)

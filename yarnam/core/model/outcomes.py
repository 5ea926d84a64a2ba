"""How things ended, and why: what is known of failed processes, and the rules that say so."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from yarnam.errors import Blame


class ContainerEnd(Enum):
    """Why a container is gone, as YARN reports it."""

    LOST = "lost"
    """Its node or its NodeManager is gone, or the grant expired."""
    PREEMPTED = "preempted"
    FAILED = "failed"
    """It ended on its own with a failure, or could not be started."""
    EXITED = "exited"
    """It ended on its own with success."""
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


class FailureClass(Enum):
    """Why a process failed. The first 21 are the reasons of the failure table of Microsoft's Philly
    cluster (Jeon et al., ATC 2019, table 7), by their names of today."""

    CPU_OUT_OF_MEMORY = "cpu-out-of-memory"
    INCORRECT_INPUTS = "incorrect-inputs"
    SEMANTIC_ERROR = "semantic-error"
    CORE_DUMP = "core-dump"
    INVALID_MEMORY_ACCESS = "invalid-memory-access"
    CHECKPOINT_ERROR = "checkpoint-error"
    CUDA_FAILURE = "cuda-failure"
    SYNTAX_ERROR = "syntax-error"
    TRACEBACK = "traceback"
    COMMUNICATION_ERROR = "communication-error"
    """Philly's "MPI error"."""
    GPU_OUT_OF_MEMORY = "gpu-out-of-memory"
    PEER_LOST = "peer-lost"
    """Philly's "MPI runtime failure": a peer, or its daemon, is gone."""
    PERMISSION_ERROR = "permission-error"
    IMPORT_ERROR = "import-error"
    PREEMPTED = "preempted"
    CUDA_INIT_FAILED = "cuda-init-failed"
    DIVERGED = "diverged"
    CUDA_VERSION_MISMATCH = "cuda-version-mismatch"
    GPU_ECC_ERROR = "gpu-ecc-error"
    OUTPUT_ERROR = "output-error"
    LIBRARY_NOT_LOADED = "library-not-loaded"
    # Beyond the table.
    HANG = "hang"
    """The gang made no progress any more, and nothing had failed."""
    KILLED = "killed"
    """A signal from outside of the process, for an unknown reason."""
    LIMIT_EXCEEDED = "limit-exceeded"
    """A resource limit other than memory: CPU time, file size, open files."""
    DISK_FULL = "disk-full"
    PORT_IN_USE = "port-in-use"
    NODE_LOST = "node-lost"
    COMMAND_NOT_FOUND = "command-not-found"
    DECLARED_TRANSIENT = "declared-transient"
    """The program itself reports it, by exit code 193."""
    DECLARED_PERMANENT = "declared-permanent"
    """The program itself reports it, by exit code 194."""
    CHECKPOINT_TAKEN = "checkpoint-taken"
    """Another job has taken over the directory of the checkpoints."""
    UNKNOWN = "unknown"


class FailureRole(Enum):
    """The part that a failed process has in the failure of its gang."""

    ROOT = "root"
    """It failed on its own."""
    CASCADE = "cascade"
    """It failed because another one had: it reports a broken connection, or a peer that is gone."""
    CONFIRMATION = "confirmation"
    """It reports the failure of another one: a launcher that names its failed child."""


class RetryAction(Enum):
    """Whether, and how, a gang is started again after a failure of this class."""

    NEVER = "never"
    """The same would happen again."""
    ALLOWED = "as-allowed"
    """Retry as often as ``retry.on_user_failure`` allows."""
    RETRY = "retry"
    """In the containers that are held, for one of ``retry.max_restarts``."""
    ELSEWHERE = "retry-elsewhere"
    """RETRY, with a strike against the node."""
    FREE = "retry-free"
    """RETRY, but free while it does not continue for too long."""
    MORE_MEMORY = "retry-with-more-memory"
    """In larger containers, where ``retry.more_memory`` allows; else as ALLOWED."""
    WITHOUT_INPUT = "retry-without-input"
    """Where the job leaves out corrupt inputs (``on_corrupt``): in new containers, for one of
    ``retry.max_restarts``, when the inputs that processes named have been checked; else never."""


class Stream(Enum):
    """The stream that a process writes its output to."""

    STDOUT = "stdout"
    STDERR = "stderr"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a line of a log comes from. ``stream``: None where both had written; ``at_s``: when it
    was there for sure, some seconds after it was written at most."""

    stream: Stream | None
    at_s: float


@dataclass(frozen=True, slots=True)
class Finding:
    """Why one process failed, by one rule."""

    rule: str
    failure: FailureClass
    role: FailureRole
    action: RetryAction
    blame: Blame
    line: str = ""
    """The evidence: the line that the rule matched; empty if the rule matched the exit status
    alone."""
    origin: Origin | None = None
    """The origin of that line; ``None`` if unknown, or the line is not from the log."""
    explanation: str = ""
    hint: str = ""
    """The next action for the user."""
    is_weak: bool = False
    """A general sign of failure: any better evidence in the gang counts more."""
    at_s: float | None = None
    """When it failed, where the evidence says so; ``None`` means when the process ended."""
    ruled_out: tuple[str, ...] = ()
    """Rules that matched too, each with its line, and why they do not count."""


class Source(Enum):
    """Whose words a rule is about."""

    PROCESS = "process"
    YARN = "yarn"


@dataclass(frozen=True, slots=True)
class FailureRule:
    """One rule. What it matches: ``yarnam.core.failures``. Of exit codes or signals, patterns, and
    places, all that it has have to fit; of several patterns or places one is enough."""

    id: str
    failure: FailureClass
    action: RetryAction
    blame: Blame
    role: FailureRole = FailureRole.ROOT
    source: Source = Source.PROCESS
    patterns: tuple[str, ...] = ()
    exit_codes: tuple[int, ...] = ()
    signals: tuple[int, ...] = ()
    """Also of a command that a shell ran for the process: exit code 128 + n."""
    raised_in: tuple[str, ...] = ()
    """Parts of the paths of Python files, one of which the last traceback ended in."""
    is_weak: bool = False
    """A general sign: tried after all others."""
    explanation: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class FirstCause:
    """The cause of a gang's failure, as far as its processes show it."""

    task: str
    rank: int
    node: str
    ended: str
    """How the process ended, in words."""
    finding: Finding
    then: tuple[str, ...] = ()
    """The processes that failed after it, in that order: ``rank 2: peer-lost (gloo-peer)``."""


class SlownessCause(Enum):
    """The cause of a rank's slowness, as far as attempts on other nodes have shown it."""

    UNKNOWN = "unknown"
    NODE = "node"
    """The slowness stays with the node, whatever rank runs there."""
    DATA = "data"
    """The slowness follows the rank, and so its share of the data, to any node."""


@dataclass(frozen=True, slots=True)
class Straggler:
    """A rank that the others of its gang wait for in each step. Times in seconds."""

    rank: int
    node: str
    compute_s: float
    """The time that it computes in a step on its own."""
    usual_s: float
    """The median of all ranks."""
    slowdown: float
    """How many times as fast the gang would be with its stragglers at the median."""
    cause: SlownessCause = SlownessCause.UNKNOWN

    @property
    def words(self) -> str:
        """``rank 3 on n2 computes 0.4 s in a step, usual is 0.2 s; without that ...``."""
        text = (
            f"rank {self.rank} on {self.node} computes {self.compute_s:.2g} s in a step, "
            f"usual is {self.usual_s:.2g} s; "
            f"without that the gang would be {self.slowdown:.2g} times as fast"
        )
        return {
            SlownessCause.UNKNOWN: text,
            SlownessCause.NODE: f"{text} (the node is slow: it stays with the node)",
            SlownessCause.DATA: f"{text} (not the node: it moves with the rank and its data)",
        }[self.cause]


class IdleCause(Enum):
    """The likely reason why GPUs idle."""

    INPUT = "input"
    """The CPUs prepare data, or it is read."""
    COMMUNICATION = "communication"
    """The ranks wait for each other or for the network, by their own step times."""
    WAITING = "waiting"
    """The processes do next to nothing: they wait for something else."""


@dataclass(frozen=True, slots=True)
class IdleGpus:
    """The GPUs of a running gang idle. Means over the gang and ``window_s``."""

    percent: float
    """The share of time in which the GPUs are busy."""
    window_s: float
    cause: IdleCause
    """The likely cause, not a certain one."""
    cpu_cores: float
    """The average per process."""
    read_bytes_per_s: float
    """The average per process."""
    own_share: float | None = None
    """The share of a step that each rank computes on its own, 0 to 1; ``None`` if not reported."""

    @property
    def words(self) -> str:
        """``the GPUs are busy 6 % of the time: they probably wait for input: ...``."""
        mib = self.read_bytes_per_s / 2**20
        use = f"each process uses {self.cpu_cores:.1f} CPU cores and reads {mib:.3g} MiB/s"
        why = {
            IdleCause.INPUT: f"wait for input: {use}",
            IdleCause.COMMUNICATION: "wait for communication: each rank computes by itself for "
            f"{self.own_share or 0.0:.0%} of a step",
            IdleCause.WAITING: f"wait for something outside of the job's programs: {use}",
        }[self.cause]
        over = f"over {self.window_s / 60:.0f} min of training"
        return f"the GPUs are busy {self.percent:.0f} % of the time {over}; they probably {why}"


@dataclass(frozen=True, slots=True)
class LinkMeasure:
    """The link from another node, as one node measures it."""

    node: str
    """The other one."""
    mib_s: float
    """0 if nothing came."""
    rtt_ms: float = 0.0
    """The shortest round trip; 0 if none was seen."""
    failure: str = ""
    """Why nothing came; empty if something did."""


@dataclass(frozen=True, slots=True)
class NodeMeasures:
    """The measurements of one node's check; 0 if not measured."""

    cpu_mib_s: float = 0.0
    memory_mib_s: float = 0.0
    disk_mib_s: float = 0.0
    gpu_tflops: float = 0.0
    """The result of the slowest of the task's GPUs."""
    links: tuple[LinkMeasure, ...] = ()
    trouble: tuple[str, ...] = ()
    """The failed measurements: the node is broken."""
    not_run: tuple[str, ...] = ()
    """The requested measurements that could not be made here, with the reason."""
    nccl_gib_s: float = 0.0
    """Bus bandwidth of an all-reduce among the task's GPUs."""


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
    finding: Finding | None = None
    """Why it failed, by its agent's evidence; ``None`` if it did not, or an older agent reports
    it."""
    step: int | None = None
    """The last training step that it reported."""
    has_only_restored: bool = False
    """This step is that of the checkpoint it restored: none was reported after it."""
    step_s: float | None = None
    """The average time between two of its steps, in seconds; ``None`` if it reported fewer than
    two."""
    peak_memory_mib: int | None = None
    """The most main memory that it, or one of its children, has used; ``None`` if unknown."""


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
    cause: FirstCause | None = None
    """The process that failed first, if it was one."""

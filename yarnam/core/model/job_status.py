"""The state of a job as its user sees it: the value behind ``status``, ``watch`` and ``--json``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from yarnam.core.model.ids import parse_ask_id
from yarnam.core.model.metrics import Measured
from yarnam.core.model.outcomes import FirstCause, IdleGpus, Straggler, Verdict
from yarnam.core.model.printable import duration


class Phase(Enum):
    """Phases of the gang machine."""

    PENDING = "PENDING"
    ACQUIRING = "ACQUIRING"
    CHECKING = "CHECKING"
    STAGING = "STAGING"
    LAUNCHING = "LAUNCHING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    REPLACING = "REPLACING"
    STORING = "STORING"
    BACKING_OFF = "BACKING_OFF"
    SUSPENDED = "SUSPENDED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


FINAL_PHASES = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED})
RECOVERY_POINTS = FINAL_PHASES | {
    Phase.PENDING,
    Phase.STORING,
    Phase.BACKING_OFF,
    Phase.SUSPENDED,
}
"""A new AM attempt continues here; from any other phase the gang starts over, or ends."""


class JobState(Enum):
    """The state that the user sees: never RUNNING while the job waits."""

    QUEUED = "QUEUED"
    PRE_RUN = "PRE_RUN"
    """One process of it is tried before the gang is acquired."""
    ACQUIRING = "ACQUIRING"
    STAGING = "STAGING"
    LAUNCHING = "LAUNCHING"
    RUNNING = "RUNNING"
    REPLACING = "REPLACING"
    SUSPENDED = "SUSPENDED"
    STORING = "STORING"
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
    loss: Measured | None = None
    metrics: tuple[tuple[str, Measured], ...] = ()
    usage: tuple[tuple[str, Measured], ...] = ()
    """CPU, memory, I/O and GPUs of its processes together, as the agent measures them."""
    http_address: str = ""
    """host:port of the web pages of its NodeManager, which show the container's logs."""
    memory_limit_bytes: int | None = None
    """The size of its container; ``None`` with an older ApplicationMaster."""

    @property
    def name(self) -> str:
        """``worker-0``; of a container that has not been launched, its request in words."""
        try:
            is_launched = self.task not in ("", self.ask)
            return self.task if is_launched else parse_ask_id(self.ask).words
        except ValueError:
            return self.ask


class PreRunState(Enum):
    """The progress of a job's pre-run."""

    DUE = "due"
    """It has not ended yet, or it failed, and the job with it."""
    PASSED = "passed"
    GIVEN_UP = "given-up"
    """It kept ending by faults that are not the job's own."""


@dataclass(frozen=True, slots=True)
class PreRunStatus:
    """The status of a job's pre-run."""

    state: PreRunState = PreRunState.DUE
    retries: int = 0
    step_s: float | None = None
    """The duration of one training step; ``None`` if the program does not report steps."""
    peak_memory_mib: int | None = None
    """The most main memory that its process has used; ``None`` if unknown."""
    needs_memory: bool = False
    """It ran out of main memory: the gang begins with larger containers."""

    @property
    def words(self) -> str:
        """``passed: a step takes 0.21 s, at most 812 MiB of memory``."""
        if self.state is PreRunState.GIVEN_UP:
            return f"given up after {self.retries} retries: nothing is known of the program"
        if self.state is PreRunState.DUE:
            return "has not passed" + (f", retry {self.retries}" if self.retries else "")
        if self.needs_memory:
            return "ran out of memory: the gang gets larger containers"
        facts = measured_words(self.step_s, self.peak_memory_mib)
        return f"passed: {facts}" if facts else "passed"


def measured_words(step_s: float | None, peak_memory_mib: int | None) -> str:
    """``a step takes 0.21 s, at most 812 MiB of memory``; empty if nothing was measured."""
    parts = [] if step_s is None else [f"a step takes {step_s:.2g} s"]
    parts += [] if peak_memory_mib is None else [f"at most {peak_memory_mib} MiB of memory"]
    return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that an observer has found in a running gang. Times in seconds since the
    epoch."""

    type: str
    """The observer's name."""
    message: str
    since_s: float
    ended_at_s: float | None = None
    """``None`` while it lasts."""


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
    """Why it ended, in words; empty while it continues."""
    kept: int = 0
    """Tasks kept from the attempt before: lost ones were replaced in place. They come on top of
    ``asked`` and ``granted``."""
    granted_by_level: tuple[tuple[str, int], ...] = ()
    missing: tuple[str, ...] = ()
    """At its end: what was asked for and not granted, as in ``2 worker at rack /rack1``."""
    cause: FirstCause | None = None
    """The process whose failure ended it, if it was one."""
    stragglers: tuple[Straggler, ...] = ()
    """The ranks that slowed it when that last changed."""
    idle_gpus: IdleGpus | None = None
    """The idle GPUs when that last changed; ``None`` if they were not idle."""
    is_pre_run: bool = False
    """It was not for the gang, but for its pre-run."""
    conditions: tuple[Condition, ...] = ()
    """The newest of each type."""


@dataclass(frozen=True, slots=True)
class FlatLoss:
    """The loss has not moved for long."""

    since_step: int
    lasted_s: float
    share: float
    """The share of all observed steps."""

    @property
    def words(self) -> str:
        """``the loss has been flat since step 12000, for 34 % of its steps (3h20m)``."""
        return (
            f"the loss has been flat since step {self.since_step}, for {self.share:.0%} of its "
            f"steps ({duration(self.lasted_s)})"
        )


@dataclass(frozen=True, slots=True)
class PredictedEnd:
    """The expected course of the training: by the total steps that the program reports, else by its
    loss."""

    steps_left: int | None = None
    end_at_s: float | None = None
    """``None`` while its speed is unknown."""
    is_by_loss: bool = False
    """Until the loss is flat, by its curve; else by the program's own number of steps."""
    fit_error: float | None = None
    """The root mean square error of the curve, as a part of the largest loss; ``None`` without a
    curve."""
    miss: float | None = None
    """The error of the first three quarters' curve over the last quarter, as a part of the loss."""
    flat: FlatLoss | None = None


@dataclass(frozen=True, slots=True)
class SizeStatus:
    """The number of tasks of a job's elastic role: running now (0 if none is launched), at least
    and at most."""

    role: str
    tasks: int
    least: int
    most: int
    gpus_per_task: int
    requested: int | None = None
    """The requested size; ``None`` if the job chooses."""
    requested_by: str = "a user"
    """The requester: a user, the program, or the policy of its queue."""

    @property
    def words(self) -> str:
        """``2 of 2 to 4 worker tasks, 1 GPU each; a user asked for 3``."""
        each = f"{self.gpus_per_task} GPU{'' if self.gpus_per_task == 1 else 's'} each"
        text = f"{self.tasks} of {self.least} to {self.most} {self.role} tasks"
        text += f", {each}" if self.gpus_per_task else ""
        if self.requested is None:
            return text
        return f"{text}; {self.requested_by} asked for {self.requested}"


@dataclass(frozen=True, slots=True)
class RoleStatus:
    """One role of a job whose roles start, end or may fail in different ways."""

    role: str
    rules: str
    """The role's special rules, in words; empty if it has none."""
    tasks: int
    succeeded: int
    failed: int
    """Failed or lost, without the job."""
    state: str
    """In words."""

    @property
    def words(self) -> str:
        """``ps (service, stopped when worker is complete): 2 running``."""
        return f"{self.role}{f' ({self.rules})' if self.rules else ''}: {self.state}"


@dataclass(frozen=True, slots=True)
class StartForecast:
    """When a job that waits is likely to start. Seconds since the epoch."""

    made_at_s: float
    soonest_at_s: float | None = None
    """``None`` if unknown, for the reason in ``unknown_why``."""
    likely_at_s: float | None = None
    latest_at_s: float | None = None
    """Nine of ten jobs start by then, half of them by the likely time. None with a likely one:
    later than the forecast reaches."""
    passed_until_s: float | None = None
    """How long smaller jobs that come later may go first; ``None`` if they may not."""
    unknown_why: str = ""


@dataclass(frozen=True, slots=True)
class WaitQueueStatus:
    """The job's position among the jobs that wait for GPUs. ``head`` (an application),
    ``head_name`` and ``head_gpus`` are those of the queue's first job, if another."""

    ticket: int
    ahead: int
    head: str = ""
    head_name: str = ""
    head_gpus: int = 0
    reason: str = ""
    """Why it waits, in words."""
    missing: str = ""
    """The part of its gang that does not fit now; empty if all of it fits."""
    start: StartForecast | None = None
    """``None`` until it is computed."""
    trouble: str = ""
    """Why the order is unreliable; empty if it is reliable."""


@dataclass(frozen=True, slots=True)
class PolicyStatus:
    """The policy's decision for the job, as the job's own AM computes it."""

    policy: str
    version: int
    """The version of the administrator's choice."""
    act: str = ""
    """run, wait, yield, size or move; empty before the first decision."""
    gpus: int = 0
    """The GPUs that the job is to hold."""
    rank: int = 0
    """The rank in the order of the queue's jobs, from 1."""
    why: str = ""
    trouble: str = ""
    """Why the jobs are ordered by arrival instead; empty if they are not."""
    service_gpu_s: float = 0.0
    """GPU-seconds that the job has attained."""
    pause_cost_s: float = 0.0
    """The measured cost of its last suspend and start; 0 if unknown."""
    can_suspend: bool = False
    """Whether the policy may suspend it: it has a checkpoint."""


@dataclass(frozen=True, slots=True)
class RefusedNode:
    """A node on the job's blacklist, until when, and why."""

    node: str
    until_s: float
    why: str


@dataclass(frozen=True, slots=True)
class ExcludedFiles:
    """Files of an input that the job does not read, because they are known to be corrupt."""

    input: str
    files: int
    share: float
    """The share of the input's files or bytes, whichever is more, from 0 to 1."""
    epoch: int | None = None
    """The epoch that it applies to; ``None`` if it was decided at submit, and no epoch has begun
    since."""
    later: int = 0
    """Files of which it has become known since: they are excluded from the next epoch on."""
    still_read: int = 0
    """Suspected files that are read nevertheless: without proof no more than ``max_skipped`` is
    excluded."""

    @property
    def words(self) -> str:
        what = "1 file is" if self.files == 1 else f"{self.files or 'no'} files are"
        text = f"{what} excluded from input {self.input} as corrupt"
        text += f", {self.share:.3%} of it" if self.files else ""
        text += f", in epoch {self.epoch}" if self.epoch is not None else ""
        text += f"; {self.later} more from the next epoch on" if self.later else ""
        return text + (f"; {self.still_read} suspected and still read" if self.still_read else "")


@dataclass(frozen=True, slots=True)
class SuspectStatus:
    """A file that the job's own processes have reported. ``state`` is waiting, checking, or the
    result: proved, cleared, suspected, storage, gone."""

    path: str
    state: str
    why: str = ""

    @property
    def words(self) -> str:
        said = {
            "waiting": "will be checked",
            "checking": "is being checked",
            "proved": "is corrupt",
            "cleared": "is whole",
            "suspected": "stays suspected",
            "storage": "cannot be read from HDFS",
            "gone": "was replaced or removed meanwhile",
        }.get(self.state, self.state)
        return f"{self.path} {said}" + (f": {self.why}" if self.why else "")


@dataclass(frozen=True, slots=True)
class OutputStatus:
    """The job's output: how far it is stored, or that it is."""

    path: str
    """URI or path of the directory."""
    files: int = 0
    size_bytes: int = 0
    moved: int = 0
    """Files of it that are in their place by now."""
    is_stored: bool = False
    """Whether the directory is there, whole."""
    renamed: int = 0
    """Files that got another name, because several tasks had written one of that name."""

    @property
    def words(self) -> str:
        what = f"{self.files} file{'' if self.files == 1 else 's'} of {byte_words(self.size_bytes)}"
        if not self.is_stored:
            return f"{self.moved} of {what} stored"
        others = f" ({self.renamed} under another name)" if self.renamed else ""
        return f"{what}{others} in {self.path}"


LEVEL_TEXT = {"node": "on planned nodes", "rack": "in one rack", "any": "anywhere"}
"""Where the containers of a locality level are."""


def granted_text(granted: int, asked: int, by_level: tuple[tuple[str, int], ...]) -> str:
    """``3 of 8 granted (2 on planned nodes, 1 in one rack)``."""
    levels = ((LEVEL_TEXT.get(level.lower(), level), count) for level, count in by_level)
    where = ", ".join(f"{count} {text}" for text, count in levels)
    return f"{granted} of {asked} granted" + (f" ({where})" if where else "")


def byte_words(count: int) -> str:
    """``3.2 MiB``."""
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024.0:
            break
        size, unit = size / 1024.0, larger
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


@dataclass(frozen=True, slots=True)
class StagingStatus:
    """Inputs on their way to the nodes' own disks, over all tasks. Sizes in bytes."""

    files: int = 0
    files_done: int = 0
    size: int = 0
    done: int = 0
    """Of ``size``, on the nodes by now; ``cached`` of these lay there before."""
    cached: int = 0
    left_s: float | None = None
    """The time until the slowest task has its inputs, at its present rate; ``None`` if unknown."""
    slowest: str = ""
    """The ask of that task."""
    trouble: str = ""
    """Why it does not continue now, by the report of one of the agents."""

    @property
    def is_done(self) -> bool:
        return self.files_done >= self.files


@dataclass(frozen=True, slots=True)
class MirrorStatus:
    """The files of ``checkpoint.mirror`` on HDFS: the newest set of the first task that keeps any.
    ``number`` is 0 before the first one."""

    number: int = 0
    files: int = 0
    size_bytes: int = 0
    saved_at_s: float = 0.0
    tasks: int = 1
    """How many keep sets."""
    trouble: str = ""
    """Why newer files are not kept, by the report of one of the agents."""

    def words(self, now_s: float) -> str:
        """``set 4 of 2 files, 1.1 GiB, kept 2m10s ago``."""
        if self.number:
            what = (
                f"{self.files} file{'' if self.files == 1 else 's'}, {byte_words(self.size_bytes)}"
            )
            ago = duration(max(0.0, now_s - self.saved_at_s))
            text = f"set {self.number} of {what}, kept {ago} ago"
        else:
            text = "no set of files is kept yet"
        if self.tasks > 1:
            text += f" (and those of {self.tasks - 1} more tasks)"
        return f"{text}; {self.trouble}" if self.trouble else text


class Use(Enum):
    """The use of a job's time; see ``yarnam.core.accounting.ledger``."""

    WAITING = "waiting"
    HELD = "held-incomplete"
    LOCALIZING = "localizing"
    STAGING = "staging"
    PRE_RUN = "pre-run"
    STARTING = "starting"
    KEPT = "training-kept"
    LOST = "training-lost"
    CHECKPOINTING = "checkpointing"
    RECOVERING = "recovering"
    SUSPENDED = "suspended"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """Seconds of the job's own time, and seconds of GPUs that it held then."""

    use: Use
    wall_s: float
    gpu_s: float


@dataclass(frozen=True, slots=True)
class Ledger:
    """Where a job's time went: one entry for each use, in their order."""

    entries: tuple[LedgerEntry, ...]
    is_estimated: bool = False
    """Whether what was kept of the training is a guess: the program does not report its steps and
    checkpoints."""

    @property
    def wall_s(self) -> float:
        return sum(entry.wall_s for entry in self.entries)

    @property
    def gpu_s(self) -> float:
        return sum(entry.gpu_s for entry in self.entries)

    @property
    def ettr(self) -> float:
        """The effective training time ratio: training that was kept, as a share of all the time
        since the submit (Kokolis et al., "Revisiting Reliability in Large-Scale ML Research
        Clusters", 2024, with the time in the queue included). 0 to 1."""
        return self.of(Use.KEPT).wall_s / self.wall_s if self.wall_s else 0.0

    def of(self, use: Use) -> LedgerEntry:
        """The entry of one use."""
        found = (entry for entry in self.entries if entry.use is use)
        return next(found, LedgerEntry(use, 0.0, 0.0))


@dataclass(frozen=True, slots=True)
class Holding:
    """The containers and GPUs that the job held from this time on."""

    at_s: float
    containers: int
    gpus: int


@dataclass(frozen=True, slots=True)
class TimeLimitStatus:
    """How far a job is towards its ``time_limit``."""

    limit_s: float
    ran_s: float
    """How long it had run before the present run began."""
    stops_at_s: float | None = None
    """When its processes are stopped if it runs on; ``None`` while it does not run."""

    def words(self, now_s: float) -> str:
        """``4h00m, stops in 2h10m``."""
        limit = duration(self.limit_s)
        if self.stops_at_s is not None:
            return f"{limit}, stops in {duration(max(0.0, self.stops_at_s - now_s))}"
        return f"{limit}, of which it has run {duration(self.ran_s)}"


@dataclass(frozen=True, slots=True)
class AwaitedJob:
    """A job that another one waits for, as YARN reports it."""

    application: str
    name: str
    """As in the spec of the job that waits."""
    needs_success: bool = True
    state: JobState | None = None
    """``None`` if YARN has not been asked yet, or has forgotten it."""
    is_forgotten: bool = False

    @property
    def has_ended(self) -> bool:
        """YARN forgets only jobs that have ended."""
        return self.is_forgotten or (self.state is not None and self.state.is_final)

    @property
    def is_met(self) -> bool:
        """Whether it has ended as it has to."""
        return self.state is JobState.SUCCEEDED or (self.has_ended and not self.needs_success)

    @property
    def is_in_vain(self) -> bool:
        """Whether it can no longer end as it has to."""
        return self.has_ended and not self.is_met

    @property
    def words(self) -> str:
        """``prep (application_1_0001, RUNNING) to succeed``."""
        named = "" if self.name == self.application else f"{self.name} ("
        state = "" if self.state is None else self.state.value
        if named:
            text = named + ", ".join(filter(None, (self.application, state))) + ")"
        else:
            text = f"{self.application} ({state})" if state else self.application
        return f"{text} to {'succeed' if self.needs_success else 'end'}"


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
    is_last_known: bool = False
    """The ApplicationMaster does not answer: the job was in this state at ``at_s``, and ``reason``
    says why nothing newer is known."""
    submitted_at_s: float = 0.0
    attempt: int = 0
    max_attempts: int = 0
    """How many attempts may fail; the same for the whole job."""
    free_attempts: int = 0
    """Attempts until the present one that do not count: pre-runs, and restarts for free."""
    am_attempt: int = 0
    asked: int = 0
    granted: int = 0
    granted_by_level: tuple[tuple[str, int], ...] = ()
    ready: int = 0
    restarts: int = 0
    """Restarts of a gang that ran, after faults of the infrastructure; in place or as a whole."""
    preemptions: int = 0
    blacklist: tuple[RefusedNode, ...] = ()
    """The nodes that the job refuses now, by its own experience."""
    wait_queue: WaitQueueStatus | None = None
    """The place in the wait queue while the job waits for admission; ``None`` otherwise, or without
    a wait queue."""
    policy: PolicyStatus | None = None
    """``None`` if its queue has no policy."""
    predicted_end: PredictedEnd | None = None
    """``None`` while the job has reported too little for a prediction."""
    size: SizeStatus | None = None
    """``None`` if the job has one size."""
    roles: tuple[RoleStatus, ...] = ()
    """The states of the roles, if one starts, ends or may fail in another way than the usual
    one."""
    stragglers: tuple[Straggler, ...] = ()
    """The ranks that slow the gang now, slowest first."""
    idle_gpus: IdleGpus | None = None
    """The idle GPUs, with the likely cause; ``None`` if they are busy, or it is unknown."""
    excluded_files: tuple[ExcludedFiles, ...] = ()
    """Corrupt files of its inputs that are left out."""
    suspects: tuple[SuspectStatus, ...] = ()
    """Inputs that its processes have reported, with the results of their checks."""
    staging: StagingStatus | None = None
    """``None`` if nothing is brought to the nodes' own disks, or no agent has reported yet."""
    output: OutputStatus | None = None
    """Set once the output is being stored; ``None`` before, or if the job has none."""
    deadline_s: float | None = None
    """When the current wait ends by its limit (hold, launch, stop) or the back-off is over."""
    step: int | None = None
    total_steps: int | None = None
    loss: Measured | None = None
    metrics: tuple[tuple[str, Measured], ...] = ()
    tasks: tuple[TaskStatus, ...] = ()
    history: tuple[AttemptRecord, ...] = ()
    verdict: Verdict | None = None
    tracking_url: str = ""
    checkpoint: str = ""
    ledger: Ledger | None = None
    """The ledger up to ``at_s``; ``None`` with an older ApplicationMaster, or if none was
    reached."""
    holdings: tuple[Holding, ...] = ()
    """How many containers and GPUs it has held, from when on."""
    pre_run: PreRunStatus | None = None
    """``None`` if the job has no pre-run."""
    requested_queue: str = ""
    """The queue of its spec, if YARN has put the job into another one, ``queue``."""
    conditions: tuple[Condition, ...] = ()
    """Conditions of the gang that observers have found, beside stragglers and idle GPUs."""
    awaited: tuple[AwaitedJob, ...] = ()
    """The jobs of ``depends_on`` that it still waits for."""
    time_limit: TimeLimitStatus | None = None
    """``None`` if the job has none."""
    mirror: MirrorStatus | None = None
    """``None`` if no directory is kept by `checkpoint.mirror`, or no agent has reported yet."""
    advised: str = ""
    """Why it has its size, if its submit chose that by advice: the prediction and what is
    measured."""
    interactive: bool = True
    """Whether its owner may open sessions in its tasks."""

    @property
    def attempt_words(self) -> str:
        """``2 of 10``, or ``3 (2 of 10 that count)`` where some do not count."""
        if not self.max_attempts:
            return str(self.attempt)
        counted = f"{self.attempt - self.free_attempts} of {self.max_attempts}"
        return f"{self.attempt} ({counted} that count)" if self.free_attempts else counted

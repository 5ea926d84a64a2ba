"""The spec as a document: every key, its type, its default and its meaning.

The docstrings below are the reference (docs/reference/spec.md) and the descriptions in the JSON
Schema. A section may name keys that others have there (``refused_keys``): they are refused with
their reason, never ignored. Combinations of keys are checked in ``checks``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, Union

from pydantic import BeforeValidator, Discriminator, Field, Tag

from yarnam.core.frameworks.registry import FORMER, NAMES
from yarnam.core.model.job_spec import (
    MAX_TASKS,
    SAME_GPU_MODEL,
    AmSpec,
    ElasticSpec,
    GangSpec,
    HangSpec,
    MoreMemorySpec,
    NotebookSpec,
    RetrySpec,
    StopEarlySpec,
    StragglerSpec,
)
from yarnam.spec.sections.data_sections import Checkpoint, Data
from yarnam.spec.sections.failure_sections import MAX_RULES, FailureRuleEntry
from yarnam.spec.sections.notify_section import MAX_CHANNELS, Acls, Notify
from yarnam.spec.sections.pre_run_section import PreRun
from yarnam.spec.sections.role_sections import (
    Environment,
    GpuCount,
    Role,
    ShippedPath,
    Variable,
)
from yarnam.spec.sections.section_base import (
    DAY_S,
    Memory,
    Processes,
    Section,
    Strictness,
    TextOrMapping,
    Vcores,
    Whole,
)
from yarnam.spec.values.fields import Command, DurationBetween, SizeBetween, Text, describe, wrong

VERSION = 1
"""The version of the format, raised when an existing document would change its meaning."""

MAX_SIZES = 100
"""The most entries of ``elastic.schedule``: each change of size costs a start."""
MAX_EPOCH, MAX_STEP = 10**9, 10**15
"""Larger values are a slip. The limits are our own choice."""

_GANG, _RETRY, _AM = GangSpec(), RetrySpec(), AmSpec()
_ELASTIC = ElasticSpec()
_HANG = HangSpec()
_STOP_EARLY = StopEarlySpec()
_NOTEBOOK = NotebookSpec()
_STRAGGLERS = StragglerSpec()
_MORE_MEMORY = MoreMemorySpec()


MAX_DEPENDENCIES = 100
"""The ApplicationMaster asks the ResourceManager about each of them. The limit is our own choice; a
sweep of more jobs is an array, which counts once."""


class Code(TextOrMapping):
    """A local directory to ship. What `.yarnamignore` in it names, in the syntax of `.gitignore`,
    is left out."""

    text_key = "path"

    path: Text
    """The directory, relative to the spec file."""
    ignore: Literal["git"] | None = None
    """`git`: leave out what `.gitignore` files name too. They often name data and built modules
    that jobs need, so it is not the default."""


class Queue(TextOrMapping):
    """The YARN queue. YARN's placement rules may put a job into another one: a submit says so, and
    every command shows the queue that YARN reports."""

    text_key = "name"

    name: Text
    """The full name, such as `root.research`."""
    placement: Literal["exact"] | None = None
    """`exact`: refuse to run in any other queue."""


class DependsOn(TextOrMapping):
    """A job that has to end before this one requests its GPUs. It is looked up at the submit, so it
    has to be submitted before."""

    text_key = "job"

    job: Text
    """The name of a job of yours, an application id of anybody's (of any kind, such as Spark), or
    the id of an array, which means all of its members."""
    when: Literal["succeeded", "ended"] = "succeeded"
    """`succeeded`: this job ends with DEPENDENCY_FAILED if the other one fails or is cancelled.
    `ended`: this job continues however the other one ends."""


class Locality(Section):
    """How strictly to place the gang close together, level by level. `required` waits for it,
    `preferred` relaxes it step by step, `unconstrained` ignores it."""

    refused_keys = dict.fromkeys(
        ("switch", "block"), "YARN knows nodes and racks only; let its rack names tell switches"
    )

    node: Strictness = "preferred"
    """Use as few nodes as possible."""
    rack: Strictness = "preferred"
    """Place all tasks in one rack."""


def _kind_of_anti_affinity(value: Any) -> str:
    return "(roles)" if isinstance(value, list) else "(role)"


AntiAffinity = Annotated[
    Union[Annotated[Text, Tag("(role)")], Annotated[list[Text], Tag("(roles)")]],
    Discriminator(_kind_of_anti_affinity),
]


class Placement(Section):
    """Where the gang may run."""

    locality: Locality = Locality()
    strategy: Literal["pack", "spread"] = "pack"
    """`pack` fills partly used nodes first; `spread` places each task on a separate node."""
    exclude_nodes: list[Text] = []
    """Hosts (as YARN names them) that must not run tasks."""
    include_nodes: list[Text] = []
    """The only hosts that may run tasks. Default: all nodes."""
    max_nodes: Annotated[int, Field(ge=1, le=MAX_TASKS)] | None = None
    """The maximum number of nodes for the gang. Default: no limit."""
    gpu_model: Text = SAME_GPU_MODEL
    """`same`: all tasks use the same GPU model. `any`: no restriction. Otherwise words of a model
    name, such as `A100` or `V100 32GB`: all tasks use one model whose name contains them. To list
    the models: `yarnam nodes`."""
    anti_affinity: list[AntiAffinity] = []
    """Roles whose tasks must not share a node. A role name separates the tasks of that role; a list
    of names separates tasks of different roles. `[ps, [ps, worker]]` does both for `ps`."""
    node_label: Text = ""
    """The YARN node label of the only nodes that may run tasks (Capacity Scheduler). Default: the
    nodes without a label. The ApplicationMaster runs on the nodes of the queue's default label."""
    near_data: bool = True
    """Among otherwise equal placements, prefer nodes that store more of the job's input bytes."""
    check: Literal["off", "quick", "full"] = "off"
    """Check the nodes when the gang is complete, before any process starts: CPU, memory, disk, and
    the links between them. A slow or broken node gets a strike, and its tasks are replaced. `quick`
    takes at most 10 s; `full` at most 60 s, with GPUs. [How to find slow
    nodes](../how-to/slow-nodes.md)."""
    cells: bool = False
    """Leave whole nodes to queues that YARN guarantees them: use nodes of the own queue, and free
    ones that no other queue's quota still covers. Needs ZooKeeper. [Whole nodes of a
    quota](../explanation/policies.md#whole-nodes-of-a-quota)."""


class Backoff(Section):
    """The delay after a failed attempt: random, at most `base`, which doubles up to `cap`."""

    base: Annotated[float, DurationBetween(0.1, DAY_S)] = _GANG.backoff_base_s
    """Upper bound of the first delay."""
    cap: Annotated[float, DurationBetween(0.1, DAY_S)] = _GANG.backoff_cap_s
    """Upper bound of every delay."""


class Gang(Section):
    """How the gang's containers are acquired: all or none."""

    hold_timeout: Annotated[float, DurationBetween(1.0, DAY_S)] = _GANG.hold_timeout_s
    """The longest time to hold containers, from the first grant of an attempt, until all are
    granted. Then all are released."""
    localize_timeout: Annotated[float, DurationBetween(10.0, DAY_S)] = _GANG.localize_timeout_s
    """The longest time from the last grant of an attempt until all tasks are ready: YARN copies the
    job's files to each node and unpacks its environment there. Then all are released. Increase it
    for [large environments](../how-to/python-environments.md)."""
    ask_timeout: Annotated[float, DurationBetween(1.0, 30 * DAY_S)] = _GANG.ask_timeout_s
    """The longest time to wait for the first container of an attempt; nothing is held meanwhile."""
    launch_timeout: Annotated[float, DurationBetween(1.0, DAY_S)] = _GANG.launch_timeout_s
    """The longest time from the launch until every process runs."""
    attempts: Whole = _GANG.attempts
    """The number of attempts before the job fails with GANG_TIMEOUT."""
    backoff: Backoff = Backoff()
    relax_after_attempts: Whole = _GANG.relax_after_attempts
    """The number of failed attempts at one locality level before the next looser one is tried."""
    look_before_ask: bool = _GANG.look_before_ask
    """Request containers from YARN only when the whole gang fits into the free resources. Checking
    does not count as an attempt."""
    wait_timeout: Annotated[float, DurationBetween(1.0, 365 * DAY_S)] = _GANG.wait_timeout_s
    """The longest total wait before the first start, over all attempts."""
    priority: Annotated[int, Field(ge=-10, le=10)] = _GANG.priority
    """The order among waiting jobs of the same queue: higher starts sooner. The priority of a
    waiting job rises by one every 15 minutes, up to the highest in its queue. Has an effect only
    with a `ticket`."""
    ticket: bool = _GANG.ticket
    """Take turns with other jobs that wait for GPUs: see
    [taking turns](../how-to/zookeeper.md). Needs a ZooKeeper. With `false`, or with
    `look_before_ask: false`, the job requests containers regardless of waiting jobs."""
    recovery_timeout: Annotated[float, DurationBetween(0.0, DAY_S)] = _GANG.recovery_timeout_s
    """The longest wait for the replacement of a lost task while the other containers of the running
    gang are held, until it is granted: `gang.localize_timeout` limits the rest. Then all are
    released and the gang is acquired again. 0 means immediately."""


class StopEarly(Section):
    """End the job well once its loss has been flat for long: the processes are stopped with time
    for a checkpoint, the outputs are stored, and the job has succeeded. Without this section
    `yarnam status` reports a flat loss, but the job continues."""

    flat_for: Annotated[float, DurationBetween(600.0, 365 * DAY_S)] = _STOP_EARLY.flat_for_s
    """How long the loss must have been flat, and for at least a fifth of all steps. It is the
    metric `loss` or `train_loss` that the program reports."""
    within: Annotated[float, Field(ge=0.00001, le=0.5, examples=[0.001])] = _STOP_EARLY.within
    """The loss is flat while it stays within this part of itself."""


class Notebook(TextOrMapping):
    """Make the job a notebook: one task, whose process is a server that you work in. `yarnam
    notebook` opens it. See [notebooks](../how-to/notebooks.md)."""

    text_key = "server"

    server: Literal["jupyterlab", "code-server"] = "jupyterlab"
    """The server: JupyterLab of the job's Python, or `code-server` (VS Code) on the job's PATH."""
    idle_timeout: Annotated[float, DurationBetween(10.0, 30 * DAY_S)] = _NOTEBOOK.idle_timeout_s
    """End the job, with its files saved, after this long without a busy kernel, a connected client
    and GPU use."""
    max_size: Annotated[int, SizeBetween(1, 1024**2)] = _NOTEBOOK.max_size_mib
    """The most that the directory `notebooks` may hold to be kept on HDFS."""


class SizeAt(Section):
    """A size from an epoch or a step on; it has one of the two."""

    epoch: Annotated[int, Field(ge=0, le=MAX_EPOCH, examples=[30])] | None = None
    """The first epoch that runs at this size, counted from 0: by the metric `epoch` that the
    program reports, or the epoch of `yarnam.train.inputs`."""
    step: Annotated[int, Field(ge=0, le=MAX_STEP, examples=[10000])] | None = None
    """The number of steps that are done, by the program's reports."""
    size: Annotated[int, Field(ge=1, le=MAX_TASKS, examples=[8])]
    """The size, in the unit of the range: GPUs with `gpus: {min, max}`, otherwise tasks."""


class Elastic(Section):
    """When an elastic gang changes its size. Each change stops all processes and restarts them from
    their checkpoint with new ranks, unless `restart` is `false`. Needs a range for `gpus` or for
    the `tasks` of a role."""

    patience: Annotated[float, DurationBetween(0.0, 30 * DAY_S)] = _ELASTIC.patience_s
    """How long the job waits for its largest size to fit. Then it starts with the largest size that
    fits, at least `min`."""
    grow: bool | None = None
    """Grow automatically while GPUs are idle and no job waits for them. Default: `true` if the job
    has a `checkpoint` or `restart` is `false`, otherwise `false`. `yarnam scale` always works."""
    grow_interval: Annotated[float, DurationBetween(1.0, DAY_S)] = _ELASTIC.grow_interval_s
    """How often to check the cluster for idle GPUs and the queue for its share."""
    min_run: Annotated[float, DurationBetween(0.0, 30 * DAY_S)] = _ELASTIC.min_run_s
    """The shortest time at one size before the gang changes it automatically again."""
    shrink_after: Annotated[float, DurationBetween(0.0, DAY_S)] = _ELASTIC.shrink_after_s
    """How long the queue must exceed its fair share, while others wait, before the gang releases
    the excess, down to `min`."""
    checkpoint_grace: Annotated[float, DurationBetween(0.0, 3600.0)] = _ELASTIC.checkpoint_grace_s
    """The time between SIGTERM and SIGKILL when the size changes, to write a checkpoint."""
    reform_timeout: Annotated[float, DurationBetween(1.0, DAY_S)] = _ELASTIC.reform_timeout_s
    """Where `restart` is `false`: how long the processes that stay may take to re-form their group
    after a change of size, before the whole gang restarts. With `horovod` those that leave have
    the same time to do so before they get SIGTERM. Must exceed the time between two commits."""
    schedule: Annotated[list[SizeAt], Field(max_length=MAX_SIZES)] = []
    """Sizes that the job takes in the course of its training, as if a user asked for them with
    `yarnam scale`: see [elastic gangs](../how-to/elastic-gangs.md). Needs a `checkpoint`, unless
    `restart` is `false`."""
    restart: bool = _ELASTIC.restart
    """Whether a change of size restarts all processes. `false`: those that stay continue, and their
    framework re-forms the group; for `torchrun` and `horovod`. See [elastic
    gangs](../how-to/elastic-gangs.md#go-on-without-a-restart)."""


class Blacklist(Section):
    """When the job stops using a node. A node gets a strike each time it cannot start a container,
    its agent cannot prepare its task or stops responding, or processes are killed by a signal on
    this node only. A lost node gets all strikes immediately."""

    strikes: Annotated[int, Field(ge=0, le=1000)] = _RETRY.blacklist.strikes
    """The number of strikes that excludes a node. 0 means never exclude nodes."""
    expiry: Annotated[float, DurationBetween(1.0, 30 * DAY_S)] = _RETRY.blacklist.expiry_s
    """How long a strike counts."""
    cool_down: Annotated[float, DurationBetween(1.0, 30 * DAY_S)] = _RETRY.blacklist.cool_down_s
    """How long a node stays excluded."""
    max_share: Annotated[float, Field(ge=0.0, le=1.0)] = _RETRY.blacklist.max_share
    """The largest fraction of the cluster's nodes to exclude at a time, from 0 to 1. Beyond it, the
    oldest exclusions are lifted."""


class MoreMemory(Section):
    """Larger containers after a process ran out of memory. Each time all containers of the gang get
    `factor` times the memory they had, at most three times. If no node can hold the larger
    containers, the job ends. Larger containers do not use up `max_restarts` or
    `on_user_failure`."""

    factor: Annotated[float, Field(ge=1.1, le=4.0)] = _MORE_MEMORY.factor
    """How many times the memory."""
    max: Memory | None = None
    """The largest memory of one container. Default: no limit but that of the nodes."""


class Retry(Section):
    """How often a gang is restarted after it has run."""

    max_restarts: Annotated[int, Field(ge=0, le=1000)] = _RETRY.max_restarts
    """Restarts after infrastructure faults (a lost node, an unresponsive agent), whether lost tasks
    are replaced in place or the whole gang is acquired again. 0 disables them. Preemptions do not
    count."""
    on_user_failure: Annotated[int, Field(ge=0, le=1000)] = _RETRY.on_user_failure
    """Restarts after failures of the job's own code, counted separately. Failures that cannot end
    otherwise (an import error, for example) are never retried: [failure rules](failure-rules.md).
    Both numbers count restarts in a row without progress: they reset when the job reports a step
    beyond all earlier ones."""
    more_memory: MoreMemory | None = None
    """Restart in larger containers after a process ran out of memory. Default: no, the job ends or
    uses up `on_user_failure`."""
    rules: Annotated[list[FailureRuleEntry], Field(max_length=MAX_RULES)] = []
    """Rules for failures of this job that the shipped rules do not know, or classify
    differently."""
    blacklist: Blacklist = Blacklist()


class Hang(Section):
    """When a running gang is taken to hang. Then the stacks of all processes are written to their
    logs, the verdict names the ranks that the others wait for, and the gang is restarted for one of
    `retry.max_restarts`. Only a gang whose processes report steps is watched, unless `silence` is
    set. [How hangs are found](../explanation/hangs.md)."""

    detect: bool = _HANG.detect
    """Watch the gang."""
    steps: Annotated[float, Field(ge=1.0, le=1000.0)] = _HANG.steps
    """After this many times the usual step without one, a gang hangs if a process is stopped or
    none does anything."""
    idle: Annotated[float, DurationBetween(10.0, DAY_S)] = _HANG.idle_s
    """How long no process may have used CPU, read, written or printed then."""
    timeout: Annotated[float, DurationBetween(10.0, 30 * DAY_S)] = _HANG.timeout_s
    """The longest time without a step, whatever the processes do, in a pause too."""
    silence: Annotated[float, DurationBetween(10.0, 30 * DAY_S)] | None = None
    """Also without any step: the longest time in which no process does anything. Default: no
    limit."""


class Stragglers(Section):
    """When a rank is taken to slow a running gang. Found where all ranks report their steps; in a
    gang that synchronizes, also the time that each computes on its own (`with
    yarnam.train.compute():`). [How to find slow nodes](../how-to/slow-nodes.md)."""

    detect: bool = _STRAGGLERS.detect
    """Look for stragglers, and show them in `yarnam status`."""
    slowdown: Annotated[float, Field(ge=1.05, le=100.0)] = _STRAGGLERS.slowdown
    """How many times as fast the gang would be without the slowness, at least."""
    replace: bool = _STRAGGLERS.replace
    """Move the tasks of a slow node: the gang stops with time for a checkpoint, the node gets a
    strike, and its tasks go to another one if one has free capacity."""
    max_replacements: Annotated[int, Field(ge=1, le=100)] = _STRAGGLERS.max_replacements
    """How often the job may do that."""


class ApplicationMaster(Section):
    """The job's controller on the cluster. The defaults suit nearly every job."""

    memory: Annotated[int, SizeBetween(512, 1024**2)] | None = None
    """Memory of its container, which runs a JVM and a Python process. By default what a gang of
    this size needs: 512 MiB up to 300 tasks, 768 MiB for 1,000, and 512 MiB more for a job with
    inputs."""
    vcores: Vcores = _AM.resources.vcores
    """Virtual cores of its container."""
    attempts: Annotated[int, Field(ge=1, le=100)] = _AM.attempts
    """The number of AM attempts that may fail within `attempts_interval`; YARN may allow fewer
    (`yarn.resourcemanager.am.max-attempts`)."""
    attempts_interval: Annotated[float, DurationBetween(1.0, 30 * DAY_S)] = _AM.attempts_interval_s
    """How long a failed AM attempt counts, whichever of its processes failed. A job of weeks
    survives an AM that dies occasionally."""
    # Heartbeats come every 2 s at the latest.
    agent_silence: Annotated[float, DurationBetween(3.0, 3600.0)] = _AM.agent_silence_s
    """A container that has not sent a heartbeat for this long is lost."""
    orphan_timeout: Annotated[float, DurationBetween(3.0, 3600.0)] = _AM.orphan_timeout_s
    """A container that cannot reach its ApplicationMaster for this long stops, unless the job's
    directory on HDFS shows that no other attempt has taken over: then `absence` counts."""
    absence: Annotated[float, DurationBetween(0.0, 86400.0)] = _AM.absence_s
    """The longest that containers live and train on without an ApplicationMaster. The next
    attempt adopts them. `0s`: they end with it, and the gang starts again from its checkpoint."""
    stop_grace: Annotated[float, DurationBetween(0.0, 3600.0)] = _AM.stop_grace_s
    """The time between SIGTERM and SIGKILL when processes are stopped."""
    failure_grace: Annotated[float, DurationBetween(0.0, 3600.0)] = _AM.failure_grace_s
    """The same after another part of the gang has failed, for processes that write no checkpoint:
    their collectives hang, so they seldom end by themselves. A process that writes one with
    `yarnam.train.checkpoint` has all of `stop_grace`. For other code that saves at SIGTERM, set it
    to the time that this takes. Never more than `stop_grace`."""


def _version(value: Any) -> Any:
    """Python takes ``True`` and ``1.0`` for 1."""
    if isinstance(value, (bool, float)) or value != VERSION:
        shown = describe(value) if isinstance(value, (list, dict)) else ascii(value)[:80]
        raise wrong(f"this version of yarnam reads format version {VERSION}, not {shown}")
    return value


if TYPE_CHECKING:
    FrameworkName: TypeAlias = str
else:
    FrameworkName = Literal[NAMES]

MAX_KEY = 1000
"""Characters of an idempotency key: enough for the names of a pipeline, a task and a run."""


class Document(Section):
    """A job for `yarnam submit`."""

    refused_keys = {
        "docker": "write environment: {docker: ...}",
        "image": "write environment: {docker: ...}",
        "sweep": "each job is one gang; use submit --array, or Hydra's launcher",
    }

    refused_values = {"framework": FORMER}

    version: Annotated[Literal[1], Field(examples=[1]), BeforeValidator(_version)]
    """The version of this format."""
    name: Annotated[Text, Field(examples=["digits"])]
    """The job's name: letters, digits, `.`, `_`, `-`; at most 100."""
    queue: Annotated[Queue, Field(examples=["root.research"])]
    """The full name of the YARN queue, such as `root.research`."""
    framework: FrameworkName = "command"
    """Which rendezvous variables to set for the processes, besides the generic ones. See
    [frameworks](../how-to/frameworks.md)."""
    command: Command | None = None
    """The command of each process: a list of arguments, passed unchanged, or one line for
    `/bin/bash -c`. yarnam expands nothing in it: `${...}` is left to the shell."""
    files: list[ShippedPath] = []
    """Files to place in the working directory of every container."""
    code: Code | None = None
    """A local directory to ship as the directory `code`."""
    environment: Environment = Environment()
    env: dict[str, Variable] = {}
    """Environment variables for all processes."""
    secret_env: list[Text] = []
    """Names in `env` whose values are never shown or logged. Every process of the job gets them,
    even if only one role declares them."""
    gpus: GpuCount | None = None
    """The total number of GPUs, or `{min, max}` for an elastic gang. The planner chooses the number
    of tasks and GPUs per task. Alternative to `roles`."""
    roles: dict[str, Role] | None = None
    """The gang's tasks by role name (`[a-z][a-z0-9-]*`). Alternative to `gpus`."""
    memory_per_gpu: Memory | None = None
    """Memory of a task per GPU. Default: 16GiB."""
    vcores_per_gpu: Vcores | None = None
    """Virtual cores of a task per GPU. Default: 4."""
    processes: Processes | None = None
    """Processes per task, for roles that do not set it. Always `per-gpu` with `gpus`."""
    placement: Placement = Placement()
    gang: Gang = Gang()
    elastic: Elastic = Elastic()
    stop_early: StopEarly | None = None
    notebook: Notebook | None = None
    """Make the job a notebook that you open with `yarnam notebook`; it takes no `command`."""
    pre_run: PreRun = PreRun()
    """Whether to try one process of the job before its gang is acquired."""
    data: Data = Data()
    checkpoint: Checkpoint | None = None
    retry: Retry = Retry()
    hang: Hang = Hang()
    stragglers: Stragglers = Stragglers()
    ports: list[Text] = []
    """Names of additional ports (`[a-z][a-z0-9_]*`). Each process gets a reserved port per name, in
    the variable `YARNAM_PORT_<NAME>`."""
    am: ApplicationMaster = ApplicationMaster()
    duration: Annotated[float, DurationBetween(1.0, 365 * DAY_S)] | None = None
    """The expected run time. It is not enforced; it allows a job to start before larger ones, in a
    gap that is long enough."""
    time_limit: Annotated[float, DurationBetween(10.0, 365 * DAY_S)] | None = None
    """The longest time that the gang may run, all attempts together; waiting, the pre-run, a
    suspension and storing the outputs do not count. Shortly before it is over, the processes are
    stopped with time for a checkpoint (`am.stop_grace`), and the job ends with TIME_LIMIT. At least
    as long as `duration`. Default: no limit. See [run times](../how-to/run-times.md)."""
    depends_on: Annotated[list[DependsOn], Field(max_length=MAX_DEPENDENCIES)] = []
    """The jobs that have to end first: see [pipelines](../how-to/pipelines.md#a-job-after-another).
    Until then this job holds its ApplicationMaster's container, no GPU, and no place in the wait
    queue; `gang.wait_timeout` begins afterwards."""
    tags: list[Text] = []
    """YARN application tags, at most 7."""
    notify: Annotated[list[Notify], Field(max_length=MAX_CHANNELS)] = []
    """Whom to notify when the job reaches a state."""
    acls: Acls = Acls()
    interactive: bool = True
    """Whether you may open sessions in the tasks, by `yarnam exec`, `shell`, `debug`,
    `port-forward` and `cp`. See [hands on](../how-to/hands-on.md)."""
    compat: Literal["tony"] | None = None
    """`tony`: processes get TonY's variables too (`JOB_NAME`, `TASK_INDEX`, `CLUSTER_SPEC` and
    others), for programs written for it. See [rendezvous](rendezvous.md#with-compat-tony)."""
    keep: Literal["forever"] | None = None
    """`forever`: the job's directory on HDFS stays. Without it the directory is removed 30 days
    after the end of the job: see [history](../how-to/history.md#the-files-of-ended-jobs)."""
    idempotency_key: Annotated[Text, Field(max_length=MAX_KEY)] | None = None
    """Text that stands for this submit: submitting again with the same key gives the job that the
    first submit has started, also if it has ended. See [pipelines](../how-to/pipelines.md)."""

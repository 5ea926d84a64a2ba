"""The spec as a document: every key, its kind, its default and what it means.

The docstrings below are the reference (docs/reference/spec.md) and the descriptions in the JSON
Schema. Each section may name keys and values that later versions will give a meaning to
(``later_keys``, ``later_values``): they are refused as "not supported yet", never ignored.
What two keys together must satisfy is in ``checks``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
)

from yarnam.model.job import (
    SAME_GPU_MODEL,
    AmSpec,
    ElasticSpec,
    GangSpec,
    RetrySpec,
)
from yarnam.spec.data_sections import Checkpoint, Data
from yarnam.spec.fields import (
    Command,
    DurationBetween,
    SizeBetween,
    Text,
    describe,
    wrong,
)
from yarnam.spec.role_sections import (
    MAX_TASKS,
    Environment,
    GpuCount,
    Role,
    ShippedPath,
    Variable,
)
from yarnam.spec.sections import (
    DAY_S,
    Memory,
    Processes,
    Section,
    Vcores,
    Whole,
    Wish,
)

VERSION = 1
"""Of the format; a change that gives an old document another meaning raises it."""

_GANG, _RETRY, _AM = GangSpec(), RetrySpec(), AmSpec()
_ELASTIC = ElasticSpec()


class Locality(Section):
    """How strong the wish is that the gang is close together, level by level. `required` waits for
    it, `preferred` gives it up step by step, `unconstrained` does not ask for it."""

    later_keys = {"switch": "levels between node and rack", "block": "levels above the rack"}

    node: Wish = "preferred"
    """As few nodes as possible."""
    rack: Wish = "preferred"
    """All in one rack."""


def _kind_of_apart(value: Any) -> str:
    return "(roles)" if isinstance(value, list) else "(role)"


Apart = Annotated[
    Union[
        Annotated[Text, Tag("(role)")],
        Annotated[list[Text], Tag("(roles)")],
    ],
    Discriminator(_kind_of_apart),
]


class Placement(Section):
    """Where the gang may stand."""

    later_keys = {
        "node_label": "YARN node labels",
    }

    locality: Locality = Locality()
    strategy: Literal["pack", "spread"] = "pack"
    """`pack` fills nodes that are in use first; `spread` puts every task on a node of its own."""
    exclude_nodes: list[Text] = []
    """Host names (as YARN shows them) that get no task."""
    include_nodes: list[Text] = []
    """The only host names that get tasks. Default: all nodes."""
    max_nodes: Annotated[int, Field(ge=1, le=MAX_TASKS)] | None = None
    """Most nodes the gang may use. Default: no limit."""
    gpu_model: Text = SAME_GPU_MODEL
    """`same`: all tasks on one model of GPU, where the cluster has several; `any`: whatever there
    is; else words of a model's name, such as `A100` or `V100 32GB`, and all tasks on one model that
    has them. `yarnam nodes` shows the models."""
    anti_affinity: list[Apart] = []
    """Roles whose tasks share no node: a role's name keeps its tasks apart from each other, a list
    of names keeps tasks of different roles apart. `[ps, [ps, worker]]` does both for `ps`."""
    near_data: bool = True
    """Among placements that are as good otherwise, take the one with the most bytes of the job's
    inputs on its nodes."""


class Backoff(Section):
    """The wait after a failed attempt: random, up to `base`, which doubles up to `cap`."""

    base: Annotated[float, DurationBetween(0.1, DAY_S)] = _GANG.backoff_base_s
    """Upper end of the first wait."""
    cap: Annotated[float, DurationBetween(0.1, DAY_S)] = _GANG.backoff_cap_s
    """Upper end of all waits."""


class Gang(Section):
    """How the gang is acquired: all of it, or none."""

    hold_timeout: Annotated[float, DurationBetween(1.0, DAY_S)] = _GANG.hold_timeout_s
    """From an attempt's first container until the whole gang must stand; then all is released."""
    ask_timeout: Annotated[float, DurationBetween(1.0, 30 * DAY_S)] = _GANG.ask_timeout_s
    """From asking until the first container; nothing is held meanwhile."""
    launch_timeout: Annotated[float, DurationBetween(1.0, DAY_S)] = _GANG.launch_timeout_s
    """From the order to start until every process runs."""
    attempts: Whole = _GANG.attempts
    """How often to try before the job fails with GANG_TIMEOUT."""
    backoff: Backoff = Backoff()
    relax_after_attempts: Whole = _GANG.relax_after_attempts
    """Failed attempts at one level of locality before the next looser one is tried."""
    look_before_ask: bool = _GANG.look_before_ask
    """Ask YARN only when the whole gang fits into what is free right now. Looking uses up no
    attempt."""
    wait_timeout: Annotated[float, DurationBetween(1.0, 365 * DAY_S)] = _GANG.wait_timeout_s
    """Longest wait before the first start, over all attempts."""
    priority: Annotated[int, Field(ge=-10, le=10)] = _GANG.priority
    """Among the jobs of the same queue that wait in line: the higher the sooner. A job that waits
    rises by one every 15 minutes, up to the highest in its queue. Only where turns are taken
    (`ticket`)."""
    ticket: bool = _GANG.ticket
    """Take turns with other jobs that wait for GPUs: see
    [taking turns](../how-to/zookeeper.md). Needs a ZooKeeper; `false`, or `look_before_ask: false`:
    ask without regard to them, and count on luck."""
    recovery_timeout: Annotated[float, DurationBetween(0.0, DAY_S)] = _GANG.recovery_timeout_s
    """Longest wait for the replacement of a task that a running gang has lost, while the other
    containers are held; then all is released and the gang starts anew. 0: at once."""


class Elastic(Section):
    """How a gang with an elastic size changes it. Each change stops all processes and starts them
    again from their checkpoint with new ranks. Only with a range at `gpus` or at a role's
    `tasks`."""

    patience: Annotated[float, DurationBetween(0.0, 30 * DAY_S)] = _ELASTIC.patience_s
    """How long the job waits for room for its largest size; then it starts with the largest that
    fits, at least `min`."""
    grow: bool | None = None
    """Grow by itself while GPUs are idle and nobody waits for them. Default: `true` where the job
    has a `checkpoint`, else `false`. `yarnam scale` works in any case."""
    grow_interval: Annotated[float, DurationBetween(1.0, DAY_S)] = _ELASTIC.grow_interval_s
    """Between two looks at the cluster for idle GPUs, and at the queue's share."""
    min_run: Annotated[float, DurationBetween(0.0, 30 * DAY_S)] = _ELASTIC.min_run_s
    """Least time at one size before the gang changes it by itself again."""
    shrink_after: Annotated[float, DurationBetween(0.0, DAY_S)] = _ELASTIC.shrink_after_s
    """How long the queue must be over its fair share, with others waiting, before the gang gives
    back what is over it, down to `min`."""
    checkpoint_grace: Annotated[float, DurationBetween(0.0, 3600.0)] = _ELASTIC.checkpoint_grace_s
    """Between SIGTERM and SIGKILL at a change of size: the time to write a checkpoint."""


class Blacklist(Section):
    """When the job gives up a node. A node that cannot start a container, whose agent cannot make
    its task ready or falls silent, or on which alone processes keep being killed by a signal, has
    one strike for each time; a node that is lost has all of them at once."""

    strikes: Annotated[int, Field(ge=0, le=1000)] = _RETRY.blacklist.strikes
    """So many exclude the node. 0: no node is ever excluded."""
    expiry: Annotated[float, DurationBetween(1.0, 30 * DAY_S)] = _RETRY.blacklist.expiry_s
    """How long a strike counts."""
    cool_down: Annotated[float, DurationBetween(1.0, 30 * DAY_S)] = _RETRY.blacklist.cool_down_s
    """How long an excluded node stays so."""
    max_share: Annotated[float, Field(ge=0.0, le=1.0)] = _RETRY.blacklist.max_share
    """Most of the cluster's nodes excluded at once, from 0 to 1; beyond it the oldest exclusions
    are lifted."""


class Retry(Section):
    """How often a gang that has run is started again."""

    later_keys = {
        "rules": "rules by cause of failure",
        "more_memory": "more memory on retry",
    }

    max_restarts: Annotated[int, Field(ge=0, le=1000)] = _RETRY.max_restarts
    """After faults of the infrastructure (a lost node, a silent agent), whether the lost tasks are
    replaced in place or the whole gang starts anew. 0: never. Preemptions are free."""
    on_user_failure: Annotated[int, Field(ge=0, le=1000)] = _RETRY.on_user_failure
    """After failures of the job's own code; counted apart."""
    blacklist: Blacklist = Blacklist()


class ApplicationMaster(Section):
    """The job's own controller on the cluster. The defaults fit nearly every job."""

    # Skein's Java AM alone is 245 MB resident, our Python up to 100 MB.
    memory: Annotated[int, SizeBetween(512, 1024**2)] = _AM.resources.memory_mib
    """Memory of its container: it holds a JVM and a Python."""
    vcores: Vcores = _AM.resources.vcores
    """Virtual cores of its container."""
    attempts: Annotated[int, Field(ge=1, le=100)] = _AM.attempts
    """Its lives; YARN may allow fewer (`yarn.resourcemanager.am.max-attempts`)."""
    # Heartbeats come every 2 s at the latest.
    agent_silence: Annotated[float, DurationBetween(3.0, 3600.0)] = _AM.agent_silence_s
    """A container not heard of for so long is lost."""
    orphan_timeout: Annotated[float, DurationBetween(3.0, 3600.0)] = _AM.orphan_timeout_s
    """A container that cannot reach its ApplicationMaster for so long stops and leaves."""
    stop_grace: Annotated[float, DurationBetween(0.0, 3600.0)] = _AM.stop_grace_s
    """Between SIGTERM and SIGKILL of the job's processes."""


def _version(value: Any) -> Any:
    """Python takes ``True`` and ``1.0`` for 1."""
    if isinstance(value, (bool, float)) or value != VERSION:
        shown = describe(value) if isinstance(value, (list, dict)) else ascii(value)[:80]
        raise wrong(f"this yarnam reads version {VERSION} of the format, not {shown}")
    return value


class Document(Section):
    """A job for `yarnam submit`."""

    later_keys = {
        "pre_run": "running the first iterations on one GPU",
        "docker": "container images",
        "image": "container images",
        "node_label": "YARN node labels",
        "notify": "notifications",
        "sweep": "sweeps",
    }
    later_values = {
        "framework": {
            "torchrun": "torchrun",
            "horovod": "Horovod",
            "mpi": "MPI",
            "mxnet": "MXNet",
            "paddle": "Paddle",
            "xgboost": "XGBoost",
            "lightgbm": "LightGBM",
        }
    }

    version: Annotated[Literal[1], Field(examples=[1]), BeforeValidator(_version)]
    """Of this format."""
    name: Annotated[Text, Field(examples=["digits"])]
    """The job's name: letters, digits, `.`, `_`, `-`; at most 100."""
    queue: Annotated[Text, Field(examples=["root.research"])]
    """YARN queue by its full name, as in `root.research`."""
    framework: Literal["command", "jax", "pytorch", "tensorflow"] = "command"
    """Which rendezvous variables the processes get, besides the generic ones."""
    command: Command | None = None
    """What each process runs: a list of arguments, which arrive byte for byte, or one line for
    `/bin/bash -c`. Nothing in it is replaced: `${...}` is up to the shell."""
    files: list[ShippedPath] = []
    """What every container gets in its working directory."""
    code: Text | None = None
    """A local directory, shipped as the directory `code`."""
    environment: Environment = Environment()
    env: dict[str, Variable] = {}
    """Variables of all processes."""
    secret_env: list[Text] = []
    """Names in `env` whose values are never shown or logged. Every process of the job gets them,
    also when only one role names them."""
    gpus: GpuCount | None = None
    """How many GPUs in all: a number, or `{min, max}` for an elastic gang. The planner chooses
    tasks and GPUs per task. Instead of `roles`."""
    roles: dict[str, Role] | None = None
    """The gang's members by role name (`[a-z][a-z0-9-]*`). Instead of `gpus`."""
    memory_per_gpu: Memory | None = None
    """Memory a task gets for each of its GPUs. Default: 16GiB."""
    vcores_per_gpu: Vcores | None = None
    """Virtual cores a task gets for each of its GPUs. Default: 4."""
    processes: Processes | None = None
    """Processes of a task, for the roles that do not say. With `gpus` always `per-gpu`."""
    placement: Placement = Placement()
    gang: Gang = Gang()
    elastic: Elastic = Elastic()
    data: Data = Data()
    checkpoint: Checkpoint | None = None
    retry: Retry = Retry()
    ports: list[Text] = []
    """Names of extra ports (`[a-z][a-z0-9_]*`): each process gets one of each, reserved for it, as
    the variable `YARNAM_PORT_<NAME>`."""
    am: ApplicationMaster = ApplicationMaster()
    duration: Annotated[float, DurationBetween(1.0, 365 * DAY_S)] | None = None
    """How long the gang will run, as you expect. Nothing ends when it is over; a job that says so
    may start before longer ones, in a gap that it fits into."""
    tags: list[Text] = []
    """YARN application tags, at most 8."""

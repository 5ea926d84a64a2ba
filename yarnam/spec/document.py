"""The spec as a document: every key, its kind, its default and what it means.

The docstrings below are the reference (docs/reference/spec.md) and the descriptions in the JSON
Schema. Each section may name keys and values that later versions will give a meaning to
(``later_keys``, ``later_values``): they are refused as "not supported yet", never ignored.
What two keys together must satisfy is in ``checks``.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Union

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetJsonSchemaHandler,
    Tag,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from yarnam.model.job import AmSpec, CheckpointSpec, GangSpec, RetrySpec
from yarnam.spec.fields import (
    Argument,
    Command,
    DurationBetween,
    SizeBetween,
    Text,
    describe,
    wrong,
)

VERSION = 1
"""Of the format; a change that gives an old document another meaning raises it."""
MAX_TASKS = 10_000
"""Of one job. Skein holds one tracker entry and one thread hop per container; nobody has more."""
MAX_GPUS = 100_000
"""Of one job."""

DAY_S = 86400.0
_GANG, _RETRY, _AM, _CHECKPOINT = GangSpec(), RetrySpec(), AmSpec(), CheckpointSpec()

Whole = Annotated[int, Field(ge=1, le=1000)]
Memory = Annotated[int, SizeBetween(256, 64 * 1024**2)]
"""The least is what the agent (60 MiB) and a bare Python need."""
Vcores = Annotated[int, Field(ge=1, le=4096)]
ProcessesPerTask = Annotated[int, Field(ge=1, le=256)]
Processes = Literal["per-gpu", "per-task"]
Wish = Literal["required", "preferred", "unconstrained"]


class Section(BaseModel):
    """Base of all sections: strict, no unknown keys."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True
    )
    later_keys: ClassVar[dict[str, str]] = {}
    """Keys that are refused as "not supported yet": what they will be."""
    later_values: ClassVar[dict[str, dict[str, str]]] = {}
    """The same for values, by key."""


class TextOrMapping(Section):
    """A section that may be written as one text."""

    text_key: ClassVar[str] = ""

    @model_validator(mode="before")
    @classmethod
    def _widen(cls, value: Any) -> Any:
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            return {cls.text_key: value}
        if not isinstance(value, dict):
            raise wrong(f"must be text or a mapping with `{cls.text_key}`, not {describe(value)}")
        return value

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        mapping = handler.resolve_ref_schema(handler(schema))
        text = {"type": "string", "minLength": 1}
        return {"anyOf": [text, mapping]}


class ShippedPath(TextOrMapping):
    """A file, directory or archive that every container gets in its working directory."""

    text_key = "source"

    source: Text
    """Local path (relative to the spec file) or an `hdfs://` URI."""
    name: Text | None = None
    """Its name in the working directory, without `/`. Default: the last part of `source`; an
    archive's name without its extension."""
    archive: bool = False
    """Unpack it there (`.zip`, `.tar`, `.tar.gz`, `.tgz`) into a directory of that name."""
    executable: bool | None = None
    """Make it executable. Default: as the local file is."""


class ClientValue(Section):
    """A variable taken from the environment that `yarnam submit` runs in. Never shown."""

    from_: Annotated[Literal["client"], Field(alias="from", examples=["client"])]
    """`client`: from the submitting process; the job is refused when it is not set there."""


def _kind_of_variable(value: Any) -> str:
    return "(mapping)" if isinstance(value, dict) else "(text)"


Variable = Annotated[
    Union[Annotated[Argument, Tag("(text)")], Annotated[ClientValue, Tag("(mapping)")]],
    Discriminator(_kind_of_variable),
]


class Environment(Section):
    """The Python that runs the job on the nodes: what `python` and `python3` mean in commands,
    and its directory is on their PATH."""

    later_keys = {
        "docker": "container images",
        "image": "container images",
        "conda": "packing an environment at submit",
        "pip": "packing an environment at submit",
        "requirements": "packing an environment at submit",
        "venv": "packing an environment at submit",
    }

    python: Text | None = None
    """The interpreter: a path or a name on the nodes' PATH (default `python3`); with `archive`, a
    path within the archive (default `bin/python`)."""
    archive: Text | None = None
    """A packed environment (`.tar.gz`, `.tgz`, `.tar`, `.zip`; as conda-pack or venv-pack makes
    it): an `hdfs://` URI, which nodes cache, or a local path. Unpacked as `environment`."""


def _gpus(value: Any) -> Any:
    if isinstance(value, dict):
        raise wrong("not supported yet: elastic gangs ({min, max}); write a number, as in gpus: 8")
    return value


class Role(Section):
    """One kind of gang member. All tasks of all roles start together or not at all."""

    later_keys = {
        "gpu_model": "choosing the model of GPU",
        "node_label": "YARN node labels",
        "docker": "container images",
        "image": "container images",
        "depends_on": "starting roles one after another",
        "completion": "completion policies per role",
        "min_tasks": "elastic gangs",
        "max_tasks": "elastic gangs",
    }

    tasks: Annotated[int, Field(ge=1, le=MAX_TASKS)] = 1
    """How many containers."""
    gpus: Annotated[int, Field(ge=0, le=1024), BeforeValidator(_gpus)] = 0
    """GPUs of one task."""
    memory: Memory | None = None
    """Memory of one task. Default: `memory_per_gpu` times `gpus`; 2GiB without GPUs."""
    vcores: Vcores | None = None
    """Virtual cores of one task. Default: `vcores_per_gpu` times `gpus`; 1 without GPUs."""
    command: Command | None = None
    """What each process runs. Default: the job's `command`."""
    env: dict[str, Variable] = {}
    """Variables of this role's processes, over the job's `env`."""
    ports: list[Text] = []
    """Names of extra ports, besides the job's `ports`."""
    processes: Processes | None = None
    """How many processes a task starts: `per-gpu` or `per-task` (one). Default: the job's, else
    `per-gpu`; `per-task` for framework `tensorflow` and for tasks without GPUs."""
    processes_per_task: ProcessesPerTask | None = None
    """The number itself, instead of `processes`. With GPUs it must divide their number."""


class Locality(Section):
    """How strong the wish is that the gang is close together, level by level. `required` waits for
    it, `preferred` gives it up step by step, `unconstrained` does not ask for it."""

    later_keys = {"switch": "levels between node and rack", "block": "levels above the rack"}

    node: Wish = "preferred"
    """As few nodes as possible."""
    rack: Wish = "preferred"
    """All in one rack."""


class Placement(Section):
    """Where the gang may stand."""

    later_keys = {
        "gpu_model": "choosing the model of GPU",
        "node_label": "YARN node labels",
        "near_data": "placing tasks near the blocks of their input",
        "anti_affinity": "keeping roles apart",
        "include_nodes": "a list of allowed nodes",
    }

    locality: Locality = Locality()
    strategy: Literal["pack", "spread"] = "pack"
    """`pack` fills nodes that are in use first; `spread` puts every task on a node of its own."""
    exclude_nodes: list[Text] = []
    """Host names (as YARN shows them) that get no task."""
    max_nodes: Annotated[int, Field(ge=1, le=MAX_TASKS)] | None = None
    """Most nodes the gang may use. Default: no limit."""


class Backoff(Section):
    """The wait after a failed attempt: random, up to `base`, which doubles up to `cap`."""

    base: Annotated[float, DurationBetween(0.1, DAY_S)] = _GANG.backoff_base_s
    """Upper end of the first wait."""
    cap: Annotated[float, DurationBetween(0.1, DAY_S)] = _GANG.backoff_cap_s
    """Upper end of all waits."""


class Gang(Section):
    """How the gang is acquired: all of it, or none."""

    later_keys = {
        "recovery_timeout": "replacing a lost task in place",
        "ticket": "taking turns with other jobs through ZooKeeper",
        "priority": "an order among waiting jobs",
    }

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


class Input(TextOrMapping):
    """Data that the job reads. Refused at submit when it does not exist."""

    text_key = "path"
    later_keys = {
        "on_corrupt": "what to do about corrupt records",
        "max_skipped": "skipping corrupt records",
        "shard": "dividing files over ranks",
        "format": "formats of inputs",
        "verify": "checking inputs before the job",
    }
    later_values = {
        "mode": {
            "localize": "copying inputs into containers",
            "cache": "caching inputs on the nodes",
        }
    }

    path: Text
    """File or directory: a URI (`hdfs://`, `viewfs://`, `webhdfs://`, `swebhdfs://`) or an
    absolute path on the cluster's default filesystem."""
    name: Text | None = None
    """Its name, as in `[a-z][a-z0-9_]*`. Default: the last part of `path` without its extension."""
    mode: Literal["stream"] = "stream"
    """`stream`: the training code reads it from where it is."""


def _outputs(value: Any) -> Any:
    if isinstance(value, (list, dict)):
        raise wrong("not supported yet: several outputs; write one directory")
    return value


class Data(Section):
    """What the job reads and writes."""

    inputs: list[Input] = []
    """What the job reads; each is the variable `YARNAM_INPUT_<NAME>` in its processes."""
    outputs: Annotated[Text | None, BeforeValidator(_outputs)] = None
    """Directory that the job's results go to (same forms as an input's `path`); the variable
    `YARNAM_OUTPUT` in its processes."""


class Checkpoint(Section):
    """Where the training code keeps its checkpoints."""

    later_keys = {
        "async": "checkpoints written in the background",
        "every": "checkpoints at intervals",
        "keep_every": "keeping every n-th checkpoint",
        "best": "keeping the best by a metric",
        "restore": "choosing the checkpoint to start from",
        "spool": "spooling to local disk",
    }

    directory: Text
    """A directory (same forms as an input's `path`); the variable `YARNAM_CHECKPOINT_DIR`."""
    keep: Whole = _CHECKPOINT.keep
    """How many checkpoints to keep."""


class Retry(Section):
    """How often a gang that has run is started again."""

    later_keys = {
        "rules": "rules by cause of failure",
        "more_memory": "more memory on retry",
        "blacklist": "nodes given up after faults",
    }

    max_restarts: Annotated[int, Field(ge=0, le=1000)] = _RETRY.max_restarts
    """After faults of the infrastructure: a lost node, a silent agent, preemption. 0: never."""
    on_user_failure: Annotated[int, Field(ge=0, le=1000)] = _RETRY.on_user_failure
    """After failures of the job's own code; counted apart."""


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
        "duration": "forecasts and backfill by declared duration",
        "priority": "an order among waiting jobs",
        "elastic": "elastic gangs",
        "node_label": "YARN node labels",
        "gpu_model": "choosing the model of GPU",
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
    gpus: Annotated[int, Field(ge=1, le=MAX_GPUS), BeforeValidator(_gpus)] | None = None
    """How many GPUs in all; the planner chooses tasks and GPUs per task. Instead of `roles`."""
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
    data: Data = Data()
    checkpoint: Checkpoint | None = None
    retry: Retry = Retry()
    ports: list[Text] = []
    """Names of extra ports (`[a-z][a-z0-9_]*`): each process gets one of each, reserved for it, as
    the variable `YARNAM_PORT_<NAME>`."""
    am: ApplicationMaster = ApplicationMaster()
    tags: list[Text] = []
    """YARN application tags, at most 8."""

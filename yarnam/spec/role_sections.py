"""Sections of the spec about what runs: roles, their sizes, variables, files and Python."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

from pydantic import BeforeValidator, Discriminator, Field, Tag

from yarnam.spec.fields import Argument, Command, Text, wrong
from yarnam.spec.sections import Memory, Processes, ProcessesPerTask, Section, TextOrMapping, Vcores

MAX_TASKS = 10_000
"""Of one job. Skein holds one tracker entry and one thread hop per container; nobody has more."""
MAX_GPUS = 100_000
"""Of one job."""


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
        raise wrong(
            "a task has one size: write gpus: 2 and the range at the role's tasks, as in"
            " tasks: {min: 2, max: 8}"
        )
    return value


class TaskRange(Section):
    """An elastic number of tasks. The gang starts with as many as there is room for, and changes
    its size while it runs: see [elastic gangs](../how-to/elastic-gangs.md)."""

    min: Annotated[int, Field(ge=1, le=MAX_TASKS, examples=[2])]
    """The gang never runs with fewer."""
    max: Annotated[int, Field(ge=1, le=MAX_TASKS, examples=[4])]
    """The gang never has more."""


class GpuRange(Section):
    """An elastic number of GPUs. The job gets one role, `worker`, of tasks with as many GPUs as
    divide both numbers (fewer where no node has so many): its size moves in such steps."""

    min: Annotated[int, Field(ge=1, le=MAX_GPUS, examples=[4])]
    """The gang never runs with fewer."""
    max: Annotated[int, Field(ge=1, le=MAX_GPUS, examples=[16])]
    """The gang never has more."""


def _kind_of_count(value: Any) -> str:
    return "(range)" if isinstance(value, (dict, Section)) else "(number)"


TaskCount = Annotated[
    Union[
        Annotated[int, Field(ge=1, le=MAX_TASKS), Tag("(number)")],
        Annotated[TaskRange, Tag("(range)")],
    ],
    Discriminator(_kind_of_count),
]
GpuCount = Annotated[
    Union[
        Annotated[int, Field(ge=1, le=MAX_GPUS), Tag("(number)")],
        Annotated[GpuRange, Tag("(range)")],
    ],
    Discriminator(_kind_of_count),
]


class Role(Section):
    """One kind of gang member. All tasks of all roles start together or not at all."""

    later_keys = {
        "node_label": "YARN node labels",
        "docker": "container images",
        "image": "container images",
        "depends_on": "starting roles one after another",
        "completion": "completion policies per role",
    }

    tasks: TaskCount = 1
    """How many containers: a number, or `{min, max}` for an elastic gang."""
    gpus: Annotated[int, Field(ge=0, le=1024), BeforeValidator(_gpus)] = 0
    """GPUs of one task."""
    gpu_model: Text | None = None
    """Model of this role's GPUs, as in `placement.gpu_model`. Default: that."""
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

    @property
    def most_tasks(self) -> int:
        return self.tasks if isinstance(self.tasks, int) else self.tasks.max

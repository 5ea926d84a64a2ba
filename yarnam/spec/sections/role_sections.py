"""Sections of the spec about what runs: roles, their sizes, variables, files and Python."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

from pydantic import BeforeValidator, Discriminator, Field, Tag

from yarnam.core.model.job_spec import MAX_TASKS
from yarnam.spec.sections.section_base import (
    DAY_S,
    Memory,
    Processes,
    ProcessesPerTask,
    Section,
    TextOrMapping,
    Vcores,
)
from yarnam.spec.values.fields import Argument, Command, DurationBetween, Text, wrong

MOUNT = r"^/[^:,\s]*:/[^:,\s]*:(ro|rw)$"
"""As YARN's runtimes take it (DockerLinuxContainerRuntime, RuncContainerRuntime)."""

MAX_GPUS = 100_000
"""Per job."""


class ShippedPath(TextOrMapping):
    """A file, directory or archive to place in the working directory of every container."""

    text_key = "source"

    source: Text
    """Local path (relative to the spec file) or an `hdfs://` URI."""
    name: Text | None = None
    """The name in the working directory, without `/`. Default: the last part of `source`, for an
    archive without extension."""
    archive: bool = False
    """Unpack it (`.zip`, `.tar`, `.tar.gz`, `.tgz`) into a directory of that name."""
    executable: bool | None = None
    """Make it executable. Default: same as the local file."""


class ClientValue(Section):
    """A variable taken from the environment of `yarnam submit`. Its value is never shown."""

    from_: Annotated[Literal["client"], Field(alias="from", examples=["client"])]
    """`client`: take it from the submitting process. Submit fails if it is not set there."""


def _kind_of_variable(value: Any) -> str:
    return "(mapping)" if isinstance(value, dict) else "(text)"


Variable = Annotated[
    Union[Annotated[Argument, Tag("(text)")], Annotated[ClientValue, Tag("(mapping)")]],
    Discriminator(_kind_of_variable),
]


class Image(TextOrMapping):
    """A container image of the site's registry, for the tasks' containers."""

    text_key = "name"

    name: Annotated[Text, Field(examples=["registry.example/team/train:1"])]
    """The image's name."""
    mounts: list[Annotated[str, Field(pattern=MOUNT, examples=["/data:/data:ro"])]] = []
    """Directories of the node, as `source:destination:mode`, where mode is `ro` or `rw`. The site
    decides which are allowed."""


class Environment(Section):
    """The Python that runs the job on the nodes: `python` and `python3` in commands refer to it,
    and its directory is on PATH."""

    python: Text | None = None
    """The interpreter: a path or a name on the nodes' PATH (default `python3`), or `bundled` for
    the one that yarnam brings along. With `archive`: a path inside the archive (default
    `bin/python`)."""
    archive: Text | None = None
    """An environment packed by conda-pack or venv-pack (`.tar.gz`, `.tgz`, `.tar`, `.zip`): an
    `hdfs://` URI, which the nodes cache, or a local path. Unpacked as `environment`."""
    requirements: Text | None = None
    """A requirements file. Submit installs what it names into a copy of your Python, once for each
    content of the file."""
    pyproject: Text | None = None
    """A directory with a `pyproject.toml`: the same for the project's dependencies, without the
    project itself (ship it with `code`). Needs uv."""
    lock: Text | None = None
    """The same for a lock: `uv.lock`, `pylock.toml` (both need uv), or a requirements file with
    hashes."""
    venv: Text | None = None
    """A virtual environment of this machine, packed as it is: its directory, or `active`."""
    pex: Text | None = None
    """A PEX file, unpacked at submit."""
    docker: Image | None = None
    """The image that the tasks' containers are started from by YARN's Docker runtime, where the
    NodeManagers allow it. `python` is then a path or name in the image."""
    runc: Image | None = None
    """The same by YARN's runC runtime."""
    conda: Text | None = None
    """An `environment.yml`, or the directory of a conda environment. Needs conda-pack, and for the
    file conda, mamba or micromamba."""


def _gpus(value: Any) -> Any:
    if isinstance(value, dict):
        raise wrong(
            "a task has a fixed size: write gpus: 2, and make the role's tasks a range such as"
            " tasks: {min: 2, max: 8}"
        )
    return value


class TaskRange(Section):
    """An elastic number of tasks. The gang starts with as many as fit, and changes its size while
    it runs: see [elastic gangs](../how-to/elastic-gangs.md)."""

    min: Annotated[int, Field(ge=1, le=MAX_TASKS, examples=[2])]
    """The smallest size of the gang."""
    max: Annotated[int, Field(ge=1, le=MAX_TASKS, examples=[4])]
    """The largest size of the gang."""
    choose: Annotated[Literal["advice"] | None, Field(examples=["advice"])] = None
    """`advice`: the submit chooses one size of the range by the program's measured runs, and the
    gang keeps it: see [how many GPUs](../how-to/how-many-gpus.md)."""
    batch: Annotated[Literal["global", "per-process"] | None, Field(examples=["per-process"])] = (
        None
    )
    """For `choose`: whether the processes divide one batch, or each has its own; by default as the
    measured compute suggests, else `global`."""


class GpuRange(Section):
    """An elastic number of GPUs. The job gets one role, `worker`, whose tasks have the largest
    number of GPUs that divides both `min` and `max` (less if no node has that many). The size
    changes by whole tasks."""

    min: Annotated[int, Field(ge=1, le=MAX_GPUS, examples=[4])]
    """The smallest size of the gang."""
    max: Annotated[int, Field(ge=1, le=MAX_GPUS, examples=[16])]
    """The largest size of the gang."""
    choose: Annotated[Literal["advice"] | None, Field(examples=["advice"])] = None
    """As for the `tasks` of a role."""
    batch: Annotated[Literal["global", "per-process"] | None, Field(examples=["per-process"])] = (
        None
    )
    """As for the `tasks` of a role."""


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


class CompletionRules(Section):
    """Which tasks of the role must succeed, by `at_least` or `succeed`, and whether the others are
    waited for."""

    at_least: Annotated[int, Field(ge=1, le=MAX_TASKS, examples=[3])] | None = None
    """How many tasks must succeed."""
    succeed: Literal["all", "any", "chief"] | None = None
    """The tasks that must succeed, as in `completion` itself."""
    wait: Literal["all"] | None = None
    """`all`: the role is complete only when all of its tasks have ended. Default: the tasks that
    still run are stopped when enough have succeeded."""


def _kind_of_completion(value: Any) -> str:
    return "(rules)" if isinstance(value, (dict, Section)) else "(word)"


CompletionValue = Annotated[
    Union[
        Annotated[Literal["all", "any", "chief"], Tag("(word)")],
        Annotated[CompletionRules, Tag("(rules)")],
    ],
    Discriminator(_kind_of_completion),
]


class AfterRole(TextOrMapping):
    """A role whose tasks come first. The containers of all roles are still acquired together; only
    the processes of this role wait."""

    text_key = "role"

    role: Text
    """Its name."""
    until: Literal["started", "ready", "ended"] = "started"
    """`started`: all of its processes run. `ready`: they say so (`yarnam.train.ready()`), or listen
    on the port that its `ready` names. `ended`: all of its tasks have ended; this role's
    containers, with their GPUs, are held meanwhile."""


class Ready(Section):
    """When a task of this role is ready for the roles that start after it."""

    port: Text | None = None
    """One of the role's `ports`: each of its processes listens on it. Default: its processes say so
    by `yarnam.train.ready()`."""
    timeout: Annotated[float, DurationBetween(1.0, DAY_S)] = 300.0
    """Stop the job if a task has started and is not ready for this long while others wait for
    it."""


def _kind_of_after(value: Any) -> str:
    return "(list)" if isinstance(value, list) else "(one)"


AfterValue = Annotated[
    Union[Annotated[AfterRole, Tag("(one)")], Annotated[list[AfterRole], Tag("(list)")]],
    Discriminator(_kind_of_after),
]


class Role(Section):
    """A group of identical tasks. All tasks of all roles start together or not at all."""

    refused_keys = {
        "docker": "one image is for all roles; write environment: {docker: ...}",
        "image": "one image is for all roles; write environment: {docker: ...}",
    }

    tasks: TaskCount = 1
    """The number of containers, or `{min, max}` for an elastic gang."""
    gpus: Annotated[int, Field(ge=0, le=1024), BeforeValidator(_gpus)] = 0
    """GPUs per task."""
    gpu_model: Text | None = None
    """The GPU model of this role, as in `placement.gpu_model`, which is the default."""
    node_label: Text | None = None
    """The YARN node label of this role's nodes, as in `placement.node_label`, the default."""
    memory: Memory | None = None
    """Memory per task. Default: `memory_per_gpu` times `gpus`; 2GiB without GPUs."""
    vcores: Vcores | None = None
    """Virtual cores per task. Default: `vcores_per_gpu` times `gpus`; 1 without GPUs."""
    command: Command | None = None
    """The command of each process. Default: the job's `command`."""
    env: dict[str, Variable] = {}
    """Environment variables for this role, which override the job's `env`."""
    ports: list[Text] = []
    """Names of additional ports, besides the job's `ports`."""
    processes: Processes | None = None
    """Processes per task: one `per-gpu` or one `per-task`. Default: the job's, otherwise `per-gpu`;
    `per-task` for framework `tensorflow` and for tasks without GPUs."""
    processes_per_task: ProcessesPerTask | None = None
    """The number of processes, instead of `processes`. It must divide the number of GPUs."""
    completion: CompletionValue = "all"
    """Which tasks must succeed: `all`, `any`, `{at_least: 3}`, or `chief` (role `chief` if there is
    one, else the first task of this role). `{wait: all, succeed: chief}` needs the success of that
    one alone, and waits until all have ended. A task that fails stops the job only if this can no
    longer be met. See [roles](../how-to/roles.md)."""
    service: bool | None = None
    """Stop this role when the others are complete: for parameter servers, TensorBoard, notebooks.
    Default: true for a role `ps` beside others."""
    early_exit: Literal["accept", "fail"] = "accept"
    """The outcome when a task of a service succeeds before the other roles have ended: `accept` has
    no effect, `fail` fails the job."""
    optional: bool = False
    """Let tasks of this role fail, or be lost, without the job."""
    after: AfterValue = []
    """Start the processes of this role after those of another one, or of several."""
    ready: Ready = Ready()

    @property
    def all_after(self) -> list[AfterRole]:
        return self.after if isinstance(self.after, list) else [self.after]

    @property
    def most_tasks(self) -> int:
        return self.tasks if isinstance(self.tasks, int) else self.tasks.max

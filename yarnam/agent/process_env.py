"""The environment of a training process, from what the container has and what the job wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from yarnam.agent.gpus import visibility
from yarnam.agent.keeper import MARK
from yarnam.agent.task_job import TaskJob
from yarnam.agent.workspace import Workspace, search_path
from yarnam.wire.protocol import (
    ENV_AM_ADDRESS,
    ENV_JOB_DIR,
    ENV_LEASE_DIR,
    ENV_NODE_GPU_MODEL,
    ENV_NODE_GPUS,
    ENV_SERVICE,
    LOCAL_INPUTS,
    LOCAL_INPUTS_FILE,
    LOCAL_RUNTIME,
)

# Skein's variables lead to its certificate, which commands the whole application; ours are of no
# use to the user's code; what keeps the agent small or finds its Python must not leak into theirs.
_DROPPED_PREFIX = "SKEIN_"
_DROPPED = frozenset(
    {
        ENV_AM_ADDRESS,
        ENV_JOB_DIR,
        ENV_LEASE_DIR,
        ENV_NODE_GPU_MODEL,
        ENV_NODE_GPUS,
        ENV_SERVICE,
        "GRPC_ENABLE_FORK_SUPPORT",
        "GRPC_VERBOSITY",
        "MALLOC_ARENA_MAX",
        "PYTHONHOME",
        "VIRTUAL_ENV",
    }
)


@dataclass(frozen=True, slots=True)
class ProcessPlace:
    """What the agent itself adds for one process."""

    container: Path
    container_id: str
    workspace: Workspace
    metrics_address: str
    stop_file: Path
    inputs_address: str = ""
    """Where the SDK asks about inputs; empty: the job has none."""


def process_environment(
    base: Mapping[str, str],
    job: TaskJob,
    rendezvous: Mapping[str, str],
    gpu_ids: Sequence[str],
    place: ProcessPlace,
) -> dict[str, str]:
    """Later ones win: container, job and role with secrets, rendezvous, GPUs, the agent's."""
    runtime = place.container / LOCAL_RUNTIME
    env = {
        name: value
        for name, value in base.items()
        if not name.startswith(_DROPPED_PREFIX) and name not in _DROPPED
    }
    env["PYTHONPATH"] = _without(env.get("PYTHONPATH", ""), runtime)
    env.setdefault("PYTHONUNBUFFERED", "1")
    env.update(job.env)
    env.update(rendezvous)
    env.update(visibility(gpu_ids))
    work = str(place.workspace.directory)
    python_path = (work, env["PYTHONPATH"], str(runtime / "sdk"))
    env["PYTHONPATH"] = ":".join(part for part in python_path if part)
    env["PATH"] = search_path(place.workspace, env)
    env["PWD"] = work
    env["YARNAM_PYTHON"] = str(place.workspace.python.path or "")
    env["YARNAM_METRICS_SOCKET"] = place.metrics_address
    env["YARNAM_STOP_FILE"] = str(place.stop_file)
    if place.inputs_address:
        env["YARNAM_INPUTS_SOCKET"] = place.inputs_address
    env |= _inputs_environment(place.container)
    env[MARK] = place.container_id
    return env


def _inputs_environment(container: Path) -> dict[str, str]:
    """Where the list of the inputs is, and those of them that were brought to the node."""
    places = {"YARNAM_INPUTS_FILE": LOCAL_INPUTS_FILE, "YARNAM_LOCAL_INPUTS": LOCAL_INPUTS}
    return {name: str(container / at) for name, at in places.items() if (container / at).exists()}


def _without(python_path: str, runtime: Path) -> str:
    """The container's PYTHONPATH less the agent's own libraries. An empty part would mean the
    working directory: it goes too."""
    kept = []
    for part in python_path.split(":"):
        path = Path(part)
        if part and runtime not in (path, *path.parents) and path.parts[:1] != (LOCAL_RUNTIME,):
            kept.append(part)
    return ":".join(kept)

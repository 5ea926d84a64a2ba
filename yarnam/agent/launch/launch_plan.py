"""From a launch directive to processes ready to be started: programs, logs and environments."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from yarnam.agent import programs
from yarnam.agent.keeper.keeper import MARK
from yarnam.agent.launch.log_files import log_name
from yarnam.agent.launch.stop_agreement import position_file
from yarnam.agent.launch.task_run import ProcessPlan
from yarnam.agent.launch.workspace import (
    DEFAULT_PATH,
    Program,
    Workspace,
    find_program,
    layers_of,
    make_workspace,
    search_path,
)
from yarnam.agent.machine.agent_directives import Launch, ProcessLaunch
from yarnam.agent.metrics_inbox import step_file
from yarnam.agent.resources.gpu_devices import gpu_environment
from yarnam.agent.resources.interfaces import interface_environment, interface_of
from yarnam.agent.task_config import ContainerSettings, TaskJob
from yarnam.core.frameworks.registry import framework_named
from yarnam.core.model.outcomes import ExitKind
from yarnam.core.model.resources import split_gpus
from yarnam.errors.full_disks import in_words
from yarnam.wire import protocol

STOP_FILE = ".yarnam-stop"
ERROR_FILE = ".yarnam-error"
RECORDER = ".yarnam-recorder"
MEMBERS_FILE = ".yarnam-members"

# Skein's variables lead to its certificate, which commands the whole application; ours are of no
# use to the user's code; what keeps the agent small or finds its Python must not leak into theirs.
_DROPPED_PREFIX = "SKEIN_"
_DROPPED = frozenset(
    {
        protocol.ENV_AM_ADDRESS,
        protocol.ENV_JOB_DIR,
        protocol.ENV_NODE_GPU_MODEL,
        protocol.ENV_NODE_GPUS,
        protocol.ENV_SERVICE,
        "GRPC_ENABLE_FORK_SUPPORT",
        "GRPC_VERBOSITY",
        "MALLOC_ARENA_MAX",
        "PYTHONHOME",
        "VIRTUAL_ENV",
        "YARNAM_CLIENT_PYTHON",
        "YARNAM_NODE_PYTHON",
    }
)

_OF_THE_AGENT = (protocol.ENV_COPY_HOLDERS, protocol.ENV_COPY_PEER)
"""From the AM to the agent; those of a large gang are too long for an environment."""


def stop_file(container: Path) -> Path:
    """Exists once the task is to end: ``yarnam.train.should_stop`` checks for it."""
    return container / STOP_FILE


def write_members(container: Path, members: Sequence[str]) -> None:
    """The members of an in-place elastic gang, for the program that its processes meet at."""
    draft = container / f"{MEMBERS_FILE}.draft"
    draft.write_text("".join(f"{member}\n" for member in members))
    draft.replace(container / MEMBERS_FILE)


def plan_processes(
    settings: ContainerSettings,
    job: TaskJob,
    launch: Launch,
    base: Mapping[str, str],
    leased: Sequence[str],
    metrics_address: str,
    inputs_address: str = "",
    node_address: str = "",
    holder_address: str = "",
) -> tuple[tuple[ProcessPlan, ...], Path]:
    """The processes and their working directory. Writes to the disk; a directory that cannot be
    made is a problem of every process."""
    stop_file(settings.directory).unlink(missing_ok=True)
    path = dict(job.env).get("PATH") or base.get("PATH") or DEFAULT_PATH
    try:
        workspace = make_workspace(settings.directory, job, path)
    except OSError as error:
        why = in_words(error, settings.directory)
        return _all_with_problem(settings, launch, f"cannot make the working directory: {why}")
    shares = [process.gpu_ids for process in launch.processes]
    if not any(shares):
        shares = list(split_gpus(leased, len(launch.processes)))
    context = ProcessContext(
        settings.directory,
        settings.container,
        workspace,
        metrics_address,
        stop_file(settings.directory),
        inputs_address,
        log_directory=settings.log_directory,
        interface=interface_of(node_address) if node_address else "",
        visible_gpus=visible_gpus(job.runs_as, shares),
        holder_address=holder_address,
    )
    plans = []
    for process, gpu_ids in zip(launch.processes, shares, strict=True):
        mine = context._replace(local_rank=process.local_rank)
        mine.error_file.unlink(missing_ok=True)
        position_file(context.stop_file, process.local_rank).unlink(missing_ok=True)
        step_file(context.stop_file, process.local_rank).unlink(missing_ok=True)
        env = process_environment(base, job, process.env, gpu_ids, mine)
        program = run_by(
            job.runs_as, find_program(workspace, job.command, env["PATH"]), job.notebook
        )
        plans.append(
            ProcessPlan(
                rank=process.rank,
                local_rank=process.local_rank,
                path=program.path,
                argv=program.argv,
                env=env,
                log=_log(settings, launch, process),
                problem=program.problem,
            )
        )
    return tuple(plans), workspace.directory


def visible_gpus(framework: str, shares: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The devices that every process of the task sees, in the order of the local ranks; empty if
    each process sees its own share alone."""
    if not framework_named(framework).device_by_local_rank or any(len(ids) != 1 for ids in shares):
        return ()
    return tuple(ids[0] for ids in shares)


def run_by(framework: str, program: Program, notebook: str = "") -> Program:
    """The program that the framework, or the server of a ``notebook``, needs around a command,
    with that command."""
    name = "notebook_server" if notebook else framework_named(framework).program
    if not name or program.problem:
        return program
    path = Path(programs.__file__).with_name(f"{name}.py")
    around = (str(path), notebook or "run", program.path, *program.argv[1:])
    own = (sys.executable, "-I", "-S", *around)
    return Program(sys.executable, own)


def _all_with_problem(
    settings: ContainerSettings, launch: Launch, problem: str
) -> tuple[tuple[ProcessPlan, ...], Path]:
    plans = tuple(
        ProcessPlan(
            rank=process.rank,
            local_rank=process.local_rank,
            path="",
            argv=(),
            env={},
            log=_log(settings, launch, process),
            problem=problem,
            problem_kind=ExitKind.NOT_STARTED,
        )
        for process in launch.processes
    )
    return plans, settings.directory


def _log(settings: ContainerSettings, launch: Launch, process: ProcessLaunch) -> Path:
    return settings.log_directory / log_name(launch.role, launch.task_index, process.local_rank)


class ProcessContext(NamedTuple):
    """The agent's own part of a process's environment."""

    container: Path
    container_id: str
    workspace: Workspace
    metrics_address: str
    stop_file: Path
    inputs_address: str = ""
    """Where the SDK sends requests about inputs; empty if the job has none."""
    local_rank: int = 0
    log_directory: Path = Path()
    interface: str = ""
    """The network interface of the node's address; empty if it is unknown."""
    visible_gpus: tuple[str, ...] = ()
    """The devices that CUDA shows to every process of the task; empty if each sees only its own."""
    holder_address: str = ""
    """Where the SDK keeps checkpoints in memory; empty if it does not."""

    @property
    def error_file(self) -> Path:
        """Where a framework may write why this process failed."""
        return self.container / f"{ERROR_FILE}.{self.local_rank}"

    @property
    def recorder(self) -> dict[str, str]:
        """Where torch's flight recorder has its pipe, and what it writes: beside the logs, each
        with the rank after it."""
        return {
            protocol.ENV_RECORDER_PIPE: str(self.container / f"{RECORDER}.{self.local_rank}."),
            protocol.ENV_RECORDER_FILE: str(self.log_directory / "flight-recorder."),
        }


def process_environment(
    base: Mapping[str, str],
    job: TaskJob,
    rendezvous: Mapping[str, str],
    gpu_ids: Sequence[str],
    context: ProcessContext,
) -> dict[str, str]:
    """Later ones win: container, job and role with secrets, rendezvous, GPUs, the agent's."""
    runtime = context.container / protocol.LOCAL_RUNTIME
    env = {
        name: value
        for name, value in base.items()
        if not name.startswith(_DROPPED_PREFIX) and name not in _DROPPED
    }
    env["PYTHONPATH"] = _without(env.get("PYTHONPATH", ""), runtime)
    env.setdefault("PYTHONUNBUFFERED", "1")
    env.update(job.env)
    more = framework_named(job.runs_as).interface_variables
    for name, value in interface_environment(context.interface, more).items():
        env.setdefault(name, value)
    env.update(rendezvous)
    for name in _OF_THE_AGENT:
        env.pop(name, None)
    env.update(gpu_environment(gpu_ids, context.visible_gpus))
    work = str(context.workspace.directory)
    python_path = (work, env["PYTHONPATH"], str(runtime / "sdk"))
    env["PYTHONPATH"] = ":".join(part for part in python_path if part)
    env["PATH"] = search_path(context.workspace, env)
    env["PWD"] = work
    env["YARNAM_PYTHON"] = str(context.workspace.python.path or "")
    env["YARNAM_STOP_FILE"] = str(context.stop_file)
    if (local := context.container / protocol.LOCAL_INPUTS).exists():
        env["YARNAM_LOCAL_INPUTS"] = str(local)
    if layers := layers_of(context.container):
        env[protocol.ENV_LAYERS] = ":".join(layers)
    env[protocol.ENV_SDK] = _sdk_settings(env.get(protocol.ENV_SDK, "{}"), context)
    if (members := context.container / MEMBERS_FILE).exists():
        env["YARNAM_MEMBERS_FILE"] = str(members)
    env.setdefault(protocol.ENV_ERROR_FILE, str(context.error_file))
    if env.get(protocol.ENV_RECORDER_SIZE):
        env.update({name: path for name, path in context.recorder.items() if not env.get(name)})
    env[MARK] = context.container_id
    return env


def _sdk_settings(of_job: str, context: ProcessContext) -> str:
    """The AM's part, and what the SDK needs to know of this container."""
    inputs_file = context.container / protocol.LOCAL_INPUTS_FILE
    mine = {
        "metrics_socket": context.metrics_address,
        "request_socket": context.inputs_address,
        "inputs_file": str(inputs_file) if inputs_file.exists() else "",
        "checkpoint_memory": context.holder_address,
    }
    return json.dumps({**json.loads(of_job), **mine}, separators=(",", ":"))


def _without(python_path: str, runtime: Path) -> str:
    """The container's PYTHONPATH less the agent's own libraries. An empty part would mean the
    working directory: it goes too."""
    kept = []
    for part in python_path.split(":"):
        path = Path(part)
        if (
            part
            and runtime not in (path, *path.parents)
            and path.parts[:1] != (protocol.LOCAL_RUNTIME,)
        ):
            kept.append(part)
    return ":".join(kept)

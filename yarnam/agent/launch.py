"""From a launch directive to processes ready to be started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from yarnam.agent.gpus import share
from yarnam.agent.output import log_name
from yarnam.agent.process_env import ProcessPlace, process_environment
from yarnam.agent.settings import Settings
from yarnam.agent.task_job import TaskJob
from yarnam.agent.task_run import ProcessPlan
from yarnam.agent.workspace import DEFAULT_PATH, find_program, make_workspace

STOP_FILE = ".yarnam-stop"


def stop_file(container: Path) -> Path:
    """It exists once the task is to end: ``yarnam.train.should_stop`` looks for it."""
    return container / STOP_FILE


def plan_processes(
    settings: Settings,
    job: TaskJob,
    launch: Any,
    base: Mapping[str, str],
    leased: Sequence[str],
    metrics_address: str,
    inputs_address: str = "",
) -> tuple[tuple[ProcessPlan, ...], Path]:
    """The processes and their working directory. Touches the disk; a directory that cannot be
    made is a problem of every process."""
    stop_file(settings.directory).unlink(missing_ok=True)
    path = dict(job.env).get("PATH") or base.get("PATH") or DEFAULT_PATH
    try:
        workspace = make_workspace(settings.directory, job, path)
    except OSError as error:
        # The keeper finds no directory to start in, and says so for each process.
        return _all_unable(settings, launch, f"cannot make the working directory: {error}")
    shares = [tuple(process.gpu_ids) for process in launch.processes]
    if not any(shares):
        shares = list(share(leased, len(launch.processes)))
    place = ProcessPlace(
        settings.directory,
        settings.container,
        workspace,
        metrics_address,
        stop_file(settings.directory),
        inputs_address,
    )
    plans = []
    for process, gpu_ids in zip(launch.processes, shares, strict=True):
        env = process_environment(base, job, process.env, gpu_ids, place)
        program = find_program(workspace, job.command, env["PATH"])
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


def _all_unable(
    settings: Settings, launch: Any, problem: str
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
            is_user_problem=False,
        )
        for process in launch.processes
    )
    return plans, settings.directory


def _log(settings: Settings, launch: Any, process: Any) -> Path:
    return settings.log_directory / log_name(launch.role, launch.index, process.local_rank)

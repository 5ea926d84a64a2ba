"""A role beside those that train: a service or an optional role runs as a plain command, whatever
the job's framework puts around its own processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.frameworks.contract import APPLICATION, job, placed
from yarnam.agent.launch.launch_plan import plan_processes
from yarnam.agent.machine.agent_directives import Launch, ProcessLaunch
from yarnam.agent.task_config import read_container_settings, read_task_job
from yarnam.core.frameworks.registry import NAMES, framework_named
from yarnam.core.model.ids import PRE_RUN_ROLE, AskId
from yarnam.core.model.job_spec import JobSpec
from yarnam.wire.codec import encode
from yarnam.wire.records import JobRecord
from yarnam.wire.rendezvous import environments

WRAPPING = [name for name in NAMES if framework_named(name).program]


def job_with_a_board(framework: str) -> JobSpec:
    board = {"service": True, "command": ["true", "board"]}
    return job(framework, roles={"worker": {"command": ["true", "train"]}, "board": board})


def argv(made: JobSpec, folder: Path, role: str) -> tuple[str, ...]:
    """What the agent of the first task of this role starts."""
    (folder / "job.json").write_bytes(encode(JobRecord(made, (), "hdfs://x", 1.0, "0")))
    task = read_task_job(folder / "job.json", folder / "none", role, "")
    variables = {
        "YARNAM_ASK": str(AskId(1, role, 0)), "YARNAM_AM_ADDRESS": "127.0.0.1:1",
        "CONTAINER_ID": "c1", "NM_HOST": "n1",
    }  # fmt: skip
    settings = read_container_settings(variables, folder)
    members = placed(made)
    envs = environments(made, members, 1, APPLICATION)
    env = next((envs[number][0] for number, one in enumerate(members) if one.task.role == role), {})
    launch = Launch(1, role, processes=(ProcessLaunch(env=env),))
    (plan,), _ = plan_processes(settings, task, launch, {"PATH": "/usr/bin:/bin"}, (), "")
    assert not plan.problem
    return plan.argv


@pytest.mark.parametrize("framework", WRAPPING)
def test_what_a_framework_puts_around_commands_is_for_its_own_roles(
    framework: str, tmp_path: Path
) -> None:
    made = job_with_a_board(framework)
    assert argv(made, tmp_path, "board")[1:] == ("board",)
    wrapped = argv(made, tmp_path, "worker")
    assert f"{framework_named(framework).program}.py" in " ".join(wrapped)
    assert wrapped[-1] == "train"


@pytest.mark.parametrize("framework", WRAPPING)
def test_the_pre_run_is_the_frameworks(framework: str, tmp_path: Path) -> None:
    made = job_with_a_board(framework)
    assert f"{framework_named(framework).program}.py" in " ".join(
        argv(made, tmp_path, PRE_RUN_ROLE)
    )


def test_there_are_frameworks_that_wrap() -> None:
    assert {"horovod", "ray", "xgboost", "dask", "mpi"} <= set(WRAPPING)


def test_a_role_of_the_frameworks_own_is_no_stranger() -> None:
    tensorflow = framework_named("tensorflow")
    assert tensorflow.knows("evaluator", is_auxiliary=True)
    assert not tensorflow.knows("board", is_auxiliary=True)
    assert tensorflow.knows("worker", is_auxiliary=False)

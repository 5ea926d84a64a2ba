"""The agent's light reader against the records as the client writes them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from yarnam.agent.launch.workspace import make_workspace
from yarnam.agent.task_config import read_task_job
from yarnam.core.model.ids import PRE_RUN_ROLE
from yarnam.core.model.job_spec import (
    AmSpec,
    EnvironmentSpec,
    JobSpec,
    RoleSpec,
    ShippedFile,
)
from yarnam.core.model.plans import LocalityLevel, Target
from yarnam.core.model.resources import Resources
from yarnam.errors import BadConfig, WireMismatch
from yarnam.wire.codec import encode
from yarnam.wire.protocol import LOCAL_ENVIRONMENT
from yarnam.wire.records import JobRecord

ROLE = RoleSpec(
    "worker",
    2,
    Resources(1024, 2, 4),
    ("python", "a b", "ü"),
    processes_per_task=4,
    env=(("B", "role"),),
    ports=("web",),
)
JOB = JobSpec(
    "digits",
    "root.q",
    "ann",
    "jax",
    (RoleSpec("ps", 1, Resources(1, 1), ("true",)), ROLE),
    environment=EnvironmentSpec("bin/python", "hdfs://x/env.tar.gz"),
    env=(("A", "job"), ("B", "job"), ("SECRET", "")),
    files=(ShippedFile("code", "hdfs://x/code", is_archive=True), ShippedFile("x.json", "x")),
    am=AmSpec(orphan_timeout_s=12.5, stop_grace_s=3.0),
    secret_env=("SECRET",),
)
TARGET = Target("worker-8", "worker", LocalityLevel.ANY, Resources(1, 1, 8), processes_per_task=8)


def write(folder: Path, record: JobRecord, secrets: dict[str, str] | None = None) -> None:
    (folder / "job.json").write_bytes(encode(record))
    if secrets is not None:
        (folder / "secrets.json").write_text(json.dumps(secrets))


def test_reads_what_the_client_writes(tmp_path: Path) -> None:
    write(tmp_path, JobRecord(JOB, (TARGET,), "hdfs://x", 1.0, "0"), {"SECRET": "s"})
    job = read_task_job(tmp_path / "job.json", tmp_path / "secrets.json", "worker", "")
    assert (job.name, job.user, job.framework, job.role) == ("digits", "ann", "jax", "worker")
    assert job.command == ROLE.command
    assert (job.processes, job.gpus, job.port_labels) == (4, 4, ("web",))
    assert dict(job.env) == {"A": "job", "B": "role", "SECRET": "s"}
    assert job.files == ("code", "x.json")
    assert (job.python, job.has_environment) == ("bin/python", True)
    assert (job.orphan_timeout_s, job.stop_grace_s) == (12.5, 3.0)
    assert job.tasks == JOB.tasks == 3


def test_services_and_optional_roles_read_no_share(tmp_path: Path) -> None:
    board = replace(ROLE, name="board", service=True)
    extra = replace(ROLE, name="extra", optional=True)
    job = replace(JOB, roles=(ROLE, board, extra))
    write(tmp_path, JobRecord(job, (TARGET,), "hdfs://x", 1.0, "0"))
    read = read_task_job(tmp_path / "job.json", tmp_path / "none", "worker", "")
    assert read.readers == (("worker", 8), ("board", 0), ("extra", 0))


def test_the_target_that_was_asked_for_gives_the_size(tmp_path: Path) -> None:
    write(tmp_path, JobRecord(JOB, (TARGET,), "hdfs://x", 1.0, "0"))
    job = read_task_job(tmp_path / "job.json", tmp_path / "none", "worker", "worker-8")
    assert (job.processes, job.gpus) == (8, 8)


def test_unknown_role_and_other_versions_are_refused(tmp_path: Path) -> None:
    write(tmp_path, JobRecord(JOB, (), "hdfs://x", 1.0, "0"))
    with pytest.raises(WireMismatch, match="role 'chief'"):
        read_task_job(tmp_path / "job.json", tmp_path / "none", "chief", "")
    write(tmp_path, JobRecord(JOB, (), "hdfs://x", 1.0, "0", version=2))
    with pytest.raises(WireMismatch, match="version 2"):
        read_task_job(tmp_path / "job.json", tmp_path / "none", "worker", "")


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_damaged_record_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "job.json").write_text(text)
    with pytest.raises(BadConfig, match=r"job\.json"):
        read_task_job(tmp_path / "job.json", tmp_path / "none", "worker", "")


def test_a_pre_run_runs_what_the_leading_role_does(tmp_path: Path) -> None:
    target = Target("pre-run-1g-any", PRE_RUN_ROLE, LocalityLevel.ANY, Resources(256, 1, 1))
    write(tmp_path, JobRecord(JOB, (TARGET, target), "hdfs://x", 1.0, "0"))
    read = (tmp_path / "job.json", tmp_path / "secrets.json", PRE_RUN_ROLE, target.service)
    job = read_task_job(*read)
    assert (job.role, job.command) == ("worker", ROLE.command)
    assert (job.processes, job.gpus) == (1, 1)
    assert dict(job.env)["B"] == "role"


@pytest.mark.parametrize(("compat", "is_linked"), [("tony", True), ("", False)])
def test_programs_written_for_tony_find_their_environment(
    compat: str, is_linked: bool, tmp_path: Path
) -> None:
    write(tmp_path, JobRecord(replace(JOB, compat=compat), (TARGET,), "hdfs://x", 1.0, "0"))
    job = read_task_job(tmp_path / "job.json", tmp_path / "secrets.json", "worker", "")
    (tmp_path / LOCAL_ENVIRONMENT / "lib").mkdir(parents=True)
    workspace = make_workspace(tmp_path, job, "/bin")
    assert (workspace.directory / "venv" / "lib").is_dir() == is_linked


def test_the_sources_own_venv_stays(tmp_path: Path) -> None:
    write(tmp_path, JobRecord(replace(JOB, compat="tony"), (TARGET,), "hdfs://x", 1.0, "0"))
    job = read_task_job(tmp_path / "job.json", tmp_path / "secrets.json", "worker", "")
    (tmp_path / "code" / "venv" / "own").mkdir(parents=True)
    workspace = make_workspace(tmp_path, job, "/bin")
    assert (workspace.directory / "venv" / "own").is_dir()

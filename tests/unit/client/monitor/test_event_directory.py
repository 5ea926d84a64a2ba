"""Which directory TensorBoard shows of a job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.client.world import APPLICATION, World, status
from yarnam.client import Job
from yarnam.client.monitor.event_directory import VARIABLE, event_directory
from yarnam.core.model.job_spec import JobSpec, StoringSpec
from yarnam.core.model.job_status import JobState
from yarnam.errors import UsageError
from yarnam.wire.codec import encode

KEY = "20261121-000000-abcdef"
HIDDEN = f"hdfs://memory/results/.digits.{APPLICATION}"
KEPT = f"hdfs://memory/results/digits.partial.{APPLICATION}"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def shown(world: World, job: Job, logdir: str = "") -> str:
    return event_directory(world.site, job.record().job, job.status, logdir)


def job_in(world: World, state: JobState, **changes: object) -> Job:
    world.line.statuses = [status(state)]
    record = world.job(key=KEY).record()
    spec: JobSpec = replace(record.job, **changes)
    world.put(KEY, "job.json", encode(replace(record, job=spec)))
    return world.client.job(APPLICATION)


@pytest.mark.parametrize(
    ("state", "where"),
    [
        (JobState.QUEUED, HIDDEN),
        (JobState.RUNNING, HIDDEN),
        (JobState.STORING, HIDDEN),
        (JobState.SUCCEEDED, "hdfs://memory/results/digits"),
        (JobState.FAILED, KEPT),
    ],
)
def test_the_outputs_where_they_are(world: World, state: JobState, where: str) -> None:
    storing = StoringSpec(keep_on_failure=True)
    job = job_in(world, state, output="/results/digits", storing=storing)
    assert shown(world, job) == where


def test_what_the_spec_names_comes_first_and_the_option_before_it(world: World) -> None:
    env = ((VARIABLE, "hdfs://memory/logs/digits"),)
    job = job_in(world, JobState.RUNNING, output="/results/digits", env=env)
    assert shown(world, job) == "hdfs://memory/logs/digits"
    assert shown(world, job, "hdfs://memory/x") == "hdfs://memory/x"


def test_a_role_may_name_it(world: World) -> None:
    job = job_in(world, JobState.RUNNING)
    (role,) = job.record().job.roles
    role = replace(role, env=((VARIABLE, "hdfs://memory/logs"),))
    job = job_in(world, JobState.RUNNING, roles=(role,))
    assert shown(world, job) == "hdfs://memory/logs"


@pytest.mark.parametrize(
    ("state", "changes", "words"),
    [
        (JobState.RUNNING, {}, "writes no outputs"),
        (JobState.FAILED, {"output": "/results/digits"}, "outputs are deleted"),
        (JobState.RUNNING, {"env": ((VARIABLE, "logs"),)}, "logs is not a directory on HDFS"),
        (JobState.RUNNING, {"env": ((VARIABLE, "/tmp/l"),)}, "not a directory on HDFS"),
        (JobState.RUNNING, {"env": ((VARIABLE, "file:///tmp/l"),)}, "not a directory on HDFS"),
    ],
)
def test_what_cannot_be_shown(
    world: World, state: JobState, changes: dict[str, object], words: str
) -> None:
    job = job_in(world, state, **changes)
    with pytest.raises(UsageError, match=words):
        shown(world, job)

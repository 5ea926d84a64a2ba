"""``yarnam suspend`` and ``yarnam resume`` over a client on fakes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.client.monitor.test_requested_size import KEY
from tests.unit.client.world import APPLICATION, World, status
from yarnam.cli.shell import Shell, run
from yarnam.core.model.job_spec import CheckpointSpec
from yarnam.core.model.job_status import JobState
from yarnam.errors import ExitCode
from yarnam.wire.codec import encode

RUNNING = replace(status(JobState.RUNNING), phase="RUNNING")
SUSPENDED = replace(status(JobState.SUSPENDED), phase="SUSPENDED")


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    record = made.job(key=KEY).record()
    job = replace(record.job, checkpoint=CheckpointSpec("/checkpoints"))
    made.put(KEY, "job.json", encode(replace(record, job=job)))
    made.line.statuses = [RUNNING]
    made.line.on_suspend = lambda: made.line.statuses.append(SUSPENDED)
    made.line.on_resume = lambda: made.line.statuses.append(RUNNING)
    return made


def yarnam(world: World, *arguments: str) -> int:
    return run(arguments, Shell(lambda **_: world.client))


def test_suspend_returns_when_nothing_is_held(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert yarnam(world, "suspend", APPLICATION, "--for", "2h", "--reason", "a demo") == 0
    assert world.line.suspended == [("me", 7200.0, "a demo")]
    out = capsys.readouterr().out
    assert "is suspended for up to 2h" in out
    assert f"yarnam resume {APPLICATION}" in out


def test_what_is_suspended_already_is_left_as_it_is(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.line.statuses = [replace(SUSPENDED, at_s=1000.0, deadline_s=1000.0 + 1800.0)]
    assert yarnam(world, "suspend", APPLICATION, "--for", "2h") == 0
    assert world.line.suspended == []
    assert "is suspended for up to 30m" in capsys.readouterr().out


def test_a_job_without_checkpoints_is_suspended_by_force_alone(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    record = world.client.job(APPLICATION).record()
    job = replace(record.job, checkpoint=CheckpointSpec())
    world.put(KEY, "job.json", encode(replace(record, job=job)))
    assert yarnam(world, "suspend", APPLICATION) == ExitCode.USAGE
    assert "would start from the beginning" in capsys.readouterr().err
    assert world.line.suspended == []
    assert yarnam(world, "suspend", APPLICATION, "--force") == 0
    assert world.line.suspended == [("me", 604800.0, "")]


@pytest.mark.parametrize("state", [JobState.STORING, JobState.SUCCEEDED])
def test_a_job_that_is_done_is_told(
    world: World, capsys: pytest.CaptureFixture[str], state: JobState
) -> None:
    world.line.statuses = [replace(status(state), phase=state.value)]
    assert yarnam(world, "suspend", APPLICATION) == ExitCode.USAGE
    assert f"is {state.value}: there is nothing to suspend" in capsys.readouterr().err


def test_a_job_that_ends_while_it_is_resumed_is_told(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    killed = replace(status(JobState.FAILED), phase="FAILED")
    world.line.statuses = [SUSPENDED, killed]
    assert yarnam(world, "resume", APPLICATION) == ExitCode.USAGE
    assert "is FAILED: there is nothing to resume" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["soon", "0s", "900d", "7"])
def test_nonsense_is_a_usage_error(world: World, text: str) -> None:
    assert yarnam(world, "suspend", APPLICATION, "--for", text) == ExitCode.USAGE
    assert world.line.suspended == []


def test_a_gang_that_is_being_stopped_is_asked_again_when_that_is_over(world: World) -> None:
    stopping = replace(RUNNING, phase="STOPPING")
    world.line.statuses = [stopping, stopping, RUNNING]
    assert yarnam(world, "suspend", APPLICATION) == 0
    assert len(world.line.suspended) == 1


def test_resume(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.line.statuses = [SUSPENDED]
    assert yarnam(world, "resume", APPLICATION, "--json") == 0
    assert world.line.resumed == ["me"]
    assert json.loads(capsys.readouterr().out)["state"] == "RUNNING"


def test_what_is_not_suspended_cannot_be_resumed(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert yarnam(world, "resume", APPLICATION) == ExitCode.USAGE
    assert "is not suspended: it is RUNNING" in capsys.readouterr().err
    assert world.line.resumed == []

"""``yarnam ps`` over a client on fakes."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.unit.client.world import World, status
from yarnam.cli.shell import Shell, run
from yarnam.client.user_paths import new_key, tag_of
from yarnam.core.model.job_status import AwaitedJob, JobState, RoleStatus
from yarnam.errors import ExitCode


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    for number, (queue, tag) in enumerate((("root.dl", "a"), ("root.dl", "b"), ("root.web", "a"))):
        key, application = new_key(), f"application_1700000000000_{number:04}"
        made.job(key=key, application=application)
        made.rm.change(
            application,
            queue=queue,
            tags=("yarnam", tag_of(key), tag),
            name=f"train-{number}",
            state="ACCEPTED",
            started_at_s=time.time() - 3600.0 * (number + 0.5),
        )
    return made


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ((), ["train-0", "train-1", "train-2"]),
        (("--queue", "root.dl"), ["train-0", "train-1"]),
        (("--tag", "a"), ["train-0", "train-2"]),
        (("--tag", "a", "--tag", "b"), []),
        (("--name", "train-2"), ["train-2"]),
        (("--since", "2h"), ["train-0", "train-1"]),
        (("--since", "2h", "-q", "root.dl", "--tag", "b"), ["train-1"]),
    ],
)
def test_a_list_has_the_jobs_that_pass_all_filters(
    world: World, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], names: list[str]
) -> None:
    assert run(("ps", "--json", *options), Shell(lambda **_: world.client)) == 0
    assert sorted(job["name"] for job in json.loads(capsys.readouterr().out)) == names


def test_a_time_that_is_none_is_a_usage_error(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(("ps", "--since", "yesterday"), Shell(lambda **_: world.client))
    assert code == ExitCode.USAGE
    assert "neither a date such as 2026-11-22 nor an age" in capsys.readouterr().err


def test_a_role_that_failed_without_its_job_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path)
    failed, runs = (
        RoleStatus(name, "optional", 3, 0, n, "") for name, n in (("eval", 2), ("b", 0))
    )
    world.line.statuses = [status(step=5, roles=(failed, runs))]
    world.job()
    assert run(("ps",), Shell(lambda **_: world.client)) == 0
    assert "step 5, 2 of role eval failed\n" in capsys.readouterr().out


def test_what_a_job_waits_for_is_in_the_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path)
    jobs = (AwaitedJob("application_1_0001", "prep", state=JobState.RUNNING),) * 3
    world.line.statuses = [status(JobState.QUEUED, awaited=jobs)]
    world.job()
    assert run(("ps",), Shell(lambda **_: world.client)) == 0
    shown = capsys.readouterr().out
    assert "waits for prep (application_1_0001, RUNNING) to succeed and 2 more" in shown

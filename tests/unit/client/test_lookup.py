"""From what a user types to one job, and the list of jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.client.world import World, verdict
from yarnam.core.model.job_status import JobState
from yarnam.core.model.outcomes import VerdictKind
from yarnam.errors import UsageError
from yarnam.wire.codec import encode


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def app(number: int) -> str:
    return f"application_1700000000000_{number:04}"


def test_an_application_id_is_taken_as_it_is(world: World) -> None:
    assert world.client.job(app(7)).id == app(7)
    assert world.rm.asked == 0


def test_last_is_the_users_newest(world: World) -> None:
    world.job(application=app(1), started_at_s=1.0)
    world.job(application=app(2), started_at_s=2.0, state="FINISHED")
    world.job(application=app(3), started_at_s=3.0, user="you")
    assert world.client.job("last").id == app(2)


def test_the_start_of_a_name(world: World) -> None:
    world.job(application=app(1), name="digits")
    world.job(application=app(2), name="resnet")
    assert world.client.job("dig").id == app(1)
    with pytest.raises(UsageError, match="no job whose name starts with 'x'"):
        world.client.job("x")


def test_a_whole_name_wins_over_longer_ones(world: World) -> None:
    world.job(application=app(1), name="digits-large")
    world.job(application=app(2), name="digits")
    assert world.client.job("digits").id == app(2)


def test_a_name_means_its_living_job_else_the_newest(world: World) -> None:
    world.job(application=app(1), name="digits", started_at_s=1.0)
    world.job(application=app(2), name="digits", started_at_s=2.0, state="FINISHED")
    assert world.client.job("digits").id == app(1)
    world.rm.change(app(1), state="KILLED")
    assert world.client.job("digits").id == app(2)


def test_several_living_jobs_are_listed_not_guessed(world: World) -> None:
    world.job(application=app(1), name="digits")
    world.job(application=app(2), name="digits")
    with pytest.raises(UsageError, match="matches 2 jobs") as caught:
        world.client.job("digits")
    assert app(1) in caught.value.hint
    assert app(2) in caught.value.hint


def test_two_names_are_never_one_job(world: World) -> None:
    world.job(application=app(1), name="digits", state="FINISHED")
    world.job(application=app(2), name="digest", state="FINISHED")
    with pytest.raises(UsageError, match="several"):
        world.client.job("dig")


def test_no_job_at_all(world: World) -> None:
    with pytest.raises(UsageError, match="me has no job"):
        world.client.job("last")


def test_jobs_that_live_and_jobs_that_ended(world: World) -> None:
    key = "20261121-000000-abcdef"
    world.job(application=app(1), state="FINISHED", key=key, started_at_s=1.0)
    world.put(key, "verdict.json", encode(verdict(VerdictKind.FAILED, 90)))
    world.job(application=app(2), state="ACCEPTED", started_at_s=2.0)
    world.rm.add(app(3), tags=("spark",))
    assert [job.application for job in world.client.jobs()] == [app(2)]
    assert [job.state for job in world.client.jobs(include_ended=True)] == [
        JobState.QUEUED, JobState.FAILED,
    ]  # fmt: skip
    assert [job.application for job in world.client.jobs(state=JobState.FAILED)] == [app(1)]


def test_other_peoples_jobs_are_what_yarn_tells(world: World) -> None:
    from hdfs_utils.errors import PermissionDenied

    def fail(operation: str, path: str) -> None:
        if path.startswith("/user/you"):
            raise PermissionDenied("no", path=path, operation=operation)

    world.rm.add(app(1), user="you", tags=("yarnam", "yarnam-job-20261121-000000-abcdef"))
    world.files.fail = fail
    (job,) = world.client.jobs(user="")
    assert job.user == "you"
    assert job.state is not JobState.RUNNING  # the AM's container alone proves nothing
    assert "according to YARN" in job.reason

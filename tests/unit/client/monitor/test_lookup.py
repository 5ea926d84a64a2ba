"""From what a user types to one job, and the list of jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.client.world import CREDENTIALS, World, status, task, verdict
from yarnam.core.model.job_status import JobState
from yarnam.core.model.outcomes import VerdictKind
from yarnam.errors import Unavailable, UsageError, YarnamError
from yarnam.wire.codec import encode
from yarnam.wire.records import AmRecord

KEY = "20261121-000000-abcdef"


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
    """Whatever they leave in their directories: nothing is read there, and nobody is dialled."""
    world.rm.add(app(1), user="you", tags=("yarnam", f"yarnam-job-{KEY}"))
    directory = world.site.paths_of("you").job(KEY)
    world.files.write_bytes(f"{directory}/am.json", encode(AmRecord(app(1), 1, "evil", 22)))
    world.files.write_bytes(f"{directory}/status.json", b"[" * 3000)
    touched: list[str] = []
    world.files.fail = lambda _operation, path: touched.append(path)
    (job,) = world.client.jobs(user="")
    assert job.user == "you"
    assert job.state is not JobState.RUNNING  # the AM's container alone proves nothing
    assert "according to YARN" in job.reason
    assert not [path for path in touched if path.startswith("/user/you")]
    assert world.lines == []


def test_one_job_that_cannot_be_read_leaves_the_others_in_the_list(world: World) -> None:
    world.job(application=app(1), key=KEY, am=False)
    world.put(KEY, "status.json", b"[" * 3000)
    world.job(application=app(2), started_at_s=9000.0)

    def fail(operation: str, path: str) -> None:
        if KEY in path and path.endswith("am.json"):
            raise RecursionError("whatever it is")

    world.files.fail = fail
    newest, other = world.client.jobs()
    assert (newest.state, other.application) == (JobState.RUNNING, app(1))
    assert "cannot be read" in other.reason
    world.files.fail = lambda _operation, _path: None
    assert len(world.client.jobs()) == 2


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "n1.example", ""])
def test_another_users_job_does_not_choose_whom_to_dial(world: World, host: str) -> None:
    world.rm.add(app(1), user="you", tags=("yarnam", f"yarnam-job-{KEY}"))
    directory = world.site.paths_of("you").job(KEY)
    world.files.write_bytes(f"{directory}/am.json", encode(AmRecord(app(1), 1, host, 4711)))
    world.files.write_bytes(f"{directory}/credentials.pem", CREDENTIALS)
    with pytest.raises(Unavailable, match="is not a node"):
        world.client.job(app(1)).status()
    assert world.lines == []
    world.files.write_bytes(
        f"{directory}/am.json", encode(AmRecord(app(1), 1, "n1", 4711)), overwrite=True
    )
    world.client.job(app(1)).status()
    assert len(world.lines) == 1


@pytest.mark.parametrize("address", ["evil.example:22", "127.0.0.1:9", "[::1]:9", "n1.evil:9", "x"])
def test_another_users_am_does_not_choose_whose_logs_are_read(world: World, address: str) -> None:
    world.rm.add(app(1), user="you", tags=("yarnam", f"yarnam-job-{KEY}"))
    directory = world.site.paths_of("you").job(KEY)
    world.files.write_bytes(f"{directory}/am.json", encode(AmRecord(app(1), 1, "n1", 4711)))
    world.files.write_bytes(f"{directory}/credentials.pem", CREDENTIALS)
    world.line.statuses = [
        status(tasks=(task("worker-0", (0,), address), task("worker-1", (1,), "n1:9")))
    ]
    pieces = list(world.client.job(app(1)).logs())
    assert {at for at, *_ in world.line.tails} == {"n1:9"}
    assert any("is not a node" in piece.data.decode() for piece in pieces if piece.is_note)


def test_a_recorded_key_leads_nowhere_else(world: World) -> None:
    path = world.site.paths.application(app(1))
    for content in (b"../../../etc", b"\xff\xfe", b"x" * 100):
        world.files.write_bytes(path, content, overwrite=True)
        with pytest.raises(UsageError, match="does not exist"):
            world.client.job(app(1)).status()


def test_a_file_of_a_job_is_read_to_a_limit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yarnam.adapters.hdfs.small_files.MAX_BYTES", 1000)
    job = world.job(key=KEY, state="FINISHED")
    world.put(KEY, "status.json", b" " * 1001)
    with pytest.raises(YarnamError, match="longer than 1000 bytes"):
        job.status()

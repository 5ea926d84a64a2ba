"""Idempotency keys: one job for each, whoever submits and whatever gets lost."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hdfs_utils.errors import Unavailable as HdfsUnavailable
from tests.fakes.launcher import FakeLauncher
from tests.unit.client.world import World, job_spec, verdict
from yarnam.adapters import submitter
from yarnam.adapters.yarn.rest_parse import YarnApplication
from yarnam.client import Job
from yarnam.client.submit import idempotency
from yarnam.client.submit.idempotency import (
    CONFIRM_LIMIT_S,
    IN_PROGRESS_LIMIT_S,
    Decision,
    EarlierSubmit,
    IdempotencyKey,
    decide,
)
from yarnam.client.submit.leftovers import abandoned
from yarnam.client.user_paths import new_key, tag_of
from yarnam.core.model.outcomes import VerdictKind
from yarnam.errors import Unavailable, UserFailed
from yarnam.wire.codec import decode, encode
from yarnam.wire.records import IdempotencyRecord

MINE, OTHER = "20261121-000000-aaaaaa", "20261121-000001-bbbbbb"
RUN = "pipeline/2026-11-21/train"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "POLL_S", 0.01)
    # The fake's files are all as old as the epoch.
    monkeypatch.setattr(abandoned, "KEY_KEPT_S", 1e12)


def app(number: int, state: str, key: str = MINE, **facts: Any) -> YarnApplication:
    return YarnApplication(
        f"application_1_{number:04}", "a", "me", "root.dl", state, "UNDEFINED",
        tags=("yarnam", tag_of(key)), **facts,
    )  # fmt: skip


# ---- the decision ------------------------------------------------------------------------------

IN_PROGRESS, CONFIRMED = IdempotencyRecord(MINE), IdempotencyRecord(MINE, "application_1_0001")
FIRST = EarlierSubmit("application_1_0001", MINE)
LONG = IN_PROGRESS_LIMIT_S + 1


@pytest.mark.parametrize(
    ("record", "found", "waited_s", "expected"),
    [
        (None, [], 0, (Decision.SUBMIT, None)),
        (CONFIRMED, [], 0, (Decision.ADOPT, FIRST)),
        # Its record is gone, and it runs.
        (None, [app(1, "RUNNING")], 0, (Decision.ADOPT, FIRST)),
        # Undone by its own submit.
        (None, [app(1, "KILLED")], 0, (Decision.SUBMIT, None)),
        (None, [app(1, "FINISHED")], 0, (Decision.SUBMIT, None)),
        # Another submit is under way.
        (IN_PROGRESS, [], 0, (Decision.WAIT, None)),
        (IN_PROGRESS, [app(1, "ACCEPTED")], 0, (Decision.WAIT, None)),
        (IN_PROGRESS, [app(1, "KILLED")], CONFIRM_LIMIT_S, (Decision.WAIT, None)),
        # It never heard YARN's answer.
        (IN_PROGRESS, [app(1, "ACCEPTED")], CONFIRM_LIMIT_S, (Decision.ADOPT, FIRST)),
        (IN_PROGRESS, [app(1, "FINISHED")], 0, (Decision.ADOPT, FIRST)),
        (IN_PROGRESS, [app(1, "FAILED")], 0, (Decision.ADOPT, FIRST)),
        # It was killed before it asked YARN.
        (IN_PROGRESS, [], LONG, (Decision.TAKE_OVER, None)),
        (IN_PROGRESS, [app(1, "KILLED")], LONG, (Decision.TAKE_OVER, None)),
        (IN_PROGRESS, [app(2, "RUNNING", OTHER)], LONG, (Decision.TAKE_OVER, None)),
        # Of two that run, the first.
        (None, [app(2, "RUNNING", OTHER, started_at_s=2.0), app(1, "RUNNING", started_at_s=1.0)],
         0, (Decision.ADOPT, FIRST)),
    ],
)  # fmt: skip
def test_what_follows(
    record: IdempotencyRecord | None,
    found: list[YarnApplication],
    waited_s: float,
    expected: tuple[Decision, EarlierSubmit | None],
) -> None:
    assert decide(record, found, waited_s) == expected


# ---- submits -----------------------------------------------------------------------------------


def submit(world: World, key: str = RUN) -> Job:
    return world.client.submit(job_spec(), idempotency_key=key)


def records(world: World) -> list[IdempotencyRecord]:
    folder = world.site.paths.idempotency_records
    if not world.files.exists(folder):
        return []
    return [
        decode(world.files.read_bytes(one.path), IdempotencyRecord)
        for one in world.files.list(folder)
    ]


def test_a_second_submit_is_the_first_ones_job(world: World) -> None:
    first, second = submit(world), submit(world)
    assert (second.id, second.directory) == (first.id, first.directory)
    assert len(world.launcher.submitted) == 1
    assert submit(world, "another run").id != first.id
    assert world.client.submit(job_spec()).id != world.client.submit(job_spec()).id


def test_a_key_can_be_looked_up_without_submitting(world: World) -> None:
    assert world.client.submitted(RUN) is None
    job = submit(world)
    found = world.client.submitted(RUN)
    assert found is not None
    assert (found.id, found.directory) == (job.id, job.directory)


def test_the_specs_own_key_counts(world: World) -> None:
    job = job_spec(idempotency_key=RUN)
    assert world.client.submit(job).id == world.client.submit(job).id == submit(world).id


def test_it_counts_after_the_end_and_when_yarn_has_forgotten(world: World) -> None:
    first = submit(world)
    failed = verdict(VerdictKind.FAILED, 90, "exit code 3")
    world.put(first.directory.rpartition("/")[2], "verdict.json", encode(failed))
    world.rm.change(first.id, state="FINISHED", final_status="FAILED")
    with pytest.raises(UserFailed):
        submit(world).wait(raise_on_failure=True)
    world.rm.apps.clear()
    assert submit(world).wait() == failed
    assert len(world.launcher.submitted) == 1


def test_the_key_itself_is_on_no_tag_and_in_no_name(world: World) -> None:
    job = submit(world, "run of the secret project")
    assert "secret" not in " ".join(world.rm.apps[job.id].tags)
    assert not [path for path in world.left_on_hdfs() if "secret" in path]


def test_a_cluster_that_is_full_by_now_does_not_matter(world: World) -> None:
    first = submit(world)
    world.rm.nodes = ()
    assert submit(world).id == first.id


def test_a_lost_answer_leaves_the_job_for_the_next_submit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """YARN has taken the application, and from then on nobody hears anything of it."""
    monkeypatch.setattr(idempotency, "CONFIRM_LIMIT_S", 0.05)
    world.launcher.accept_first = True

    def lose(_: Any) -> None:
        world.rm.failure = Unavailable("no answer from the ResourceManager")
        raise world.rm.failure

    world.launcher.on_submit = lose
    with pytest.raises(Unavailable, match="no answer"):
        submit(world)
    (started,) = world.rm.apps
    world.rm.failure = None
    world.launcher.on_submit = lambda _: None
    found = submit(world)
    assert found.id == started
    assert world.files.exists(f"{found.directory}/job.json"), "its containers need it"
    assert world.rm.killed == []
    assert len(world.rm.apps) == 1
    assert records(world) == [IdempotencyRecord(found.directory.rpartition("/")[2], started)]


def test_a_submit_that_fails_clears_up_and_the_next_one_starts_a_job(world: World) -> None:
    world.launcher.accept_first = True

    def fail(_: Any) -> None:
        raise Unavailable("YARN says no")

    world.launcher.on_submit = fail
    with pytest.raises(Unavailable):
        submit(world)
    (undone,) = world.rm.apps
    assert world.rm.killed == [undone]
    assert world.left_on_hdfs() == []
    world.launcher.on_submit = lambda _: None
    world.launcher.submitted.append(None)  # the next id
    assert submit(world).id != undone


def test_without_a_key_a_lost_answer_leaves_nothing(world: World) -> None:
    world.launcher.accept_first = True

    def lose(_: Any) -> None:
        world.rm.failure = Unavailable("no answer from the ResourceManager")
        raise world.rm.failure

    world.launcher.on_submit = lose
    with pytest.raises(Unavailable):
        world.client.submit(job_spec())
    assert world.left_on_hdfs() == []


def test_of_many_at_a_time_one_submits_and_all_get_its_job(world: World) -> None:
    launchers: list[FakeLauncher] = []

    def launcher() -> FakeLauncher:
        launchers.append(FakeLauncher(world._accept))
        return launchers[-1]

    world.site.open_launcher = launcher
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: submit(world).id, range(8)))
    assert len(set(found)) == 1
    assert sum(len(one.submitted) for one in launchers) == 1
    assert len(world.rm.apps) == 1


def test_the_key_of_a_submit_that_was_killed_is_taken_over(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "IN_PROGRESS_LIMIT_S", 0.05)
    said: list[str] = []
    IdempotencyKey(world.site, RUN).take(new_key())
    record = IdempotencyKey(world.site, RUN, said.append)
    assert record.earlier_submit() is None
    assert "waiting for it" in said[0]
    assert submit(world).id


def test_a_submit_that_was_silent_for_too_long_gives_way(world: World) -> None:
    """It was frozen between its record and YARN's answer, and another one took the key over."""

    def take_over(_: Any) -> None:
        world.launcher.on_submit = lambda _: None
        path = IdempotencyKey(world.site, RUN).path
        world.files.delete(path)
        other = new_key()
        world.rm.add("application_1700000000000_0999", tags=("yarnam", tag_of(other)))
        content = IdempotencyRecord(other, "application_1700000000000_0999")
        world.files.write_bytes(path, encode(content))

    world.launcher.on_submit = take_over
    found = submit(world)
    assert found.id == "application_1700000000000_0999"
    (late,) = world.rm.killed
    assert late != found.id
    assert world.rm.apps[late].is_over


def test_nothing_is_submitted_that_cannot_be_recorded(world: World) -> None:
    def fail(operation: str, path: str) -> None:
        if operation == "create" and "/idempotency/" in path:
            raise HdfsUnavailable("no answer from the NameNode")

    world.files.fail = fail
    with pytest.raises(Unavailable, match="no answer from the NameNode"):
        submit(world)
    assert world.launcher.submitted == []
    assert world.left_on_hdfs() == []


def test_old_records_are_cleared(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    submit(world)
    abandoned.clear_abandoned(world.site)
    assert len(records(world)) == 1
    monkeypatch.setattr(abandoned, "KEY_KEPT_S", 0.0)
    abandoned.clear_abandoned(world.site)
    assert records(world) == []


def test_the_record_of_the_job_has_the_key(world: World) -> None:
    assert submit(world).record().job.idempotency_key == RUN


def test_the_key_of_a_process_that_is_dead_is_taken_over_soon(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "GONE_LIMIT_S", 0.05)
    with subprocess.Popen(["sleep", "60"]) as process:
        monkeypatch.setattr(submitter, "this_process", lambda: identity_of(process.pid))
        IdempotencyKey(world.site, RUN).take(new_key(), ends_with_client=True)
        record = IdempotencyKey(world.site, RUN)
        assert not submitter.is_gone(identity_of(process.pid))
        process.kill()
    assert record.earlier_submit() is None, "long before IN_PROGRESS_LIMIT_S"


def identity_of(pid: int) -> str:
    return submitter._machine() + f" {pid} {submitter._started(pid)}"


def test_a_process_whose_end_would_not_be_the_submits_is_not_named(world: World) -> None:
    world.launcher.ends_with_client = False
    taken: list[IdempotencyRecord] = []
    world.launcher.on_submit = lambda _: taken.extend(records(world))
    submit(world)
    world.launcher.ends_with_client = True
    world.files.delete(world.site.paths.idempotency_records, recursive=True)
    submit(world, "another run")
    assert [one.submitter for one in taken] == ["", submitter.this_process()]


@pytest.mark.parametrize(
    "changed",
    [
        "",
        "other-boot pid:[1] 0 1 1",
        "no numbers at all",
    ],
)
def test_who_is_elsewhere_may_live(changed: str) -> None:
    assert not submitter.is_gone(changed)
    assert not submitter.is_gone(submitter.this_process())


def test_a_process_with_the_number_of_a_dead_one_is_another() -> None:
    mine = submitter.this_process()
    earlier = mine.rpartition(" ")[0] + " 1"
    assert submitter.is_gone(earlier)

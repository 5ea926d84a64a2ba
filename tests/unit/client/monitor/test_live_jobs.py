"""Reading many jobs again and again, over a client on fakes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.client.world import World, status
from yarnam.client.monitor.job_sources import JobSources
from yarnam.client.monitor.live import live_jobs
from yarnam.client.monitor.live.live_jobs import LiveJobs, by_urgency
from yarnam.client.user_paths import new_key
from yarnam.core.model.job_status import JobStatus
from yarnam.errors import Unavailable
from yarnam.ports.job_access import StatusVersion

LIMIT_S = 20.0
"""Far more than any of these needs."""


def name_of(number: int) -> str:
    return f"application_1700000000000_{number:04}"


class Replies:
    """What the jobs answer; one whose name is in ``hangs`` answers when ``freed`` is set."""

    def __init__(self) -> None:
        self.hangs: set[str] = set()
        self.fails: set[str] = set()
        self.freed = threading.Event()
        self.asked: list[str] = []
        self.now_hanging = 0
        self.at_s = 100.0

    def __call__(self, sources: JobSources, **_: Any) -> StatusVersion:
        name = sources.application
        self.asked.append(name)
        if name in self.fails:
            raise Unavailable("refused")
        if name in self.hangs:
            self.now_hanging += 1
            self.freed.wait(LIMIT_S)
            self.now_hanging -= 1
        return StatusVersion(1, status(application=name, at_s=self.at_s))


@pytest.fixture
def replies(monkeypatch: pytest.MonkeyPatch) -> Iterator[Replies]:
    made = Replies()
    monkeypatch.setattr(JobSources, "status", lambda self, **more: made(self, **more))
    yield made
    made.freed.set()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def with_jobs(world: World, count: int) -> LiveJobs:
    for number in range(count):
        world.job(key=new_key(), application=name_of(number))
    return LiveJobs(world.site)


def until(live: LiveJobs, is_so: Callable[[], bool]) -> None:
    with live._changed:
        assert live._changed.wait_for(is_so, LIMIT_S)


def statuses(live: LiveJobs) -> dict[str, JobStatus]:
    return {job.status.application: job.status for job in live.jobs()}


def test_a_job_that_does_not_answer_holds_up_nobody(world: World, replies: Replies) -> None:
    replies.hangs = {name_of(1)}
    live = with_jobs(world, 40)
    live.refresh()
    until(live, lambda: live._reading == replies.hangs and not live._due)
    answered = {job.status.application for job in live.jobs() if job.read_at_s}
    assert len(answered) == 39
    assert "has not answered yet" in statuses(live)[name_of(1)].reason
    live.refresh()
    until(live, lambda: not live._is_listing)
    until(live, lambda: live._reading == replies.hangs and not live._due)
    assert replies.asked.count(name_of(1)) == 1, "it is asked once at a time"
    assert replies.asked.count(name_of(2)) == 2
    live.close()


def test_those_that_failed_are_asked_a_few_at_a_time_and_in_turn(
    world: World, replies: Replies
) -> None:
    live = with_jobs(world, 30)
    silent = {name_of(number) for number in range(20)}
    replies.fails = set(silent)
    live.refresh()
    live.wait(LIMIT_S)
    replies.fails, replies.hangs = set(), silent
    replies.asked.clear()
    live.refresh()
    until(live, lambda: not live._is_listing and not live._due and live._reading <= silent)
    assert len(live._reading) == live_jobs.SILENT_READERS
    assert {name_of(number) for number in range(20, 30)} <= set(replies.asked)
    replies.freed.set()
    live.wait(LIMIT_S)
    live.close()


def test_what_was_known_of_a_job_stays_with_its_age(world: World, replies: Replies) -> None:
    live = with_jobs(world, 1)
    live.refresh()
    live.wait(LIMIT_S)
    [before] = live.jobs()
    replies.fails = {name_of(0)}
    live.refresh()
    live.wait(LIMIT_S)
    [after] = live.jobs()
    assert (after.status.is_last_known, after.status.reason) == (True, "refused")
    assert after.read_at_s == before.read_at_s > 0
    live.close()


def test_the_number_of_jobs_is_bounded(
    world: World, replies: Replies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_jobs, "MOST_JOBS", 3)
    live = with_jobs(world, 5)
    live.refresh()
    live.wait(LIMIT_S)
    assert (len(live.jobs()), live.unread_jobs, len(replies.asked)) == (3, 2, 3)
    live.close()


def test_a_job_that_has_ended_leaves_the_list_and_its_connection_is_closed(
    world: World, replies: Replies
) -> None:
    live = with_jobs(world, 2)
    live.refresh()
    live.wait(LIMIT_S)
    world.rm.change(name_of(0), state="FINISHED")
    live.refresh()
    live.wait(LIMIT_S)
    assert list(statuses(live)) == [name_of(1)]
    assert list(live._sources) == [name_of(1)]
    live.close()


def test_steps_per_second_are_those_between_two_readings() -> None:
    job = live_jobs.LiveJob(status(), 0.0)
    job = job.heard(status(at_s=100.0, step=10), 100.0).heard(status(at_s=110.0, step=30), 110.0)
    assert job.paces[""].steps_per_s == 2.0
    old = job.heard(status(at_s=112.0, step=90, is_last_known=True), 130.0)
    assert (old.read_at_s, old.paces[""].steps_per_s) == (112.0, 2.0)
    again = job.heard(status(at_s=120.0, step=40, attempt=2), 120.0)
    assert len(again.paces[""].points) == 1, "a new attempt counts anew"


def test_the_silent_come_last_the_one_that_waited_longest_first(world: World) -> None:
    with_jobs(world, 4)
    jobs = world.rm.applications()
    silent = {name_of(3): 5.0, name_of(1): 2.0}
    assert [one.application for one in by_urgency(jobs, silent)][-2:] == [name_of(1), name_of(3)]

"""A job waits for others (``depends_on``): it requests nothing until they have ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.gang.play import Play, job, of, only
from yarnam.core.gang import describe
from yarnam.core.model.actions import Action, Finish, RequestPlan, StartTimer
from yarnam.core.model.events import (
    AwaitedJobsSeen,
    ResumeRequested,
    SuspendRequested,
    TimerKind,
)
from yarnam.core.model.job_spec import Dependency, JobCondition
from yarnam.core.model.job_status import JobState, Phase
from yarnam.errors import ExitCode

PREP, OLD = "application_1_0001", "application_1_0002"
AFTER = (
    Dependency("prep", JobCondition.SUCCEEDED, (PREP,)),
    Dependency(OLD, JobCondition.ENDED, (OLD,)),
)


class WaitingPlay(Play):
    """Of a job that waits for ``prep`` to succeed and for another application to end."""

    def __init__(self) -> None:
        super().__init__(replace(job(), depends_on=AFTER))
        self.first = self.start()

    def see(self, prep: JobState | None, old: JobState | None) -> tuple[Action, ...]:
        one, other = self.spec.depends_on
        assert (one.applications, other.applications) == ((PREP,), (OLD,))
        states = (prep, old)
        jobs = zip(self.gang.awaited, states, strict=True)
        seen = (replace(job, state=state, is_forgotten=state is None) for job, state in jobs)
        return self.send(AwaitedJobsSeen(0, tuple(seen)))


def test_it_requests_nothing_and_its_limit_does_not_run() -> None:
    play = WaitingPlay()
    assert play.first == ()
    assert play.after(9e6).see(JobState.RUNNING, JobState.QUEUED) == ()
    status = describe(play.gang, play.now_s)
    assert (status.state, status.deadline_s) == (JobState.QUEUED, None)
    assert status.reason == f"waiting for prep ({PREP}, RUNNING) to succeed, and 1 more job"
    assert [one.application for one in status.awaited] == [PREP, OLD]
    assert play.see(JobState.SUCCEEDED, JobState.RUNNING) == ()
    status = describe(play.gang, play.now_s)
    assert status.reason == f"waiting for {OLD} (RUNNING) to end"


@pytest.mark.parametrize(
    "old", [JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, None], ids=str
)
def test_it_begins_when_the_last_one_has_ended(old: JobState | None) -> None:
    """YARN forgets only what has ended, so a forgotten job is enough where any end will do."""
    play = WaitingPlay().after(100.0)
    assert isinstance(play, WaitingPlay)
    actions = play.see(JobState.SUCCEEDED, old)
    assert only(actions, StartTimer).timer.kind is TimerKind.WAIT
    assert only(actions, RequestPlan)
    assert describe(play.gang, play.now_s).awaited == ()
    assert play.gang.deadline_s(TimerKind.WAIT) == (play.now_s + play.policy.gang.wait_timeout_s)


@pytest.mark.parametrize("prep", [JobState.FAILED, JobState.CANCELLED, None], ids=str)
@pytest.mark.parametrize("is_suspended", [False, True])
def test_it_ends_when_success_cannot_come_any_more(
    prep: JobState | None, is_suspended: bool
) -> None:
    play = WaitingPlay()
    if is_suspended:
        play.send(SuspendRequested(0, "ann", 60.0))
    verdict = only(play.see(prep, JobState.RUNNING), Finish).verdict
    assert verdict.exit_code == ExitCode.DEPENDENCY_FAILED
    end = f"ended as {prep.value}" if prep else "has forgotten"
    assert end in verdict.message
    assert PREP in verdict.message
    assert f"yarnam explain {PREP}" in verdict.hint


def test_a_new_application_master_goes_on_waiting() -> None:
    play = WaitingPlay()
    play.see(JobState.RUNNING, JobState.FAILED)
    assert not of(play.restart_am(), RequestPlan)
    assert len(describe(play.gang, play.now_s).awaited) == 1
    assert of(play.see(JobState.SUCCEEDED, JobState.FAILED), RequestPlan)


def test_one_that_is_suspended_meanwhile_asks_once_it_is_resumed() -> None:
    play = WaitingPlay()
    play.send(SuspendRequested(0, "ann", 60.0))
    assert not of(play.send(ResumeRequested(0, "ann")), RequestPlan)
    assert play.gang.timers == ()
    play.send(SuspendRequested(0, "ann", 60.0))
    assert not of(play.see(JobState.SUCCEEDED, None), RequestPlan)
    assert play.gang.phase is Phase.SUSPENDED
    actions = play.send(ResumeRequested(0, "ann"))
    assert of(actions, RequestPlan)
    assert TimerKind.WAIT in {one.timer.kind for one in of(actions, StartTimer)}


def test_a_late_answer_changes_nothing() -> None:
    play = WaitingPlay()
    jobs = play.gang.awaited
    play.see(JobState.SUCCEEDED, None)
    before = play.gang
    failed = tuple(replace(one, state=JobState.FAILED) for one in jobs)
    assert play.send(AwaitedJobsSeen(0, failed)) == ()
    assert play.gang == before

"""``time_limit``: the gang is stopped with time for a checkpoint, and the job ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.gang.play import Play, failing, job, of, only, stopped
from tests.unit.gang.test_pre_run import PreRunPlay
from yarnam.core.gang import MemberState
from yarnam.core.model.actions import Finish, StopTask
from yarnam.core.model.events import ResumeRequested, SuspendRequested, TimerKind
from yarnam.core.model.job_spec import RetrySpec
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import ContainerEnd, ProcessExit
from yarnam.errors import ExitCode

LIMIT_S = 1000.0
SPEC = replace(job(retry=RetrySpec(on_user_failure=3)), time_limit_s=LIMIT_S)
STOP_S = SPEC.am.stop_grace_s + 5.0


def left_s(play: Play) -> float:
    deadline_s = play.gang.deadline_s(TimerKind.TIME_LIMIT)
    assert deadline_s is not None
    return deadline_s - play.now_s


def test_all_come_to_one_step_and_save_before_the_limit_and_nothing_is_retried() -> None:
    play = Play(SPEC).to_running()
    assert left_s(play) == LIMIT_S - STOP_S
    asks = play.asks()
    stops = of(play.fire(TimerKind.TIME_LIMIT), StopTask)
    assert [one.ask for one in stops] == asks
    assert all(one.agreeing == len(asks) for one in stops), "all come to the same step"
    assert {one.grace_s for one in stops} == {SPEC.am.stop_grace_s}
    play.after(1).exited(asks[0], stopped(0), stopped(1))
    verdict = only(play.after(1).exited(asks[1], stopped(0), stopped(1)), Finish).verdict
    assert verdict.exit_code == ExitCode.TIME_LIMIT
    assert "time_limit: 16m40s" in verdict.message
    assert "from its checkpoint" in verdict.hint


@pytest.mark.parametrize("process", [failing(), replace(stopped(), signal=9)], ids=["fail", "kill"])
def test_one_that_does_not_save_in_time_has_reached_its_limit_all_the_same(
    process: ProcessExit,
) -> None:
    play = Play(SPEC).to_running()
    play.fire(TimerKind.TIME_LIMIT)
    for ask in play.asks():
        play.after(1).exited(ask, process, stopped(1))
    assert play.verdict.exit_code == ExitCode.TIME_LIMIT


def test_one_that_is_done_meanwhile_has_succeeded() -> None:
    play = Play(SPEC).to_running()
    play.fire(TimerKind.TIME_LIMIT)
    for ask in play.asks():
        play.after(1).ok(ask)
    assert play.verdict.exit_code == ExitCode.OK


def test_only_running_counts_over_all_attempts() -> None:
    play = Play(SPEC).to_running()
    play.after(100.0).end(play.asks()[0], ContainerEnd.PREEMPTED)
    for ask in play.asks():
        if play.gang.phase is Phase.STOPPING:
            play.exited(ask, stopped(0), stopped(1))
    assert play.gang.phase is Phase.BACKING_OFF
    assert play.gang.timer(TimerKind.TIME_LIMIT) is None
    play.after(5000.0).to_next_attempt().grant_all().register_all()
    play.start_all()
    assert play.gang.phase is Phase.RUNNING
    assert left_s(play) == pytest.approx(LIMIT_S - STOP_S - 100.0)
    play.after(50.0).send(SuspendRequested(0, "ann", 1e6))
    for ask in play.asks():
        play.exited(ask, stopped(0), stopped(1))
    assert play.gang.ran_s == pytest.approx(150.0)
    play.after(9000.0).send(ResumeRequested(0, "ann"))
    play.plan()
    play.grant_all().register_all()
    play.start_all()
    assert left_s(play) == pytest.approx(LIMIT_S - STOP_S - 150.0)


def test_what_is_left_over_ends_immediately() -> None:
    play = Play(SPEC).to_running()
    play.gang = replace(play.gang, ran_s=LIMIT_S)
    play.restart_am()
    play.to_next_attempt().grant_all().register_all()
    play.start_all()
    assert left_s(play) == 0.0


def test_a_clock_that_is_behind_after_a_restart_prolongs_nothing() -> None:
    play = Play(SPEC).to_running()
    play.gang = replace(play.gang, ran_s=100.0)
    play.after(-50.0).restart_am()
    assert play.gang.ran_s == 100.0


def test_a_user_who_cancels_it_meanwhile_has_cancelled_it() -> None:
    play = Play(SPEC).to_running()
    play.fire(TimerKind.TIME_LIMIT)
    play.cancel()
    for ask in play.asks():
        play.exited(ask, stopped(0), stopped(1))
    assert play.verdict.exit_code == ExitCode.CANCELLED


def test_a_new_application_master_does_not_start_it_again() -> None:
    play = Play(SPEC).to_running()
    play.fire(TimerKind.TIME_LIMIT)
    assert all(member.state is MemberState.STARTED for member in play.gang.members)
    play.restart_am()
    assert play.verdict.exit_code == ExitCode.TIME_LIMIT


def test_a_pre_run_has_a_limit_of_its_own() -> None:
    play = PreRunPlay()
    play.policy = replace(play.policy, time_limit_s=LIMIT_S)
    play.to_pre_run().after(30.0)
    assert play.gang.timer(TimerKind.TIME_LIMIT) is None
    play.fire(TimerKind.PRE_RUN)
    play.exited(play.ask, stopped())
    assert play.gang.ran_s == 0.0

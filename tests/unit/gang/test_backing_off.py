"""Back-off, refused plans, the whole wait, a new ApplicationMaster, cancelling."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.gang.play import ANEW, T0, Play, failing, job, of, only, stopped, timer_s
from yarnam.core.gang import Gang, initial, policy_for
from yarnam.core.gang.phases.waiting.backing_off import backoff_delay_s
from yarnam.core.gang.state import Acquisition
from yarnam.core.model.actions import (
    AskContainer,
    DrawJitter,
    Finish,
    ReleaseContainer,
    RequestPlan,
    StopTask,
)
from yarnam.core.model.events import BrokerFailed, TimerFired, TimerKind
from yarnam.core.model.job_spec import GangSpec, RetrySpec
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import ContainerEnd, VerdictKind
from yarnam.errors import ExitCode

POLICY = policy_for(job(gang=GangSpec(backoff_base_s=5.0, backoff_cap_s=300.0)))


def gang_with(*, failures: int, refused_plans: int = 0) -> Gang:
    counts = Acquisition(failures=failures, refused_plans=refused_plans)
    return replace(initial(job()), acquisition=counts)


@pytest.mark.parametrize(
    ("failures", "limit_s"), [(0, 5), (1, 5), (2, 10), (3, 20), (6, 160), (7, 300), (900, 300)]
)
def test_back_off_doubles_up_to_its_cap_with_full_jitter(failures: int, limit_s: float) -> None:
    gang = gang_with(failures=failures)
    assert backoff_delay_s(gang, POLICY, 0.5) == pytest.approx(limit_s / 2)
    assert backoff_delay_s(gang, POLICY, 0.999) == pytest.approx(limit_s * 0.999)
    assert backoff_delay_s(gang, POLICY, 0.0) == 1.0


def test_plan_requests_come_more_often_than_attempts() -> None:
    assert backoff_delay_s(gang_with(refused_plans=9, failures=9), POLICY, 0.5) == 15.0


def test_a_tiny_base_is_not_floored_above_itself() -> None:
    policy = policy_for(job(gang=GangSpec(backoff_base_s=0.2)))
    assert backoff_delay_s(gang_with(failures=1), policy, 0.0) == 0.2


def test_not_now_uses_up_no_attempt() -> None:
    play = Play(job(gang=GangSpec(attempts=1)))
    play.start()
    for _ in range(5):
        assert only(play.refuse(), DrawJitter).attempt == 1
        play.jitter(0.9)
        assert only(play.fire(TimerKind.BACKOFF), RequestPlan).attempt == 1
    play.plan()
    assert play.gang.acquisition.failures == 0
    assert play.gang.acquisition.refused_plans == 0
    assert play.asks()[0].attempt == 1


def test_a_stale_back_off_timer_of_an_earlier_wait_is_told_apart() -> None:
    play = Play()
    play.start()
    play.refuse()
    play.jitter(0.9)
    first = play.gang.timer(TimerKind.BACKOFF)
    assert first is not None
    play.fire(TimerKind.BACKOFF)
    play.refuse()
    play.jitter(0.9)
    second = play.gang.timer(TimerKind.BACKOFF)
    assert second is not None
    assert first.timer == second.timer
    before = play.gang
    play.send(TimerFired(0, first.timer))
    assert play.gang == before


def test_the_whole_wait_is_limited() -> None:
    play = Play(job(gang=GangSpec(wait_timeout_s=60.0)))
    play.start()
    play.refuse("16 GPUs are missing")
    verdict = only(play.fire(TimerKind.WAIT), Finish).verdict
    assert verdict.exit_code == ExitCode.GANG_TIMEOUT
    assert (
        verdict.message == "waited 60 s for free capacity: 16 GPUs are missing; needs 1 more node"
    )


def test_a_wait_that_ends_while_launching_counts_if_the_gang_falls_back() -> None:
    play = Play(job(gang=GangSpec(wait_timeout_s=10.0, launch_timeout_s=60.0))).to_launching()
    assert play.fire(TimerKind.WAIT) == ()
    play.fire(TimerKind.LAUNCH)
    verdict = only(play.fire(TimerKind.STOP), Finish).verdict
    assert verdict.exit_code == ExitCode.GANG_TIMEOUT


def test_the_wait_ends_when_the_gang_runs_and_begins_anew_with_a_restart() -> None:
    play = Play(job(gang=ANEW)).to_running()
    assert play.gang.timers == ()
    play.after(1000).end(play.asks()[0], ContainerEnd.LOST)
    actions = play.exited(play.asks()[1], stopped())
    assert timer_s(actions, TimerKind.WAIT) == 7 * 86400
    assert play.gang.phase is Phase.BACKING_OFF


# ---- a new ApplicationMaster --------------------------------------------------------------------


def test_a_new_am_before_the_first_event_starts_the_job() -> None:
    play = Play()
    assert only(play.restart_am(), RequestPlan).attempt == 1


def test_a_new_am_in_pending_asks_the_planner_again() -> None:
    play = Play()
    play.start()
    actions = play.after(100).restart_am()
    assert only(actions, RequestPlan).attempt == 1
    assert timer_s(actions, TimerKind.WAIT) == 7 * 86400 - 100


def test_a_new_am_goes_on_with_a_back_off_where_it_was() -> None:
    play = Play(job()).to_acquiring()
    play.fire(TimerKind.ASK)
    play.jitter(0.8)
    assert timer_s(play.after(1).restart_am(), TimerKind.BACKOFF) == pytest.approx(3.0)
    late = play.after(50).restart_am()
    assert timer_s(late, TimerKind.BACKOFF) == 0


def test_a_new_am_draws_again_what_was_not_drawn() -> None:
    play = Play(job()).to_acquiring()
    play.fire(TimerKind.ASK)
    only(play.restart_am(), DrawJitter)


@pytest.mark.parametrize("phase", ["acquiring", "launching", "running"])
def test_a_new_am_backs_off_with_the_same_counts(phase: str) -> None:
    play = Play(job(retry=RetrySpec(max_restarts=0)))
    getattr(play, f"to_{phase}")()
    play.grant_all()
    old = play.asks()
    actions = play.restart_am()
    assert play.gang.phase is Phase.BACKING_OFF
    assert of(actions, ReleaseContainer) == []
    assert (play.gang.acquisition.failures, play.gang.retries.restarts, play.gang.attempt) == (
        0,
        0,
        1,
    )
    assert {timer.timer.kind for timer in play.gang.timers} == {TimerKind.WAIT}
    play.to_next_attempt()
    assert play.gang.attempt == 2
    assert not set(old) & set(play.asks())


def test_a_new_am_gives_late_agents_of_the_old_one_back() -> None:
    play = Play(job()).to_acquiring()
    (one, _) = play.asks()
    play.restart_am()
    assert only(play.register(one), ReleaseContainer).ask == one


def test_a_new_am_does_not_run_a_cancelled_job_again() -> None:
    play = Play(job()).to_running()
    play.cancel("enough")
    assert play.gang.phase is Phase.STOPPING
    assert only(play.restart_am(), Finish).verdict.kind is VerdictKind.CANCELLED


def test_a_new_am_does_not_run_a_failed_job_again() -> None:
    play = Play(job()).to_running()
    play.exited(play.asks()[0], failing(3))
    assert play.gang.phase is Phase.STOPPING
    assert only(play.restart_am(), Finish).verdict.exit_code == ExitCode.USER_FAILED


def test_a_new_am_is_told_the_final_verdict_again() -> None:
    play = Play(job()).to_running()
    for ask in play.asks():
        play.ok(ask)
    verdict = play.verdict
    assert play.restart_am() == (Finish(verdict),)
    assert play.gang.phase is Phase.SUCCEEDED


# ---- cancelling, and a broken way to YARN -------------------------------------------------------


def test_cancel_while_waiting_holds_nothing_back() -> None:
    play = Play(job()).to_acquiring()
    play.grant(play.asks()[0])
    actions = play.cancel("wrong queue")
    assert {a.ask for a in of(actions, ReleaseContainer)} == set(play.asks())
    verdict = only(actions, Finish).verdict
    assert (verdict.kind, verdict.exit_code) == (VerdictKind.CANCELLED, 93)
    assert verdict.message == "cancelled by ann: wrong queue"
    assert verdict.decided_at_s == T0
    assert play.gang.timers == ()


def test_cancel_stops_running_tasks_gracefully_first() -> None:
    play = Play(job()).to_running()
    one, two = play.asks()
    actions = play.cancel()
    assert [a.ask for a in of(actions, StopTask)] == [one, two]
    assert of(actions, StopTask)[0].grace_s == 10.0
    assert timer_s(actions, TimerKind.STOP) == 15.0
    assert play.exited(one, stopped()) == ()
    assert only(play.exited(two, stopped()), Finish).verdict.exit_code == ExitCode.CANCELLED


def test_cancel_does_not_wait_for_ever_for_a_task_that_does_not_stop() -> None:
    play = Play(job()).to_running()
    play.cancel()
    actions = play.fire(TimerKind.STOP)
    assert {a.ask for a in of(actions, ReleaseContainer)} == set(play.asks())
    assert only(actions, Finish).verdict.exit_code == ExitCode.CANCELLED


def test_cancel_wins_over_a_restart_under_way() -> None:
    play = Play(job()).to_running()
    one, two = play.asks()
    play.end(one, ContainerEnd.LOST)
    play.cancel()
    assert only(play.exited(two, stopped()), Finish).verdict.exit_code == ExitCode.CANCELLED


def test_after_the_end_only_stragglers_are_released() -> None:
    play = Play(job()).to_acquiring()
    asks = play.asks()
    play.cancel()
    before = play.gang
    assert only(play.grant(asks[0]), ReleaseContainer).ask == asks[0]
    assert play.plan() == ()
    assert play.cancel() == ()
    assert play.start() == ()
    assert play.gang == before


def test_a_broken_way_to_yarn_ends_the_job() -> None:
    play = Play(job()).to_running()
    actions = play.send(BrokerFailed(0, "Skein's ApplicationMaster is gone"))
    assert len(of(actions, StopTask)) == 2
    assert of(actions, AskContainer) == []
    assert only(actions, Finish).verdict.exit_code == ExitCode.UNAVAILABLE
    assert "Skein's ApplicationMaster is gone" in play.verdict.message

"""A job is suspended: it holds nothing, and goes on when it is resumed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.unit.gang.elastic_play import Elastic, elastic_job
from tests.unit.gang.play import T0, Play, failing, of, only, stopped
from tests.unit.gang.test_pre_run import PreRunPlay
from yarnam.core.accounting.ledger import account_all, ledger
from yarnam.core.gang import describe
from yarnam.core.model.actions import (
    Action,
    CancelPlanRequest,
    Finish,
    ReleaseContainer,
    RequestPlan,
    StartTimer,
    StopTask,
)
from yarnam.core.model.events import (
    AmRestarted,
    CancelRequested,
    ContainersMarked,
    ResumeRequested,
    ScaleRequested,
    SuspendRequested,
    TimerKind,
)
from yarnam.core.model.job_status import JobState, Phase, PreRunState, Use
from yarnam.core.model.outcomes import ContainerEnd, VerdictKind

LIMIT_S = 3600.0


def suspend(play: Play) -> tuple[Action, ...]:
    return play.send(SuspendRequested(0, "ann", LIMIT_S, "the demo needs the GPUs"))


def suspended(play: Play) -> Play:
    """A gang that ran, and has been stopped."""
    suspend(play)
    for ask in play.asks():
        play.after(1).exited(ask, stopped(0), stopped(1))
    assert play.gang.phase is Phase.SUSPENDED
    return play


def test_a_running_gang_comes_to_a_step_saves_and_holds_nothing() -> None:
    play = Play().to_running().after(30.0)
    asks = play.asks()
    stops = of(suspend(play), StopTask)
    assert [one.ask for one in stops] == asks
    assert all(one.agreeing == len(asks) for one in stops), "all come to the same step"
    assert describe(play.gang, play.now_s).state is JobState.RUNNING
    play.after(1).exited(asks[0], stopped(0), stopped(1))
    actions = play.after(1).exited(asks[1], stopped(0), stopped(1))
    assert [one.ask for one in of(actions, ReleaseContainer)] == asks
    [timer] = of(actions, StartTimer)
    assert (timer.timer.kind, timer.delay_s) == (TimerKind.SUSPENSION, LIMIT_S)
    status = describe(play.gang, play.now_s)
    assert status.state is JobState.SUSPENDED
    assert status.reason == "suspended by ann: the demo needs the GPUs"
    assert status.deadline_s == play.now_s + LIMIT_S
    assert [record.outcome for record in play.gang.history] == [status.reason]


@pytest.mark.parametrize(
    "resume",
    [
        lambda play: play.send(ResumeRequested(0, "bob")),
        lambda play: play.fire(TimerKind.SUSPENSION),
    ],
    ids=["by a user", "when its time is over"],
)
def test_it_acquires_its_gang_again(resume: Callable[[Play], tuple[Action, ...]]) -> None:
    play = suspended(Play().to_running().after(30.0))
    actions = resume(play)
    assert only(actions, RequestPlan).attempt == 2
    assert {one.timer.kind for one in of(actions, StartTimer)} == {TimerKind.WAIT}
    play.plan()
    play.grant_all().register_all()
    play.start_all()
    assert play.gang.phase is Phase.RUNNING
    assert (
        play.gang.retries.restarts,
        play.gang.retries.preemptions,
        play.gang.acquisition.failures,
    ) == (0, 0, 0)


def test_a_process_that_fails_meanwhile_is_a_failure_and_nothing_is_suspended() -> None:
    """Its checkpoint could not be written, say."""
    play = Play().to_running().after(30.0)
    suspend(play)
    first, second = play.asks()
    play.after(1).exited(first, failing(1, play.now_s, 0), stopped(1))
    actions = play.after(1).exited(second, stopped(0), stopped(1))
    assert only(actions, Finish).verdict.kind is VerdictKind.FAILED


def test_a_node_that_is_lost_meanwhile_does_not_hinder() -> None:
    play = Play().to_running().after(30.0)
    suspend(play)
    first, second = play.asks()
    play.after(1).end(first, ContainerEnd.LOST)
    play.after(1).exited(second, stopped(0), stopped(1))
    assert play.gang.phase is Phase.SUSPENDED


def test_a_gang_that_was_done_has_succeeded() -> None:
    play = Play().to_running().after(30.0)
    suspend(play)
    for ask in play.asks():
        play.after(1).ok(ask)
    assert play.gang.phase is Phase.SUCCEEDED


def test_a_preemption_becomes_a_suspension() -> None:
    play = Play().to_running().after(30.0)
    play.send(ContainersMarked(0, (play.asks()[0],)))
    suspend(play)
    for ask in play.asks():
        play.after(1).exited(ask, stopped(0), stopped(1))
    assert play.gang.phase is Phase.SUSPENDED
    assert play.gang.retries.preemptions == 0


def test_a_failure_is_not_interrupted() -> None:
    play = Play().to_running().after(30.0)
    play.exited(play.asks()[0], failing(1, play.now_s, 0), stopped(1))
    before = play.gang
    assert suspend(play) == ()
    assert play.gang == before


def test_a_job_that_waits_is_suspended_at_once_and_its_plan_is_not_wanted() -> None:
    play = Play()
    play.start()
    actions = suspend(play)
    assert only(actions, CancelPlanRequest).attempt == 1
    assert play.gang.phase is Phase.SUSPENDED
    assert play.plan() == (), "an answer that was on its way"
    assert only(play.send(ResumeRequested(0, "ann")), RequestPlan)


def test_a_second_plan_of_an_elastic_gang_is_not_wanted_either() -> None:
    """It asked once more when its patience was over, and the first answer was on its way."""
    play = Elastic(elastic_job())
    play.start()
    assert only(play.fire(TimerKind.PATIENCE), RequestPlan).attempt == 1
    play.room_for(4)
    assert play.gang.phase is Phase.ACQUIRING
    assert only(suspend(play), CancelPlanRequest).attempt == 1


def test_a_plan_that_an_old_answer_has_overtaken_is_not_wanted_either() -> None:
    """The answer is from before the first suspension and refused by now."""
    play = Play()
    play.start()
    suspend(play)
    assert only(play.send(ResumeRequested(0, "ann")), RequestPlan)
    play.refuse()
    assert play.gang.phase is Phase.BACKING_OFF
    assert only(suspend(play), CancelPlanRequest).attempt == 1


def test_what_is_held_of_a_gang_that_is_not_complete_goes_back() -> None:
    play = Play()
    play.start()
    play.plan()
    first, second = play.asks()
    play.grant(first)
    assert {one.ask for one in of(suspend(play), ReleaseContainer)} == {first, second}
    assert play.gang.phase is Phase.SUSPENDED
    late = play.grant(second)
    assert only(late, ReleaseContainer).ask == second


def test_a_gang_that_backs_off_stays_away() -> None:
    play = Play()
    play.start()
    play.refuse()
    play.jitter(0.5)
    suspend(play)
    assert play.gang.phase is Phase.SUSPENDED
    assert {one.timer.kind for one in play.gang.timers} == {TimerKind.SUSPENSION}


def test_a_pre_run_is_due_again() -> None:
    play = PreRunPlay().to_pre_run()
    suspend(play)
    play.exited(play.ask, stopped(0))
    assert play.gang.phase is Phase.SUSPENDED
    assert only(play.send(ResumeRequested(0, "ann")), RequestPlan).is_pre_run
    assert play.gang.pre_run is not None
    assert (play.gang.pre_run.state, play.gang.pre_run.retries) == (PreRunState.DUE, 0)


def test_an_elastic_gang_drops_what_it_was_growing_by() -> None:
    play = Elastic(elastic_job()).running(2)
    play.ask_size(4)
    play.see(spare=2)
    suspended(play)
    assert play.gang.resizing.growth is None
    assert play.gang.size_request.tasks == 4


def test_a_new_application_master_leaves_it_suspended() -> None:
    play = suspended(Play().to_running().after(30.0)).after(600.0)
    [timer] = of(play.send(AmRestarted(0, 2)), StartTimer)
    assert timer.timer.kind is TimerKind.SUSPENSION
    assert timer.delay_s == pytest.approx(LIMIT_S - 600.0)
    assert play.gang.phase is Phase.SUSPENDED


def test_an_application_master_killed_while_the_gang_stops_leaves_it_suspended() -> None:
    play = Play().to_running().after(30.0)
    suspend(play)
    play.after(1).send(AmRestarted(0, 2))
    assert play.gang.phase is Phase.SUSPENDED


def test_a_suspended_job_can_be_cancelled() -> None:
    play = suspended(Play().to_running().after(30.0))
    verdict = only(play.send(CancelRequested(0, "ann")), Finish).verdict
    assert verdict.kind is VerdictKind.CANCELLED


def yielding() -> Play:
    """Suspended by the policy of its queue."""
    play = Play().to_running().after(30.0)
    play.send(SuspendRequested(0, "the policy", LIMIT_S, "others first", is_policy=True))
    for ask in play.asks():
        play.after(1).exited(ask, stopped(0), stopped(1))
    assert play.gang.is_yielding
    return play


def test_what_the_policy_has_suspended_the_policy_resumes() -> None:
    play = yielding()
    assert only(play.send(ResumeRequested(0, "the policy", is_policy=True)), RequestPlan)
    assert not play.gang.is_yielding


def test_a_user_resumes_it_too() -> None:
    assert only(yielding().send(ResumeRequested(0, "ann")), RequestPlan)


def test_what_a_user_has_suspended_the_policy_does_not_resume() -> None:
    play = suspended(Play().to_running().after(30.0))
    assert play.send(ResumeRequested(0, "the policy", is_policy=True)) == ()
    assert play.gang.phase is Phase.SUSPENDED


def test_a_user_takes_over_what_the_policy_has_suspended() -> None:
    play = yielding()
    suspend(play)
    assert play.gang.phase is Phase.SUSPENDED
    assert play.gang.reason == "suspended by ann: the demo needs the GPUs"
    assert play.send(ResumeRequested(0, "the policy", is_policy=True)) == ()


def test_a_user_takes_over_while_it_is_stopped_for_the_policy() -> None:
    play = Play().to_running().after(30.0)
    play.send(SuspendRequested(0, "the policy", LIMIT_S, "others first", is_policy=True))
    suspend(play)
    for ask in play.asks():
        play.after(1).exited(ask, stopped(0), stopped(1))
    assert play.gang.phase is Phase.SUSPENDED
    assert not play.gang.is_yielding


def test_the_policys_next_word_changes_no_suspension() -> None:
    play = suspended(Play().to_running().after(30.0))
    before = play.gang
    assert play.send(SuspendRequested(0, "the policy", LIMIT_S, is_policy=True)) == ()
    assert play.gang == before


@pytest.mark.parametrize("is_stopping", [True, False])
def test_a_killed_application_master_leaves_it_to_the_policy(is_stopping: bool) -> None:
    play = Play().to_running().after(30.0)
    play.send(SuspendRequested(0, "the policy", LIMIT_S, "others first", is_policy=True))
    if not is_stopping:
        for ask in play.asks():
            play.after(1).exited(ask, stopped(0), stopped(1))
    play.after(1).send(AmRestarted(0, 2))
    assert play.gang.phase is Phase.SUSPENDED
    assert play.gang.is_yielding
    assert only(play.send(ResumeRequested(0, "the policy", is_policy=True)), RequestPlan)


def test_a_users_size_comes_before_the_policys() -> None:
    play = Elastic(elastic_job()).running(2)
    play.send(ScaleRequested(0, "the policy", 3, is_policy=True))
    assert (play.gang.size_request.tasks, play.gang.size_request.is_by_policy) == (3, True)
    play.ask_size(4)
    assert not play.gang.size_request.is_by_policy
    play.send(ScaleRequested(0, "the policy", 2, is_policy=True))
    assert play.gang.size_request.tasks == 4


def test_its_time_is_in_the_ledger() -> None:
    play = suspended(Play().to_running().after(30.0)).after(500.0)
    gang, accounts = account_all(play.spec, T0, play.events)
    found = ledger(accounts, gang, play.now_s)
    assert found.of(Use.SUSPENDED).wall_s == pytest.approx(500.0)
    assert found.of(Use.SUSPENDED).gpu_s == 0
    assert found.wall_s == pytest.approx(play.now_s - T0)


def test_resuming_what_is_not_suspended_changes_nothing() -> None:
    play = Play().to_running()
    before = play.gang
    assert play.send(ResumeRequested(0, "ann")) == ()
    assert play.gang == replace(before)

"""Inputs brought to the nodes between the whole gang and its start."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.gang.play import Play, job, of, only, stopped, timer_s
from yarnam.core.gang.gang_status import describe
from yarnam.core.model.actions import (
    Action,
    AskContainer,
    Finish,
    LaunchGang,
    PrepareGang,
    ReleaseContainer,
    StopTask,
)
from yarnam.core.model.events import TaskStaged, TimerKind
from yarnam.core.model.ids import AskId
from yarnam.core.model.job_spec import DataInput, GangSpec, InputMode, JobSpec, StagingSpec
from yarnam.core.model.job_status import JobState, Phase
from yarnam.core.model.outcomes import ContainerEnd


def staged_job(attempts: int = 3) -> JobSpec:
    spec = job(3, gang=GangSpec(hold_timeout_s=120.0, attempts=attempts))
    return replace(
        spec,
        inputs=(DataInput("train", "/data/train", mode=InputMode.CACHE),),
        staging=StagingSpec(timeout_s=900.0),
    )


def standing(attempts: int = 3) -> Play:
    """The whole gang stands, its inputs are on their way."""
    play = Play(staged_job(attempts)).to_acquiring()
    play.grant_all().register_all()
    return play


def stage(play: Play, ask: AskId, attempt: int | None = None) -> tuple[Action, ...]:
    number = play.gang.attempt if attempt is None else attempt
    return play.send(TaskStaged(0, ask, number))


def test_the_barrier_opens_when_all_have_their_inputs() -> None:
    play = Play(staged_job()).to_acquiring()
    play.grant_all()
    actions = play.register_all()
    prepare = only(actions, PrepareGang)
    assert of(actions, LaunchGang) == []
    assert timer_s(actions, TimerKind.STAGING) == 900.0
    one, two, three = play.asks()
    for ask in (one, two, two):
        assert of(stage(play, ask), LaunchGang) == []
    actions = stage(play, three)
    assert only(actions, LaunchGang).members == prepare.members
    assert timer_s(actions, TimerKind.LAUNCH) == 60.0
    assert play.gang.timer(TimerKind.STAGING) is None
    play.start_all()
    assert play.gang.phase is Phase.RUNNING


def test_the_user_is_told_that_inputs_are_on_their_way() -> None:
    play = standing()
    stage(play, play.asks()[0])
    status = describe(play.gang, play.now_s + 100)
    assert status.state is JobState.STAGING
    assert status.reason == "1 of 3 tasks have their inputs"
    assert status.deadline_s == play.now_s + 900


def test_a_job_that_stages_nothing_starts_at_once() -> None:
    play = Play(job(2)).to_acquiring()
    actions = play.grant_all().register_all()
    assert of(actions, PrepareGang) == []
    only(actions, LaunchGang)


def test_word_of_another_attempt_or_of_nobody_counts_not() -> None:
    play = standing()
    for ask in play.asks():
        assert stage(play, ask, attempt=7) == ()
    assert stage(play, AskId(9, "worker", 0)) == ()
    assert not any(member.is_staged for member in play.gang.members)


def test_an_agent_that_cannot_get_its_inputs_is_replaced_and_the_others_stay() -> None:
    play = standing()
    one, two, three = play.asks()
    stage(play, one)
    actions = play.unable(two, "no room on the disk")
    assert only(actions, ReleaseContainer).ask == two
    assert of(actions, StopTask) == []
    assert play.gang.phase is Phase.ACQUIRING
    new = only(actions, AskContainer).ask
    play.grant(new, "n4")
    again = only(play.register(new, "n4"), PrepareGang)
    assert {member.ask for member in again.members} == {one, three, new}
    # Who had everything says so again, at once; the barrier waits for the new one.
    stage(play, one)
    stage(play, three)
    assert play.gang.phase is Phase.STAGING
    only(stage(play, new), LaunchGang)


def test_a_lost_container_is_replaced_too() -> None:
    play = standing()
    actions = play.end(play.asks()[0], ContainerEnd.FAILED, "killed")
    only(actions, AskContainer)
    assert play.gang.phase is Phase.ACQUIRING
    assert timer_s(actions, TimerKind.HOLD) == 120.0


def test_the_jobs_own_fault_ends_it_when_two_say_so() -> None:
    play = standing()
    one, two, _ = play.asks()
    play.unable(one, "/data/train/a was changed", is_user=True)
    finish = only(play.unable(two, "/data/train/b was changed", is_user=True), Finish)
    assert finish.verdict.exit_code == 90
    assert "/data/train/b was changed" in finish.verdict.message


def test_inputs_that_do_not_come_in_time_fail_the_attempt() -> None:
    play = standing()
    one, two, three = play.asks()
    stage(play, two)
    actions = play.fire(TimerKind.STAGING)
    assert {action.ask for action in of(actions, ReleaseContainer)} == {one, two, three}
    assert play.gang.phase is Phase.BACKING_OFF
    assert play.gang.acquisition.failures == 1
    text = "on n1, worker-2 on n3 were not on the node within 900 s (data.staging_timeout)"
    assert text in play.gang.reason


def test_on_the_last_attempt_that_ends_the_job() -> None:
    play = standing(attempts=1)
    finish = only(play.fire(TimerKind.STAGING), Finish)
    assert finish.verdict.exit_code == 75
    assert "data.staging_timeout" in finish.verdict.message


def test_a_cancel_needs_to_stop_nobody() -> None:
    play = standing()
    actions = play.cancel()
    assert of(actions, StopTask) == []
    assert only(actions, Finish).verdict.exit_code == 93


def test_a_new_application_master_begins_anew() -> None:
    play = standing()
    play.restart_am()
    assert play.gang.phase is Phase.BACKING_OFF
    assert play.gang.phase is not Phase.STAGING
    assert play.gang.acquisition.failures == 0


def test_a_lost_task_of_a_running_gang_brings_inputs_for_its_replacement() -> None:
    play = standing()
    for ask in play.asks():
        stage(play, ask)
    play.start_all()
    one, two, three = play.asks()
    play.end(one, ContainerEnd.LOST, "node lost")
    play.exited(two, stopped())
    play.exited(three, stopped())
    play.fill()
    new = play.waiting()[0]
    play.grant(new, "n5")
    actions = play.register(new, "n5")
    assert len(only(actions, PrepareGang).members) == 3
    for ask in play.asks():
        last = stage(play, ask)
    only(last, LaunchGang)


def test_a_node_that_is_excluded_meanwhile_is_left() -> None:
    play = standing()
    one, two, _ = play.asks()
    play.unable(one, "its disk is sick")  # a strike for n1
    new = play.waiting()[0]
    play.grant(new, "n1")
    play.register(new, "n1")
    assert play.gang.phase is Phase.STAGING
    actions = play.suspect("n1")
    assert only(actions, ReleaseContainer).ask == new
    assert play.gang.phase is Phase.ACQUIRING
    assert two in play.asks()

"""YARN announces that it takes containers: the gang leaves as one before that, for free."""

from __future__ import annotations

import pytest

from tests.unit.gang.elastic_play import Elastic, elastic_job
from tests.unit.gang.play import Play, failing, job, of, only, stopped
from yarnam.core.model.actions import LaunchGang, ReleaseContainer, RequestPlan, StopTask
from yarnam.core.model.events import ContainersMarked, NodeLeaving, TimerKind
from yarnam.core.model.ids import AskId, NodeId
from yarnam.core.model.job_spec import RetrySpec
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import ContainerEnd, ExitKind, ProcessExit


def running() -> Play:
    return Play(job(retry=RetrySpec(max_restarts=0))).to_running().after(100.0)


def test_all_are_stopped_at_a_notice_and_come_back_for_free() -> None:
    play = running()
    first, second = play.asks()
    stops = of(play.send(ContainersMarked(0, (second,))), StopTask)
    assert [stop.ask for stop in stops] == [first, second]
    assert stops[0].reason == "worker-1: preempted: YARN has announced it"
    play.exited(first, stopped(0), stopped(1))
    actions = play.exited(second, stopped(0), stopped(1))
    assert {action.ask for action in of(actions, ReleaseContainer)} == {first, second}
    assert play.gang.phase is Phase.BACKING_OFF
    assert (
        play.gang.retries.preemptions,
        play.gang.retries.restarts,
        play.gang.acquisition.failures,
    ) == (1, 0, 0)
    play.to_next_attempt()
    assert play.gang.phase is Phase.ACQUIRING


def test_a_user_may_try_it() -> None:
    play = running()
    first, second = play.asks()
    stops = of(play.send(ContainersMarked(0, (), "ann")), StopTask)
    assert [stop.ask for stop in stops] == [first, second]
    assert "interrupted by ann" in stops[0].reason
    play.exited(first, stopped(0), stopped(1))
    play.exited(second, stopped(0), stopped(1))
    assert play.gang.phase is Phase.BACKING_OFF
    assert (
        play.gang.retries.preemptions,
        play.gang.retries.restarts,
        play.gang.acquisition.failures,
    ) == (1, 0, 0)
    assert play.send(ContainersMarked(0, (), "ann")) == (), "nothing runs"


def test_what_fails_while_it_leaves_is_nobodys_failure() -> None:
    play = running()
    first, second = play.asks()
    play.send(ContainersMarked(0, (first,)))
    play.exited(first, failing(1, play.now_s))
    play.exited(second, stopped(0), stopped(1))
    assert play.gang.phase is Phase.BACKING_OFF
    assert play.gang.retries.preemptions == 1


def test_yarn_may_be_quicker() -> None:
    play = running()
    first, second = play.asks()
    play.send(ContainersMarked(0, (first,)))
    play.after(15.0).end(first, ContainerEnd.PREEMPTED, "Container preempted by scheduler")
    play.exited(second, stopped(0), stopped(1))
    assert (play.gang.phase, play.gang.retries.preemptions) == (Phase.BACKING_OFF, 1)


def test_a_gang_that_had_just_ended_well_has_succeeded() -> None:
    play = running()
    first, second = play.asks()
    play.ok(first)
    play.send(ContainersMarked(0, (second,)))
    play.exited(second, ProcessExit(0, ExitKind.OK), ProcessExit(1, ExitKind.OK))
    assert play.gang.phase is Phase.SUCCEEDED


@pytest.mark.parametrize("asks", [(), (AskId(7, "worker", 0),)])
def test_a_notice_about_others_changes_nothing(asks: tuple[AskId, ...]) -> None:
    play = running()
    before = play.gang
    assert play.send(ContainersMarked(0, asks)) == ()
    assert play.send(NodeLeaving(0, NodeId("n9"), 40.0)) == ()
    assert play.gang == before


def test_a_second_notice_changes_nothing() -> None:
    play = running()
    first, second = play.asks()
    play.send(ContainersMarked(0, (first,)))
    assert play.send(ContainersMarked(0, (first, second))) == ()


def test_before_it_runs_a_marked_container_is_replaced_when_it_ends() -> None:
    play = Play(job()).to_acquiring()
    play.grant_all()
    assert play.send(ContainersMarked(0, (play.asks()[0],))) == ()
    assert play.gang.phase is Phase.ACQUIRING


def test_a_gang_stays_on_a_leaving_node_until_it_has_to_stop() -> None:
    play = running()
    began_s = play.now_s
    assert not of(play.send(NodeLeaving(0, NodeId("n2"), 600.0)), StopTask)
    stops = of(play.fire(TimerKind.LEAVE), StopTask)
    needed_s = play.policy.stop_grace_s + play.policy.stop_margin_s
    assert 0 < began_s + 600.0 - play.now_s - needed_s < 30.0
    assert stops[0].reason == "worker-1: n2 leaves the cluster"
    for ask in play.asks():
        play.exited(ask, stopped(0), stopped(1))
    assert (play.gang.phase, play.gang.retries.preemptions) == (Phase.BACKING_OFF, 1)


def test_with_little_time_it_leaves_at_once() -> None:
    play = running()
    play.send(NodeLeaving(0, NodeId("n2"), 3.0))
    assert play.gang.deadline_s(TimerKind.LEAVE) == play.now_s


def test_an_elastic_gang_goes_on_without_the_marked_ones() -> None:
    play = Elastic(elastic_job()).running(4)
    marked = play.asks()[0]
    play.send(ContainersMarked(0, (marked,)))
    actions = play.all_stop()
    launch = only(actions, LaunchGang)
    assert marked not in {member.ask for member in launch.members}
    assert len(launch.members) == 3
    assert only(actions, ReleaseContainer).ask == marked
    assert (play.gang.retries.restarts, play.gang.retries.preemptions) == (0, 1)


def test_a_gang_that_finds_no_other_node_waits_at_its_checkpoint_and_holds_nothing() -> None:
    """However long that is: it has run, so neither attempts nor restarts are used up by it."""
    play = running()
    play.send(NodeLeaving(0, NodeId("n2"), 3.0))
    play.fire(TimerKind.LEAVE)
    actions = ()
    for ask in play.asks():
        actions = play.exited(ask, stopped(0), stopped(1))
    assert len(of(actions, ReleaseContainer)) == 2
    for _ in range(50):
        play.jitter(0.5)
        assert only(play.fire(TimerKind.BACKOFF), RequestPlan)
        play.refuse()
        assert play.gang.phase is Phase.BACKING_OFF
        assert not [m for m in play.gang.members if m.is_holding]
    assert (
        play.gang.retries.restarts,
        play.gang.acquisition.failures,
        play.gang.retries.preemptions,
    ) == (0, 0, 1)
    play.jitter(0.5)
    play.fire(TimerKind.BACKOFF)
    play.plan()
    play.grant_all().register_all()
    play.start_all()
    assert play.gang.phase is Phase.RUNNING

"""In-place elastic gangs: tasks are lost, leave and join, and the others go on."""

from __future__ import annotations

import pytest

from tests.unit.gang.elastic_play import Elastic, InPlace, elastic_job, in_place_job
from tests.unit.gang.play import failing, of, only, stopped, timer_s
from yarnam.core.failures.process_failure import UNKNOWN
from yarnam.core.gang import MemberState, describe
from yarnam.core.gang.elastic.in_place import LEAVE_S
from yarnam.core.model.actions import (
    Action,
    LaunchGang,
    ReleaseContainer,
    RequestPlan,
    StopTask,
)
from yarnam.core.model.events import (
    ContainerEnded,
    ContainersMarked,
    GroupFormed,
    NodeLeaving,
    TaskFailing,
    TimerKind,
)
from yarnam.core.model.ids import AskId, NodeId, TaskId
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import ContainerEnd, ExitKind, ProcessExit, VerdictKind


def members(actions: tuple[Action, ...]) -> list[tuple[str, AskId]]:
    """Who belongs to the gang, as the first task is told."""
    return [(str(one.task), one.ask) for one in only(actions, LaunchGang).members]


LOSSES = ("lost", "preempted", "ended", "silent", "unable")


def lose(play: InPlace, ask: AskId, how: str) -> tuple[Action, ...]:
    if how == "silent":
        return play.silent(ask)
    if how == "unable":
        return play.unable(ask, "its keeper was killed")
    end = {
        "lost": ContainerEnd.LOST, "preempted": ContainerEnd.PREEMPTED, "ended": ContainerEnd.FAILED
    }  # fmt: skip
    return play.end(ask, end[how], "gone")


# ---- losses --------------------------------------------------------------------------------


@pytest.mark.parametrize("how", LOSSES)
def test_the_others_go_on_without_a_task_that_is_lost(how: str) -> None:
    play = InPlace(in_place_job()).running(3)
    first, second, third = play.asks()
    actions = lose(play, second, how)
    assert isinstance(actions[0], LaunchGang), "the first task hears of it before all else"
    assert members(actions) == [("worker-0", first), ("worker-2", third)]
    assert only(actions, LaunchGang).waiting == (third,), "the first task alone"
    assert not of(actions, StopTask)
    is_held = how in {"lost", "silent", "unable"}
    assert [a.ask for a in of(actions, ReleaseContainer)] == ([second] if is_held else [])
    gang = play.gang
    assert (gang.phase, gang.attempt, gang.retries.restarts, gang.size) == (Phase.RUNNING, 1, 0, 2)
    assert gang.retries.preemptions == (how == "preempted")
    assert bool(gang.nodes.strikes) == is_held, "the node is avoided for a while"
    assert "going on with 2 tasks" in describe(gang, play.now_s).reason


def test_what_is_still_said_of_a_lost_task_changes_nothing() -> None:
    play = InPlace(in_place_job()).running(3)
    second = play.asks()[1]
    lose(play, second, "ended")
    before = play.gang
    assert play.exited(second, failing(137)) == ()
    assert play.silent(second) == ()
    assert play.gang == before


@pytest.mark.parametrize("how", LOSSES)
@pytest.mark.parametrize("workers", [2, 3])
def test_the_first_task_and_the_least_number_are_needed(how: str, workers: int) -> None:
    play = InPlace(in_place_job()).running(workers)
    lost = play.asks()[0 if workers == 3 else 1]
    actions = lose(play, lost, how)
    assert play.gang.phase is Phase.STOPPING
    assert {stop.ask for stop in of(actions, StopTask)} == {*play.asks()} - {lost}
    assert not of(actions, LaunchGang)


def test_a_process_that_fails_stops_the_gang() -> None:
    play = InPlace(in_place_job()).running(4)
    second = play.asks()[1]
    actions = play.send(TaskFailing(0, second, 1, (failing(1),)))
    assert play.gang.phase is Phase.STOPPING
    assert len(of(actions, StopTask)) == 3


def test_a_container_that_yarn_ends_for_its_memory_stops_the_gang() -> None:
    play = InPlace(in_place_job()).running(4)
    play.send(ContainerEnded(0, play.asks()[1], ContainerEnd.FAILED, "beyond memory", UNKNOWN))
    assert play.gang.phase is Phase.STOPPING


def test_a_loss_while_tasks_start_or_end_stops_the_gang() -> None:
    play = InPlace(in_place_job())
    play.start()
    play.room_for(4)
    play.grant_all().register_all()
    play.started(play.asks()[0])
    lose(play, play.asks()[2], "ended")
    assert play.gang.phase is Phase.STOPPING, "all or none at the start"
    play = InPlace(in_place_job()).running(4)
    play.ok(play.asks()[1])
    lose(play, play.asks()[2], "ended")
    assert play.gang.phase is Phase.STOPPING, "they are done, or nearly"


def test_after_a_stop_all_is_as_in_any_gang() -> None:
    """Losses, and then the first task: the others are kept, and start with new numbers."""
    play = InPlace(in_place_job()).running(4)
    first, second, *_ = play.asks()
    lose(play, second, "ended")
    lose(play, first, "silent")
    play.stop_rest()
    assert (play.gang.phase, play.gang.attempt) == (Phase.REPLACING, 2)
    assert play.gang.retries.restarts == 1
    assert len(play.gang.members) == 2


# ---- tasks that join -----------------------------------------------------------------------


def test_tasks_join_while_the_others_go_on() -> None:
    play = InPlace(in_place_job()).running(2)
    first, second = play.asks()
    play.probed(spare=2)
    third, fourth = play.further(2)
    play.come([third])
    assert not of(play.all[-4:], LaunchGang), "they join all together"
    play.grant(fourth, "n6")
    actions = play.register(fourth, "n6")
    assert members(actions) == [
        ("worker-0", first), ("worker-1", second), ("worker-2", third), ("worker-3", fourth),
    ]  # fmt: skip
    launch = only(actions, LaunchGang)
    assert (launch.attempt, launch.waiting) == (1, (second,))
    assert not of(actions, StopTask)
    assert timer_s(actions, TimerKind.GROWTH) == play.spec.gang.launch_timeout_s
    assert "2 more tasks start" in describe(play.gang, play.now_s).reason
    assert play.started(fourth) == ()
    assert play.names == ["worker-0", "worker-1", "worker-3"]
    play.started(third)
    assert play.names == ["worker-0", "worker-1", "worker-2", "worker-3"]
    gang = play.gang
    assert (gang.phase, gang.attempt, gang.size, gang.resizing.growth) == (
        Phase.RUNNING,
        1,
        4,
        None,
    )
    assert gang.timer(TimerKind.GROWTH) is None
    assert all(member.state is MemberState.STARTED for member in gang.members)


def test_a_task_that_joins_takes_the_number_of_one_that_is_gone() -> None:
    play = InPlace(in_place_job()).running(3)
    first, second, third = play.asks()
    lose(play, second, "silent")
    (new,) = play.grows(1)
    launch = of(play.all, LaunchGang)[-1]
    assert [(str(m.task), m.ask) for m in launch.members] == [
        ("worker-0", first), ("worker-1", new), ("worker-2", third),
    ]  # fmt: skip
    play.started(new)
    assert [member.first_rank for member in play.gang.members] == [0, 2, 4]


def test_a_task_that_does_not_start_does_not_join() -> None:
    play = InPlace(in_place_job()).running(2)
    third, fourth = play.grows(2)
    play.started(fourth)
    actions = play.fire(TimerKind.GROWTH)
    assert [a.ask for a in of(actions, ReleaseContainer)] == [third]
    assert [name for name, _ in members(actions)] == ["worker-0", "worker-1", "worker-3"]
    assert "1 tasks that were to join did not start" in play.gang.reason
    assert play.gang.phase is Phase.RUNNING


@pytest.mark.parametrize("how", ["exited", "lost", "failing"])
def test_one_that_fails_as_it_starts_is_given_back_with_the_others_that_join(how: str) -> None:
    play = InPlace(in_place_job()).running(2)
    third, fourth = play.grows(2)
    if how == "exited":
        actions = play.exited(third, ProcessExit(0, ExitKind.NOT_STARTED))
    elif how == "failing":
        actions = play.send(TaskFailing(0, third, 1, (failing(1),)))
    else:
        actions = play.end(third, ContainerEnd.LOST)
    assert fourth in [a.ask for a in of(actions, ReleaseContainer)]
    assert [name for name, _ in members(actions)] == ["worker-0", "worker-1"]
    assert play.gang.phase is Phase.RUNNING
    assert play.gang.resizing.growth is None


def test_a_loss_while_others_come_changes_only_how_many_there_will_be() -> None:
    play = InPlace(in_place_job()).running(3)
    play.probed(spare=1)
    (new,) = play.further(1)
    lose(play, play.asks()[1], "ended")
    assert play.gang.resizing.growth is not None
    assert play.gang.resizing.growth.to == 3
    play.come([new])
    play.started(new)
    assert play.names == ["worker-0", "worker-1", "worker-2"]


def test_a_loss_while_the_planner_is_asked_keeps_the_question() -> None:
    play = InPlace(in_place_job(1)).running(3)
    request = only(play.probed(spare=1), RequestPlan)
    assert request.supplement is not None
    lose(play, play.asks()[1], "ended")
    assert len(play.further(1)) == 1


def test_no_task_joins_on_a_node_that_is_excluded_by_then() -> None:
    play = InPlace(in_place_job()).running(3)
    play.probed(spare=1)
    (new,) = play.further(1)
    play.grant(new, "n2")
    lose(play, play.asks()[1], "lost")
    actions = play.register(new, "n2")
    assert [a.ask for a in of(actions, ReleaseContainer)] == [new]
    assert not of(actions, LaunchGang)


# ---- tasks that leave ----------------------------------------------------------------------


def test_to_shrink_those_that_leave_are_stopped_alone_after_the_first_task_knows() -> None:
    play = InPlace(in_place_job()).running(4)
    first, second, third, fourth = play.asks()
    actions = play.ask_size(2)
    assert isinstance(actions[0], LaunchGang)
    assert members(actions) == [("worker-0", first), ("worker-1", second)]
    stops = of(actions, StopTask)
    assert [(stop.ask, stop.grace_s, stop.agreeing) for stop in stops] == [
        (third, 20.0, 0), (fourth, 20.0, 0),
    ]  # fmt: skip
    assert timer_s(actions, TimerKind.STOP) == 25.0
    assert "2 more are being stopped" in describe(play.gang, play.now_s).reason
    assert play.gang.gpus_by_node != ()
    assert [a.ask for a in of(play.exited(third, stopped(0)), ReleaseContainer)] == [third]
    assert play.gang.timer(TimerKind.STOP) is not None
    play.send(TaskFailing(0, fourth, 1, (failing(1),)))
    assert play.gang.phase is Phase.RUNNING
    play.exited(fourth, failing(1))
    gang = play.gang
    assert (gang.phase, gang.resizing.leaving, gang.size) == (Phase.RUNNING, (), 2)
    assert gang.timer(TimerKind.STOP) is None
    assert gang.retries.restarts == gang.acquisition.failures == 0


def test_the_first_task_stays_wherever_it_is() -> None:
    play = InPlace(in_place_job())
    play.start()
    play.after(31.0).room_for(4)
    racks = ("/r1", "/r2", "/r2", "/r2")
    for number, (ask, rack) in enumerate(zip(play.asks(), racks, strict=True)):
        play.grant(ask, f"n{number}", rack)
    play.register_all()
    for number, ask in enumerate(list(play.asks())):
        play.register(ask, f"n{number}")
    play.start_all()
    play.ask_size(2)
    assert play.names[0] == "worker-0"
    assert len(play.names) == 2


def test_those_that_do_not_stop_in_time_are_released() -> None:
    play = InPlace(in_place_job()).running(4)
    third, fourth = play.asks()[2:]
    play.ask_size(2)
    actions = play.fire(TimerKind.STOP)
    assert [a.ask for a in of(actions, ReleaseContainer)] == [third, fourth]
    assert play.gang.resizing.leaving == ()
    assert play.gang.phase is Phase.RUNNING


@pytest.mark.parametrize("how", LOSSES)
def test_one_that_is_lost_as_it_leaves_has_left(how: str) -> None:
    play = InPlace(in_place_job()).running(3)
    third = play.asks()[2]
    play.ask_size(2)
    lose(play, third, how)
    assert play.gang.resizing.leaving == ()
    assert play.gang.phase is Phase.RUNNING


def test_a_whole_stop_waits_for_nobody_who_leaves() -> None:
    play = InPlace(in_place_job()).running(4)
    fourth = play.asks()[3]
    play.ask_size(3)
    actions = play.cancel()
    assert fourth in [a.ask for a in of(actions, ReleaseContainer)]
    assert fourth not in [stop.ask for stop in of(actions, StopTask)]
    play.stop_rest()
    assert play.verdict.kind is VerdictKind.CANCELLED


def test_those_that_are_ready_to_join_wait_for_those_that_leave() -> None:
    play = InPlace(in_place_job()).running(3)
    third = play.asks()[2]
    play.probed(spare=1)
    (new,) = play.further(1)
    play.send(ContainersMarked(0, (third,)))
    play.grant(new, "n6")
    assert not of(play.register(new, "n6"), LaunchGang)
    actions = play.exited(third, stopped(0))
    assert [name for name, _ in members(actions)] == ["worker-0", "worker-1", "worker-2"]
    assert members(actions)[2][1] == new


def test_an_announced_preemption_costs_the_task_alone() -> None:
    play = InPlace(in_place_job()).running(3)
    first, second, third = play.asks()
    actions = play.send(ContainersMarked(0, (second,)))
    assert members(actions) == [("worker-0", first), ("worker-2", third)]
    assert [stop.ask for stop in of(actions, StopTask)] == [second]
    assert (play.gang.phase, play.gang.retries.preemptions) == (Phase.RUNNING, 1)
    play.end(second, ContainerEnd.PREEMPTED)
    assert play.gang.retries.preemptions == 1


@pytest.mark.parametrize("by", ["", "ann"])
def test_an_announced_preemption_of_the_first_task_or_by_a_user_is_of_all(by: str) -> None:
    play = InPlace(in_place_job()).running(3)
    marked = play.asks()[0] if not by else play.asks()[1]
    actions = play.send(ContainersMarked(0, (marked,), by))
    assert play.gang.phase is Phase.STOPPING
    assert len(of(actions, StopTask)) == 3


def test_a_node_that_leaves_the_cluster_costs_its_tasks_alone() -> None:
    play = InPlace(in_place_job()).running(3)
    second = play.asks()[1]
    node = play.gang.members[1].grant
    assert node is not None
    play.send(NodeLeaving(0, NodeId(node.node), 60.0))
    actions = play.fire(TimerKind.LEAVE)
    assert [stop.ask for stop in of(actions, StopTask)] == [second]
    assert play.gang.phase is Phase.RUNNING


def test_a_node_that_leaves_the_cluster_when_its_task_is_gone_costs_nothing() -> None:
    play = InPlace(in_place_job()).running(3)
    node = play.gang.members[1].grant
    assert node is not None
    play.send(NodeLeaving(0, NodeId(node.node), 60.0))
    lose(play, play.asks()[1], "ended")
    assert play.fire(TimerKind.LEAVE) == ()
    assert play.gang.phase is Phase.RUNNING


# ---- tasks that leave on their own ---------------------------------------------------------


def on_notice(workers: int) -> InPlace:
    return InPlace(in_place_job(framework="horovod")).running(workers)


def test_tasks_that_leave_get_no_signal_before_their_notice_is_over() -> None:
    play = on_notice(4)
    first, second, third, fourth = play.asks()
    actions = play.ask_size(2)
    assert members(actions) == [("worker-0", first), ("worker-1", second)]
    assert not of(actions, StopTask)
    assert timer_s(actions, TimerKind.NOTICE) == 200.0
    assert timer_s(actions, TimerKind.REFORM) == 400.0, "the signal may break the group"
    line = describe(play.gang, play.now_s).reason
    assert "2 tasks run, re-forming their group, 2 more leave" in line
    play.send(TaskFailing(0, third, 1, (failing(134),)))
    play.exited(third, failing(134))
    assert play.gang.phase is Phase.RUNNING
    actions = play.fire(TimerKind.NOTICE)
    assert [(stop.ask, stop.grace_s) for stop in of(actions, StopTask)] == [(fourth, 20.0)]
    assert timer_s(actions, TimerKind.STOP) == 25.0
    assert "1 more is being stopped" in describe(play.gang, play.now_s).reason
    play.exited(fourth, stopped(0))
    assert {play.gang.timer(TimerKind.STOP), play.gang.timer(TimerKind.NOTICE)} == {None}


def test_tasks_that_leave_have_some_seconds_once_the_others_have_formed_a_group() -> None:
    play = on_notice(3)
    play.formed(1, 3)
    play.ask_size(2)
    actions = play.formed(2, 2)
    assert timer_s(actions, TimerKind.NOTICE) == LEAVE_S
    assert play.gang.timer(TimerKind.REFORM) is None
    assert len(of(play.fire(TimerKind.NOTICE), StopTask)) == 1


def test_before_a_preemption_half_of_the_time_is_for_the_notice() -> None:
    play = on_notice(4)
    second, third = play.asks()[1:3]
    grace_s = play.policy.stop_grace_s
    actions = play.send(ContainersMarked(0, (second,)))
    assert not of(actions, StopTask)
    assert timer_s(actions, TimerKind.NOTICE) == grace_s / 2
    play.after(grace_s / 4)
    actions = play.send(ContainersMarked(0, (third,)))
    assert timer_s(actions, TimerKind.NOTICE) == grace_s / 4, "the first one leaves in time"
    stops = of(play.fire(TimerKind.NOTICE), StopTask)
    assert [(stop.ask, stop.grace_s) for stop in stops] == [
        (second, grace_s / 2), (third, grace_s / 2),
    ]  # fmt: skip


def test_there_is_no_notice_while_others_are_being_stopped() -> None:
    play = on_notice(4)
    second = play.asks()[1]
    play.ask_size(3)
    play.fire(TimerKind.NOTICE)
    actions = play.send(ContainersMarked(0, (second,)))
    assert [stop.ask for stop in of(actions, StopTask)] == [second]
    assert play.gang.timer(TimerKind.NOTICE) is None


def test_a_whole_stop_ends_the_notice() -> None:
    play = on_notice(4)
    play.ask_size(3)
    play.cancel()
    assert {play.gang.timer(kind) for kind in (TimerKind.NOTICE, TimerKind.REFORM)} == {None}


# ---- the group of their processes ----------------------------------------------------------

CHANGES = ("lost", "leave", "join")


def change(play: InPlace, how: str) -> None:
    if how == "lost":
        lose(play, play.asks()[2], "silent")
    elif how == "leave":
        play.ask_size(2)
    else:
        play.started(*play.grows(1))


@pytest.mark.parametrize("framework", ["torchrun", "horovod"])
@pytest.mark.parametrize("how", CHANGES)
def test_processes_that_do_not_re_form_their_group_hang(how: str, framework: str) -> None:
    play = InPlace(in_place_job(framework=framework)).running(3)
    play.formed(1, 3)
    change(play, how)
    assert "re-forming their group" in describe(play.gang, play.now_s).reason
    assert describe(play.gang, play.now_s).deadline_s is not None
    actions = play.fire(TimerKind.REFORM)
    assert play.gang.phase is Phase.STOPPING
    tasks = 4 if how == "join" else 2
    assert len(of(actions, StopTask)) == tasks
    play.stop_rest()
    gang = play.gang
    assert gang.attempt == 2 or gang.phase is Phase.REPLACING
    assert gang.retries.restarts == 1
    cause = gang.history[0].cause
    assert cause is not None
    assert cause.finding is not None
    assert cause.finding.line == f"{tasks} tasks did not re-form their group within 200 s"


@pytest.mark.parametrize("how", CHANGES)
def test_a_group_of_all_members_ends_the_wait(how: str) -> None:
    play = InPlace(in_place_job()).running(3)
    play.formed(1, 3)
    change(play, how)
    play.formed(1, 3)
    assert play.gang.timer(TimerKind.REFORM) is not None, "that one is from before the change"
    play.formed(2, 3)
    assert play.gang.timer(TimerKind.REFORM) is not None, "that one is not of all members"
    play.formed(3, len(play.gang.members))
    assert play.gang.timer(TimerKind.REFORM) is None
    assert "re-forming" not in describe(play.gang, play.now_s).reason


def test_a_group_without_some_members_is_limited_too() -> None:
    play = InPlace(in_place_job()).running(3)
    assert timer_s(play.formed(1, 2), TimerKind.REFORM) == 200.0, "one was late at the start"
    play.formed(2, 3)
    assert play.gang.timer(TimerKind.REFORM) is None


def test_no_other_group_is_awaited_when_those_that_were_to_join_did_not() -> None:
    play = InPlace(in_place_job()).running(2)
    play.formed(1, 2)
    (third,) = play.grows(1)
    assert play.gang.timer(TimerKind.REFORM) is not None
    play.exited(third, failing(1))
    assert play.gang.timer(TimerKind.REFORM) is None
    actions = play.formed(2, 3)
    assert timer_s(actions, TimerKind.REFORM) == 200.0, "it had come that far, and is in the group"
    play.formed(3, 2)
    assert play.gang.timer(TimerKind.REFORM) is None


@pytest.mark.parametrize("why", ["nothing is known of its groups", "it is about to end"])
def test_the_limit_is_not_for_a_gang_of_which(why: str) -> None:
    play = InPlace(in_place_job()).running(4)
    if "end" in why:
        play.formed(1, 4)
    lose(play, play.asks()[2], "silent")
    if "end" in why:
        play.ok(play.asks()[1])
    assert play.fire(TimerKind.REFORM) == ()
    assert play.gang.phase is Phase.RUNNING


def test_groups_are_counted_anew_in_each_attempt() -> None:
    play = InPlace(in_place_job()).running(3)
    play.formed(7, 3)
    lose(play, play.asks()[0], "silent")
    play.stop_rest()
    play.fill()
    (ask,) = play.waiting()
    play.grant(ask, "n8")
    play.register(ask, "n8")
    play.formed(1, 3)
    play.start_all()
    assert (play.gang.phase, play.gang.resizing.group) == (Phase.RUNNING, 1)


def test_a_group_of_a_gang_that_restarts_at_each_change_says_nothing() -> None:
    play = Elastic(elastic_job()).running(3)
    assert play.send(GroupFormed(0, 1, 1, 2)) == ()


# ---- the end, and a new ApplicationMaster --------------------------------------------------


def test_it_is_complete_when_those_that_are_left_have_ended_well() -> None:
    play = InPlace(in_place_job()).running(3)
    lose(play, play.asks()[1], "ended")
    for ask in play.asks():
        play.ok(ask)
    assert play.verdict.kind is VerdictKind.SUCCEEDED


def test_a_new_application_master_starts_all_anew() -> None:
    play = InPlace(in_place_job()).running(4)
    play.ask_size(3)
    play.restart_am()
    assert play.gang.phase is Phase.BACKING_OFF
    assert (play.gang.members, play.gang.resizing.leaving, play.gang.resizing.growth) == (
        (),
        (),
        None,
    )
    assert play.gang.timer(TimerKind.STOP) is None


def test_a_gang_that_restarts_at_each_change_is_none() -> None:
    play = Elastic(elastic_job()).running(3)
    play.end(play.asks()[1], ContainerEnd.LOST)
    assert play.gang.phase is Phase.STOPPING


def test_tasks_have_their_numbers_for_as_long_as_they_are_there() -> None:
    play = InPlace(in_place_job()).running(4)
    for place in (2, 1):
        lose(play, play.asks()[place], "ended")
    assert [member.task for member in play.gang.members] == [
        TaskId("worker", 0), TaskId("worker", 3),
    ]  # fmt: skip

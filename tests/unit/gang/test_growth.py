"""Elastic gangs: the size at the start, growing, shrinking, a user's request, what goes wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.gang.elastic_play import Elastic, elastic_job
from tests.unit.gang.play import Play, failing, job, of, only, stopped, timer_s
from yarnam.core.gang import MemberState, describe
from yarnam.core.model.actions import (
    AskContainer,
    LaunchGang,
    ProbeCluster,
    ReleaseContainer,
    RequestPlan,
    StopTask,
)
from yarnam.core.model.events import ClusterSeen, Event, ScaleRequested, TaskExited, TimerKind
from yarnam.core.model.job_spec import ElasticSpec, GangSpec, JobSpec, RetrySpec, ScheduledSize
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import ContainerEnd
from yarnam.core.model.resources import Resources

# ---- the size at the start -----------------------------------------------------------------


def test_the_largest_size_is_waited_for_within_the_patience() -> None:
    play = Elastic(elastic_job())
    assert only(play.start(), RequestPlan).least_tasks == 4
    play.after(1.0).room_for(3)
    assert play.gang.phase is Phase.BACKING_OFF
    assert "only 3 tasks fit" in play.gang.reason
    assert play.gang.acquisition.failures == 0
    # The next request comes no later than the end of the patience.
    play.gang = replace(play.gang, acquisition=replace(play.gang.acquisition, refused_plans=9))
    assert timer_s(play.jitter(0.99), TimerKind.BACKOFF) == pytest.approx(29.0)
    assert only(play.fire(TimerKind.BACKOFF), RequestPlan).least_tasks is None


def test_a_question_that_stands_in_line_is_asked_anew_when_patience_is_over() -> None:
    play = Elastic(elastic_job())
    assert only(play.start(), RequestPlan).least_tasks == 4
    again = only(play.fire(TimerKind.PATIENCE), RequestPlan)
    assert (again.attempt, again.least_tasks) == (1, None)
    assert play.gang.phase is Phase.PENDING
    assert play.gang.timer(TimerKind.PATIENCE) is None
    assert len(of(play.room_for(2), AskContainer)) == 2


def test_after_the_patience_the_largest_that_fits_will_do() -> None:
    play = Elastic(elastic_job())
    play.start()
    asked = of(play.after(30.0).room_for(3), AskContainer)
    assert len(asked) == 3
    assert play.gang.phase is Phase.ACQUIRING
    assert play.gang.size == 3


def test_the_largest_size_starts_at_once() -> None:
    play = Elastic(elastic_job())
    play.start()
    assert len(of(play.room_for(4), AskContainer)) == 4


def test_less_than_the_least_is_a_bug_of_the_planner() -> None:
    play = Elastic(elastic_job())
    play.start()
    play.after(60).room_for(1)
    assert play.gang.phase is Phase.FAILED
    assert "1 to" not in play.verdict.message
    assert "2 processes of role worker, the gang has 4 to 8" in play.verdict.message


def test_enough_of_them_at_the_end_of_the_hold_start_without_the_others() -> None:
    play = Elastic(elastic_job())
    play.start()
    play.room_for(4)
    one, two, three, _ = play.asks()
    for number, ask in enumerate((one, two, three)):
        play.after(1).grant(ask, f"n{number + 1}")
    for number, ask in enumerate((one, two)):
        play.register(ask, f"n{number + 1}")
    actions = play.fire(TimerKind.HOLD)
    assert {a.ask for a in of(actions, ReleaseContainer)} == play.all_asks() - {one, two}
    assert len(only(actions, LaunchGang).members) == 2
    play.start_all()
    assert play.gang.phase is Phase.RUNNING
    assert play.size == 2


def test_enough_of_them_start_without_those_that_localize_for_too_long() -> None:
    play = Elastic(elastic_job())
    play.start()
    play.room_for(4)
    asks = play.asks()
    for number, ask in enumerate(asks):
        play.grant(ask, f"n{number + 1}")
    for number, ask in enumerate(asks[:2]):
        play.register(ask, f"n{number + 1}")
    launch = only(play.fire(TimerKind.LOCALIZE), LaunchGang)
    assert [member.ask for member in launch.members] == asks[:2]
    assert "4 on n4 were not on the node" in play.gang.reason.replace(str(asks[3]), "4")


# ---- growing -------------------------------------------------------------------------------


def test_it_grows_while_gpus_are_idle() -> None:
    play = Elastic(elastic_job()).running(2)
    play.now_s += 300.0
    probe = only(play.fire(TimerKind.RESIZE), ProbeCluster)
    assert [ask.count for ask in probe.growth.wanted] == [2]
    assert len(probe.growth.held) == 2
    request = only(play.see(spare=2), RequestPlan)
    assert request.supplement is not None
    assert [ask.count for ask in request.supplement.wanted] == [2]
    asks = play.further(2)
    assert play.gang.phase is Phase.RUNNING, "it trains on while they come"
    play.come(asks[:1])
    assert play.gang.phase is Phase.RUNNING
    assert not of(play.all, StopTask)
    play.come(asks[1:])
    stops = of(play.all, StopTask)
    assert [stop.grace_s for stop in stops] == [20.0, 20.0]
    assert stops[0].reason == "2 -> 4 tasks: GPUs are idle"
    launch = only(play.all_stop(), LaunchGang)
    assert len(launch.members) == 4
    assert launch.attempt == 2
    assert not of(play.all, ReleaseContainer)
    play.start_all()
    assert play.gang.phase is Phase.RUNNING
    assert (play.gang.retries.restarts, play.gang.acquisition.failures, play.gang.size) == (0, 0, 4)


def test_containers_to_grow_by_have_time_to_localize() -> None:
    play = Elastic(elastic_job()).running(2)
    play.now_s += 300.0
    play.probed(spare=2)
    one, two = play.further(2)
    play.grant(one, "n3")
    play.after(100).grant(two, "n4")
    assert play.gang.deadline_s(TimerKind.GROWTH) == play.now_s + 1800
    play.fire(TimerKind.GROWTH)
    assert play.gang.reason == (
        "did not grow: 0 of 2 containers to grow by were ready within 1800 s"
    )


def test_ranks_are_those_of_the_larger_gang() -> None:
    play = Elastic(elastic_job()).running(2)
    play.now_s += 300.0
    play.probed(spare=1)
    play.come(play.further(1), ("n0",))
    launch = only(play.all_stop(), LaunchGang)
    assert [(str(m.task), m.placed.node) for m in launch.members] == [
        ("worker-0", "n0"), ("worker-1", "n1"), ("worker-2", "n2"),
    ]  # fmt: skip
    assert [m.first_rank for m in play.gang.members] == [0, 2, 4]


@pytest.mark.parametrize("seen", [{"spare": 0}, {"spare": 2, "waiting": 1}])
def test_it_stays_as_it_is(seen: dict[str, int]) -> None:
    play = Elastic(elastic_job()).running(2)
    play.now_s += 300.0
    actions = play.probed(**seen)
    assert not of(actions, RequestPlan)
    assert timer_s(actions, TimerKind.RESIZE) == pytest.approx(60.0 * 0.875)


def test_what_does_not_come_in_time_is_given_back_and_nobody_notices() -> None:
    play = Elastic(elastic_job()).running(2)
    play.now_s += 300.0
    play.probed(spare=2)
    asks = play.further(2)
    play.come(asks[:1])
    actions = play.fire(TimerKind.GROWTH)
    assert {action.ask for action in of(actions, ReleaseContainer)} == set(asks)
    assert play.gang.phase is Phase.RUNNING
    assert not of(play.all, StopTask)
    late = play.grant(asks[1], "n6")
    assert only(late, ReleaseContainer).ask == asks[1]
    assert "1 of 2 containers" in describe(play.gang, play.now_s).reason


@pytest.mark.parametrize("how", ["ended", "silent", "unable", "busy", "misfit", "elsewhere"])
def test_a_further_container_that_is_no_good_ends_the_growth_alone(how: str) -> None:
    play = Elastic(elastic_job(exclude=("n9",))).running(2)
    play.now_s += 300.0
    play.probed(spare=2)
    one, two = play.further(2)
    if how == "misfit":
        actions = play.grant(one, "n9")
    elif how == "elsewhere":
        play.grant(one, "n5")
        actions = play.register(one, "n6")
    else:
        play.grant(one, "n5")
        actions = {
            "ended": lambda: play.end(one, ContainerEnd.FAILED, "exit 1"),
            "silent": lambda: play.silent(one),
            "unable": lambda: play.unable(one, "no GPU to lease"),
            "busy": lambda: play.unable(one, "GPU 0 is held by bob", is_busy=True),
        }[how]()
    strikes = [strike.node for strike in play.gang.nodes.strikes]
    assert strikes == (["n5"] if how in {"silent", "unable"} else [])
    released = {action.ask for action in of(actions, ReleaseContainer)}
    assert released == ({two} if how == "ended" else {one, two})
    assert play.gang.phase is Phase.RUNNING
    assert play.gang.resizing.growth is None
    assert play.size == 2


def test_a_loss_while_it_grows_comes_first() -> None:
    play = Elastic(elastic_job()).running(3)
    play.now_s += 300.0
    play.probed(spare=1)
    [ask] = play.further(1)
    actions = play.end(play.asks()[0], ContainerEnd.LOST, "node lost")
    assert ask in {action.ask for action in of(actions, ReleaseContainer)}
    assert play.gang.phase is Phase.STOPPING


def test_a_loss_while_it_stops_to_grow_is_a_loss() -> None:
    play = Elastic(elastic_job()).running(3)
    play.now_s += 300.0
    play.probed(spare=1)
    play.come(play.further(1))
    one, two, three = play.asks()
    play.end(one, ContainerEnd.LOST, "node lost")
    play.exited(two, stopped())
    play.exited(three, stopped())
    assert play.gang.phase is Phase.REPLACING
    assert play.gang.search is not None
    assert play.gang.retries.restarts == 1


def test_a_failure_of_the_users_while_it_stops_is_a_failure() -> None:
    play = Elastic(elastic_job()).running(2)
    play.now_s += 300.0
    play.probed(spare=2)
    play.come(play.further(2))
    one, two = play.asks()
    play.exited(one, failing(3, play.now_s), stopped(1))
    play.exited(two, stopped())
    assert play.gang.phase is Phase.FAILED
    assert "exited with code 3" in play.verdict.message


def test_one_that_does_not_stop_is_replaced() -> None:
    play = Elastic(elastic_job()).running(3)
    play.ask_size(2)
    one, two, _ = play.asks()
    play.exited(one, stopped())
    play.exited(two, stopped())
    play.fire(TimerKind.STOP)
    assert play.gang.phase is Phase.REPLACING
    assert play.gang.search is not None


def test_processes_that_were_done_anyway_are_a_success() -> None:
    play = Elastic(elastic_job()).running(3)
    play.ask_size(2)
    for ask in play.asks():
        play.ok(ask)
    assert play.gang.phase is Phase.SUCCEEDED


# ---- shrinking -----------------------------------------------------------------------------


def test_it_gives_back_what_the_queue_is_over_when_that_lasts() -> None:
    play = Elastic(elastic_job()).running(4)
    for _ in range(2):
        play.probed(excess=1, waiting=1)
        assert play.gang.phase is Phase.RUNNING
    play.probed(excess=1, waiting=1)
    assert play.gang.phase is Phase.STOPPING
    actions = play.all_stop()
    assert len(only(actions, LaunchGang).members) == 3
    assert len(of(actions, ReleaseContainer)) == 1


def test_one_probe_without_excess_begins_the_wait_anew() -> None:
    play = Elastic(elastic_job()).running(4)
    for excess in (1, 1, 0, 1, 1):
        play.probed(excess=excess, waiting=1)
    assert play.gang.phase is Phase.RUNNING


def test_those_that_stay_are_close_together() -> None:
    play = Elastic(elastic_job())
    play.start()
    play.room_for(4)
    for ask, (node, rack) in zip(
        play.asks(), (("n1", "/r1"), ("n2", "/r2"), ("n3", "/r2"), ("n2", "/r2")), strict=True
    ):
        play.grant(ask, node, rack)
    play.register_all()
    play.start_all()
    play.ask_size(2)
    launch = only(play.all_stop(), LaunchGang)
    assert [member.placed.node for member in launch.members] == ["n2", "n2"]


def test_a_lost_task_is_replaced_where_there_is_room() -> None:
    play = Elastic(elastic_job()).running(4)
    play.end(play.asks()[0], ContainerEnd.LOST, "node lost")
    play.stop_rest()
    play.fill()
    play.grant(play.waiting()[0], "n6")
    launch = only(play.register_all(), LaunchGang)
    assert len(launch.members) == 4


@pytest.mark.parametrize("how", ["no room", "no grant in time"])
def test_it_shrinks_instead_of_dying(how: str) -> None:
    play = Elastic(elastic_job()).running(4)
    play.end(play.asks()[0], ContainerEnd.LOST, "node lost")
    play.stop_rest()
    if how == "no room":
        actions = play.refuse()
    else:
        play.fill()
        actions = play.fire(TimerKind.RECOVERY)
    assert len(only(actions, LaunchGang).members) == 3
    play.start_all()
    assert play.gang.phase is Phase.RUNNING
    assert play.gang.retries.restarts == 1


def test_without_recovery_in_place_it_shrinks_at_once() -> None:
    gang = GangSpec(recovery_timeout_s=0.0)
    play = Elastic(elastic_job(gang=gang)).running(4)
    play.end(play.asks()[0], ContainerEnd.LOST, "node lost")
    actions = play.stop_rest()
    assert len(only(actions, LaunchGang).members) == 3


def test_the_last_restart_is_not_the_end_of_a_gang_that_can_shrink() -> None:
    play = Elastic(elastic_job(retry=RetrySpec(max_restarts=0))).running(4)
    play.end(play.asks()[0], ContainerEnd.LOST, "node lost")
    assert len(only(play.stop_rest(), LaunchGang).members) == 3
    play.start_all()
    play.end(play.asks()[0], ContainerEnd.LOST, "node lost")
    play.stop_rest()
    play.start_all()
    assert play.size == 2
    play.end(play.asks()[0], ContainerEnd.LOST, "node lost")
    play.stop_rest()
    assert play.gang.phase is Phase.FAILED


def test_below_the_least_it_starts_anew() -> None:
    play = Elastic(elastic_job()).running(2)
    play.end(play.asks()[0], ContainerEnd.LOST, "node lost")
    play.stop_rest()
    play.refuse()
    play.fire(TimerKind.RECOVERY)
    assert play.gang.phase is Phase.BACKING_OFF


def test_a_preempted_container_costs_no_more_than_itself() -> None:
    play = Elastic(elastic_job()).running(4)
    play.end(play.asks()[0], ContainerEnd.PREEMPTED, "preempted")
    launch = only(play.stop_rest(), LaunchGang)
    assert len(launch.members) == 3
    assert (play.gang.retries.restarts, play.gang.retries.preemptions) == (0, 1)


# ---- a user's request ---------------------------------------------------------------------


def test_a_smaller_size_is_taken_at_once() -> None:
    play = Elastic(elastic_job()).running(4)
    stops = of(play.ask_size(2), StopTask)
    assert len(stops) == 4
    assert stops[0].reason == "4 -> 2 tasks: as a user asked"
    assert len(only(play.all_stop(), LaunchGang).members) == 2
    play.start_all()
    play.now_s += 1000.0
    play.probed(spare=2)
    assert play.gang.resizing.growth is None, "the request holds"


def test_a_larger_size_is_probed_for_at_once_and_takes_what_fits() -> None:
    play = Elastic(elastic_job()).running(2)
    probe = only(play.ask_size(4), ProbeCluster)
    assert [ask.count for ask in probe.growth.wanted] == [2]
    play.see(spare=1, waiting=3)
    play.come(play.further(1))
    play.all_stop()
    actions = play.start_all().all
    assert play.size == 3
    assert isinstance(actions[-1], ProbeCluster), "one more is still asked for"
    play.see(spare=0)
    assert play.gang.phase is Phase.RUNNING


def test_a_request_taken_back() -> None:
    play = Elastic(elastic_job()).running(4)
    play.ask_size(2)
    play.all_stop()
    play.start_all()
    play.ask_size(None)
    play.now_s += 300.0
    play.probed(spare=2)
    assert play.gang.resizing.growth is not None


@pytest.mark.parametrize("tasks", [0, 1, 5, 4])
def test_requests_that_change_nothing(tasks: int) -> None:
    play = Elastic(elastic_job()).running(4)
    play.ask_size(4)
    before = play.gang
    assert play.ask_size(tasks) == ()
    assert play.gang == before


def test_another_size_ends_a_growth_under_way() -> None:
    play = Elastic(elastic_job()).running(2)
    play.ask_size(4)
    play.see(spare=2)
    asks = play.further(2)
    actions = play.ask_size(3)
    assert {action.ask for action in of(actions, ReleaseContainer)} == set(asks)
    assert [ask.count for ask in only(actions, ProbeCluster).growth.wanted] == [1]


def test_a_size_asked_for_while_it_waits_counts_for_the_start() -> None:
    play = Elastic(elastic_job())
    play.start()
    play.refuse()
    play.ask_size(3)
    play.jitter(0.5)
    assert only(play.fire(TimerKind.BACKOFF), RequestPlan).most_tasks == 3
    assert len(of(play.room_for(3), AskContainer)) == 3, "what was asked for is the largest"


def test_a_request_outlives_the_am() -> None:
    play = Elastic(elastic_job()).running(4)
    play.ask_size(3)
    play.all_stop()
    play.start_all()
    play.restart_am()
    assert play.gang.phase is Phase.BACKING_OFF
    play.jitter(0.5)
    assert only(play.fire(TimerKind.BACKOFF), RequestPlan).most_tasks == 3


@pytest.mark.parametrize("when", ["asked", "stopping"])
def test_a_new_am_forgets_a_growth(when: str) -> None:
    play = Elastic(elastic_job()).running(2)
    play.ask_size(4)
    play.see(spare=2)
    asks = play.further(2)
    if when == "stopping":
        play.come(asks)
        assert play.gang.phase is Phase.STOPPING
    play.restart_am()
    assert play.gang.phase is Phase.BACKING_OFF
    assert play.gang.resizing.growth is None
    assert (play.gang.retries.restarts, play.gang.acquisition.failures) == (0, 0)


def test_a_cancel_releases_the_further_containers_too() -> None:
    play = Elastic(elastic_job()).running(2)
    play.ask_size(4)
    play.see(spare=2)
    asks = play.further(2)
    play.cancel()
    play.all_stop()
    released = {action.ask for action in of(play.all, ReleaseContainer)}
    assert released >= {*asks, *play.asks()}
    assert play.gang.phase is Phase.CANCELLED


def test_late_and_doubled_words_are_harmless() -> None:
    play = Elastic(elastic_job()).running(2)
    play.ask_size(4)
    play.see(spare=2)
    growing = play.gang
    assert play.see(spare=2) == ()
    assert play.gang == growing
    asks = play.further(2)
    play.come(asks)
    launched = play.all_stop()
    assert of(launched, LaunchGang)
    after = play.gang
    old = [TaskExited(0, member.ask, 1, (stopped(),)) for member in after.members]
    late: list[Event] = [ScaleRequested(0, "ann", 4), ClusterSeen(0, 1, 2), *old]
    for event in late:
        assert play.send(event) == ()
    assert play.gang == after


def test_a_gang_of_one_size_takes_no_request() -> None:
    play = Play(job(2)).to_running()
    assert play.send(ScaleRequested(0, "ann", 1)) == ()
    assert play.gang.size_request.tasks is None
    assert play.gang.timer(TimerKind.RESIZE) is None
    assert all(member.state is MemberState.STARTED for member in play.gang.members)


# ---- the program's request, and a schedule ------------------------------------------------


def test_a_program_asks_for_a_size_as_a_user_does() -> None:
    play = Elastic(elastic_job()).running(4)
    stops = of(play.program_asks(2), StopTask)
    assert stops[0].reason == "4 -> 2 tasks: as the program asked"
    assert len(only(play.all_stop(), LaunchGang).members) == 2
    play.start_all()
    assert play.program_asks(2) == (), "said once more by the processes that were started again"
    assert [ask.count for ask in only(play.program_asks(4), ProbeCluster).growth.wanted] == [2]


def test_a_user_comes_before_the_program_and_leaves_the_size_to_it_again() -> None:
    play = Elastic(elastic_job()).running(4)
    play.ask_size(2)
    play.all_stop()
    play.start_all()
    assert play.program_asks(3) == ()
    assert play.gang.size_request.tasks == 2
    actions = play.ask_size(None)
    assert (play.gang.size_request.tasks, play.gang.size_request.is_by_program) == (3, True)
    assert [ask.count for ask in only(actions, ProbeCluster).growth.wanted] == [1]


def test_a_user_may_ask_for_what_the_program_has_asked_for() -> None:
    play = Elastic(elastic_job()).running(4)
    play.program_asks(4)
    play.ask_size(4)
    assert play.gang.size_request.is_by_user
    assert play.program_asks(2) == (), "it is the user's now"


def test_a_program_may_leave_the_size_to_the_job_again() -> None:
    play = Elastic(elastic_job()).running(4)
    play.program_asks(4)
    play.program_asks(None)
    assert (play.gang.size_request.tasks, play.gang.size_request.program_tasks) == (None, None)


@pytest.mark.parametrize("is_user", [True, False])
def test_a_policy_comes_after_the_program_and_the_user(*, is_user: bool) -> None:
    play = Elastic(elastic_job()).running(4)
    play.send(ScaleRequested(0, "policy", 4, is_policy=True))
    assert play.gang.size_request.is_by_policy
    if is_user:
        play.ask_size(4)
    else:
        play.program_asks(4)
    assert play.send(ScaleRequested(0, "policy", 2, is_policy=True)) == ()
    assert play.gang.size_request.tasks == 4


def scheduled_job(*sizes: tuple[int, int]) -> JobSpec:
    made = elastic_job()
    schedule = tuple(ScheduledSize(size, epoch=epoch) for epoch, size in sizes)
    return replace(made, elastic=replace(made.elastic, schedule=schedule))


def test_a_schedule_that_begins_at_once_sets_the_size_of_the_start() -> None:
    play = Elastic(scheduled_job((0, 3), (5, 4)))
    assert only(play.start(), RequestPlan).most_tasks == 3
    assert (play.gang.size_request.scheduled, play.gang.size_request.is_by_program) == (1, True)
    assert Elastic(scheduled_job((1, 3))).gang.size_request.tasks is None


def test_a_scheduled_size_has_its_time_once() -> None:
    play = Elastic(scheduled_job((0, 2), (5, 4))).running(2)
    play.program_asks(4, scheduled=2)
    play.program_asks(3)
    before = play.gang
    assert play.program_asks(3, scheduled=2) == ()
    assert play.gang == before


@pytest.mark.parametrize(
    ("step", "epoch", "count"), [(0, -1, 0), (0, 0, 1), (99, 4, 1), (99, 5, 2), (99, 50, 2)]
)
def test_how_much_of_a_schedule_has_been_reached(step: int, epoch: int, count: int) -> None:
    assert scheduled_job((0, 2), (5, 4)).elastic.reached(step, epoch) == count
    by_step = (ScheduledSize(2, step=0), ScheduledSize(4, step=5))
    assert ElasticSpec(schedule=by_step).reached(epoch, 99) == count


def test_a_size_in_gpus_means_tasks_of_the_shape_that_submit_chose() -> None:
    made = scheduled_job((0, 8))
    roles = tuple(replace(role, resources=Resources(1, 1, 4)) for role in made.roles)
    of_gpus = replace(made, roles=roles, elastic=replace(made.elastic, counts_gpus=True))
    assert of_gpus.scheduled_tasks(1) == 2
    assert of_gpus.scheduled_tasks(2) is None
    assert job(4).scheduled_tasks(1) is None


# ---- priority -----------------------------------------------------------------------------


def test_it_goes_to_its_least_for_a_job_of_higher_priority() -> None:
    play = Elastic(elastic_job()).running(4)
    play.program_asks(4)
    play.now_s += 60.0
    assert not of(play.probed(waiting=1, outranked=1), StopTask)
    play.now_s += 60.0
    stops = of(play.probed(waiting=1, outranked=1), StopTask)
    assert stops[0].reason == "4 -> 2 tasks: a job of higher priority waits in its queue"
    assert len(only(play.all_stop(), LaunchGang).members) == 2
    play.start_all()
    play.probed(spare=2, waiting=1, outranked=1)
    assert play.gang.resizing.growth is None, "it still waits"
    play.probed(spare=2)
    assert play.gang.resizing.growth is not None, "and then the program has what it asked for"


def test_a_size_that_a_user_asked_for_stays_for_a_job_of_higher_priority() -> None:
    play = Elastic(elastic_job()).running(4)
    play.ask_size(4)
    for _ in range(3):
        play.now_s += 60.0
        assert not of(play.probed(waiting=1, outranked=1), StopTask)


def test_what_has_come_to_grow_by_is_held() -> None:
    """Else it would be nobody's, and whoever divides the GPUs would have fewer to divide."""
    play = Elastic(elastic_job()).running(2)
    before = play.gang.gpus_by_node
    assert [gpus for _, gpus in before] == [2, 2]
    play.now_s += 300.0
    play.probed(spare=2)
    asks = play.further(2)
    assert play.gang.gpus_by_node == before
    play.after(1).grant(asks[0], "n5")
    assert play.gang.gpus_by_node == (*before, ("n5", 2))
    play.fire(TimerKind.GROWTH)
    assert play.gang.gpus_by_node == before

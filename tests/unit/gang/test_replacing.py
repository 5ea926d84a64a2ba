"""Lost tasks of a running gang: replaced in place, or the whole gang starts anew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.gang.play import ANEW, Play, failing, job, of, only, stopped, timer_s
from yarnam.core.gang import MemberState, describe
from yarnam.core.model.actions import (
    AskContainer,
    DrawJitter,
    Finish,
    LaunchGang,
    ReleaseContainer,
    RequestPlan,
    StopTask,
)
from yarnam.core.model.events import AgentRegistered, TimerKind
from yarnam.core.model.ids import AskId, ContainerId, NodeId, RackId
from yarnam.core.model.job_spec import GangSpec, RetrySpec
from yarnam.core.model.job_status import JobState, Phase
from yarnam.core.model.outcomes import ContainerEnd, ExitKind, ProcessExit
from yarnam.core.model.plans import HeldTask, LocalityLevel
from yarnam.errors import ExitCode

HELD = {MemberState.GRANTED, MemberState.READY}


def losing(workers: int = 3, **changes: object) -> Play:
    """A gang that ran and has lost its second task; all others have stopped."""
    play = Play(job(workers=workers, **changes)).to_running()  # type: ignore[arg-type]
    play.after(100).silent(play.asks()[1], 8.0)
    for member in play.gang.members:
        if member.state is MemberState.STARTED:
            play.after(0.5).exited(member.ask, stopped(0), stopped(1))
    return play


def test_the_others_are_stopped_with_grace_kept_and_parked() -> None:
    play = Play(job(workers=3)).to_running()
    one, two, three = play.asks()
    stops = of(play.after(5).silent(two, 8.0), StopTask)
    assert {(a.ask, a.attempt, a.grace_s) for a in stops} == {(one, 1, 10.0), (three, 1, 10.0)}
    play.after(1).exited(one, stopped(0), stopped(1))
    actions = play.after(1).exited(three, stopped(0), stopped(1))
    assert [a.ask for a in of(actions, ReleaseContainer)] == [two], "it may still be there"
    assert timer_s(actions, TimerKind.RECOVERY) == 60.0
    assert play.asks() == [one, three]
    assert {member.state for member in play.gang.members} == {MemberState.READY}
    assert (play.gang.phase, play.gang.attempt, play.gang.retries.restarts) == (
        Phase.REPLACING,
        2,
        1,
    )


def test_the_planner_is_asked_for_the_missing_alone() -> None:
    play = Play(job(workers=3)).to_running()
    play.silent(play.asks()[1], 8.0)
    play.exited(play.asks()[0], stopped())
    request = only(play.exited(play.asks()[2], stopped()), RequestPlan)
    supplement = request.supplement
    assert supplement is not None
    (wanted,) = supplement.wanted
    size = job().roles[0].resources
    assert (wanted.count, wanted.target.role, wanted.target.resources) == (1, "worker", size)
    assert supplement.held == (
        HeldTask("worker", NodeId("n1"), RackId("/r1"), size),
        HeldTask("worker", NodeId("n3"), RackId("/r1"), size),
    )
    assert supplement.rung == play.gang.rung
    assert (request.suspects, request.excluded) == ((NodeId("n2"),), ()), "one strike: used last"


def test_it_runs_again_with_new_ranks_and_a_new_number() -> None:
    play = losing()
    kept = play.asks()
    (ask,) = of(play.fill(), AskContainer)
    assert ask.ask == AskId(2, "worker", 0)
    play.after(1).grant(ask.ask, "n0")
    launch = only(play.after(1).register(ask.ask, "n0"), LaunchGang)
    assert launch.attempt == 2
    assert [member.ask for member in launch.members] == [ask.ask, *kept], "n0 comes first"
    assert [str(m.task) for m in launch.members] == ["worker-0", "worker-1", "worker-2"]
    play.start_all()
    assert play.gang.phase is Phase.RUNNING
    assert [t.timer.kind for t in play.gang.timers] == []
    assert describe(play.gang, play.now_s).reason == "3 tasks run; 1 restart so far"
    first, second = play.gang.history
    assert first.outcome == (
        "worker-1 on n2: agent silent: not heard of for 8 s; restart 1 of 2, in place"
    )
    assert (second.asked, second.kept, second.rung) == (1, 2, first.rung)


def test_what_is_said_of_the_older_launch_changes_nothing() -> None:
    play = losing()
    play.fill()
    (new,) = play.waiting()
    play.grant(new, "n4")
    play.register(new, "n4")
    play.start_all()
    before = play.gang
    for ask in play.asks():
        assert play.exited(ask, failing(), attempt=1) == ()
    assert play.gang == before


def test_the_status_says_what_is_lost_and_how_long_it_may_take() -> None:
    play = losing()
    status = describe(play.gang, play.now_s + 20.0)
    assert status.state is JobState.REPLACING, "not RUNNING: nothing runs"
    assert status.reason == (
        "lost worker-1 on n2 (agent silent): replacing in place, 2 of 3 tasks held, 40 s left"
    )
    assert (status.asked, status.granted, status.ready) == (3, 2, 2)
    assert status.deadline_s == play.now_s + 60.0
    play.refuse("0 of 2 GPUs are free")
    status = describe(play.gang, play.now_s)
    assert "no free capacity yet (0 of 2 GPUs are free)" in status.reason


def test_no_room_is_looked_for_again_soon_and_costs_nothing() -> None:
    play = losing()
    for _ in range(5):
        assert only(play.refuse(), DrawJitter).attempt == 2
        assert timer_s(play.jitter(0.9), TimerKind.BACKOFF) == pytest.approx(2.7)
        assert only(play.fire(TimerKind.BACKOFF), RequestPlan).supplement is not None
    assert (play.gang.acquisition.failures, play.gang.retries.restarts) == (0, 1)


def test_a_grant_that_does_not_come_is_asked_for_elsewhere() -> None:
    play = losing()
    play.fill(LocalityLevel.RACK)
    (ask,) = play.waiting()
    actions = play.fire(TimerKind.BACKOFF)
    assert [a.ask for a in of(actions, ReleaseContainer)] == [ask]
    assert only(actions, RequestPlan).supplement is not None
    (again,) = of(play.fill(), AskContainer)
    assert again.ask == AskId(2, "worker", 1)
    assert only(play.grant(ask, "n4"), ReleaseContainer).ask == ask, "the late grant"


def test_time_over_releases_everything_and_starts_anew() -> None:
    play = losing()
    kept = play.asks()
    play.fill()
    (ask,) = play.waiting()
    actions = play.fire(TimerKind.RECOVERY)
    assert {a.ask for a in of(actions, ReleaseContainer)} == {*kept, ask}
    assert play.gang.phase is Phase.BACKING_OFF
    assert (play.gang.acquisition.failures, play.gang.retries.restarts) == (0, 1), "paid for once"
    assert "could not replace lost tasks within 60 s: 2 of 3 ready" in play.gang.reason
    play.to_next_attempt()
    assert play.gang.attempt == 3
    assert len(of(play.all, AskContainer)) == 3 + 1 + 3


def test_a_replacement_has_time_to_localize_beside_the_kept() -> None:
    play = losing()
    play.fill()
    play.grant(play.waiting()[0], "n5")
    assert play.gang.timer(TimerKind.RECOVERY) is None
    assert play.gang.deadline_s(TimerKind.LOCALIZE) == play.now_s + 1800
    status = describe(play.gang, play.now_s + 100)
    assert status.reason.endswith(
        "replacing in place, 3 of 3 tasks held, localizing: 2 of 3 tasks are ready, 1700 s left"
    )
    play.fire(TimerKind.LOCALIZE)
    assert play.gang.phase is Phase.BACKING_OFF
    assert "on n5 were not on the node within 1800 s" in play.gang.reason


def test_never_ends_the_recovery_not_the_job() -> None:
    play = losing()
    play.refuse("no node is that large any more", is_never=True)
    assert play.gang.phase is Phase.BACKING_OFF
    assert "no node is that large any more" in play.gang.reason


def test_restarts_bound_recoveries_too() -> None:
    play = losing(retry=RetrySpec(max_restarts=1))
    play.fill()
    (new,) = play.waiting()
    play.grant(new, "n4")
    play.register(new, "n4")
    play.start_all()
    play.silent(play.asks()[0], 8.0)
    play.exited(play.asks()[1], stopped())
    verdict = only(play.exited(play.asks()[2], stopped()), Finish).verdict
    assert verdict.exit_code == ExitCode.ATTEMPTS_EXHAUSTED
    assert "all 1 restarts are used up" in verdict.message


def test_recovery_timeout_zero_means_never_in_place() -> None:
    play = losing(gang=ANEW)
    assert play.gang.phase is Phase.BACKING_OFF
    assert play.gang.retries.restarts == 1


def test_a_lost_node_s_agent_is_told_to_leave_at_once() -> None:
    """It may have outlived its NodeManager, and would go on training beside its replacement."""
    play = Play(job(workers=3)).to_running()
    actions = play.end(play.asks()[1], ContainerEnd.LOST, "node lost")
    assert [a.ask for a in of(actions, ReleaseContainer)] == [AskId(1, "worker", 1)]


def test_a_gang_of_one_has_nothing_to_keep() -> None:
    play = Play(job(workers=1)).to_running()
    play.silent(play.asks()[0], 8.0)
    assert play.gang.phase is Phase.BACKING_OFF


def test_a_task_that_does_not_stop_is_not_kept() -> None:
    play = Play(job(workers=3)).to_running()
    one, two, three = play.asks()
    play.silent(two, 8.0)
    play.exited(one, stopped())
    actions = play.fire(TimerKind.STOP)
    assert {a.ask for a in of(actions, ReleaseContainer)} == {two, three}
    assert play.asks() == [one]
    assert (
        "worker-1 on n2 (agent silent), worker-2 on n3 (not to be kept)"
        in describe(play.gang, play.now_s).reason
    )


def test_a_container_that_goes_after_its_processes_is_not_kept() -> None:
    play = Play(job(workers=3)).to_running()
    one, two, three = play.asks()
    play.silent(two, 8.0)
    play.exited(one, stopped())
    play.end(one, ContainerEnd.FAILED, "killed")
    play.exited(three, stopped())
    assert play.asks() == [three]
    supplement = of(play.all, RequestPlan)[-1].supplement
    assert supplement is not None
    assert sum(ask.count for ask in supplement.wanted) == 2


def test_a_task_that_was_done_starts_again_with_the_others() -> None:
    play = Play(job(workers=3)).to_running()
    one, two, three = play.asks()
    play.ok(one)
    play.silent(two, 8.0)
    play.exited(three, stopped())
    assert play.asks() == [one, three]
    assert {member.exits for member in play.gang.members} == {()}


def test_nobody_lost_means_started_again_at_once() -> None:
    """A task stopped by nobody we know: its agent is well, so is its container."""
    play = Play(job(workers=2)).to_running()
    one, two = play.asks()
    play.exited(one, stopped())
    launch = only(play.exited(two, stopped()), LaunchGang)
    assert (launch.attempt, len(launch.members)) == (2, 2)
    assert play.gang.retries.restarts == 1


def test_one_more_is_lost_meanwhile() -> None:
    play = losing()
    play.fill()
    (ask,) = play.waiting()
    first = play.asks()[0]
    request = only(play.end(first, ContainerEnd.FAILED, "killed"), RequestPlan)
    assert request.supplement is not None
    assert sum(wanted.count for wanted in request.supplement.wanted) == 1, "the other is asked for"
    play.fill()
    for new, node in zip(play.waiting(), ("n4", "n5"), strict=True):
        play.grant(new, node)
    assert ask in play.asks()
    play.register_all()
    assert play.gang.phase is Phase.LAUNCHING
    assert len(play.gang.members) == 3
    assert (play.gang.history[-1].asked, play.gang.history[-1].kept) == (2, 1)


def test_preempted_meanwhile_the_whole_gang_goes_for_free() -> None:
    play = losing()
    first, second = play.asks()
    actions = play.end(first, ContainerEnd.PREEMPTED, "Container preempted by scheduler")
    assert [a.ask for a in of(actions, ReleaseContainer)] == [second]
    assert play.gang.phase is Phase.BACKING_OFF
    assert (play.gang.retries.preemptions, play.gang.retries.restarts) == (1, 1)
    assert "preempted" in play.gang.reason


def test_a_misfit_is_given_back_and_the_recovery_goes_on() -> None:
    play = losing()
    play.fill(LocalityLevel.RACK)
    (ask,) = play.waiting()
    actions = play.grant(ask, "n9", "/r2")
    assert only(actions, ReleaseContainer).ask == ask
    assert only(actions, RequestPlan).supplement is not None
    assert play.gang.acquisition.misfits == 1


def test_a_rung_for_the_replacement_is_for_the_whole_gang() -> None:
    play = losing()
    play.fill(one_task_per_node=True)
    (ask,) = play.waiting()
    kept = play.gang.members[0].grant
    assert kept is not None
    assert only(play.grant(ask, kept.node), ReleaseContainer).ask == ask


def test_a_new_am_forgets_the_recovery_but_not_what_it_cost() -> None:
    play = losing()
    play.after(1).restart_am()
    assert play.gang.phase is Phase.BACKING_OFF
    assert (play.gang.search, play.gang.retries.restarts, play.gang.members) == (None, 1, ())
    play.to_next_attempt()
    assert play.gang.attempt == 3


def test_a_new_am_keeps_no_containers_of_a_gang_that_was_stopping() -> None:
    play = Play(job(workers=3)).to_running()
    play.silent(play.asks()[1], 8.0)
    play.exited(play.asks()[0], stopped())
    play.restart_am()
    assert play.gang.phase is Phase.BACKING_OFF
    assert play.gang.members == ()


def test_cancelled_meanwhile() -> None:
    play = losing()
    kept = play.asks()
    actions = play.cancel()
    assert {a.ask for a in of(actions, ReleaseContainer)} == set(kept)
    assert only(actions, Finish).verdict.exit_code == ExitCode.CANCELLED


def test_too_many_replacements_end_it() -> None:
    play = losing()
    for _ in range(40):
        if play.gang.phase is not Phase.REPLACING:
            break
        play.fill()
        play.end(play.waiting()[0], ContainerEnd.FAILED, "no disk")
    assert play.gang.phase is Phase.BACKING_OFF
    assert "gave up after 12 replaced containers" in play.gang.reason


def test_a_failed_relaunch_counts_as_an_attempt() -> None:
    play = losing()
    play.fill()
    (new,) = play.waiting()
    play.grant(new, "n4")
    play.register(new, "n4")
    assert play.gang.phase is Phase.LAUNCHING
    play.fire(TimerKind.LAUNCH)
    for ask in play.asks():
        play.exited(ask, stopped())
    assert (play.gang.phase, play.gang.acquisition.failures) == (Phase.BACKING_OFF, 1)


# ---- lost before all had started ----------------------------------------------------------------


def losing_at_launch(workers: int = 3, **changes: object) -> Play:
    """The first task has started, the second is lost before it has; the others have stopped."""
    play = Play(job(workers=workers, **changes)).to_launching()  # type: ignore[arg-type]
    first, second, *others = play.asks()
    play.started(first)
    play.after(1).end(second, ContainerEnd.LOST, "node lost")
    for ask in (first, *others):
        play.after(0.5).exited(ask, stopped(0), stopped(1))
    return play


def test_a_task_lost_while_it_is_launched_is_replaced_in_place_for_an_attempt() -> None:
    play = losing_at_launch()
    assert (play.gang.phase, play.gang.acquisition.failures, play.gang.retries.restarts) == (
        Phase.REPLACING,
        1,
        0,
    )
    assert {member.state for member in play.gang.members} == {MemberState.READY}
    assert len(play.gang.members) == 2
    request = of(play.all, RequestPlan)[-1]
    assert request.supplement is not None
    assert [ask.count for ask in request.supplement.wanted] == [1]
    assert "failed attempt 1 of 3, in place" in play.gang.history[0].outcome
    play.fill()
    (new,) = play.waiting()
    play.grant(new, "n4")
    play.register(new, "n4")
    assert play.gang.phase is Phase.LAUNCHING
    play.start_all()
    assert (play.gang.phase, play.gang.acquisition.failures) == (Phase.RUNNING, 0)


def test_at_the_last_attempt_a_loss_while_launching_ends_the_job() -> None:
    play = losing_at_launch(gang=GangSpec(attempts=1))
    assert play.gang.phase is Phase.FAILED
    assert play.verdict.exit_code == ExitCode.ATTEMPTS_EXHAUSTED


def test_nothing_to_keep_at_launch_means_a_clean_retry() -> None:
    play = Play(job(workers=2)).to_launching()
    one, two = play.asks()
    play.end(one, ContainerEnd.LOST)
    actions = play.end(two, ContainerEnd.LOST)
    assert (play.gang.phase, play.gang.acquisition.failures) == (Phase.BACKING_OFF, 1)
    assert play.gang.members == ()
    assert of(actions, RequestPlan) == []


def test_losses_at_launch_one_after_another_are_bounded_by_the_attempts() -> None:
    play = Play(job(workers=3)).to_launching()
    for number in range(1, 4):
        keeps, *lost = play.asks()
        play.after(1)
        for ask in lost:
            play.silent(ask)
        play.exited(keeps, stopped(0), stopped(1))
        assert play.gang.acquisition.failures == number
        if play.gang.phase is Phase.FAILED:
            break
        play.fill()
        for ask, node in zip(play.waiting(), ("n4", "n5"), strict=True):
            play.grant(ask, node)
            play.register(ask, node)
        assert play.gang.phase is Phase.LAUNCHING
    assert play.verdict.exit_code == ExitCode.ATTEMPTS_EXHAUSTED


def test_preempted_while_it_is_launched_the_gang_goes_as_one() -> None:
    play = Play(job(workers=2)).to_launching()
    one, two = play.asks()
    play.end(one, ContainerEnd.PREEMPTED)
    play.exited(two, stopped(0), stopped(1))
    assert (play.gang.phase, play.gang.acquisition.failures) == (Phase.BACKING_OFF, 0)
    assert play.gang.retries.preemptions == 1


# ---- preemption ---------------------------------------------------------------------------------


def test_a_preempted_gang_goes_as_one_and_says_so() -> None:
    play = Play(job(retry=RetrySpec(max_restarts=0))).to_running()
    one, two = play.asks()
    stop = only(play.after(30).end(two, ContainerEnd.PREEMPTED, "by the scheduler"), StopTask)
    assert (stop.ask, stop.grace_s) == (one, 10.0)
    actions = play.after(2).exited(one, stopped(0), stopped(1))
    assert [a.ask for a in of(actions, ReleaseContainer)] == [one]
    assert play.gang.search is None
    assert play.gang.reason == (
        "worker-1 on n2: preempted: by the scheduler; a preempted gang starts again for free"
    )


def test_the_back_off_grows_while_preemptions_go_on() -> None:
    play = Play(job())
    play.start()
    waits = []
    for ran_s in (10.0, 10.0, 10.0, 1000.0):
        play.plan()
        play.grant_all().register_all()
        play.start_all()
        one, two = play.asks()
        play.after(ran_s).end(two, ContainerEnd.PREEMPTED)
        play.exited(one, stopped(0), stopped(1))
        waits.append(timer_s(play.jitter(0.5), TimerKind.BACKOFF))
        play.fire(TimerKind.BACKOFF)
    assert waits == [2.5, 5.0, 10.0, 2.5], "a steady run starts it anew"
    assert (
        play.gang.retries.preemptions,
        play.gang.retries.restarts,
        play.gang.acquisition.failures,
    ) == (4, 0, 0)


# ---- GPU models, roles that keep apart ----------------------------------------------------------


def with_model(play: Play, ask: AskId, model: str) -> AgentRegistered:
    """The word of an agent that has looked at its GPUs."""
    return AgentRegistered(
        play.now_s, ask, ContainerId(f"c-{ask}"), NodeId("n1"), "n1", ("0",), (), gpu_model=model
    )


@pytest.mark.parametrize(
    ("model", "is_right"),
    [("NVIDIA A100-SXM4-80GB", True), ("Tesla V100-SXM2-16GB", False), ("", True)],
)
def test_the_wrong_gpu_model_is_given_back(model: str, is_right: bool) -> None:
    play = Play(job(workers=1, gang=GangSpec()))
    play.start()
    play.plan()
    member = play.gang.members[0]
    wanting = replace(member, target=replace(member.target, gpu_model="A100-SXM4-80GB"))
    play.gang = replace(play.gang, members=(wanting,))
    play.grant(member.ask, "n1")
    actions = play.send(with_model(play, member.ask, model))
    assert bool(of(actions, LaunchGang)) == is_right
    assert bool(of(actions, ReleaseContainer)) != is_right


@pytest.mark.parametrize(
    ("wish", "models", "is_one_refused"),
    [
        ("same", ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"), False),
        ("same", ("NVIDIA A100-SXM4-80GB", "Tesla V100-SXM2-16GB"), True),
        ("same", ("NVIDIA A100-SXM4-80GB", ""), False),
        ("any", ("NVIDIA A100-SXM4-80GB", "Tesla V100-SXM2-16GB"), False),
        ("V100", ("NVIDIA A100-SXM4-80GB", "Tesla V100-SXM2-16GB"), True),
        ("A100", ("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-40GB"), True),
    ],
)
def test_a_gang_has_one_gpu_model_unless_it_says_any(
    wish: str, models: tuple[str, str], is_one_refused: bool
) -> None:
    """The planner knew of none: the targets name no model."""
    spec = job()
    play = Play(replace(spec, placement=replace(spec.placement, gpu_model=wish))).to_acquiring()
    asks = play.asks()
    for ask in asks:
        play.grant(ask, "n1")
    for ask, model in zip(asks, models, strict=True):
        play.send(with_model(play, ask, model))
    assert play.gang.acquisition.misfits == int(is_one_refused)
    assert (play.gang.phase is Phase.LAUNCHING) != is_one_refused


def test_roles_that_keep_apart_share_no_node() -> None:
    play = Play(job(workers=2, ps=1)).to_acquiring(anti_affinity=(("ps", "worker"),))
    server, one, two = play.asks()
    play.grant(server, "n1")
    assert only(play.grant(one, "n1"), ReleaseContainer).ask == one
    play.grant(two, "n2")
    again = next(ask for ask in play.waiting())
    assert of(play.grant(again, "n2"), ReleaseContainer) == []


def test_an_exit_before_it_was_launched_is_not_kept() -> None:
    play = Play(job(workers=3)).to_running()
    one, two, three = play.asks()
    play.silent(two, 8.0)
    play.exited(one, ProcessExit(0, ExitKind.NOT_STARTED))
    play.exited(three, stopped())
    assert play.asks() == [three]

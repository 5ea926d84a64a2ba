"""Ranks, success, and the first cause of a failure."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.gang.play import ANEW, Play, failing, job, of, only, stopped, timer_s
from yarnam.core.failures.hang_detection import hang_finding
from yarnam.core.gang.roles.ranks import gpu_key
from yarnam.core.model.actions import Finish, LaunchGang, ReleaseContainer, StopTask
from yarnam.core.model.events import (
    GangHung,
    LossFlat,
    NotebookIdle,
    TaskExited,
    TaskFailing,
    TaskStarted,
    TimerKind,
)
from yarnam.core.model.job_spec import GangSpec, RetrySpec
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import ContainerEnd, ExitKind, ProcessExit, VerdictKind
from yarnam.errors import ExitCode


def launch(play: Play, places: list[tuple[str, str, tuple[str, ...]]]) -> LaunchGang:
    """Grant and register the members, in the order of their asks, on (node, rack, GPUs)."""
    play.to_acquiring()
    asks = play.asks()
    for ask, (node, rack, _) in zip(asks, places, strict=True):
        play.grant(ask, node, rack)
    actions = ()
    for ask, (node, _, gpus) in zip(asks, places, strict=True):
        actions = play.register(ask, node, gpus)
    return only(actions, LaunchGang)


def test_ranks_follow_rack_node_and_gpu() -> None:
    gang = launch(
        Play(job(workers=5)),
        [
            ("b", "/r2", ("0", "1")),
            ("c", "/r1", ("10", "11")),
            ("a", "/r2", ("0", "1")),
            ("c", "/r1", ("2", "3")),
            ("d", "/r1", ("0", "1")),
        ],
    )
    assert [(m.placed.node, m.placed.gpu_ids[0]) for m in gang.members] == [
        ("c", "2"),
        ("c", "10"),
        ("d", "0"),
        ("a", "0"),
        ("b", "0"),
    ]
    assert [str(m.task) for m in gang.members] == [f"worker-{i}" for i in range(5)]
    assert gang.members[0].placed.address == "c.cluster"
    assert gang.members[0].placed.ports == (("p", 4000),)
    assert gang.members[0].placed.processes == 2


def test_the_chief_is_first_and_parameter_servers_are_last() -> None:
    play = Play(job(workers=1, ps=1, chief=1))
    gang = launch(play, [("a", "/r1", ()), ("b", "/r1", ("0", "1")), ("c", "/r1", ("0", "1"))])
    assert [str(m.task) for m in gang.members] == ["chief-0", "worker-0", "ps-0"]
    assert [m.first_rank for m in play.gang.members] == [0, 2, 4]


def test_gpu_numbers_sort_as_numbers_and_uuids_as_text() -> None:
    ids = [("GPU-b",), ("10",), ("2",), ("GPU-a",)]
    assert sorted(ids, key=gpu_key) == [("2",), ("10",), ("GPU-a",), ("GPU-b",)]


def test_it_runs_when_every_task_has_started() -> None:
    play = Play(job()).to_launching()
    one, two = play.asks()
    play.started(one)
    assert play.gang.phase is Phase.LAUNCHING
    play.started(two)
    assert play.gang.phase is Phase.RUNNING
    assert play.gang.timers == ()


def test_reports_of_another_attempt_are_nothing() -> None:
    play = Play(job()).to_launching()
    one, _ = play.asks()
    before = play.gang
    assert play.send(TaskStarted(0, one, 2)) == ()
    assert play.send(TaskExited(0, one, 2, (failing(),))) == ()
    assert play.gang == before


def test_success_when_all_have_ended_well() -> None:
    play = Play(job()).to_running()
    one, two = play.asks()
    assert play.ok(one) == ()
    actions = play.ok(two)
    verdict = only(actions, Finish).verdict
    assert (verdict.kind, verdict.exit_code) == (VerdictKind.SUCCEEDED, 0)
    assert verdict.message == "all 4 processes of 2 tasks ended well"
    assert {a.ask for a in of(actions, ReleaseContainer)} == {one, two}


def test_a_job_may_be_done_before_all_have_reported_their_start() -> None:
    play = Play(job()).to_launching()
    one, two = play.asks()
    play.ok(one)
    assert only(play.ok(two), Finish).verdict.exit_code == ExitCode.OK


def test_parameter_servers_are_stopped_when_the_workers_are_done() -> None:
    play = Play(job(workers=2, ps=1)).to_running()
    asks = {member.name: member.ask for member in play.gang.members}
    play.ok(asks["worker-0"])
    actions = play.ok(asks["worker-1"])
    assert [a.ask for a in of(actions, StopTask)] == [asks["ps-0"]]
    assert of(actions, Finish) == []
    end = play.exited(asks["ps-0"], ProcessExit(0, ExitKind.SIGNAL, signal=15))
    assert only(end, Finish).verdict.exit_code == ExitCode.OK


def test_the_container_of_a_task_that_has_exited_ends_without_a_word() -> None:
    play = Play(job()).to_running()
    one, two = play.asks()
    play.ok(one)
    before = replace(
        play.gang, members=(replace(play.gang.members[0], is_gone=True), play.gang.members[1])
    )
    for end in ContainerEnd:
        assert play.end(one, end) == ()
    assert play.silent(one) == ()
    assert play.gang == before
    assert only(play.ok(two), Finish).verdict.exit_code == ExitCode.OK


# ---- the user's failures ------------------------------------------------------------------------


def test_a_failing_process_stops_the_gang_and_is_named() -> None:
    play = Play(job()).to_running()
    one, two = play.asks()
    lines = ("Traceback", "ValueError: no")
    actions = play.exited(two, stopped(0), failing(3, play.now_s, 1, *lines))
    assert [a.ask for a in of(actions, StopTask)] == [one]
    assert play.gang.phase is Phase.STOPPING
    verdict = only(play.exited(one, stopped()), Finish).verdict
    assert verdict.exit_code == ExitCode.USER_FAILED
    assert verdict.message.splitlines() == [
        "worker-1 (rank 3) on n2 exited with code 3",
        "its last lines:",
        "  | Traceback",
        "  | ValueError: no",
    ]
    assert verdict.hint == "Read all of its output with: yarnam logs JOB --task worker-1"


def test_the_first_failure_is_the_cause_whoever_reports_first() -> None:
    play = Play(job()).to_running()
    one, two = play.asks()
    play.exited(one, failing(1, play.now_s + 2.0))
    verdict = only(
        play.exited(two, ProcessExit(0, ExitKind.SIGNAL, signal=11, ended_at_s=play.now_s + 1.0)),
        Finish,
    ).verdict
    assert verdict.message.startswith("worker-1 (rank 2) on n2 was killed by SIGSEGV")


def test_an_unknown_signal_has_a_number() -> None:
    play = Play(job(workers=1)).to_running()
    (ask,) = play.asks()
    play.exited(ask, ProcessExit(0, ExitKind.SIGNAL, signal=99))
    assert "was killed by signal 99\nit printed no output" in play.verdict.message


def test_a_users_failure_is_retried_as_often_as_the_spec_says() -> None:
    play = Play(job(workers=1, retry=RetrySpec(on_user_failure=1))).to_running()
    play.exited(play.asks()[0], failing())
    assert play.gang.phase is Phase.BACKING_OFF
    assert "retry 1 of 1" in play.gang.reason
    play.to_next_attempt()
    play.grant_all().register_all()
    play.start_all()
    play.exited(play.asks()[0], failing())
    assert play.verdict.exit_code == ExitCode.USER_FAILED


def test_a_command_not_found_is_never_retried() -> None:
    play = Play(job(workers=1, retry=RetrySpec(on_user_failure=5))).to_launching()
    play.exited(play.asks()[0], ProcessExit(0, ExitKind.COMMAND_NOT_FOUND))
    assert play.verdict.exit_code == ExitCode.USER_FAILED
    assert "command not found" in play.verdict.message


# ---- the platform's failures --------------------------------------------------------------------


def test_a_lost_node_restarts_the_gang_while_restarts_are_left() -> None:
    play = Play(job(gang=ANEW, retry=RetrySpec(max_restarts=1))).to_running()
    one, two = play.asks()
    actions = play.end(one, ContainerEnd.LOST, "node lost")
    assert [a.ask for a in of(actions, StopTask)] == [two]
    actions = play.exited(two, stopped())
    assert [a.ask for a in of(actions, ReleaseContainer)] == [two]
    assert play.gang.phase is Phase.BACKING_OFF
    assert play.gang.retries.restarts == 1
    play.to_next_attempt()
    assert play.gang.attempt == 2
    play.grant_all(on=("n2", "n3")).register_all()
    play.start_all()
    one, two = play.asks()
    play.silent(one, 8.0)
    verdict = only(play.exited(two, stopped()), Finish).verdict
    assert verdict.exit_code == ExitCode.ATTEMPTS_EXHAUSTED
    assert verdict.message == (
        "worker-0 on n2: agent silent: not heard of for 8 s; all 1 restarts are used up"
    )


def test_a_silent_agents_container_is_still_released() -> None:
    play = Play(job(gang=ANEW)).to_running()
    one, two = play.asks()
    play.silent(one)
    actions = play.exited(two, stopped())
    assert {a.ask for a in of(actions, ReleaseContainer)} == {one, two}


def test_a_preemption_is_free() -> None:
    play = Play(job(retry=RetrySpec(max_restarts=0))).to_running()
    one, two = play.asks()
    play.exited(one, failing(1, play.now_s))
    play.after(1).end(two, ContainerEnd.PREEMPTED, "preempted by the scheduler")
    assert play.gang.phase is Phase.BACKING_OFF
    assert (
        play.gang.retries.preemptions,
        play.gang.retries.restarts,
        play.gang.retries.user_retries,
    ) == (1, 0, 0)


def test_peers_that_fail_because_a_node_was_lost_are_not_the_cause() -> None:
    play = Play(job(gang=ANEW)).to_running()
    one, two = play.asks()
    play.exited(one, failing(1, play.now_s))
    assert play.gang.phase is Phase.STOPPING
    play.after(7).silent(two, 8.0)
    assert play.gang.phase is Phase.BACKING_OFF
    assert play.gang.retries.restarts == 1


def test_a_loss_long_after_a_failure_is_not_its_cause() -> None:
    play = Play(job()).to_running()
    one, two = play.asks()
    play.exited(one, failing(1, play.now_s))
    play.after(14).end(two, ContainerEnd.LOST)
    assert play.verdict.exit_code == ExitCode.USER_FAILED


def test_the_agents_report_wins_over_an_end_that_came_first() -> None:
    play = Play(job(workers=1)).to_running()
    (ask,) = play.asks()
    actions = play.end(ask, ContainerEnd.FAILED, "exit code 1")
    assert play.gang.phase is Phase.STOPPING
    assert timer_s(actions, TimerKind.STOP) == 2.0
    play.after(0.5).exited(ask, failing(7))
    assert play.verdict.exit_code == ExitCode.USER_FAILED
    assert "exited with code 7" in play.verdict.message


def test_an_end_that_nobody_explains_is_the_platforms() -> None:
    play = Play(job(workers=1, gang=ANEW)).to_running()
    play.end(play.asks()[0], ContainerEnd.FAILED, "killed by SIGKILL")
    play.fire(TimerKind.STOP)
    assert play.gang.phase is Phase.BACKING_OFF
    assert play.gang.retries.restarts == 1
    assert "killed by SIGKILL" in play.gang.reason


def test_an_unexplained_end_does_not_shorten_the_stop_of_the_others() -> None:
    play = Play(job(gang=ANEW)).to_running()
    one, two = play.asks()
    play.end(one, ContainerEnd.FAILED)
    assert play.gang.deadline_s(TimerKind.STOP) == play.now_s + 15
    play.after(1).exited(two, stopped())
    assert play.gang.deadline_s(TimerKind.STOP) == play.now_s + 1
    play.fire(TimerKind.STOP)
    assert play.gang.phase is Phase.BACKING_OFF


def test_a_task_stopped_by_nobody_is_the_platforms() -> None:
    play = Play(job(workers=1, gang=ANEW)).to_running()
    play.exited(play.asks()[0], stopped())
    assert play.gang.phase is Phase.BACKING_OFF
    assert play.gang.retries.restarts == 1


def test_a_task_that_could_not_be_prepared_is_the_platforms() -> None:
    play = Play(job(workers=1)).to_launching()
    play.exited(play.asks()[0], ProcessExit(0, ExitKind.NOT_STARTED))
    assert play.gang.phase is Phase.BACKING_OFF
    assert (play.gang.acquisition.failures, play.gang.retries.restarts) == (1, 0)


def test_a_launch_that_hangs_uses_up_an_attempt() -> None:
    play = Play(job(gang=GangSpec(attempts=1))).to_launching()
    one, two = play.asks()
    play.started(one)
    actions = play.fire(TimerKind.LAUNCH)
    assert {a.ask for a in of(actions, StopTask)} == {one, two}
    play.exited(one, stopped())
    play.fire(TimerKind.STOP)
    assert play.verdict.exit_code == ExitCode.ATTEMPTS_EXHAUSTED
    assert "worker-1 did not start within 60 s of the launch order" in play.verdict.message


def test_an_agent_unable_by_the_users_fault_after_the_launch_ends_the_job() -> None:
    play = Play(job(workers=1)).to_launching()
    play.unable(play.asks()[0], "disk full", is_user=True)
    assert play.verdict.exit_code == ExitCode.USER_FAILED


def test_failures_in_a_row_are_forgotten_by_a_gang_that_runs() -> None:
    play = Play(job()).to_acquiring()
    play.fire(TimerKind.ASK)
    play.to_next_attempt()
    assert play.gang.acquisition.failures == 1
    play.grant_all().register_all()
    play.start_all()
    assert play.gang.acquisition.failures == 0


def test_a_second_cancel_while_it_stops_changes_nothing() -> None:
    play = Play(job(workers=2)).to_running()
    play.after(60)
    play.cancel("enough")
    before = play.gang
    play.cancel("enough")
    assert play.gang == before
    assert before.stopping is not None
    assert before.stopping.ran_s == 60


def test_the_others_are_stopped_as_soon_as_one_process_has_failed() -> None:
    play = Play(job(workers=3)).to_running().after(10)
    one, two, three = play.asks()
    actions = play.send(TaskFailing(0, two, 1, (failing(3, play.now_s, 1),)))
    stops = of(actions, StopTask)
    assert {stop.ask for stop in stops} == {one, three}, "the agent of the second is at it"
    assert {(stop.grace_s, stop.idle_grace_s) for stop in stops} == {(10.0, 2.0)}
    assert play.send(TaskFailing(0, two, 1, (failing(3, play.now_s, 1),))) == ()
    for ask in (one, three):
        play.exited(ask, stopped(0), stopped(1))
    assert play.gang.phase is Phase.STOPPING
    play.exited(two, stopped(0), failing(3, play.now_s, 1))
    assert play.verdict.message.startswith("worker-1 (rank 3)")


def test_only_a_gang_that_lost_a_part_is_hurried() -> None:
    play = Play(job()).to_running()
    assert {stop.idle_grace_s for stop in of(play.cancel(), StopTask)} == {None}
    play = Play(job()).to_running()
    lost = play.end(play.asks()[0], ContainerEnd.LOST)
    assert [stop.idle_grace_s for stop in of(lost, StopTask)] == [2.0]


def test_a_job_without_grace_for_anything_has_none_for_a_failure() -> None:
    spec = job()
    play = Play(replace(spec, am=replace(spec.am, stop_grace_s=0.5))).to_running()
    (stop,) = of(play.end(play.asks()[0], ContainerEnd.LOST), StopTask)
    assert (stop.grace_s, stop.idle_grace_s) == (0.5, 0.5)


def hung(ranks: tuple[int, ...] = (3,)) -> GangHung:
    _, finding = hang_finding([], "no step for 60 s")
    return GangHung(0, 1, ranks, finding, ("rank 3: stopped by a signal", "rank 0: recv (a.py:1)"))


def test_a_gang_that_hangs_starts_again_in_place() -> None:
    play = Play(job()).to_running().after(100)
    stops = of(play.send(hung()), StopTask)
    assert {stop.idle_grace_s for stop in stops} == {2.0}
    for ask in play.asks():
        play.exited(ask, stopped(0), stopped(1))
    assert play.gang.phase is Phase.LAUNCHING
    assert (play.gang.retries.restarts, len(play.gang.history)) == (1, 2)
    cause = play.gang.history[0].cause
    assert cause is not None
    assert (cause.task, cause.rank, cause.node, cause.ended) == ("worker-1", 3, "n2", "hung")
    assert cause.then == ("rank 3: stopped by a signal", "rank 0: recv (a.py:1)")
    assert play.gang.history[0].outcome.startswith("the gang hung (hang: no step for 60 s)")


def test_a_gang_that_hangs_too_often_says_where() -> None:
    play = Play(job(retry=RetrySpec(max_restarts=0))).to_running()
    play.send(hung(()))
    for ask in play.asks():
        play.exited(ask, stopped(0), stopped(1))
    verdict = play.verdict
    assert verdict.exit_code == ExitCode.ATTEMPTS_EXHAUSTED
    assert "where they were: rank 3: stopped by a signal, rank 0: recv (a.py:1)" in verdict.message
    assert "restarts (retry.max_restarts) are used up" in verdict.message


def test_a_hang_of_an_earlier_attempt_changes_nothing() -> None:
    play = Play(job()).to_running()
    assert play.send(replace(hung(), attempt=7)) == ()


def test_a_flat_loss_ends_the_job_well() -> None:
    """All come to one more step; how they end then matters no more."""
    play = Play(job()).to_running()
    stops = of(play.send(LossFlat(0, 1, "the loss has been flat since step 9")), StopTask)
    assert len(stops) == 2
    assert all(stop.agreeing == 2 for stop in stops)
    for ask in play.asks():
        play.after(0.1).exited(ask, stopped(0), stopped(1))
    assert play.gang.phase is Phase.SUCCEEDED
    assert play.verdict.message.startswith("stopped early: the loss has been flat since step 9; ")


def test_an_unused_notebook_ends_well() -> None:
    play = Play(job(workers=1)).to_running()
    assert of(play.send(NotebookIdle(0, 1, "for 2h no kernel was busy")), StopTask)
    for ask in play.asks():
        play.after(0.1).exited(ask, stopped(0), stopped(1))
    assert play.gang.phase is Phase.SUCCEEDED
    assert play.verdict.message.startswith("stopped early: for 2h no kernel was busy; ")

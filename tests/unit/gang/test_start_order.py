"""Roles whose processes start after those of others, in a gang that stands as a whole."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.gang.play import Play, failing, of, only, role, roles_job, stopped, timer_s
from yarnam.core.gang import describe
from yarnam.core.gang.roles.role_states import role_states
from yarnam.core.model.actions import Finish, LaunchGang, StopTask
from yarnam.core.model.events import TaskReady, TimerKind
from yarnam.core.model.ids import AskId
from yarnam.core.model.job_spec import After, ReadySpec, RoleSpec, StartCondition
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import ContainerEnd, VerdictKind
from yarnam.errors import ExitCode

READY_PS = (After("ps", StartCondition.READY),)
PS = role("ps", 2, ready=ReadySpec("http", 90.0))
WORKER = role("worker", 2, after=READY_PS)


def launched(*roles: RoleSpec) -> Play:
    return Play(roles_job(*roles)).to_launching()


def ready(play: Play, ask: AskId) -> tuple[object, ...]:
    return play.send(TaskReady(0, ask, play.gang.attempt))


def names(play: Play, asks: tuple[AskId, ...]) -> list[str]:
    return [member.name for member in play.gang.members if member.ask in asks]


def up_to_ready(play: Play) -> None:
    for number in range(2):
        play.started(play.ask_of("ps", number))
    for number in range(2):
        ready(play, play.ask_of("ps", number))


def test_the_whole_gang_stands_before_the_first_role_starts() -> None:
    play = Play(roles_job(WORKER, PS)).to_acquiring()
    play.grant_all()
    *most, last = play.asks()
    for ask in most:
        assert of(play.register(ask, play.gang.find(ask).grant.node), LaunchGang) == []  # type: ignore[union-attr]
    launch = only(play.register(last, play.gang.find(last).grant.node), LaunchGang)  # type: ignore[union-attr]
    assert len(launch.members) == 4
    assert names(play, launch.waiting) == ["worker-0", "worker-1"]


def test_until_started() -> None:
    play = launched(role("ps"), role("worker", after=(After("ps"),)))
    launch = only(play.started(play.ask_of("ps")), LaunchGang)
    assert (launch.attempt, launch.waiting) == (1, ())
    play.started(play.ask_of("worker"))
    assert play.gang.phase is Phase.RUNNING


def test_until_ready_with_limits_that_follow_each_other() -> None:
    play = launched(WORKER, PS)
    assert play.gang.timer(TimerKind.LAUNCH)
    play.started(play.ask_of("ps"))
    assert of(ready(play, play.ask_of("ps")), LaunchGang) == []  # type: ignore[arg-type]
    waits = play.started(play.ask_of("ps", 1))
    assert of(waits, LaunchGang) == []
    assert timer_s(waits, TimerKind.READY) == 90.0
    assert play.gang.timer(TimerKind.LAUNCH) is None
    shown = describe(play.gang, play.now_s)
    assert shown.reason == (
        "starting the processes: 2 of 4 tasks started, 2 wait for other roles, 90 s left"
    )
    states = {one.role: one for one in role_states(play.gang, play.spec, play.policy)}
    assert states["worker"].words == ("worker (starts when ps is ready): waits until ps is ready")
    only(ready(play, play.ask_of("ps", 1)), LaunchGang)  # type: ignore[arg-type]
    assert play.gang.timer(TimerKind.READY) is None
    assert play.gang.timer(TimerKind.LAUNCH)


def test_a_task_that_does_not_get_ready_ends_the_job() -> None:
    play = launched(WORKER, PS)
    for number in range(2):
        play.started(play.ask_of("ps", number))
    ready(play, play.ask_of("ps"))
    actions = play.fire(TimerKind.READY)
    assert names(play, tuple(one.ask for one in of(actions, StopTask))) == ["ps-0", "ps-1"]
    for number in range(2):
        play.exited(play.ask_of("ps", number), stopped())
    assert play.verdict.exit_code == ExitCode.USER_FAILED
    assert play.verdict.message == (
        "ps-1 did not get ready within 90 s of the start: ps (port http)"
    )
    assert "ready.timeout" in play.verdict.hint


def test_nobody_waits_for_the_end_of_what_was_never_started() -> None:
    play = launched(WORKER, PS)
    play.exited(play.ask_of("ps"), failing())
    actions = play.exited(play.ask_of("ps", 1), stopped())
    assert only(actions, Finish).verdict.kind is VerdictKind.FAILED


def test_what_was_not_started_is_kept_where_a_task_is_replaced() -> None:
    play = launched(WORKER, PS)
    play.started(play.ask_of("ps"))
    play.end(play.ask_of("ps", 1), ContainerEnd.LOST)
    play.exited(play.ask_of("ps"), stopped())
    assert play.gang.phase is Phase.REPLACING
    assert [member.target.role for member in play.gang.members] == ["worker", "worker", "ps"]


def test_an_optional_role_that_fails_holds_nobody_back() -> None:
    cache = role("cache", optional=True)
    play = launched(cache, role("worker", after=(After("cache", StartCondition.READY),)))
    only(play.exited(play.ask_of("cache"), failing()), LaunchGang)


def test_the_next_attempt_starts_in_order_again() -> None:
    play = launched(WORKER, PS)
    up_to_ready(play)
    for number in range(2):
        play.started(play.ask_of("worker", number))
    play.silent(play.ask_of("worker"))
    play.exited(play.ask_of("worker", 1), stopped())
    for number in range(2):
        play.exited(play.ask_of("ps", number), stopped())
    play.fill()
    play.grant_all()
    launch = only(play.register_all(), LaunchGang)
    assert launch.attempt == 2
    assert names(play, launch.waiting) == ["worker-0", "worker-1"]


def test_a_new_application_master_starts_over_while_a_role_waits() -> None:
    play = launched(WORKER, PS)
    play.started(play.ask_of("ps"))
    play.restart_am()
    assert play.gang.phase is Phase.BACKING_OFF
    play.to_next_attempt()
    play.grant_all()
    assert names(play, only(play.register_all(), LaunchGang).waiting) == ["worker-0", "worker-1"]


def test_chains_start_one_after_the_other() -> None:
    play = launched(
        role("c", after=(After("b"), After("a"))), role("b", after=(After("a"),)), role("a")
    )
    launch = only(play.started(play.ask_of("a")), LaunchGang)
    assert names(play, launch.waiting) == ["c-0"]
    assert only(play.started(play.ask_of("b")), LaunchGang).waiting == ()


# ---- until ended ---------------------------------------------------------------------------------

PREPARE = role("prepare", 2)
READER = role("worker", 2, after=(After("prepare", StartCondition.ENDED),))


def preparing() -> Play:
    play = launched(READER, PREPARE)
    for number in range(2):
        play.started(play.ask_of("prepare", number))
    return play


def test_until_ended_the_gang_runs_and_then_launches_the_others() -> None:
    play = preparing()
    assert play.gang.phase is Phase.RUNNING
    assert play.gang.timers == ()
    states = {one.role: one for one in role_states(play.gang, play.spec, play.policy)}
    assert states["worker"].words == (
        "worker (starts when prepare has ended): waits until prepare has ended"
    )
    assert play.after(9_000).ok(play.ask_of("prepare")) == ()
    launch = only(play.ok(play.ask_of("prepare", 1)), LaunchGang)
    assert launch.waiting == ()
    assert play.gang.phase is Phase.LAUNCHING
    assert play.gang.timer(TimerKind.LAUNCH)
    for number in range(2):
        play.started(play.ask_of("worker", number))
    assert play.gang.phase is Phase.RUNNING
    for number in range(2):
        play.ok(play.ask_of("worker", number))
    assert play.verdict.kind is VerdictKind.SUCCEEDED


def test_failed_attempts_count_until_the_last_task_has_started() -> None:
    """Else a gang whose preparation ends well, and whose workers never start, tries for ever."""
    play = launched(READER, PREPARE)
    play.gang = replace(play.gang, acquisition=replace(play.gang.acquisition, failures=2))
    for number in range(2):
        play.started(play.ask_of("prepare", number))
    assert (play.gang.phase, play.gang.acquisition.failures) == (Phase.RUNNING, 2)
    for number in range(2):
        play.ok(play.ask_of("prepare", number))
    for number in range(2):
        play.started(play.ask_of("worker", number))
    assert (play.gang.phase, play.gang.acquisition.failures) == (Phase.RUNNING, 0)


def test_what_ends_before_all_of_it_has_started_holds_nobody_back() -> None:
    play = launched(READER, PREPARE)
    play.ok(play.ask_of("prepare"))
    play.started(play.ask_of("prepare", 1))
    assert play.gang.phase is Phase.RUNNING
    only(play.ok(play.ask_of("prepare", 1)), LaunchGang)


def test_a_preparation_that_fails_fails_the_gang_before_the_others_start() -> None:
    play = preparing()
    actions = play.exited(play.ask_of("prepare"), failing())
    assert names(play, tuple(one.ask for one in of(actions, StopTask))) == ["prepare-1"]
    only(play.exited(play.ask_of("prepare", 1), stopped()), Finish)
    assert play.verdict.kind is VerdictKind.FAILED


def test_an_optional_preparation_that_is_lost_frees_the_others() -> None:
    prepare = role("prepare", optional=True)
    play = launched(READER, prepare)
    play.started(play.ask_of("prepare"))
    only(play.end(play.ask_of("prepare"), ContainerEnd.LOST), LaunchGang)


def test_ended_and_ready_of_different_roles() -> None:
    after = (*READER.after, After("ps", StartCondition.READY))
    play = launched(role("worker", after=after), PREPARE, PS)
    for name in ("prepare", "ps"):
        for number in range(2):
            play.started(play.ask_of(name, number))
    assert play.gang.phase is Phase.LAUNCHING
    assert play.gang.timer(TimerKind.READY)
    for number in range(2):
        ready(play, play.ask_of("ps", number))
    assert play.gang.phase is Phase.RUNNING
    play.ok(play.ask_of("prepare"))
    only(play.ok(play.ask_of("prepare", 1)), LaunchGang)


def test_a_gang_that_is_preempted_while_it_prepares_prepares_again() -> None:
    play = preparing()
    play.end(play.ask_of("worker"), ContainerEnd.PREEMPTED)
    for number in range(2):
        play.exited(play.ask_of("prepare", number), stopped())
    assert play.gang.phase is Phase.BACKING_OFF

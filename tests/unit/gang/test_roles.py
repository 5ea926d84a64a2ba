"""Roles that end in different ways: completion, services, optional roles."""

from __future__ import annotations

import pytest

from tests.unit.gang.play import Play, failing, of, only, role, roles_job, stopped
from yarnam.core.gang.roles.role_states import role_states
from yarnam.core.model.actions import Finish, StopTask
from yarnam.core.model.events import ContainersMarked, TaskFailing
from yarnam.core.model.job_spec import Completion, CompletionRule, EarlyExit, RoleSpec
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import ContainerEnd, VerdictKind
from yarnam.errors import ExitCode

ANY = Completion(CompletionRule.ANY)
CHIEF = Completion(CompletionRule.CHIEF)
CHIEF_AND_ALL_END = Completion(CompletionRule.CHIEF, waits_for_all=True)
ANY_AND_ALL_END = Completion(CompletionRule.ANY, waits_for_all=True)
BOARD = role("board", service=True, optional=True)


def at_least(number: int) -> Completion:
    return Completion(CompletionRule.AT_LEAST, number)


def running(*roles: RoleSpec) -> Play:
    return Play(roles_job(*roles)).to_running()


def stopped_tasks(play: Play, actions: tuple[object, ...]) -> list[str]:
    names = {member.ask: member.name for member in play.gang.members}
    return [names[action.ask] for action in actions if isinstance(action, StopTask)]


def test_services_are_stopped_with_their_grace_once_the_others_are_complete() -> None:
    play = running(role("worker", 2), role("ps", 2), BOARD)
    assert of(play.ok(play.ask_of("worker")), StopTask) == []
    actions = play.ok(play.ask_of("worker", 1))
    assert stopped_tasks(play, actions) == ["ps-0", "ps-1", "board-0"]
    assert {action.grace_s for action in of(actions, StopTask)} == {play.policy.stop_grace_s}
    for name in ("board", "ps"):
        play.exited(play.ask_of(name), stopped())
    verdict = only(play.exited(play.ask_of("ps", 1), stopped()), Finish).verdict
    assert verdict.kind is VerdictKind.SUCCEEDED
    assert verdict.message == (
        "2 worker tasks ended well, 2 ps tasks stopped then, 1 board task stopped then"
    )


def test_a_role_ps_that_must_end_is_waited_for() -> None:
    play = running(role("worker"), role("ps", service=False))
    assert of(play.ok(play.ask_of("worker")), StopTask) == []
    only(play.ok(play.ask_of("ps")), Finish)


@pytest.mark.parametrize("rule", [at_least(2), ANY])
def test_the_rest_of_a_role_is_stopped_when_enough_have_succeeded(rule: Completion) -> None:
    play = running(role("worker", 3, completion=rule))
    for number in range(1 if rule is ANY else 2):
        assert play.gang.phase is Phase.RUNNING
        actions = play.ok(play.ask_of("worker", number))
    assert "worker-2" in stopped_tasks(play, actions)
    play.exited(play.ask_of("worker", 2), failing())
    if rule is ANY:
        play.exited(play.ask_of("worker", 1), stopped())
    assert play.verdict.kind is VerdictKind.SUCCEEDED


def test_a_failure_is_tolerated_as_long_as_the_rule_can_be_met() -> None:
    play = running(role("worker", 3, completion=at_least(2)))
    failing_soon = play.send(TaskFailing(0, play.ask_of("worker"), 1, (failing(),)))
    assert failing_soon == ()
    assert play.exited(play.ask_of("worker"), failing(3)) == ()
    play.ok(play.ask_of("worker", 1))
    play.ok(play.ask_of("worker", 2))
    assert play.verdict.message == (
        "2 of 3 worker tasks ended well; tolerated: worker-0 exited with code 3"
    )


def test_the_first_failure_is_the_cause_when_the_rule_cannot_be_met_any_more() -> None:
    play = running(role("worker", 3, completion=at_least(2)))
    play.exited(play.ask_of("worker"), failing(3, play.now_s))
    play.after(60).exited(play.ask_of("worker", 1), failing(1, play.now_s))
    play.exited(play.ask_of("worker", 2), stopped())
    assert play.verdict.exit_code == ExitCode.USER_FAILED
    assert play.verdict.cause is not None
    assert play.verdict.cause.task == "worker-0"


def test_what_was_tolerated_is_not_the_cause_of_another_failure() -> None:
    play = running(role("worker", 2), BOARD)
    play.exited(play.ask_of("board"), failing(3, play.now_s))
    play.after(60).exited(play.ask_of("worker"), failing(1, play.now_s))
    play.exited(play.ask_of("worker", 1), stopped())
    assert play.verdict.cause is not None
    assert play.verdict.cause.task == "worker-0"


def test_the_chief_decides_and_the_workers_may_fail() -> None:
    play = running(role("chief"), role("worker", 2, completion=CHIEF))
    play.exited(play.ask_of("worker"), failing())
    actions = play.ok(play.ask_of("chief"))
    assert stopped_tasks(play, actions) == ["worker-1"]


def test_without_a_role_chief_the_first_task_decides() -> None:
    play = running(role("worker", 3, completion=CHIEF))
    play.exited(play.ask_of("worker", 1), failing())
    assert play.gang.phase is Phase.RUNNING
    play.exited(play.ask_of("worker"), failing())
    assert play.gang.phase is Phase.STOPPING


def test_all_are_waited_for_and_only_the_first_must_succeed() -> None:
    play = running(role("worker", 3, completion=CHIEF_AND_ALL_END))
    assert play.ok(play.ask_of("worker")) == ()
    assert play.exited(play.ask_of("worker", 1), failing()) == ()
    assert play.gang.phase is Phase.RUNNING
    play.ok(play.ask_of("worker", 2))
    assert play.verdict.kind is VerdictKind.SUCCEEDED
    play = running(role("worker", 2, completion=CHIEF_AND_ALL_END))
    actions = play.exited(play.ask_of("worker"), failing())
    assert stopped_tasks(play, actions) == ["worker-1"]


def test_all_are_waited_for_where_a_role_chief_must_succeed() -> None:
    play = running(role("chief"), role("worker", 2, completion=CHIEF_AND_ALL_END))
    assert play.exited(play.ask_of("worker"), failing()) == ()
    assert play.ok(play.ask_of("chief")) == ()
    play.end(play.ask_of("worker", 1), ContainerEnd.LOST)
    assert play.verdict.kind is VerdictKind.SUCCEEDED


def test_all_are_waited_for_and_any_must_succeed() -> None:
    play = running(role("worker", 2, completion=ANY_AND_ALL_END))
    assert play.ok(play.ask_of("worker", 1)) == ()
    play.exited(play.ask_of("worker"), failing())
    assert play.verdict.kind is VerdictKind.SUCCEEDED
    play = running(role("worker", 2, completion=ANY_AND_ALL_END))
    play.exited(play.ask_of("worker", 1), failing())
    play.exited(play.ask_of("worker"), failing())
    assert play.verdict.kind is VerdictKind.FAILED


@pytest.mark.parametrize(
    ("early", "phase"), [(EarlyExit.ACCEPT, Phase.RUNNING), (EarlyExit.FAIL, Phase.STOPPING)]
)
def test_a_service_that_ends_well_too_early(early: EarlyExit, phase: Phase) -> None:
    play = running(role("worker"), role("notebook", service=True, early_exit=early))
    play.ok(play.ask_of("notebook"))
    assert play.gang.phase is phase
    if phase is Phase.STOPPING:
        play.exited(play.ask_of("worker"), stopped())
        assert play.verdict.exit_code == ExitCode.USER_FAILED
        assert play.verdict.message == (
            "notebook-0 ended before the roles that notebook serves were complete"
        )


def test_a_service_that_fails_fails_the_gang() -> None:
    play = running(role("worker"), role("ps"))
    assert stopped_tasks(play, play.exited(play.ask_of("ps"), failing())) == ["worker-0"]


def test_an_optional_role_may_fail_or_be_lost() -> None:
    play = running(role("worker"), BOARD, role("extra", 2, optional=True))
    play.exited(play.ask_of("board"), failing())
    play.end(play.ask_of("extra"), ContainerEnd.LOST, "the node is gone")
    play.silent(play.ask_of("extra", 1))
    assert play.gang.phase is Phase.RUNNING
    only(play.ok(play.ask_of("worker")), Finish)
    assert play.verdict.kind is VerdictKind.SUCCEEDED
    assert play.gang.retries.restarts == 0


def test_an_optional_role_that_is_no_service_is_waited_for() -> None:
    play = running(role("worker"), role("extra", optional=True))
    assert of(play.ok(play.ask_of("worker")), StopTask) == []
    only(play.exited(play.ask_of("extra"), failing()), Finish)
    assert play.verdict.kind is VerdictKind.SUCCEEDED


def test_the_gang_does_not_leave_for_the_preemption_of_an_optional_task() -> None:
    play = running(role("worker"), BOARD)
    play.send(ContainersMarked(0, (play.ask_of("board"),)))
    assert play.gang.phase is Phase.RUNNING


def test_a_gang_that_starts_again_starts_its_optional_roles_again() -> None:
    play = running(role("worker", 2), BOARD)
    play.exited(play.ask_of("board"), failing())
    play.silent(play.ask_of("worker"))
    play.exited(play.ask_of("worker", 1), stopped())
    assert play.gang.phase is Phase.REPLACING
    assert [m.ask.role for m in play.gang.members] == ["worker", "board"]
    assert not any(member.is_tolerated for member in play.gang.members)


def test_the_status_says_what_has_become_of_each_role() -> None:
    spec = roles_job(role("worker", 3, completion=at_least(2)), role("ps"), BOARD)
    play = Play(spec)

    def words() -> list[str]:
        return [one.words for one in role_states(play.gang, spec, play.policy)]

    assert words()[1] == "ps (service, stopped when worker is complete): not started"
    play.to_running()
    play.exited(play.ask_of("board"), failing())
    play.ok(play.ask_of("worker"))
    play.exited(play.ask_of("worker", 1), failing())
    states = "1 running, 1 succeeded, 1 failed (the job goes on)"
    assert words() == [
        f"worker (at least 2 tasks of 3 must succeed): {states}",
        "ps (service, stopped when worker is complete): 1 running",
        "board (service, stopped when worker is complete, optional): 1 failed (the job goes on)",
    ]
    play.ok(play.ask_of("worker", 2))
    play.exited(play.ask_of("ps"), stopped())
    assert words()[1] == "ps (service, stopped when worker is complete): 1 stopped"
    usual = roles_job(role("worker", 2))
    assert role_states(Play(usual).gang, usual, Play(usual).policy) == ()


def test_a_service_that_failed_the_job_is_not_shown_as_stopped() -> None:
    play = running(role("worker"), role("ps"))
    play.exited(play.ask_of("ps"), failing(3))
    states = {one.role: one.state for one in role_states(play.gang, play.spec, play.policy)}
    assert states == {"worker": "1 running", "ps": "1 failed"}


def test_rank_0_is_of_no_service() -> None:
    play = running(BOARD, role("ps"), role("worker", 2))
    assert [m.name for m in play.gang.members] == ["worker-0", "worker-1", "ps-0", "board-0"]

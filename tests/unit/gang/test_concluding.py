"""What follows from why a process failed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.gang.play import Play, failing, job, of, only, stopped
from yarnam.core.failures.process_failure import UNKNOWN
from yarnam.core.model.actions import (
    Action,
    DrawJitter,
    Finish,
    LaunchGang,
    ReleaseContainer,
    RequestPlan,
)
from yarnam.core.model.events import ContainerEnded, TimerKind
from yarnam.core.model.job_spec import MoreMemorySpec
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import (
    ContainerEnd,
    ExitKind,
    FailureClass,
    FailureRole,
    Finding,
    ProcessExit,
    RetryAction,
)
from yarnam.errors import Blame, ExitCode

IMPORT = Finding(
    "python-import",
    FailureClass.IMPORT_ERROR,
    FailureRole.ROOT,
    RetryAction.NEVER,
    Blame.USER,
    "ModuleNotFoundError: No module named 'x'",
    explanation="A Python module is missing.",
    hint="Add it.",
)
PEER = replace(
    IMPORT,
    rule="socket-peer",
    failure=FailureClass.PEER_LOST,
    role=FailureRole.CASCADE,
    action=RetryAction.RETRY,
    blame=Blame.INFRA,
    line="Connection reset by peer",
)
KILLED = Finding(
    "signal-sigkill", FailureClass.KILLED, FailureRole.ROOT, RetryAction.RETRY, Blame.INFRA
)
TRANSIENT = replace(KILLED, rule="exit-193", action=RetryAction.FREE)
MEMORY = replace(IMPORT, failure=FailureClass.CPU_OUT_OF_MEMORY, action=RetryAction.MORE_MEMORY)
BROKEN_GPU = replace(KILLED, rule="gpu-ecc", action=RetryAction.ELSEWHERE)


def failed(play: Play, finding: Finding | None, step: int | None = None) -> tuple[Action, ...]:
    """The first task fails so, the other one is stopped."""
    one, two = (member.ask for member in play.gang.members)
    play.exited(one, replace(failing(1, play.now_s), finding=finding, step=step))
    return play.exited(two, stopped())


def running(**retry: Any) -> Play:
    spec = job(workers=2)
    return Play(replace(spec, retry=replace(spec.retry, **retry))).to_running()


def go_on(play: Play) -> None:
    """Until it runs again: in place, or after a back-off."""
    if play.gang.phase is Phase.BACKING_OFF:
        play.to_next_attempt().grant_all().register_all()
    play.start_all()
    assert play.gang.phase is Phase.RUNNING


def test_the_verdict_names_class_line_and_what_to_do() -> None:
    play = running(on_user_failure=5)
    verdict = only(failed(play, IMPORT), Finish).verdict
    assert verdict.exit_code == ExitCode.USER_FAILED
    first, second, *_ = verdict.message.splitlines()
    assert first.startswith("worker-0 (rank 0) on n1 exited with code 1 (import-error: Module")
    assert second == "A Python module is missing."
    assert verdict.hint.splitlines() == [
        "Add it.",
        "Read all of its output with: yarnam logs JOB --task worker-0",
        "See how this was found with: yarnam explain JOB",
    ]
    assert verdict.cause is not None
    assert (verdict.cause.rank, verdict.cause.finding) == (0, IMPORT)


def test_a_late_cause_comes_before_its_early_symptom() -> None:
    play = running()
    one, two = play.asks()
    play.exited(one, replace(failing(1, play.now_s), finding=PEER))
    actions = play.exited(two, replace(failing(1, play.now_s + 4.0), finding=IMPORT))
    verdict = only(actions, Finish).verdict
    assert verdict.message.startswith("worker-1 (rank 2) on n2")
    assert "after it: rank 0: peer-lost (socket-peer)" in verdict.message


def test_a_stopped_process_with_a_cause_of_its_own_is_the_first() -> None:
    play = running()
    one, two = play.asks()
    play.exited(one, replace(failing(1, play.now_s), finding=PEER))
    late = replace(stopped(), finding=IMPORT, code=1, ended_at_s=play.now_s + 4.0)
    assert only(play.exited(two, late), Finish).verdict.cause.rank == 2  # type: ignore[union-attr]


def test_a_kill_from_outside_is_retried_in_place() -> None:
    play = running(max_restarts=2)
    actions = failed(play, KILLED)
    assert of(actions, ReleaseContainer) == []
    assert only(actions, LaunchGang).attempt == 2
    assert play.gang.retries.restarts == 1
    assert play.gang.history[0].cause is not None
    assert play.gang.history[0].cause.finding is KILLED


def test_restarts_without_progress_are_used_up() -> None:
    play = running(max_restarts=2)
    for _ in range(2):
        failed(play, KILLED)
        go_on(play)
    verdict = only(failed(play, KILLED), Finish).verdict
    assert verdict.exit_code == ExitCode.ATTEMPTS_EXHAUSTED
    assert "not started again: all restarts (retry.max_restarts) are used up" in verdict.message


def test_a_job_that_gets_further_may_go_on() -> None:
    play = running(max_restarts=1)
    for step in range(10, 100, 10):
        failed(play, KILLED, step)
        assert play.gang.retries.restarts == 1
        go_on(play)


@pytest.mark.parametrize("finding", [KILLED, UNKNOWN])
def test_a_job_that_dies_at_the_same_step_three_times_may_not(finding: Finding) -> None:
    play = running(max_restarts=99, on_user_failure=99)
    for _ in range(2):
        failed(play, finding, 40)
        go_on(play)
    verdict = only(failed(play, finding, 40), Finish).verdict
    assert "not started again: 3 failures in a row got no further than step 40" in verdict.message


def test_a_transient_failure_is_free_with_a_growing_wait_for_a_limited_time() -> None:
    play = running(max_restarts=0)
    for row in range(1, 4):
        actions = failed(play, TRANSIENT)
        assert only(actions, DrawJitter)
        assert (play.gang.retries.transients_in_row, play.gang.retries.restarts) == (row, 0)
        go_on(play)
    play.after(play.policy.transient_limit_s)
    verdict = only(failed(play, TRANSIENT), Finish).verdict
    assert verdict.exit_code == ExitCode.ATTEMPTS_EXHAUSTED


def test_a_free_retry_says_for_how_long_and_what_to_do() -> None:
    play = running(max_restarts=0)
    failed(play, replace(TRANSIENT, hint="Make room."))
    assert "retried for free, for another 1h00m at most: Make room." in play.gang.reason
    go_on(play)
    since_s = play.gang.retries.transient_since_s
    assert since_s is not None
    play.after(since_s + 600.0 - play.now_s)
    failed(play, TRANSIENT)
    assert "retried for free, for another 50m00s at most" in play.gang.reason


def test_a_broken_device_costs_its_node_a_strike_and_the_task_moves() -> None:
    play = running(max_restarts=1)
    one, two = play.asks()
    actions = failed(play, BROKEN_GPU)
    assert [a.ask for a in of(actions, ReleaseContainer)] == [one]
    assert play.gang.phase is Phase.REPLACING
    assert [strike.node for strike in play.gang.nodes.strikes] == ["n1"]
    assert [member.ask for member in play.gang.members] == [two]


def test_a_loss_is_the_cause_of_symptoms_however_late_it_is_noticed() -> None:
    play = running(max_restarts=1)
    one, two = play.asks()
    play.exited(one, replace(failing(1, play.now_s), finding=PEER))
    play.after(20.0)
    play.end(two, ContainerEnd.LOST, "Container released on a *lost* node")
    assert "node lost" in play.gang.reason
    assert play.gang.retries.restarts == 1


def test_a_container_that_yarn_ended_for_its_memory_is_the_jobs_affair() -> None:
    play = running(max_restarts=9)
    one, two = play.asks()
    text = "Container is running beyond physical memory limits"
    play.send(ContainerEnded(play.now_s, one, ContainerEnd.FAILED, text, MEMORY))
    play.exited(two, stopped())
    play.fire(TimerKind.STOP)
    assert play.verdict.exit_code == ExitCode.USER_FAILED
    assert play.verdict.cause is not None
    assert play.verdict.cause.finding.failure is FailureClass.CPU_OUT_OF_MEMORY


def test_a_gang_out_of_memory_gets_larger_containers_as_often_as_they_can_grow() -> None:
    play = running(max_restarts=0, more_memory=MoreMemorySpec(2.0, max_mib=4096))
    for level, words in ((1, "1 of 2 times"), (2, "2 of 2 times")):
        actions = failed(play, MEMORY, step=7)
        assert len(of(actions, ReleaseContainer)) == 2
        assert play.gang.reason.endswith(f"larger containers (retry.more_memory, {words})")
        play.jitter(0.5)
        request = only(play.fire(TimerKind.BACKOFF), RequestPlan)
        assert request.memory_level == level
        play.plan()
        play.grant_all().register_all()
        play.start_all()
    assert play.gang.retries.restarts == 0
    assert only(failed(play, MEMORY, step=7), Finish).verdict.exit_code == ExitCode.USER_FAILED


def test_a_gang_that_can_grow_no_more_says_what_it_died_of() -> None:
    play = running(more_memory=MoreMemorySpec())
    failed(play, MEMORY)
    play.jitter(0.5)
    play.fire(TimerKind.BACKOFF)
    play.refuse("a worker task needs 1536 MiB", is_never=True)
    verdict = play.verdict
    assert verdict.exit_code == ExitCode.NEVER_FITS
    first, after = verdict.message.splitlines()
    assert first.startswith("a worker task needs 1536 MiB")
    assert after.startswith("larger containers were asked for after: worker-0 (rank 0) on n1")
    assert verdict.cause is not None
    assert verdict.cause.finding.failure is FailureClass.CPU_OUT_OF_MEMORY


def test_an_input_that_is_left_out_is_worth_another_try() -> None:
    corrupt = replace(IMPORT, action=RetryAction.WITHOUT_INPUT)
    play = running(max_restarts=1)
    assert only(failed(play, corrupt), Finish)
    play = running(max_restarts=1)
    play.policy = replace(play.policy, leaves_out_inputs=True)
    failed(play, corrupt)
    assert play.gang.phase is Phase.BACKING_OFF, "nothing is held while the input is checked"
    assert play.gang.retries.restarts == 1
    assert play.gang.reason.endswith("without the files that are proved corrupt by then")


def test_a_missing_command_is_final_whatever_is_allowed() -> None:
    play = running(max_restarts=9, on_user_failure=9)
    one, two = play.asks()
    play.exited(one, ProcessExit(0, ExitKind.COMMAND_NOT_FOUND, ended_at_s=play.now_s))
    assert only(play.exited(two, stopped()), Finish)


def test_a_job_that_had_nothing_left_to_train_says_so() -> None:
    play = running()
    one, two = play.asks()
    done = ProcessExit(0, ExitKind.OK, step=40, has_only_restored=True)
    play.exited(one, done, replace(done, local_rank=1))
    verdict = only(play.exited(two, done), Finish).verdict
    assert verdict.message.endswith("there was nothing left to train")
    play = running()
    one, two = play.asks()
    play.exited(one, replace(done, step=41, has_only_restored=False))
    assert only(play.exited(two, done), Finish).verdict.message.endswith("ended well")

"""What the user is told: never RUNNING while the job waits, always why."""

from __future__ import annotations

import pytest

from tests.unit.gang.play import T0, Play, failing, job, stopped
from yarnam.core.gang import describe
from yarnam.core.gang.gang_status import STATES
from yarnam.core.model.events import TimerKind
from yarnam.core.model.job_status import JobState, Phase
from yarnam.core.model.plans import LocalityLevel


def test_acquiring_counts_by_locality_and_names_its_limit() -> None:
    play = Play(job(workers=4)).to_acquiring()
    play.fire(TimerKind.ASK)
    play.jitter(0.5)
    play.fire(TimerKind.BACKOFF)
    play.plan(LocalityLevel.NODE)
    for ask, node in zip(play.asks()[:3], ("n1", "n2", "n1"), strict=True):
        play.grant(ask, node)
    play.register(play.asks()[0], "n1")
    status = describe(play.gang, play.now_s + 20)
    assert status.state is JobState.ACQUIRING
    assert status.reason == (
        "ACQUIRING, 3 of 4 granted (3 on planned nodes), attempt 2 of 3, hold ends in 100 s"
    )
    assert (status.asked, status.granted, status.ready) == (4, 3, 1)
    assert status.granted_by_level == (("node", 3),)
    assert (status.attempt, status.max_attempts) == (2, 3)
    assert status.deadline_s == play.now_s + 120
    assert [task.state for task in status.tasks] == ["ready", "granted", "granted", "asked"]
    assert status.tasks[0].log_address == "n1.cluster:5000"
    assert [task.http_address for task in status.tasks] == ["n1:8042", "n2:8042", "n1:8042", ""]
    assert status.history[0].outcome.startswith("no container")
    assert (status.history[1].asked, status.history[1].granted) == (4, 3)


def test_localizing_counts_the_ready_and_names_its_limit() -> None:
    play = Play(job(workers=2)).to_acquiring()
    for ask, node in zip(play.asks(), ("n1", "n2"), strict=True):
        play.grant(ask, node)
    play.register(play.asks()[0], "n1")
    status = describe(play.gang, play.now_s + 100)
    assert status.state is JobState.ACQUIRING
    assert status.reason == "localizing: 1 of 2 tasks are ready, attempt 1 of 3, 1700 s left"
    assert (status.granted, status.ready) == (2, 1)
    assert status.deadline_s == play.now_s + 1800


def test_before_the_first_grant_the_ask_is_the_limit() -> None:
    play = Play(job()).to_acquiring()
    status = describe(play.gang, T0 + 10)
    assert status.reason == (
        "ACQUIRING, 0 of 2 granted, attempt 1 of 3, waiting up to 290 s for the first grant"
    )


def test_misfits_are_shown() -> None:
    play = Play(job()).to_acquiring(LocalityLevel.RACK)
    play.grant(play.asks()[0], "n3", "/r2")
    assert describe(play.gang, T0).reason.endswith(
        "; 1 grant released (n3 in /r2 is outside of worker-rack)"
    )


def test_waiting_for_room_says_when_it_tries_again() -> None:
    play = Play()
    play.start()
    play.refuse("4 GPUs are free, the gang needs 8")
    assert describe(play.gang, T0).reason.endswith("; next try soon")
    play.jitter(0.8)
    status = describe(play.gang, T0)
    assert status.state is JobState.QUEUED
    assert status.reason == (
        "waiting for free capacity: 4 GPUs are free, the gang needs 8; needs 1 more node; "
        "next try at 22:13:24 UTC"
    )
    assert status.deadline_s == T0 + 4


def test_backing_off_says_until_when_and_why() -> None:
    play = Play(job()).to_acquiring()
    play.fire(TimerKind.ASK)
    play.jitter(0.8)
    status = describe(play.gang, play.now_s)
    assert status.state is JobState.QUEUED
    assert status.reason == (
        "backing off until 22:18:24 UTC, then attempt 2 of 3: no container was granted within 300 s"
    )


def test_launching_and_running_are_told_apart() -> None:
    play = Play(job()).to_launching()
    play.started(play.asks()[0])
    status = describe(play.gang, T0 + 5)
    assert status.state is JobState.LAUNCHING
    assert status.reason == "starting the processes: 1 of 2 tasks started, 55 s left"
    play.started(play.asks()[1])
    status = describe(play.gang, T0 + 5)
    assert (status.state, status.reason) == (JobState.RUNNING, "2 tasks run")
    assert [task.task for task in status.tasks] == ["worker-0", "worker-1"]
    assert [task.ranks for task in status.tasks] == [(0, 1), (2, 3)]
    play.ok(play.asks()[0])
    assert describe(play.gang, T0 + 5).reason == "1 of 2 tasks have ended"
    assert describe(play.gang, T0 + 5).tasks[0].exit_text == "ended well"


def test_stopping_says_why() -> None:
    play = Play(job()).to_running()
    play.exited(play.asks()[0], failing(3))
    status = describe(play.gang, T0 + 1)
    assert status.reason == "stopping: worker-0 exited with code 3, 14 s left"
    assert status.tasks[0].exit_text == "exited with code 3"


def test_the_end_is_the_verdicts_first_line() -> None:
    play = Play(job()).to_running()
    play.exited(play.asks()[0], failing(3, T0, 0, "boom"))
    play.exited(play.asks()[1], stopped())
    status = describe(play.gang, T0)
    assert status.state is JobState.FAILED
    assert status.reason == "worker-0 (rank 0) on n1 exited with code 3"
    assert status.verdict == play.verdict
    assert status.history[-1].outcome.startswith("worker-0 (rank 0)")


def test_a_free_restart_does_not_raise_the_number_of_attempts() -> None:
    play = Play(job(workers=1)).to_running()
    play.silent(play.asks()[0])
    play.to_next_attempt()
    status = describe(play.gang, play.now_s)
    assert (status.attempt, status.max_attempts) == (2, 3)
    assert status.attempt_words == "2 (1 of 3 that count)"
    assert "attempt 1 of 3" in status.reason


@pytest.mark.parametrize("phase", Phase)
def test_every_phase_has_a_state_and_no_waiting_one_is_running(phase: Phase) -> None:
    state = STATES[phase]
    running = {Phase.RUNNING, Phase.STOPPING}
    assert (state is JobState.RUNNING) == (phase in running)

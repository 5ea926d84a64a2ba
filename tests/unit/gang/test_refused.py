"""Inputs proved corrupt since the submit, with a policy not to go on with that."""

from __future__ import annotations

import pytest

from tests.unit.gang.play import Play, failing, job, stopped
from yarnam.core.model.actions import Finish, StopTask
from yarnam.core.model.events import InputsRefused
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import VerdictKind
from yarnam.errors import ExitCode

BAD = InputsRefused(0, "input 'train': 1 file is known to be corrupt: /d/a.npy")


def test_a_job_that_waits_ends_at_once_and_holds_nothing() -> None:
    for play in (Play(), Play().to_acquiring(), Play().to_acquiring().grant_all(("n1",))):
        if not play.events:
            play.start()
        play.send(BAD)
        assert play.gang.phase is Phase.FAILED
        assert play.verdict.exit_code == ExitCode.BAD_SPEC
        assert play.verdict.message == BAD.message
        assert "on_corrupt: skip" in play.verdict.hint


@pytest.mark.parametrize("state", ["launching", "running"])
def test_processes_are_stopped_gracefully_first(state: str) -> None:
    play = Play().to_running() if state == "running" else Play().to_launching()
    actions = play.send(BAD)
    assert [a.ask for a in actions if isinstance(a, StopTask)] == play.asks()
    assert all(a.reason == BAD.message for a in actions if isinstance(a, StopTask))
    for ask in play.asks():
        play.exited(ask, stopped())
    assert play.verdict.kind is VerdictKind.FAILED
    assert play.verdict.exit_code == ExitCode.BAD_SPEC


def test_a_crash_on_the_corrupt_file_does_not_hide_the_cause() -> None:
    play = Play().to_running()
    first, second = play.asks()
    play.exited(first, failing(1))
    play.send(BAD)
    play.exited(second, stopped())
    assert play.verdict.exit_code == ExitCode.BAD_SPEC


def test_a_job_that_is_cancelled_or_done_stays_so() -> None:
    play = Play().to_running()
    play.cancel("enough")
    play.send(BAD)
    for ask in play.asks():
        play.exited(ask, stopped())
    assert play.verdict.kind is VerdictKind.CANCELLED
    play = Play(job(ps=1)).to_running()
    for member in play.gang.members:
        if member.target.role == "worker":
            play.ok(member.ask)
    assert play.gang.phase is Phase.STOPPING
    play.send(BAD)
    (ps,) = (m.ask for m in play.gang.members if m.target.role == "ps")
    play.exited(ps, stopped())
    assert play.verdict.kind is VerdictKind.SUCCEEDED


def test_the_same_word_twice_changes_nothing() -> None:
    play = Play().to_running()
    play.send(BAD)
    before = play.gang
    assert [a for a in play.send(BAD) if isinstance(a, (Finish, StopTask))] == []
    assert play.gang.stopping == before.stopping


def test_a_new_am_obeys_it() -> None:
    play = Play().to_running()
    play.send(BAD)
    play.restart_am()
    assert play.verdict.exit_code == ExitCode.BAD_SPEC

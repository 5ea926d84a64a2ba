"""Where a job's time went, story by story."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.gang.play import ANEW, T0, Play, failing, job, stopped
from yarnam.core.accounting.ledger import MAX_HOLDINGS, account_all, ledger
from yarnam.core.accounting.training_reports import is_due
from yarnam.core.model.events import TimerKind, TrainingReported
from yarnam.core.model.job_spec import RetrySpec
from yarnam.core.model.job_status import Ledger, Use
from yarnam.core.model.outcomes import ContainerEnd


def ledger_of(play: Play, submitted_at_s: float = T0) -> Ledger:
    gang, accounts = account_all(play.spec, submitted_at_s, play.events)
    assert gang == play.gang
    return ledger(accounts, gang, play.now_s)


def walls(found: Ledger) -> dict[Use, float]:
    return {entry.use: round(entry.wall_s, 6) for entry in found.entries if entry.wall_s}


def report(
    play: Play,
    step: int,
    resumed: int | None = None,
    saved: int | None = None,
    saving_s: float = 0.0,
) -> None:
    play.send(TrainingReported(0, play.gang.attempt, step, resumed, saved, saving_s))


def to_running(play: Play) -> Play:
    """Waits 12 s, holds one of two for 20 s, launches for 5 s."""
    play.start()
    play.after(10).plan()
    one, two = play.asks()
    play.after(2).grant(one, "n1")
    play.after(20).grant(two, "n2")
    play.register_all()
    play.after(5).start_all()
    return play


def run_again(play: Play) -> Play:
    """The failed gang is back after 4 s."""
    play.after(4).start_all()
    return play


def test_a_job_that_reports_nothing_keeps_all_that_it_ran() -> None:
    play = to_running(Play(job()))
    for ask in play.asks():
        play.after(50).ok(ask)
    found = ledger_of(play, T0 - 3)
    assert walls(found) == {
        Use.WAITING: 15.0,
        Use.HELD: 20.0,
        Use.STARTING: 5.0,
        Use.KEPT: 100.0,
    }
    assert found.of(Use.HELD).gpu_s == pytest.approx(40.0)  # one task of two GPUs
    assert found.of(Use.KEPT).gpu_s == pytest.approx(400.0)
    assert found.ettr == pytest.approx(100 / 140)
    assert not found.is_estimated


def test_localizing_is_not_holding_for_others() -> None:
    play = Play(job())
    play.start()
    play.after(10).plan()
    one, two = play.asks()
    play.after(2).grant(one, "n1")
    play.after(20).grant(two, "n2")
    play.after(300).register_all()
    play.after(5).start_all()
    for ask in play.asks():
        play.ok(ask)
    found = ledger_of(play, T0)
    assert walls(found)[Use.HELD] == 20.0
    assert walls(found)[Use.LOCALIZING] == 300.0
    assert found.of(Use.LOCALIZING).gpu_s == pytest.approx(1200.0)


def test_steps_after_the_restored_checkpoint_are_lost() -> None:
    play = to_running(Play(job(retry=RetrySpec(max_restarts=3))))
    play.after(6)
    report(play, 1)
    play.after(100)
    report(play, 100, saved=60, saving_s=10.0)
    one, two = play.asks()
    play.end(one, ContainerEnd.LOST, "node lost")
    play.after(2).exited(two, stopped(0), stopped(1))
    play.after(3).fill()
    play.grant(play.waiting()[0], "n3")
    play.register_all()
    play.after(4).start_all()
    play.after(1)
    report(play, 61, resumed=60)
    play.after(39)
    report(play, 100, resumed=60, saved=100)
    for ask in play.asks():
        play.ok(ask)
    found = ledger_of(play)
    assert found.of(Use.STARTING).wall_s == pytest.approx(11.0)
    assert found.of(Use.CHECKPOINTING).wall_s == pytest.approx(10.0)
    # 90 s for 100 steps, of which 60 were kept.
    assert found.of(Use.LOST).wall_s == pytest.approx(36.0)
    assert found.of(Use.KEPT).wall_s == pytest.approx(54.0 + 39.0)
    assert found.of(Use.RECOVERING).wall_s == pytest.approx(2 + 3 + 4 + 1)
    assert not found.is_estimated


def test_a_restore_from_further_back_takes_from_the_attempts_before_too() -> None:
    play = to_running(Play(job(retry=RetrySpec(max_restarts=3))))
    restores = [(None, 100, 80), (80, 120, 110), (40, 100, 100)]
    for number, (resumed, last, saved) in enumerate(restores):
        report(play, resumed or 0, resumed)
        play.after(40)
        report(play, last, resumed, saved)
        if number == len(restores) - 1:
            break
        one, two = play.asks()
        play.end(one, ContainerEnd.LOST, "node lost")
        play.exited(two, stopped(0), stopped(1))
        play.fill()
        play.grant(play.waiting()[0], f"n{number + 3}")
        play.register_all()
        play.start_all()
    for ask in play.asks():
        play.ok(ask)
    found = ledger_of(play)
    # 40 of 100 steps, none of 40, all of 60.
    assert found.of(Use.KEPT).wall_s == pytest.approx(16.0 + 0.0 + 40.0)
    assert found.of(Use.LOST).wall_s == pytest.approx(24.0 + 40.0)


@pytest.mark.parametrize(
    ("saved", "kept_s", "is_estimated"), [(75, 75.0, False), (None, 0.0, True)]
)
def test_a_failed_job_keeps_what_it_has_saved(
    saved: int | None, kept_s: float, is_estimated: bool
) -> None:
    play = to_running(Play(job()))
    report(play, 0)
    play.after(100)
    report(play, 100, saved=saved)
    one, two = play.asks()
    play.exited(one, failing(3))
    play.exited(two, stopped(0), stopped(1))
    found = ledger_of(play)
    assert play.gang.verdict is not None
    assert found.of(Use.KEPT).wall_s == pytest.approx(kept_s)
    assert found.of(Use.LOST).wall_s == pytest.approx(100.0 - kept_s)
    assert found.is_estimated is is_estimated


def test_without_reports_an_attempt_that_was_repeated_is_lost() -> None:
    play = to_running(Play(job(gang=ANEW, retry=RetrySpec(max_restarts=3))))
    one, two = play.asks()
    play.after(100).end(one, ContainerEnd.LOST, "node lost")
    play.exited(two, stopped(0), stopped(1))
    play.jitter(0.5)
    play.fire(TimerKind.BACKOFF)
    play.plan()
    play.grant_all(on=("n2", "n3")).register_all()
    play.start_all()
    play.after(70)
    assert ledger_of(play).of(Use.KEPT).wall_s == pytest.approx(70.0)  # while it still runs
    for ask in play.asks():
        play.ok(ask)
    found = ledger_of(play)
    assert (found.of(Use.LOST).wall_s, found.of(Use.KEPT).wall_s) == pytest.approx((100.0, 70.0))
    assert found.is_estimated


def test_a_clock_that_goes_back_takes_nothing_away() -> None:
    play = to_running(Play(job()))
    play.after(50)
    report(play, 10)
    events = [*play.events, replace(play.events[-1], at_s=T0 - 500.0)]
    gang, accounts = account_all(play.spec, T0, events)
    found = ledger(accounts, gang, T0)
    assert found.wall_s == pytest.approx(play.now_s - T0)
    assert min(entry.wall_s for entry in found.entries) >= 0.0


def test_what_is_held_is_remembered_up_to_a_bound() -> None:
    play = Play(job(workers=3 * MAX_HOLDINGS))
    play.start()
    play.plan()
    for ask in play.asks():
        play.after(1.5).grant(ask)
    _, accounts = account_all(play.spec, T0, play.events)
    assert len(accounts.holdings) <= MAX_HOLDINGS
    assert accounts.holdings[-1].containers == 3 * MAX_HOLDINGS
    assert accounts.holdings[-1].gpus == 6 * MAX_HOLDINGS


def test_when_progress_is_written_down() -> None:
    first = TrainingReported(100.0, 1, 5)
    assert is_due(None, first, at_once=False)
    later = replace(first, at_s=130.0, step=9)
    assert not is_due(first, later, at_once=False)
    assert is_due(first, later, at_once=True)
    assert is_due(first, replace(later, at_s=160.0), at_once=False)
    assert is_due(first, replace(later, at_s=111.0, saved_step=8), at_once=False)
    assert not is_due(first, replace(later, at_s=101.0, saved_step=8), at_once=False)
    assert is_due(first, replace(first, at_s=101.0, attempt=2), at_once=False)
    assert not is_due(first, replace(first, at_s=900.0), at_once=True)

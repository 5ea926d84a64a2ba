"""What ``yarnam status`` says of a training's end."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.client.world import status
from yarnam.core.model.job_status import (
    FlatLoss,
    JobState,
    JobStatus,
    Ledger,
    LedgerEntry,
    PredictedEnd,
    Use,
)
from yarnam.core.observers.loss_observer import LOSS

RUNNING = status(JobState.RUNNING)
BY_LOSS = PredictedEnd(8000, 8200.0, is_by_loss=True, fit_error=0.004, miss=0.012)


def shown(status: JobStatus) -> list[str]:
    return [line.text for line in LOSS.lines(status, 1000.0)]


def lines(predicted: PredictedEnd | None) -> list[str]:
    return shown(replace(RUNNING, predicted_end=predicted))


def test_an_end_by_the_loss_says_how_far_it_has_been_off() -> None:
    assert lines(BY_LOSS) == [
        (
            "expected to end in 2h00m (8000 steps left, by its loss; its curve is off by 0.4%, and "
            "was by 1.2% where it foretold)"
        )
    ]


def test_an_end_by_the_programs_own_count() -> None:
    assert lines(PredictedEnd(20, 1060.0)) == [
        "expected to end in 1m00s (20 steps left, by its own count)"
    ]
    assert lines(None) == lines(PredictedEnd(20)) == [], "how fast it is is not known"
    over = replace(status(JobState.SUCCEEDED), predicted_end=BY_LOSS)
    assert shown(over) == []


def test_a_flat_loss_is_told_with_what_it_has_cost() -> None:
    flat = PredictedEnd(flat=FlatLoss(12_000, 12_000.0, 0.34))
    text = "the loss has been flat since step 12000, for 34% of its steps (3h20m)"
    assert lines(flat) == [text]
    ledger = Ledger((LedgerEntry(Use.KEPT, 3600.0, 360_000.0),))
    costly = replace(RUNNING, predicted_end=flat, ledger=ledger)
    assert shown(costly) == [f"{text}, about 34 GPU hours of its training"]

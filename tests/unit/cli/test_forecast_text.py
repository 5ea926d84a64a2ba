"""What ``yarnam status`` says of a training's end."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.client.world import status
from yarnam.cli.rendering.status_text import forecast_lines
from yarnam.core.model.job_status import (
    FlatLoss,
    JobState,
    Ledger,
    LedgerEntry,
    TrainingForecast,
    Use,
)

RUNNING = status(JobState.RUNNING)
BY_LOSS = TrainingForecast(8000, 8200.0, is_by_loss=True, fit_error=0.004, miss=0.012)


def lines(forecast: TrainingForecast | None) -> list[str]:
    return list(forecast_lines(replace(RUNNING, forecast=forecast), 1000.0))


def test_an_end_by_the_loss_says_how_far_it_has_been_off() -> None:
    assert lines(BY_LOSS) == [
        (
            "expected to end in 2h00m (8000 steps left, by its loss; its curve is off by 0.4%, and "
            "was by 1.2% where it foretold)"
        )
    ]


def test_an_end_by_the_programs_own_count() -> None:
    assert lines(TrainingForecast(20, 1060.0)) == [
        "expected to end in 1m00s (20 steps left, by its own count)"
    ]
    assert lines(None) == lines(TrainingForecast(20)) == [], "how fast it is is not known"
    over = replace(status(JobState.SUCCEEDED), forecast=BY_LOSS)
    assert list(forecast_lines(over, 1000.0)) == []


def test_a_flat_loss_is_told_with_what_it_has_cost() -> None:
    flat = TrainingForecast(flat=FlatLoss(12_000, 12_000.0, 0.34))
    text = "the loss has been flat since step 12000, for 34% of its steps (3h20m)"
    assert lines(flat) == [text]
    ledger = Ledger((LedgerEntry(Use.KEPT, 3600.0, 360_000.0),))
    shown = replace(RUNNING, forecast=flat, ledger=ledger)
    assert list(forecast_lines(shown, 1000.0)) == [f"{text}, about 34 GPU hours of its training"]

"""Forecasts of a training's end by its losses, and what is called flat."""

from __future__ import annotations

import math

import pytest

from yarnam.core.fits.predicted_end import (
    MOST_POINTS,
    LossSeries,
    StepPace,
    counted_end,
    predicted_end,
)


def loss_at(step: float) -> float:
    return 4.0 * (1.0 / (0.01 * step + 1.2) + 0.1)


def series(steps: int, every: int = 1, pace: float = 2.0, floor_from: int = 1 << 60) -> LossSeries:
    """A training of so many steps, of which ``pace`` are done in a second; from ``floor_from`` on
    its loss does not fall any more."""
    made = LossSeries()
    for step in range(0, steps, every):
        made = made.add(step, loss_at(min(step, floor_from)), step / pace)
    return made


def test_the_end_by_the_loss_is_where_it_becomes_flat() -> None:
    found = predicted_end(series(2000), None, 1000.0)
    assert found is not None
    assert found.is_by_loss
    assert found.steps_left is not None
    assert found.end_at_s == pytest.approx(1000.0 + found.steps_left / 2.0, rel=0.01)
    assert found.fit_error is not None
    assert found.fit_error < 0.01
    assert found.miss is not None
    assert found.miss < 0.05, "it foretells what made the points"
    later = predicted_end(series(8000), None, 4000.0)
    assert later is not None
    assert later.steps_left is not None
    assert later.steps_left < found.steps_left + 2000, "the end comes nearer"
    assert found.flat is None


def test_the_programs_own_count_comes_first() -> None:
    found = predicted_end(series(1000), 1500, 500.0)
    assert found is not None
    assert (found.steps_left, found.is_by_loss) == (501, False)
    assert found.end_at_s == pytest.approx(500.0 + 501 / 2.0)


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_of_few_reports_nothing_is_foretold(steps: int) -> None:
    assert predicted_end(series(steps), None, 10.0) is None


def test_a_loss_that_does_not_move_for_long_is_flat() -> None:
    found = predicted_end(series(8000, floor_from=5000), None, 4000.0)
    assert found is not None
    assert found.flat is not None
    assert found.flat.since_step == pytest.approx(5000, abs=200)
    assert found.flat.share == pytest.approx(0.375, abs=0.03)
    assert found.flat.lasted_s == pytest.approx(1500, abs=100)
    assert "flat since step" in found.flat.words
    short = predicted_end(series(5600, floor_from=5000), None, 2800.0)
    assert short is not None
    assert short.flat is None, "not for a fifth of its steps"
    quick = predicted_end(series(8000, floor_from=5000, pace=100.0), None, 80.0)
    assert quick is not None
    assert quick.flat is None, "not for ten minutes"
    wide = predicted_end(series(8000), None, 4000.0, within=0.4)
    assert wide is not None
    assert wide.flat is not None


def test_however_long_a_training_is_few_points_are_kept_and_the_mean_stays() -> None:
    made = series(40_000, every=10)
    assert len(made.points) <= MOST_POINTS
    assert sum(one.count for one in made.points) == 4000
    mean = sum(one.loss * one.count for one in made.points) / 4000
    assert mean == pytest.approx(sum(loss_at(step) for step in range(0, 40_000, 10)) / 4000)


def test_what_comes_anew_after_an_older_checkpoint_replaces_what_was_there() -> None:
    made = series(100).add(40, 9.0, 60.0)
    assert [one.step for one in made.points][-2:] == [39, 40]
    assert made.points[-1].loss == 9.0


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_is_passed_over(loss: float) -> None:
    assert series(10).add(10, loss, 5.0) == series(10)
    assert LossSeries().add(-1, 1.0, 5.0) == LossSeries()


@pytest.mark.parametrize("loss", [0.0, -3.0, 1e300])
def test_losses_without_a_curve_still_have_the_programs_end(loss: float) -> None:
    made = LossSeries()
    for step in range(30):
        made = made.add(step, loss, float(step))
    found = predicted_end(made, 100, 30.0)
    assert found is not None
    assert found.steps_left == 71


def test_a_program_that_reports_no_loss_ends_by_its_own_count() -> None:
    pace = StepPace()
    assert counted_end(pace, 1000, 0.0) is None
    pace = pace.add(0, 0.0)
    found = counted_end(pace, 1000, 0.0)
    assert found is not None
    assert (found.steps_left, found.end_at_s) == (1000, None), "one report has no speed"
    for at_s in range(1, 101):
        pace = pace.add(2 * at_s, float(at_s))
    found = counted_end(pace, 1000, 100.0)
    assert found is not None
    assert (found.steps_left, found.end_at_s, found.is_by_loss) == (800, 500.0, False)
    assert len(pace.points) <= 10


def test_the_pace_is_that_of_now() -> None:
    pace = StepPace()
    for at_s in range(0, 200, 10):
        pace = pace.add(at_s, float(at_s))
    for at_s in range(200, 400, 10):
        pace = pace.add(200 + 10 * (at_s - 200), float(at_s))
    assert pace.steps_per_s == pytest.approx(10.0)
    again = pace.add(100, 500.0)
    assert again.points == ((100, 500.0),), "it continues from an older checkpoint"
    assert again.steps_per_s == 0.0

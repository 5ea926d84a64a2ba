"""What the ranks report over time, in bounded memory."""

from __future__ import annotations

from math import nan

from yarnam.core.model.ids import AskId
from yarnam.core.model.metrics import AgentMetrics, Measured
from yarnam.web.training_series import MAX_POINTS, MAX_SERIES, STEP_TIME, Series, TrainingSeries

ASK = AskId(1, "worker", 0)


def report(rank: int, at_s: float, step: int | None, **values: float) -> AgentMetrics:
    given = tuple((name, Measured(value)) for name, value in values.items())
    return AgentMetrics(ASK, rank, at_s, step, None, given)


def test_the_lowest_rank_gives_the_series_and_each_rank_its_step_time() -> None:
    series = TrainingSeries()
    for second in range(31):
        series.sample(
            [
                report(3, second, second, loss=9.0),
                report(1, second, 2 * second, loss=1.0, saved_step=4),
            ]
        )
    found = {one.name: one for one in series.series()}
    assert set(found) == {"step", "loss", STEP_TIME}
    assert {value for _, value in found["loss"].points} == {1.0}
    assert series.step_times() == {1: 0.5, 3: 1.0}
    series.sample([report(1, 31, 62)])
    assert series.step_times() == {1: 0.5}
    assert series.saved_step == 4


def test_a_day_of_reports_takes_as_much_memory_as_an_hour() -> None:
    series = TrainingSeries()
    for number in range(20_000):
        series.sample(
            [report(0, 4.0 * number, number, **{f"m{n}": float(number) for n in range(30)})]
        )
    found = series.series()
    assert len(found) == MAX_SERIES
    for one in found:
        assert MAX_POINTS / 2 <= len(one.points) <= MAX_POINTS
        assert one.points[-1][0] > 0.98 * 80_000
        assert one.points[0][0] < 100


def test_a_program_that_starts_over_is_measured_anew() -> None:
    series = TrainingSeries()
    for at_s, step in ((0, 100), (10, 110), (20, 50), (30, 55)):
        series.sample([report(0, at_s, step)])
    assert series.step_times() == {0: 2.0}


def test_the_sdks_own_step_time_counts() -> None:
    series = TrainingSeries()
    for second in (1.0, 20.0):
        series.sample([report(0, second, int(second), median_step_s=0.25)])
    assert series.step_times() == {0: 0.25}


def test_what_is_no_number_is_left_out() -> None:
    series = TrainingSeries()
    series.sample([])
    series.sample([report(1, 2.0, 1, loss=nan)])
    assert [one.name for one in series.series()] == ["step"]


def test_without_steps_there_is_still_what_the_agents_measure() -> None:
    series = TrainingSeries()
    series.sample([report(3, 1.0, None, cpu_cores=2.0), report(5, 1.0, None, cpu_cores=7.0)])
    assert [(one.name, one.points) for one in series.series()] == [("cpu_cores", ((1.0, 2.0),))]
    assert series.step_times() == {}


def test_points_of_earlier_attempts_come_before_and_what_cannot_be_does_not() -> None:
    first = TrainingSeries()
    for second in range(5):
        first.sample([report(0, second, second, loss=1.0)])
    kept = first.series()
    second_one = TrainingSeries()
    second_one.sample([report(0, 100.0, 3, loss=2.0)])
    second_one.restore(kept)
    second_one.sample([report(0, 101.0, 4, loss=3.0)])
    found = {one.name: one.points for one in second_one.series()}
    assert [value for _, value in found["loss"]] == [1.0] * 5 + [2.0, 3.0]
    odd = TrainingSeries()
    odd.restore([Series("a", ((5.0, 1.0), (4.0, 2.0), (nan, 1.0), (6.0, nan), (7.0, 1.0)))])
    odd.restore([Series("long", tuple((float(n), 0.0) for n in range(100_000)))])
    odd.restore([Series(f"m{n}", ((1.0, 1.0),)) for n in range(100)])
    points = {one.name: one.points for one in odd.series()}
    assert points["a"] == ((5.0, 1.0), (7.0, 1.0))
    assert len(points["long"]) <= MAX_POINTS
    assert len(points) == MAX_SERIES

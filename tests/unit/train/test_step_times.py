"""What a process says of its steps."""

from __future__ import annotations

import pytest

from yarnam.train._reports import step_times
from yarnam.train._reports.step_times import COMPUTE_S, STEP_S, STEPS, WINDOW, StepTimes


class Time:
    def __init__(self) -> None:
        self.now_s = 0.0

    def perf_counter(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    found = Time()
    monkeypatch.setattr(step_times, "time", found)
    return found


def a_step(
    times: StepTimes, clock: Time, step: int, own_s: float, wait_s: float
) -> dict[str, float]:
    with times.compute():
        clock.now_s += own_s / 2
    with times.compute():
        clock.now_s += own_s / 2
    clock.now_s += wait_s
    times.end_step(step)
    return times.metrics()


def test_the_own_part_of_a_step_is_told_from_the_wait(clock: Time) -> None:
    times = StepTimes()
    assert a_step(times, clock, 1, 90.0, 0.1) == {}, "the first step compiles"
    for step in range(2, 5):
        told = a_step(times, clock, step, 0.3, 0.5)
    assert told == pytest.approx({COMPUTE_S: 0.3, STEP_S: 0.8, STEPS: 3.0})
    for step in range(5, 100):
        told = a_step(times, clock, step, 0.3 if step % 3 else 9.0, 0.5)
    assert told[COMPUTE_S] == pytest.approx(0.3)
    assert len(times._compute_s) == WINDOW


def test_a_step_with_a_pause_does_not_count(clock: Time) -> None:
    times = StepTimes()
    for step in range(1, 4):
        told = a_step(times, clock, step, 0.3, 0.5)
    times.disturb()
    assert a_step(times, clock, 4, 60.0, 600.0) == told
    assert a_step(times, clock, 5, 0.3, 0.5)[STEPS] == 3.0


def test_several_steps_in_one_report_and_a_step_twice(clock: Time) -> None:
    times = StepTimes()
    times.end_step(0)
    told = a_step(times, clock, 10, 3.0, 5.0)
    assert told == pytest.approx({COMPUTE_S: 0.3, STEP_S: 0.8, STEPS: 10.0})
    for again in (10, 3):
        times.end_step(again)
        assert times.metrics() == told, "back to an earlier one: nothing is measured by it"


def test_without_marks_only_the_whole_step_is_known(clock: Time) -> None:
    times = StepTimes()
    for step in range(3):
        clock.now_s += 0.8
        times.end_step(step)
        told = times.metrics()
    assert told == pytest.approx({STEP_S: 0.8, STEPS: 2.0})


@pytest.mark.parametrize(("own_s", "told"), [(0.25, 0.25), ("0.25", 0.25), ("x", None), (-1, None)])
def test_a_program_may_measure_itself(clock: Time, own_s: object, told: float | None) -> None:
    times = StepTimes()
    for step in range(3):
        clock.now_s += 0.8
        times.end_step(step, own_s)
        found = times.metrics()
    assert found.get(COMPUTE_S) == told

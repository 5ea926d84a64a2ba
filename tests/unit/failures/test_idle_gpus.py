"""GPUs that idle, over made series of looks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from yarnam.core.failures.idle_gpus import (
    UNREPORTED_WINDOW_S,
    WINDOW_S,
    IdleGpuWatch,
    RankUse,
    watch_idle_gpus,
)
from yarnam.core.model.outcomes import IdleCause

MIB = 2.0**20
USUAL = RankUse(gpu_percent=80.0, cpu_cores=1.0, read_bytes_per_s=2 * MIB, has_steps=True)
LOADING = RankUse(5.0, cpu_cores=3.0, read_bytes_per_s=MIB, has_steps=True)
READING = RankUse(5.0, cpu_cores=0.1, read_bytes_per_s=60 * MIB, has_steps=True)
STUCK = RankUse(5.0, cpu_cores=0.01, has_steps=True)
SLOW_NETWORK = RankUse(10.0, cpu_cores=1.0, has_steps=True, own_share=0.2)


def looks(
    use: Callable[[float], RankUse],
    seconds: float,
    ranks: int = 2,
    watch: IdleGpuWatch | None = None,
) -> IdleGpuWatch:
    """One look each second; ``use``: of all ranks, by the seconds since the first."""
    watch = watch or IdleGpuWatch()
    begin_s = watch.looked_at_s or 0.0
    for second in range(1, int(seconds) + 2):
        one = use(float(second))
        watch = watch_idle_gpus(watch, [one] * ranks, begin_s + second)
    return watch


@pytest.mark.parametrize(
    ("use", "cause"),
    [
        (LOADING, IdleCause.INPUT),
        (READING, IdleCause.INPUT),
        (STUCK, IdleCause.WAITING),
        (SLOW_NETWORK, IdleCause.COMMUNICATION),
    ],
)
def test_the_likely_cause(use: RankUse, cause: IdleCause) -> None:
    idle = looks(lambda _: use, WINDOW_S).reported
    assert idle is not None
    assert idle.cause is cause
    assert idle.percent == pytest.approx(use.gpu_percent)
    assert looks(lambda _: use, WINDOW_S - 10).reported is None, "not before the window is over"


def test_one_process_alone_does_not_wait_for_others() -> None:
    idle = looks(lambda _: SLOW_NETWORK, WINDOW_S, ranks=1).reported
    assert idle is not None
    assert idle.cause is IdleCause.INPUT


def test_busy_gpus_are_not_called_idle() -> None:
    assert looks(lambda _: USUAL, 3 * WINDOW_S).reported is None
    # An epoch's end of 60 s in each five minutes.
    end = lambda at_s: STUCK if at_s % 300 < 60 else USUAL  # noqa: E731
    assert looks(end, 3 * WINDOW_S).reported is None


def test_no_alarm_in_a_start_an_evaluation_or_a_checkpoint() -> None:
    start = lambda _: replace(STUCK, has_steps=False)  # noqa: E731
    assert looks(start, UNREPORTED_WINDOW_S - 60).reported is None
    paused = lambda _: replace(STUCK, is_paused=True)  # noqa: E731
    assert looks(paused, 10 * WINDOW_S).reported is None
    # Twenty minutes of evaluation after each two of training: only the training counts.
    mixed = lambda at_s: USUAL if at_s % 1320 < 120 else paused(at_s)  # noqa: E731
    assert looks(mixed, 20 * WINDOW_S).reported is None
    rarely = lambda at_s: LOADING if at_s % 1320 < 120 else paused(at_s)  # noqa: E731
    assert looks(rarely, 20 * WINDOW_S).reported is not None


def test_while_some_ranks_have_no_step_yet_nothing_counts() -> None:
    watch = IdleGpuWatch()
    for second in range(int(UNREPORTED_WINDOW_S) + 10):
        ranks = [STUCK, replace(STUCK, has_steps=False)]
        watch = watch_idle_gpus(watch, ranks, float(second))
    assert watch.reported is None


def test_a_program_that_reports_no_steps_has_a_longer_window() -> None:
    silent = lambda _: replace(STUCK, has_steps=False)  # noqa: E731
    idle = looks(silent, UNREPORTED_WINDOW_S).reported
    assert idle is not None
    assert idle.window_s >= UNREPORTED_WINDOW_S


def test_what_is_reported_stays_until_the_gpus_are_busy_or_the_cause_is_another() -> None:
    watch = looks(lambda _: LOADING, WINDOW_S)
    first = watch.reported
    watch = looks(lambda _: replace(LOADING, gpu_percent=25.0), WINDOW_S + 5, watch=watch)
    assert watch.reported == first, "around the limit nothing changes"
    watch = looks(lambda _: STUCK, 2 * WINDOW_S, watch=watch)
    assert watch.reported is not None
    assert watch.reported.cause is IdleCause.WAITING
    assert looks(lambda _: USUAL, 2 * WINDOW_S, watch=watch).reported is None


def test_without_measured_gpus_nothing_is_known() -> None:
    watch = IdleGpuWatch()
    for second in range(10_000):
        watch = watch_idle_gpus(watch, (), float(second))
    assert watch == IdleGpuWatch(looked_at_s=9_999.0)


def test_a_gap_between_two_looks_counts_for_little() -> None:
    watch = watch_idle_gpus(IdleGpuWatch(), [STUCK], 0.0)
    watch = watch_idle_gpus(watch, [STUCK], 100_000.0)
    assert watch.span_s <= 5.0

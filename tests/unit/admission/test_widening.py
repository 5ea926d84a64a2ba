"""How far a forecast is widened by the errors of those before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from yarnam.core.admission.forecast import (
    LEAST_WIDENING,
    MOST_WHERE_DECLARED,
    MOST_WHERE_UNDECLARED,
    MOST_WIDENING,
    wait_ratio,
    widening,
)
from yarnam.core.admission.wait_queue import QueueSnapshot
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, QueueView
from yarnam.core.model.tickets import Demand, RunningGang, Ticket

NOW_S = 10_000.0
ME = Ticket(9, "me", "me", "root.a", (Demand(Resources(1, 1, 1), 8),), NOW_S, forecast_s=1.0)


def factor(
    ratios: list[float | None], waiting: list[Ticket], ends_at_s: float | None = NOW_S + 60.0
) -> float:
    running = [
        RunningGang(f"r{n}", "root.a", 8, ends_at_s, (), 0.0, one) for n, one in enumerate(ratios)
    ]
    snapshot = ClusterSnapshot(NOW_S, (), QueueView("root.a"))
    return widening(ME, QueueSnapshot(snapshot, [ME, *waiting], running, NOW_S))


def waits(for_s: float, forecast_s: float | None) -> Ticket:
    return replace(ME, number=1, job="other", taken_at_s=NOW_S - for_s, forecast_s=forecast_s)


def test_nobody_has_waited_yet() -> None:
    assert factor([None] * 20, [waits(9000.0, None)]) == MOST_WHERE_DECLARED


@pytest.mark.parametrize("ends_at_s", [None, NOW_S - 1.0])
def test_ends_that_nobody_has_declared_make_the_first_ranges_wider(ends_at_s: float | None) -> None:
    assert factor([None] * 20, [], ends_at_s) == MOST_WHERE_UNDECLARED
    assert factor([], []) == MOST_WHERE_UNDECLARED
    assert factor([1.0] * 20, [], ends_at_s) == 1.0


def test_waits_that_were_three_times_the_forecast_widen_the_next_one_by_that() -> None:
    assert factor([3.0] * 5, []) == 3.0
    assert factor([1.0] * 20, []) == 1.0


def test_who_has_waited_longer_than_forecast_and_still_waits_counts() -> None:
    assert factor([], [waits(2000.0, 1000.0)]) == 3.0
    assert factor([None], [waits(900.0, 1000.0)]) == MOST_WHERE_DECLARED


@pytest.mark.parametrize(("ratio", "bound"), [(0.01, LEAST_WIDENING), (1e9, MOST_WIDENING)])
def test_it_is_bounded_whatever_others_claim(ratio: float, bound: float) -> None:
    assert factor([ratio] * 200, []) == bound


def test_a_wait_of_seconds_is_as_good_as_none() -> None:
    assert wait_ratio(3.0, 30.0) == 1.0
    assert wait_ratio(600.0, 3.0) == 10.0

"""How often agents call: a small gang's as ever, a large one's within a budget of calls."""

from __future__ import annotations

import pytest

from yarnam.wire.protocol import (
    HELD_CALLS,
    HOLD_S,
    METRICS_PERIOD_S,
    POLLS_PER_S,
    REPORTS_PER_S,
    ReportPace,
    number_in_wake,
    report_pace,
    wake_datagram,
)

SILENCE_S = 8.0


@pytest.mark.parametrize("tasks", [1, 100, 200])
def test_small_gangs_poll_and_report_at_the_full_pace(tasks: int) -> None:
    pace = report_pace(tasks, has_first_rank=False, silence_s=SILENCE_S)
    assert pace == ReportPace(HOLD_S, 0.0, METRICS_PERIOD_S)


def test_the_calls_of_a_large_gang_do_not_wait_at_the_am() -> None:
    for tasks in (HELD_CALLS + 1, 1000):
        pace = report_pace(tasks, has_first_rank=False, silence_s=SILENCE_S)
        assert pace.poll_after_s == pace.hold_s


def test_a_thousand_agents_stay_within_the_budget() -> None:
    pace = report_pace(1000, has_first_rank=False, silence_s=SILENCE_S)
    assert 1000 / pace.hold_s <= POLLS_PER_S
    assert 1000 / pace.metrics_period_s <= REPORTS_PER_S


def test_the_rank_that_stands_for_the_job_reports_as_ever() -> None:
    pace = report_pace(1000, has_first_rank=True, silence_s=SILENCE_S)
    assert pace.metrics_period_s == METRICS_PERIOD_S


@pytest.mark.parametrize("silence_s", [3.0, 8.0, 60.0])
def test_no_agent_is_lost_for_polling_rarely(silence_s: float) -> None:
    pace = report_pace(10_000, has_first_rank=False, silence_s=silence_s)
    assert pace.hold_s <= max(HOLD_S, silence_s / 2)
    assert pace.poll_after_s <= max(HOLD_S, silence_s / 2)


def test_only_who_has_the_key_can_wake() -> None:
    datagram = wake_datagram(b"k" * 16, 7)
    assert number_in_wake(b"k" * 16, datagram) == 7
    assert number_in_wake(b"l" * 16, datagram) is None
    for place in range(len(datagram)):
        changed = bytearray(datagram)
        changed[place] ^= 1
        assert number_in_wake(b"k" * 16, bytes(changed)) is None
    assert number_in_wake(b"k" * 16, datagram[:-1]) is None

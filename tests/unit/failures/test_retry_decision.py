"""Whether a gang is started again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from yarnam.core.failures.retry_decision import (
    MAX_STUCK,
    RetryBudget,
    RetryState,
    decide_retry,
)
from yarnam.core.model.outcomes import RetryAction

A, B = RetryAction, RetryBudget
RICH = RetryState(2, 2, 3600.0, 0, None, leaves_out_inputs=True, has_more_memory=True)
POOR = RetryState(0, 0, 0.0, 0, None, leaves_out_inputs=False, has_more_memory=False)


@pytest.mark.parametrize(
    ("action", "rich", "poor"),
    [
        (A.NEVER, B.NONE, B.NONE),
        (A.ALLOWED, B.USER, B.NONE),
        (A.RETRY, B.RESTARTS, B.NONE),
        (A.ELSEWHERE, B.RESTARTS, B.NONE),
        (A.FREE, B.FREE, B.NONE),
        (A.MORE_MEMORY, B.LARGER, B.NONE),
        (A.WITHOUT_INPUT, B.RESTARTS, B.NONE),
    ],
)
def test_each_action_has_its_budget(action: A, rich: B, poor: B) -> None:
    assert decide_retry(action, RICH).budget is rich
    assert decide_retry(action, POOR).budget is poor


@pytest.mark.parametrize("action", [A.ALLOWED, A.RETRY, A.ELSEWHERE])
def test_three_deaths_at_one_step_are_enough(action: A) -> None:
    stuck = replace(RICH, restarts_left=99, user_retries_left=99, stuck=MAX_STUCK, step=40)
    decision = decide_retry(action, stuck)
    assert decision.budget is B.NONE
    assert decision.why == "3 failures in a row got no further than step 40"
    assert decide_retry(action, replace(stuck, stuck=MAX_STUCK - 1)).budget is not B.NONE


def test_free_retries_count_once_their_time_is_over() -> None:
    assert decide_retry(A.FREE, replace(RICH, free_left_s=0.0)).budget is B.RESTARTS


def test_without_larger_containers_the_user_decides() -> None:
    assert decide_retry(A.MORE_MEMORY, replace(RICH, has_more_memory=False)).budget is B.USER


def test_larger_containers_are_another_try_wherever_the_last_one_ended() -> None:
    stuck = replace(RICH, stuck=MAX_STUCK, step=40)
    assert decide_retry(A.MORE_MEMORY, stuck).budget is B.LARGER

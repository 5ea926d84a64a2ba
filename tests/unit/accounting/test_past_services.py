"""Services of past jobs for a policy."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.unit.accounting.records import many
from yarnam.core.accounting.job_summary import JobSummary, summary_of
from yarnam.core.accounting.past_services import LEAST_JOBS, MOST_SAMPLES, past_services


def rows(count: int, queue: str = "root.dl", state: str = "SUCCEEDED") -> list[JobSummary]:
    """Of 1, 2, 3, ... GPU-seconds."""
    made = islice((summary_of(one) for one in many(count)), count)
    return [
        one._replace(queue=queue, held_gpu_s=number + 1.0, state=state)
        for number, one in enumerate(made)
    ]


def test_those_of_the_queue_that_ended_by_themselves_are_told() -> None:
    others = [*rows(30, "root.dl.below"), *rows(30, state="CANCELLED")]
    idle = [one._replace(held_gpu_s=0.0) for one in rows(3)]
    found = past_services([*others, *rows(LEAST_JOBS), *idle], "root.dl")
    assert found == tuple(float(number + 1) for number in range(LEAST_JOBS))


def test_of_too_few_nothing_is_told() -> None:
    assert past_services(rows(LEAST_JOBS - 1), "root.dl") == ()


def test_of_many_quantiles_are_told() -> None:
    found = past_services(rows(1000), "root.dl")
    assert len(found) == MOST_SAMPLES
    assert list(found) == sorted(found)
    assert found[0] < 10.0
    assert found[-1] > 990.0
    assert sum(found) / len(found) == pytest.approx(500.5, rel=0.01)

"""What jobs and tasks use, as rows in an order."""

from __future__ import annotations

import math

import pytest

from tests.unit.client.world import APPLICATION, status, task
from yarnam.client.monitor.live.live_jobs import LiveJob
from yarnam.client.monitor.live.usage_rows import (
    STALE_S,
    JobUse,
    UsageOrder,
    age_of,
    in_order,
    job_use,
    task_uses,
)
from yarnam.core.model.job_status import JobState, PredictedEnd
from yarnam.core.model.metrics import Measured


def used(**usage: float) -> tuple[tuple[str, Measured], ...]:
    return tuple((name, Measured(value)) for name, value in usage.items())


def test_a_job_is_the_sum_of_its_tasks_and_the_mean_of_its_gpus() -> None:
    tasks = (
        task("a", (0, 1, 2), gpu_ids=("0", "1", "2"), memory_limit_bytes=1000,
             usage=used(gpu_percent=40, memory_bytes=100, cpu_cores=1)),
        task("b", (3,), gpu_ids=("0",), memory_limit_bytes=1000,
             usage=used(gpu_percent=80, memory_bytes=300, gpu_memory_bytes=7, gpu_watts=50)),
        task("c", (4,), gpu_ids=("1",), memory_limit_bytes=1000),
    )  # fmt: skip
    use = job_use(LiveJob(status(tasks=tasks, at_s=1.0), 1.0), 2.0)
    assert use.gpus == 5
    assert use.gpu_percent == 50.0
    assert (use.memory_bytes, use.memory_limit_bytes, use.memory_share) == (400, 2000, 0.2)
    assert (use.cpu_cores, use.gpu_memory_bytes, use.step) == (1, 7, None)
    assert use.gpu_watts == 50


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_what_is_no_amount_is_not_shown(value: float) -> None:
    job = LiveJob(status(tasks=(task("a", (0,), usage=used(cpu_cores=value)),)), 1.0)
    assert task_uses(job)[0].cpu_cores is None
    assert job_use(job, 1.0).cpu_cores is None


def test_tasks_are_in_the_order_of_ranks() -> None:
    tasks = (task("none", ()), task("b", (8,)), task("a", (0,)))
    assert [row.id for row in task_uses(LiveJob(status(tasks=tasks), 1.0))] == ["a", "b", "none"]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (None, "abcd"),
        (UsageOrder.NAME, "dcba"),
        (UsageOrder.GPU, "bacd"),
        (UsageOrder.MEMORY, "cbad"),
        (UsageOrder.CPU, "abcd"),
        (UsageOrder.STEP, "dabc"),
        (UsageOrder.RATE, "abcd"),
        (UsageOrder.GPU_MEMORY, "abcd"),
    ],
)
def test_the_most_comes_first_and_the_unknown_last(order: UsageOrder | None, expected: str) -> None:
    rows = [
        JobUse("a", "4", "", gpu_percent=5.0, memory_bytes=1.0, memory_limit_bytes=10.0),
        JobUse("b", "3", "", gpu_percent=9.0, memory_bytes=2.0, memory_limit_bytes=10.0),
        JobUse("c", "2", "", gpu_percent=0.0, memory_bytes=1.0, memory_limit_bytes=2.0),
        JobUse("d", "1", "", step=0, memory_bytes=99.0),
    ]
    assert "".join(row.id for row in in_order(rows, order)) == expected


def test_one_reading_shows_the_rate_of_the_forecast() -> None:
    end = PredictedEnd(steps_left=50, end_at_s=125.0)
    job = LiveJob(status(at_s=100.0, step=1, predicted_end=end), 0.0)
    assert job_use(job, 100.0).steps_per_s == 2.0
    late = LiveJob(status(at_s=130.0, step=1, predicted_end=end), 0.0)
    assert job_use(late, 130.0).steps_per_s is None


def test_only_old_figures_have_an_age() -> None:
    assert age_of(LiveJob(status(), 100.0), 100.0 + STALE_S / 2) is None
    assert age_of(LiveJob(status(), 100.0), 100.0 + STALE_S) == STALE_S
    assert age_of(LiveJob(status(is_last_known=True), 100.0), 101.0) == 1.0
    assert age_of(LiveJob(status(), 0.0), 101.0) == math.inf
    assert age_of(LiveJob(status(JobState.QUEUED), 0.0), 101.0) is None
    assert job_use(LiveJob(status(reason="why"), 1.0), 100.0).reason == "why"
    assert job_use(LiveJob(status(), 0.0), 1.0).id == APPLICATION

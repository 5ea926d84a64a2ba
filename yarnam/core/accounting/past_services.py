"""The attained services of a queue's past jobs, as a setting of a policy."""

from __future__ import annotations

from collections.abc import Iterable

from yarnam.core.accounting.job_summary import JobSummary
from yarnam.core.model.job_status import JobState

LEAST_JOBS = 20
"""Fewer jobs do not show how long others run. The figure is our own choice."""

MOST_SAMPLES = 200
"""This many quantiles stand for all: each ApplicationMaster of the queue reads them."""


def past_services(rows: Iterable[JobSummary], queue: str) -> tuple[float, ...]:
    """GPU-seconds of the queue's jobs that ended on their own, in ascending order, or as many
    quantiles of them; empty if there were too few."""
    had = sorted(
        row.held_gpu_s
        for row in rows
        if row.queue == queue and row.state != JobState.CANCELLED.value and row.held_gpu_s > 0.0
    )
    if len(had) < LEAST_JOBS:
        return ()
    count = min(len(had), MOST_SAMPLES)
    picked = (had[(2 * place + 1) * len(had) // (2 * count)] for place in range(count))
    return tuple(float(f"{one:.4g}") for one in picked)

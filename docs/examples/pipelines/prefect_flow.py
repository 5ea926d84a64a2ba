"""A Prefect flow by plain code: a retry of the task follows the job that has started already."""

from __future__ import annotations

from typing import Any

from prefect import flow, task
from prefect.runtime import task_run

import yarnam
from yarnam.errors import YarnamError


def should_retry(_task: object, _run: object, state: Any) -> bool:
    """Only what another try can mend: no GPUs, or a cluster that failed."""
    error = state.result(raise_on_failure=False)
    return isinstance(error, YarnamError) and error.retryable


@task(retries=3, retry_delay_seconds=600, retry_condition_fn=should_retry)
def train(day: str) -> str:
    """The URI of the job's output."""
    with yarnam.Client() as client:
        job = client.submit("train.yaml", idempotency_key=f"{day}/{task_run.run_count}")
        job.wait(raise_on_failure=True)
        return job.record().job.output


@flow
def nightly(day: str) -> None:
    print(train(day))


if __name__ == "__main__":
    nightly("2026-11-21")

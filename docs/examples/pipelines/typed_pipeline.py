"""Trains three times with different learning rates, and says which came out best.

Editors complete the keys of the specs, and ``mypy --strict`` checks them.
"""

from __future__ import annotations

import asyncio
import sys

import yarnam
from yarnam.core.model.job_status import JobStatus
from yarnam.spec.typed_dicts import JobDict

RATES = (0.1, 0.03, 0.01)


def spec_of(rate: float) -> JobDict:
    return {
        "version": 1,
        "name": f"digits-{rate:g}",
        "queue": "root.dl",
        "command": ["python3", "train.py", "--rate", rate],
        "gpus": 2,
        "memory_per_gpu": "8GiB",
        "gang": {"hold_timeout": "2min"},
        "tags": ["sweep:rates"],
    }


async def train(client: yarnam.AsyncClient, rate: float) -> tuple[float, float | None]:
    """The rate and the last loss that the job reported."""
    job = await client.submit(spec_of(rate))
    seen: list[JobStatus] = []
    await job.wait(timeout_s=6 * 3600, raise_on_failure=True, on_status=seen.append)
    losses = [status.loss for status in seen if status.loss is not None]
    return rate, losses[-1] if losses else None


async def main() -> int:
    async with yarnam.AsyncClient() as client:
        try:
            results = await asyncio.gather(*(train(client, rate) for rate in RATES))
        except yarnam.JobEnded as error:
            print(f"{error.application}: {error.verdict.message}", file=sys.stderr)
            return int(error.exit_code)
    for rate, loss in sorted(results, key=lambda one: float("inf") if one[1] is None else one[1]):
        print(f"{rate:g}: {'no loss reported' if loss is None else f'{loss:.4f}'}")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

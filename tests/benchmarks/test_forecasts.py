"""Whether start forecasts hold, in simulated worlds and in a replayed trace, now and by the rule
before. More seeds: ``python -m tests.benchmarks.forecast_sweep``."""

from __future__ import annotations

import pytest

from tests.benchmarks.forecast_sweep import WORLDS, holds, table

pytestmark = [pytest.mark.benchmark, pytest.mark.sim, pytest.mark.timeout(3600)]

SEEDS = {"together": 8, "replayed": 8, "declared": 16, "alike": 16}
"""Else 4. Of the 70 to 100 jobs that four seeds have of the last two, 84 and 96 % is chance."""
LEAST, MOST = 0.85, 0.95
"""Of all jobs of one kind of world: single worlds of a few dozen jobs differ by more. Of replayed
traces four seeds alone may be off by ten per cent."""


@pytest.mark.parametrize("world", WORLDS)
def test_nine_of_ten_jobs_start_by_the_latest_time_that_was_forecast(world: str) -> None:
    row = holds(world, range(SEEDS.get(world, 4)))
    print(f"\n\n{table([row])}")
    assert LEAST <= row.by_latest <= MOST

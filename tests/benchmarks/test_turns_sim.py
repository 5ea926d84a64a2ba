"""The order of those that wait, over several seeds: two bars, each a ratio within the same run.
The full sweep is ``python -m tests.benchmarks.turns_sweep``."""

from __future__ import annotations

import pytest

from tests.benchmarks.turns_sweep import sweep, table

pytestmark = [pytest.mark.benchmark, pytest.mark.sim, pytest.mark.timeout(1800)]

IDLE_LIMIT = 0.001


@pytest.mark.parametrize("load", [0.9, 2.0])
def test_waits_with_tickets_beside_those_without_and_the_central_ones(load: float) -> None:
    rows = sweep(load, 0.5, (3, 7), cache=None)
    print(f"\n\n{table(load, 0.5, rows)}")
    for row in rows:
        assert row.tickets.idle_share < IDLE_LIMIT

"""What waiting jobs ask of a ZooKeeper and a ResourceManager that were restarted: the most calls of
one second, in virtual time. The jobs run the product's code; the servers only count
(``tests.fakes.returning_jobs``).

``YARNAM_BENCH_JOBS`` (300) chooses how many jobs wait; "before" is known for 300: then each retry
polled the ResourceManager, and each look read all new tickets.
"""

from __future__ import annotations

import os

import pytest

from tests.unit.am.test_returning_jobs import Rates, restart

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

JOBS = int(os.environ.get("YARNAM_BENCH_JOBS", "300"))
BEFORE = {
    ("zookeeper", "zookeeper"): (0, 8082),
    ("zookeeper", "rm"): (150, 156),
    ("rm", "rm"): (150, 52),
}
"""By what was restarted and what was asked: most calls of a second while it was away, and after."""


@pytest.mark.parametrize(("server", "away_s"), [("zookeeper", 12.0), ("rm", 40.0)])
def test_the_first_minute(server: str, away_s: float) -> None:
    found = restart(server, away_s, JOBS)
    for asked in ("zookeeper", "rm"):
        now: Rates = getattr(found, asked)
        print(
            f"\n{JOBS} jobs, {server} restarted: most calls of {asked} in a second: quiet"
            f" {now.before}, while it was away {now.away}, in the first minute {now.after}"
        )
        before = BEFORE.get((server, asked)) if JOBS == 300 else None
        if before is not None:
            away, after = before
            ratios = away / max(1, now.away), after / now.after
            print("  before / now: {:.1f} away, {:.1f} after".format(*ratios))

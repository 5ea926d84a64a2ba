"""The same gangs through yarnam and through stock Skein on the real cluster, with the same kills.

Stock Skein has no gangs: what a user writes is a script that waits for the others. Times, and the
share of GPU-seconds that were held by gangs that were not complete, are by the ResourceManager's
log. Each side has the same limit.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.fault_world import MARKS, FaultWorld
from tests.integration.gang_load import (
    Load,
    run_raw,
    run_yarnam,
    three_on_eight,
    twenty_on_thirty_two,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarnam.cluster import EmbeddedCluster

pytestmark = [
    *MARKS,
    pytest.mark.benchmark,
    pytest.mark.timeout(3600),
    # Skein's client leaves the log of its driver open.
    pytest.mark.filterwarnings(
        "ignore:.*FileIO name='/dev/null':pytest.PytestUnraisableExceptionWarning"
    ),
]

LIMIT_S = float(os.environ.get("YARNAM_BENCH_LIMIT_S", "420"))
SEED = int(os.environ.get("YARNAM_BENCH_SEED", "4"))


@pytest.fixture(scope="module")
def world(
    cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FaultWorld]:
    found = FaultWorld(cluster, tmp_path_factory.mktemp("load"))
    yield found
    found.end_all()
    found.close()


@pytest.mark.parametrize("case", ["three-on-eight", "twenty-on-thirty-two"])
def test_gangs_against_raw_skein(case: str, world: FaultWorld, tmp_path: Path) -> None:
    node = world.cluster.nodes[0].address
    load: Load = three_on_eight(node) if case.startswith("three") else twenty_on_thirty_two(SEED)
    ours = run_yarnam(world, load, tmp_path / "yarnam", LIMIT_S, SEED)
    raw = run_raw(world, load, tmp_path / "raw", LIMIT_S, SEED)
    print(f"\n{case}, seed {SEED}, at most {LIMIT_S:.0f} s each")
    for outcome in (ours, raw):
        print(outcome)
        for line in (*outcome.failed, *outcome.stuck, *outcome.hits):
            print(f"      {line}")
    assert ours.left == raw.left == []
    assert ours.partial == []

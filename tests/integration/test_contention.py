"""Gangs that contend for a real cluster's GPUs: all of them run, none of them ever in part."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.fault_world import MARKS
from tests.integration.gang_load import run_yarnam, three_on_eight, twenty_on_thirty_two

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from tests.integration.gang_load import Outcome

pytestmark = [*MARKS, pytest.mark.zookeeper, pytest.mark.timeout(900)]

LIMIT_S = 240.0


def assert_all_ended_well(outcome: Outcome) -> None:
    print(f"\n{outcome}")
    for hit in outcome.hits:
        print(f"    {hit}")
    assert outcome.failed == []
    assert outcome.stuck == []
    assert outcome.partial == [], "a gang started with less than all of its GPUs"
    assert outcome.left == [], "by the ResourceManager's records"


@pytest.mark.long
@pytest.mark.shapes
def test_three_gangs_of_four_on_eight_gpus(world: FaultWorld, tmp_path: Path) -> None:
    node = world.cluster.nodes[0]
    assert node.gpus == 8
    assert_all_ended_well(run_yarnam(world, three_on_eight(node.address), tmp_path, LIMIT_S))


@pytest.mark.chaos
def test_twenty_gangs_of_two_queues_with_random_kills(world: FaultWorld, tmp_path: Path) -> None:
    seed = int(os.environ.get("YARNAM_CHAOS_SEED", time.time_ns() % 1_000_000))
    print(f"\nseed {seed}")
    outcome = run_yarnam(world, twenty_on_thirty_two(seed), tmp_path, 3 * LIMIT_S, seed)
    assert_all_ended_well(outcome)

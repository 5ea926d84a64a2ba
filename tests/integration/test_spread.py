"""A gang whose tasks must not share a node gets its nodes at the first attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.fault_world import MARKS
from yarnam.core.model.events import ContainerGranted
from yarnam.core.model.outcomes import VerdictKind

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld

pytestmark = [*MARKS, pytest.mark.timeout(600)]


def test_a_spread_gang_of_all_nodes(world: FaultWorld) -> None:
    world.until_nodes_are_back()
    job = world.submit(
        "spread", "true", worker={"tasks": 4, "gpus": 1}, placement={"strategy": "spread"}
    )
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED
    grants = world.events(job, ContainerGranted)
    assert len({grant.node for grant in grants}) == 4
    assert len(grants) == 4, "none was given back"
    assert job.status().attempt == 1
    world.assert_cleared(job)

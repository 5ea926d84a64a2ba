"""The model of the Fair Scheduler's shares against a real ResourceManager.

One allocation file has many configurations side by side: each is a tree below a queue whose minimum
is its maximum, which therefore has exactly that much, whatever the others have. Jobs whose queue
lets no ApplicationMaster start make queues active and use nothing.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.queue_files import left_after, live, more_queues
from tests.integration.queue_trees import tree
from tests.integration.submit_world import SubmitWorld
from yarnam.adapters.yarn.allocation_xml import load_allocations
from yarnam.adapters.yarn.rest_parse import YarnApplication
from yarnam.core.model.resources import Resources
from yarnam.core.queues.fair_share import instantaneous_shares, steady_shares

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

pytestmark = [pytest.mark.yarn, pytest.mark.long]

CONFIGURATIONS = 60
ACTIVE = 60
SEED = 20
SIZE = Resources(2_000_000, 4000, 900)
"""No configuration has more."""


@pytest.fixture
def world(cluster: EmbeddedCluster, cluster_env: dict[str, str], tmp_path: Path) -> SubmitWorld:
    return SubmitWorld(tmp_path, cluster_env, cluster.conf_dir)


def activate(world: SubmitWorld, queue: str) -> str:
    application = world.rm.new_application()
    context: dict[str, Any] = {
        "application-id": application,
        "application-name": "holds-a-share",
        "queue": queue,
        "application-type": "TEST",
        "am-container-spec": {"commands": {"command": "true"}},
        "resource": {"memory": 128, "vCores": 1},
        "application-tags": {"tag": []},
    }
    world.rm.submit_application(context)
    return application


def reports(world: SubmitWorld, jobs: list[str]) -> list[YarnApplication]:
    return [one for one in world.rm.applications() if one.application in jobs]


def accepted(world: SubmitWorld, jobs: list[str]) -> set[str]:
    """The queues whose job may run: YARN refuses one whose AM is larger than its queue."""
    decided = {"ACCEPTED", "FAILED"}
    assert not left_after(
        lambda: [one for one in reports(world, jobs) if one.state not in decided], 30.0
    )
    return {one.queue for one in reports(world, jobs) if one.state == "ACCEPTED"}


def test_shares_are_those_of_the_resource_manager(
    cluster: EmbeddedCluster, cluster_env: dict[str, str], world: SubmitWorld
) -> None:
    dice = random.Random(SEED)
    queues = "".join(
        tree(dice, f"c{number}", SIZE, max_am_share=0.0) for number in range(CONFIGURATIONS)
    )
    jobs: list[str] = []
    with more_queues(cluster, cluster_env, queues):
        try:
            root = load_allocations(cluster.plan.paths.queues("fair")).root
            mine = [queue.name for queue in root.leaves() if queue.name.startswith("root.c")]
            size = live(world.rm).steady_share
            jobs += [activate(world, queue) for queue in dice.sample(mine, ACTIVE)]
            active = accepted(world, jobs)
            steady = steady_shares(root, size)
            now = instantaneous_shares(root, size, active)

            def different() -> list[Any]:
                return [
                    (queue.name, queue.steady_share, steady[queue.name], queue.fair_share,
                     now[queue.name])
                    for queue in live(world.rm).walk()
                    if (queue.steady_share, queue.fair_share)
                    != (steady[queue.name], now[queue.name])
                ]  # fmt: skip

            assert not left_after(different, 20.0)
            assert {queue.name for queue in live(world.rm).walk()} == set(steady)
            print(f"{CONFIGURATIONS} configurations, {len(now)} queues, {len(active)} active")
        finally:
            for application in jobs:
                world.rm.kill(application)
            assert not left_after(
                lambda: [one.application for one in reports(world, jobs) if not one.is_over], 30.0
            )

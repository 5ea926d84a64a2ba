"""What the doctor makes of the ResourceManager's settings of the Fair Scheduler."""

from __future__ import annotations

import pytest

from yarnam.client.doctor.cluster_checks import check_container_assignment
from yarnam.client.doctor.finding import Health

FAIR = {
    "yarn.resourcemanager.scheduler.class": (
        "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fair.FairScheduler"
    )
}
MULTIPLE = {**FAIR, "yarn.scheduler.fair.assignmultiple": "true"}
AT_ONCE = {**MULTIPLE, "yarn.scheduler.fair.dynamic.max.assign": "false"}


@pytest.mark.parametrize(
    ("settings", "health", "says"),
    [
        (FAIR, Health.WARN, "one container per node heartbeat"),
        (MULTIPLE, Health.OK, "half of what a node has free"),
        (AT_ONCE, Health.OK, "as many containers per node heartbeat as fit"),
        ({**AT_ONCE, "yarn.scheduler.fair.max.assign": "4"}, Health.OK, "at most 4"),
        (
            {"yarn.resourcemanager.scheduler.class": "x.CapacityScheduler"},
            Health.OK,
            "not the Fair",
        ),
        ({}, Health.OK, "not the Fair"),
    ],
)
def test_how_soon_a_node_is_filled(settings: dict[str, str], health: Health, says: str) -> None:
    found = check_container_assignment(settings)
    assert found.health is health
    assert says in found.message
    assert bool(found.hint) == (health is Health.WARN)

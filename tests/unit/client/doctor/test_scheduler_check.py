"""What the doctor makes of the ResourceManager's settings of its scheduler."""

from __future__ import annotations

import pytest

from yarnam.client.doctor.finding import Health
from yarnam.client.doctor.scheduler_settings import check_scheduler

FAIR = {
    "yarn.resourcemanager.scheduler.class": (
        "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fair.FairScheduler"
    )
}
MULTIPLE = {**FAIR, "yarn.scheduler.fair.assignmultiple": "true"}
AT_ONCE = {**MULTIPLE, "yarn.scheduler.fair.dynamic.max.assign": "false"}
CAPACITY = {"yarn.resourcemanager.scheduler.class": "x.capacity.CapacityScheduler"}
MONITOR = "yarn.resourcemanager.scheduler.monitor.enable"


@pytest.mark.parametrize(
    ("settings", "health", "says"),
    [
        (FAIR, Health.WARN, "one container per node heartbeat"),
        (MULTIPLE, Health.OK, "half of what a node has free"),
        (AT_ONCE, Health.OK, "as many containers per node heartbeat as fit"),
        ({**AT_ONCE, "yarn.scheduler.fair.max.assign": "4"}, Health.OK, "at most 4"),
        (CAPACITY, Health.OK, "Capacity Scheduler without preemption"),
        ({}, Health.OK, "Capacity Scheduler without preemption"),
        ({**CAPACITY, MONITOR: "true"}, Health.OK, "Capacity Scheduler with preemption"),
        (
            {
                **CAPACITY,
                "yarn.scheduler.capacity.resource-calculator": "x.DefaultResourceCalculator",
            },
            Health.WARN,
            "memory alone",
        ),
        (
            {"yarn.resourcemanager.scheduler.class": "x.fifo.FifoScheduler"},
            Health.WARN,
            "fifoscheduler has no queues",
        ),
    ],
)
def test_how_soon_a_node_is_filled(settings: dict[str, str], health: Health, says: str) -> None:
    found = check_scheduler(settings)
    assert found.health is health
    assert says in found.message
    assert bool(found.hint) == (health is Health.WARN)

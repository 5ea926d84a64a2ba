"""What the doctor makes of the ResourceManager's settings of its scheduler."""

from __future__ import annotations

import pytest

from yarnam.client.doctor.finding import Health
from yarnam.client.doctor.scheduler_settings import check_capacity, check_scheduler
from yarnam.core.queues.capacity.capacity_file import Setting, config_of

FAIR = {
    "yarn.resourcemanager.scheduler.class": (
        "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fair.FairScheduler"
    )
}
MULTIPLE = {**FAIR, "yarn.scheduler.fair.assignmultiple": "true"}
AT_ONCE = {**MULTIPLE, "yarn.scheduler.fair.dynamic.max.assign": "false"}
CAPACITY = {"yarn.resourcemanager.scheduler.class": "x.capacity.CapacityScheduler"}
PREEMPTION = "yarn.resourcemanager.monitor.capacity.preemption"
ROUND, WAIT = (
    f"{PREEMPTION}.{end}" for end in ("total_preemption_per_round", "max_wait_before_kill")
)
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


def test_the_queues_as_they_are_reported_are_judged_as_a_file() -> None:
    prefix = "yarn.scheduler.capacity.root"
    given = {
        f"{prefix}.queues": "dl",
        f"{prefix}.dl.capacity": "100",
        f"{prefix}.dl.maximum-allocation": "memory-mb=8192,vcores=4,yarn.io/gpu=0",
        "yarn.scheduler.capacity.resource-calculator": "x.DominantResourceCalculator",
    }
    config = config_of([Setting(name, text) for name, text in given.items()])
    found = check_capacity(config, {MONITOR: "false"}, ())
    assert found is not None
    assert found.health is Health.WARN
    assert "containers of root.dl have at most 0 GPUs; the preemption monitor" in found.message
    good = config_of([Setting(n, t) for n, t in given.items() if "allocation" not in n])
    assert check_capacity(good, {MONITOR: "true", ROUND: "1", WAIT: "90000"}, ()) is None

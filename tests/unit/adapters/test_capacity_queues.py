"""The Capacity Scheduler's queues, from replies as Hadoop 3.4.1 writes them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.test_cluster_view_contract import resource
from yarnam.adapters.yarn.queue_tree import capacity_config_of, queue_tree_of
from yarnam.adapters.yarn.rest_parse import nodes_of, preempts, queues_of, scheduler_of
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import Scheduler
from yarnam.core.queues.capacity import CapacityInput, lint_capacity

UNBOUND = 9223372036854775807
CLUSTER = (262144, 256, 16)

Amount = tuple[int, int, int]


def queue(
    path: str,
    *below: dict[str, Any],
    least: Amount = (13107, 12, 0),
    most: Amount = CLUSTER,
    used: Amount = (0, 0, 0),
    partitions: dict[str, tuple[Amount, Amount]] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """One queue of the scheduler page; ``partitions``: capacity and maximum in those with a
    label."""
    found = {"": (least, most), **(partitions or {})}
    return {
        "queuePath": path,
        "queueName": path.rpartition(".")[2],
        "resourcesUsed": resource(*used),
        "capacities": {
            "queueCapacitiesByPartition": [
                {
                    "partitionName": name,
                    "effectiveMinResource": resource(*one),
                    "effectiveMaxResource": resource(*other),
                }
                for name, (one, other) in found.items()
            ]
        },
        "resources": {
            "resourceUsagesByPartition": [{"partitionName": "", "used": resource(*used)}]
        },
        "maximumAllocation": resource(65536, 64, UNBOUND),
        "maxParallelApps": 2147483647,
        "numActiveApplications": 1,
        "numPendingApplications": 2,
        "preemptionDisabled": False,
        **({"queues": {"queue": list(below)}} if below else {}),
        **more,
    }


def page(*below: dict[str, Any]) -> dict[str, Any]:
    root = queue("root", *below, least=CLUSTER)
    return {"scheduler": {"schedulerInfo": {"type": "capacityScheduler", **root}}}


def test_a_queue_is_sure_of_its_capacity_and_kept_to_its_maximum() -> None:
    small = queue("root.small", most=(32768, 32, 2), used=(1024, 1, 1))
    (found,) = queues_of(page(small))
    assert found.name == "root.small"
    assert found.minimum == found.fair_share == found.steady_share == Resources(13107, 12, 0)
    assert found.maximum == Resources(32768, 32, 2)
    assert found.used == Resources(1024, 1, 1)
    assert found.headroom == Resources(31744, 31, 1)
    assert found.max_container is not None
    assert found.max_container.memory_mib == 65536
    assert (found.running_jobs, found.pending_jobs, found.max_running_jobs) == (1, 2, None)
    assert found.is_preemptable


def test_as_much_as_the_cluster_has_is_no_limit() -> None:
    (found,) = queues_of(page(queue("root.dl", preemptionDisabled=True, maxParallelApps=3)))
    assert found.maximum is None
    assert found.headroom is None
    assert not found.is_preemptable
    assert found.max_running_jobs == 3


def test_limits_above_bind_the_queues_below() -> None:
    team = queue(
        "root.team",
        queue("root.team.a", most=(131072, 128, 8), used=(0, 0, 1)),
        queue("root.team.b", most=(65536, 64, 2), used=(0, 0, 2)),
        most=(131072, 128, 4),
        used=(0, 0, 3),
    )
    first, second = queues_of(page(team))
    assert (first.name, second.name) == ("root.team.a", "root.team.b")
    assert first.maximum is not None
    assert second.maximum is not None
    assert (first.maximum.gpus, second.maximum.gpus) == (4, 2)
    assert first.headroom is not None
    assert second.headroom is not None
    assert (first.headroom.gpus, second.headroom.gpus) == (1, 0)


def test_each_partition_has_capacities_of_its_own() -> None:
    ml = queue("root.ml", partitions={"gpu": ((100, 10, 4), (200, 20, 6))})
    info = page(ml)
    root = info["scheduler"]["schedulerInfo"]["capacities"]["queueCapacitiesByPartition"]
    root.append({"partitionName": "gpu", "effectiveMaxResource": resource(400, 40, 8)})
    (found,) = queues_of(info, "gpu")
    assert found.minimum == Resources(100, 10, 4)
    assert found.maximum == Resources(200, 20, 6)
    assert found.used == Resources()
    (elsewhere,) = queues_of(info, "")
    assert elsewhere.maximum is None
    tree = queue_tree_of(info, "gpu")
    assert tree is not None
    assert tree.children[0].maximum == Resources(200, 20, 6)
    assert tree.children[0].minimum == Resources(100, 10, 4)


def test_a_user_has_so_many_times_the_capacity() -> None:
    row = queue("root.dl", least=(65536, 64, 4), userLimitFactor=2.0)
    (found,) = queues_of(page(row))
    assert found.user_limit == Resources(131072, 128, 8)
    users = {"user": [{"username": "ada", "resourcesUsed": resource(1024, 1, 2)}]}
    (used,) = queues_of(page({**row, "users": users}))
    assert used.used_by == (("ada", Resources(1024, 1, 2)),)
    (free,) = queues_of(page({**row, "userLimitFactor": -1.0, "users": users}))
    assert free.used_by == ()
    (large,) = queues_of(page({**row, "userLimitFactor": 4.0}))
    assert free.user_limit is large.user_limit is None


def test_a_capacity_below_one_gpu_is_no_limit_of_zero() -> None:
    """YARN compares by the largest part of the cluster."""
    (found,) = queues_of(page(queue("root.dl", least=(13107, 12, 0), userLimitFactor=10.0)))
    assert found.user_limit == Resources(131070, 127, 7)


def test_the_tree_has_what_the_queues_use_and_may() -> None:
    user = {"username": "ada", "resources": {"resourceUsagesByPartition": [
        {"partitionName": "", "used": resource(1024, 1, 2)}]}}  # fmt: skip
    leaf = queue(
        "root.dl", least=(65536, 64, 4), used=(2048, 2, 3), userLimitFactor=1.0,
        orderingPolicyInfo="fifo", configuredMaxAMResourceLimit=0.2, users={"user": [user]},
    )  # fmt: skip
    usage = leaf["resources"]["resourceUsagesByPartition"][0]
    usage |= {
        "pending": resource(1024, 1, 4),
        "amUsed": resource(512, 1, 0),
        "amLimit": resource(4096, 4, 0),
    }
    report = page(leaf)
    del report["scheduler"]["schedulerInfo"]["resources"]
    root = queue_tree_of(report)
    assert root is not None
    assert (root.name, root.is_leaf, root.used) == ("root", False, Resources(2048, 2, 3))
    (found,) = root.children
    assert found.pending == Resources(1024, 1, 4)
    assert (found.am_used, found.am_limit) == (Resources(512, 1, 0), Resources(4096, 4, 0))
    assert (found.am_part, found.policy) == (0.2, "fifo")
    assert found.user_limit == Resources(65536, 64, 4)
    assert found.used_by == {"ada": Resources(1024, 1, 2)}


def test_the_settings_are_read_from_the_report() -> None:
    leaf = queue(
        "root.dl", capacity=100.0, maxCapacity=50.0, userLimitFactor=1.0, mode="percentage"
    )
    config = capacity_config_of(page(leaf))
    assert config is not None
    found = {one.rule for one in lint_capacity(CapacityInput(config))}
    assert found == {"maximum-below-capacity"}
    assert capacity_config_of({"scheduler": {"schedulerInfo": {"type": "fairScheduler"}}}) is None


def test_a_queue_without_a_partition_has_nothing_there() -> None:
    (found,) = queues_of(page(queue("root.dl")), "gpu")
    assert found.maximum == found.headroom == Resources()


def test_a_queue_without_capacities_has_no_limits() -> None:
    (found,) = queues_of(page({"queueName": "a", "resourcesUsed": resource(5, 1, 1)}))
    assert (found.name, found.used, found.maximum) == ("root.a", Resources(5, 1, 1), None)
    assert found.minimum is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fairScheduler", Scheduler.FAIR),
        ("capacityScheduler", Scheduler.CAPACITY),
        ("fifoScheduler", Scheduler.OTHER),
    ],
)
def test_which_scheduler_it_is(name: str, expected: Scheduler) -> None:
    assert scheduler_of({"scheduler": {"schedulerInfo": {"type": name}}}) is expected


def test_it_preempts_where_its_monitor_runs() -> None:
    name = {"key": "yarn.resourcemanager.scheduler.class", "value": "x.CapacityScheduler"}
    monitor = {"key": "yarn.resourcemanager.scheduler.monitor.enable", "value": "true"}
    assert preempts({"properties": [name, monitor]})
    assert not preempts({"properties": [name]})


def test_a_node_of_hadoop_3_1_has_no_total() -> None:
    row = {
        "id": "n1:8041",
        "state": "RUNNING",
        "usedMemoryMB": 1024,
        "availMemoryMB": 3072,
        "usedResource": resource(1024, 1, 1),
        "availableResource": resource(3072, 3, 3),
    }
    (found,) = nodes_of({"nodes": {"node": [row]}})
    assert (found.total, found.used) == (Resources(4096, 4, 4), Resources(1024, 1, 1))

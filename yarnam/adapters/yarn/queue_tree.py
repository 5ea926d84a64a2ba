"""The queues from the ResourceManager's scheduler report. Pure."""

from __future__ import annotations

from hdfs_utils.errors import MalformedData
from yarnam.adapters.yarn.capacity_queues import MAX_DEPTH, capacity_tree
from yarnam.adapters.yarn.json_values import (
    GPU_RESOURCE,
    UNLIMITED,
    Json,
    limit_of,
    object_of,
    resources_of,
    rows_of,
    text_of,
    whole_of,
)
from yarnam.core.queues.capacity.capacity_file import (
    CAPACITY,
    DOMINANT,
    CapacityConfig,
    Setting,
    config_of,
)
from yarnam.core.queues.queue_state import QueueState


def queue_tree_of(json: Json, node_label: str = "") -> QueueState | None:
    """The root queue with all below it, as they are in one partition (Capacity Scheduler); ``None``
    means the scheduler is another one. Raises MalformedData."""
    info = object_of(object_of(json, "scheduler"), "schedulerInfo")
    if info.get("type") == "capacityScheduler":
        return capacity_tree(info, node_label)
    if info.get("type") != "fairScheduler":
        return None
    return _state(object_of(info, "rootQueue"), MAX_DEPTH)


def _state(row: Json, depth: int) -> QueueState:
    if not depth:
        raise MalformedData(f"queues are nested deeper than {MAX_DEPTH}")
    is_leaf = row.get("type") == "fairSchedulerLeafQueueInfo"
    below = () if is_leaf else rows_of(row, "childQueues", "queue")
    children = tuple(_state(child, depth - 1) for child in below)
    max_jobs = whole_of(row, "maxApps", UNLIMITED)

    def amounts(key: str) -> Json:
        return object_of(row, key)

    return QueueState(
        name=text_of(row, "queueName"),
        policy=text_of(row, "schedulingPolicy").lower(),
        steady_share=resources_of(amounts("steadyFairResources")),
        fair_share=resources_of(amounts("fairResources")),
        minimum=resources_of(amounts("minResources")),
        maximum=resources_of(amounts("maxResources")),
        max_container=limit_of(amounts("maxContainerAllocation")),
        used=resources_of(amounts("usedResources")),
        demand=resources_of(amounts("demandResources")),
        am_used=resources_of(amounts("amUsedResources")),
        am_limit=resources_of(amounts("amMaxResources")),
        pending_containers=whole_of(row, "pendingContainers"),
        reserved_containers=whole_of(row, "reservedContainers"),
        running_jobs=whole_of(row, "numActiveApps")
        if is_leaf
        else sum(child.running_jobs for child in children),
        pending_jobs=whole_of(row, "numPendingApps")
        if is_leaf
        else sum(child.pending_jobs for child in children),
        max_jobs=max_jobs if max_jobs < UNLIMITED else None,
        is_preemptable=row.get("preemptable") is not False,
        children=children,
        is_leaf=is_leaf,
    )


def capacity_config_of(json: Json) -> CapacityConfig | None:
    """The Capacity Scheduler's settings in the report, as its file would have them; ``None`` for
    another scheduler. Raises MalformedData."""
    info = object_of(object_of(json, "scheduler"), "schedulerInfo")
    if info.get("type") != "capacityScheduler":
        return None
    # With the default calculator no ResourceManager starts that knows GPUs.
    settings = [Setting(f"{CAPACITY}.resource-calculator", DOMINANT)]
    _add_settings(info, "root", settings, MAX_DEPTH)
    return config_of(settings)


def _add_settings(row: Json, path: str, settings: list[Setting], depth: int) -> None:
    if not depth:
        raise MalformedData(f"queues are nested deeper than {MAX_DEPTH}")
    own = f"{CAPACITY}.{path}"
    children = {text_of(child, "queueName"): child for child in rows_of(row, "queues", "queue")}
    if path != "root":
        settings += [Setting(f"{own}.{key}", text) for key, text in _capacities(row).items()]
    if children:
        settings.append(Setting(f"{own}.queues", ",".join(children)))
    else:
        settings += [
            Setting(f"{own}.{key}", text_of(row, field))
            for key, field in _LEAF_SETTINGS.items()
            if row.get(field) is not None
        ]
    for name, child in children.items():
        _add_settings(child, f"{path}.{name}", settings, depth - 1)


_LEAF_SETTINGS = {
    "user-limit-factor": "userLimitFactor",
    "minimum-user-limit-percent": "userLimit",
    "maximum-am-resource-percent": "configuredMaxAMResourceLimit",
    "ordering-policy": "orderingPolicyInfo",
    "maximum-applications": "maxApplications",
    "state": "state",
}


def _capacities(row: Json) -> dict[str, str]:
    """A queue's capacity and maximum, in the way in which they are configured; and the largest
    container."""
    largest = resources_of(object_of(row, "maximumAllocation"))
    found = {}
    if row.get("maximumAllocation") is not None:
        found["maximum-allocation"] = (
            f"memory-mb={largest.memory_mib},vcores={largest.vcores},{GPU_RESOURCE}={largest.gpus}"
        )
    mode = text_of(row, "mode")
    if mode == "weight":
        found["capacity"] = f"{text_of(row, 'weight')}w"
    elif mode in ("", "percentage"):
        found["capacity"] = text_of(row, "capacity")
        found["maximum-capacity"] = text_of(row, "maxCapacity")
    return {key: text for key, text in found.items() if text}

"""The Fair Scheduler's queues from the ResourceManager's scheduler report. Pure."""

from __future__ import annotations

from hdfs_utils.errors import MalformedData
from yarnam.adapters.yarn.json_values import (
    UNLIMITED,
    Json,
    limit_of,
    object_of,
    resources_of,
    rows_of,
    text_of,
    whole_of,
)
from yarnam.core.queues.queue_state import QueueState

MAX_DEPTH = 64
"""Queues within queues."""


def queue_tree_of(json: Json) -> QueueState | None:
    """The root queue with all below it; None: the scheduler is another one. Raises
    MalformedData."""
    info = object_of(object_of(json, "scheduler"), "schedulerInfo")
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

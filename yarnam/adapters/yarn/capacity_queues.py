"""The Capacity Scheduler's queues, from the ResourceManager's JSON to our values. Pure.

Resources are those of the partition without a label, unless another is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable

from yarnam.adapters.yarn.json_values import (
    UNLIMITED,
    Json,
    limit_of,
    object_of,
    own_limit,
    resources_of,
    rows_of,
    text_of,
    tighter,
    whole_of,
)
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import QueueView


def capacity_leaves(root: Json, partition: str = "") -> Iterable[QueueView]:
    """The leaf queues by their full names. ``root``: the ``schedulerInfo`` of the scheduler page.

    A queue's capacity (``effectiveMinResource``, since Hadoop 3.1) is what it is guaranteed:
    minimum, steady and fair share in one. Its maximum is ``effectiveMaxResource``, folded down the
    tree. The limit of one user (``user-limit-factor``) is none of the queue's: YARN lets a user
    pass it by one container.
    """
    cluster = _effective(root, "effectiveMaxResource", partition)
    yield from _leaves(root, "", None, None, cluster, partition)


def _leaves(
    row: Json,
    path: str,
    above: Resources | None,
    left_above: Resources | None,
    cluster: Resources | None,
    partition: str,
) -> Iterable[QueueView]:
    """``above``: the tightest maximum of the queues above, which binds this one too;
    ``left_above``: what the queues below have left of it."""
    name = text_of(row, "queuePath") or f"{path}.{text_of(row, 'queueName') or 'root'}".lstrip(".")
    used = _used(row, partition)
    own = own_limit(_effective(row, "effectiveMaxResource", partition), cluster)
    if own is None and partition and not _has(row, partition):
        own = Resources()  # the queue may not use these nodes at all
    maximum = tighter(above, own)
    left = tighter(left_above, own.minus(used) if own is not None else None)
    children = list(rows_of(row, "queues", "queue"))
    for child in children:
        yield from _leaves(child, name, maximum, left, cluster, partition)
    if children or not row.get("queueName"):
        return
    capacity = _effective(row, "effectiveMinResource", partition)
    most_jobs = whole_of(row, "maxParallelApps", UNLIMITED)
    yield QueueView(
        name=name,
        used=used,
        steady_share=capacity,
        fair_share=capacity,
        minimum=capacity,
        maximum=maximum,
        max_container=limit_of(object_of(row, "maximumAllocation")),
        running_jobs=whole_of(row, "numActiveApplications"),
        pending_jobs=whole_of(row, "numPendingApplications"),
        max_running_jobs=most_jobs if most_jobs < UNLIMITED else None,
        headroom=left,
        is_preemptable=row.get("preemptionDisabled") is not True,
    )


def _used(row: Json, partition: str) -> Resources:
    for usage in rows_of(row, "resources", "resourceUsagesByPartition"):
        if text_of(usage, "partitionName") == partition:
            return resources_of(object_of(usage, "used"))
    return Resources() if partition else resources_of(object_of(row, "resourcesUsed"))


def _has(row: Json, partition: str) -> bool:
    found = rows_of(row, "capacities", "queueCapacitiesByPartition")
    return any(text_of(each, "partitionName") == partition for each in found)


def _effective(row: Json, key: str, partition: str) -> Resources | None:
    """None where this Hadoop does not report it."""
    for each in rows_of(row, "capacities", "queueCapacitiesByPartition"):
        if text_of(each, "partitionName") == partition and each.get(key) is not None:
            return resources_of(object_of(each, key))
    return None

"""The Capacity Scheduler's queues, from the ResourceManager's JSON to our values. Pure.

Resources are those of the partition without a label, unless another is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from hdfs_utils.errors import MalformedData
from yarnam.adapters.yarn.json_values import (
    UNLIMITED,
    Json,
    limit_of,
    number_of,
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
from yarnam.core.queues.queue_state import QueueState

MAX_DEPTH = 64
"""Queues within queues."""


def capacity_leaves(root: Json, partition: str = "") -> Iterable[QueueView]:
    """The leaf queues by their full names. ``root``: the ``schedulerInfo`` of the scheduler page.

    A queue's capacity (``effectiveMinResource``, since Hadoop 3.1) is what it is guaranteed:
    minimum, steady and fair share in one. Its maximum is ``effectiveMaxResource``, folded down the
    tree. What one user may have is ``user-limit-factor`` times the capacity.
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
    name = _name(row, path)
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
    user_limit = _user_limit(row, capacity, cluster, tighter(maximum, cluster))
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
        user_limit=user_limit,
        used_by=() if user_limit is None else tuple(_used_by(row, partition).items()),
        is_preemptable=row.get("preemptionDisabled") is not True,
    )


def _user_limit(
    row: Json, capacity: Resources | None, cluster: Resources | None, most: Resources | None
) -> Resources | None:
    """``None`` where it does not bind: a negative factor does not limit, and neither does one that
    leaves a user all that the queue may have (``most``). YARN compares by the largest part of the
    cluster (``DominantResourceCalculator``), so a capacity of less than one GPU does not mean a
    limit of zero."""
    factor = number_of(row, "userLimitFactor", -1.0)
    if capacity is None or cluster is None or factor < 0:
        return None
    part = factor * max(
        capacity.memory_mib / max(1, cluster.memory_mib),
        capacity.vcores / max(1, cluster.vcores),
        capacity.gpus / max(1, cluster.gpus),
    )
    limit = Resources(
        int(cluster.memory_mib * part), int(cluster.vcores * part), int(cluster.gpus * part)
    )
    return None if (most or cluster).fits_in(limit) or not part else limit


def capacity_tree(root: Json, partition: str = "") -> QueueState:
    """All queues, as they are now. Raises MalformedData."""
    cluster = _effective(root, "effectiveMaxResource", partition)
    return _state(root, "", partition, cluster, MAX_DEPTH)


def _state(
    row: Json, path: str, partition: str, cluster: Resources | None, depth: int
) -> QueueState:
    if not depth:
        raise MalformedData(f"queues are nested deeper than {MAX_DEPTH}")
    name = _name(row, path)
    children = tuple(
        _state(child, name, partition, cluster, depth - 1)
        for child in rows_of(row, "queues", "queue")
    )
    usage = _usage(row, partition)
    capacity = _effective(row, "effectiveMinResource", partition) or Resources()
    maximum = _effective(row, "effectiveMaxResource", partition) or Resources()
    used = _used(row, partition)
    demand = used.plus(resources_of(object_of(usage, "pending")))
    if not usage:  # the page has none of the root queue
        used = reduce(Resources.plus, (child.used for child in children), used)
        demand = reduce(Resources.plus, (child.demand for child in children), demand)
    most_jobs = whole_of(row, "maxParallelApps", UNLIMITED)
    return QueueState(
        name=name,
        policy=text_of(row, "orderingPolicyInfo").lower(),
        steady_share=capacity,
        fair_share=capacity,
        minimum=capacity,
        maximum=maximum,
        max_container=limit_of(object_of(row, "maximumAllocation")),
        used=used,
        demand=demand,
        am_used=resources_of(object_of(usage, "amUsed")),
        am_limit=resources_of(object_of(usage, "amLimit")),
        am_part=None if children else number_of(row, "configuredMaxAMResourceLimit", 0.1),
        pending_containers=whole_of(row, "pendingContainers"),
        reserved_containers=whole_of(row, "reservedContainers"),
        running_jobs=sum(child.running_jobs for child in children)
        if children
        else whole_of(row, "numActiveApplications"),
        pending_jobs=sum(child.pending_jobs for child in children)
        if children
        else whole_of(row, "numPendingApplications"),
        max_jobs=most_jobs if most_jobs < UNLIMITED else None,
        user_limit=None if children else _user_limit(row, capacity, cluster, maximum),
        used_by=_used_by(row, partition),
        is_preemptable=row.get("preemptionDisabled") is not True,
        children=children,
        is_leaf=not children,
    )


def _name(row: Json, path: str) -> str:
    return text_of(row, "queuePath") or f"{path}.{text_of(row, 'queueName') or 'root'}".lstrip(".")


def _usage(row: Json, partition: str) -> Json:
    found = rows_of(row, "resources", "resourceUsagesByPartition")
    return next((one for one in found if text_of(one, "partitionName") == partition), {})


def _used(row: Json, partition: str) -> Resources:
    usage = _usage(row, partition)
    if usage or partition:
        return resources_of(object_of(usage, "used"))
    return resources_of(object_of(row, "resourcesUsed"))


def _used_by(row: Json, partition: str) -> dict[str, Resources]:
    """User to what he has; only those with applications there."""
    users = rows_of(row, "users", "user")
    return {text_of(user, "username"): _used(user, partition) for user in users}


def _has(row: Json, partition: str) -> bool:
    found = rows_of(row, "capacities", "queueCapacitiesByPartition")
    return any(text_of(each, "partitionName") == partition for each in found)


def _effective(row: Json, key: str, partition: str) -> Resources | None:
    """None where this Hadoop does not report it."""
    for each in rows_of(row, "capacities", "queueCapacitiesByPartition"):
        if text_of(each, "partitionName") == partition and each.get(key) is not None:
            return resources_of(object_of(each, key))
    return None

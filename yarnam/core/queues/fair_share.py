"""The Fair Scheduler's fair shares, as it computes them.

After ``ComputeFairShares`` of Hadoop 3.4 (the same results as those of 3.1 to 3.3 on clusters of
less than 2 PiB): each queue gets ``weight x R`` of a resource, but at least its minimum and at most
its maximum; R is found by bisection, with 25 halvings, so that the shares add up to the whole. The
rounding is part of the result: shares of a queue tree are compared with YARN's own to the unit.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Union

from yarnam.core.model.resources import Resources
from yarnam.core.queues.allocations import Policy, QueueConfig

_ITERATIONS = 25
"""COMPUTE_FAIR_SHARES_ITERATIONS"""


@dataclass(frozen=True, slots=True)
class Schedulable:
    """One queue's limits on one resource."""

    weight: float
    minimum: int
    maximum: int
    is_active: bool = True


def divide(total: int, queues: Sequence[Schedulable]) -> list[int]:
    """The share of each queue in ``total`` units of one resource."""
    shares = [_fixed_share(queue) for queue in queues]
    flexible = [queue for queue, share in zip(queues, shares, strict=True) if share is None]
    if not flexible:
        return [share or 0 for share in shares]
    left = max(0, total - sum(share for share in shares if share is not None))
    left = min(left, sum(queue.maximum for queue in flexible))
    ratio = _ratio(left, flexible)
    return [
        _share(queue, ratio) if share is None else share
        for queue, share in zip(queues, shares, strict=True)
    ]


def _fixed_share(queue: Schedulable) -> int | None:
    if queue.maximum <= 0 or not queue.is_active:
        return 0
    return max(0, queue.minimum) if queue.weight <= 0 else None


def _ratio(total: int, queues: Sequence[Schedulable]) -> float:
    high = 1.0
    while sum(_share(queue, high) for queue in queues) < total:
        high *= 2.0
    low = 0.0
    for _ in range(_ITERATIONS):
        middle = (low + high) / 2.0
        used = sum(_share(queue, middle) for queue in queues)
        if used == total:
            return middle
        if used < total:
            low = middle
        else:
            high = middle
    return high


def _share(queue: Schedulable, ratio: float) -> int:
    share = min(max(queue.weight * ratio, float(queue.minimum)), float(queue.maximum))
    return int(share)


Shares = Mapping[str, Resources]
"""Shares by the full names of the queues."""


def steady_shares(root: QueueConfig, cluster: Resources) -> Shares:
    """Every queue's share if all of them were in use."""
    return _shares(root, cluster, None)


def instantaneous_shares(root: QueueConfig, cluster: Resources, active: Collection[str]) -> Shares:
    """Every queue's share now. ``active``: the leaf queues with at least one job that may run
    (``FSQueue.isActive``); the others have nothing, and leave theirs to their siblings."""
    return _shares(root, cluster, frozenset(active))


def _shares(root: QueueConfig, cluster: Resources, active: frozenset[str] | None) -> Shares:
    found: dict[str, Resources] = {root.name: cluster}
    in_use = None if active is None else _active(root, active)

    def descend(parent: QueueConfig) -> None:
        below = parent.children
        bounds = [(queue, *bounds_of(queue, cluster)) for queue in below]
        whole = found[parent.name]

        def column(name: str) -> list[int]:
            return divide(
                int(getattr(whole, name)),
                [
                    Schedulable(
                        as_float32(queue.weight),
                        int(getattr(least, name)),
                        int(getattr(most, name)),
                        in_use is None or queue.name in in_use,
                    )
                    for queue, least, most in bounds
                ],
            )

        memory = column("memory_mib")
        is_drf = parent.policy is Policy.DRF
        # The policy `fair` divides memory and nothing else.
        vcores = column("vcores") if is_drf else [0] * len(below)
        gpus = column("gpus") if is_drf else [0] * len(below)
        for queue, *share in zip(below, memory, vcores, gpus, strict=True):
            found[queue.name] = Resources(*share)
            descend(queue)

    descend(root)
    return found


def _active(root: QueueConfig, active: frozenset[str]) -> frozenset[str]:
    """The active leaves and the queues above them."""
    names: set[str] = set()
    for name in active:
        while name:
            names.add(name)
            name = name.rpartition(".")[0]
    return frozenset(queue.name for queue in root.walk() if queue.name in names)


def bounds_of(queue: QueueConfig, cluster: Resources) -> tuple[Resources, Resources]:
    """Minimum and maximum: one below the minimum is raised to it (``FSQueue.getMaxShare``)."""
    least, most = queue.minimum, queue.maximum.of(cluster)
    return least, Resources(
        max(least.memory_mib, most.memory_mib),
        max(least.vcores, most.vcores),
        max(least.gpus, most.gpus),
    )


def am_limit(share: Resources, maximum: Resources, free: Resources, am_share: float) -> Resources:
    """How much the ApplicationMasters of a leaf queue may use together
    (``FSLeafQueue.computeMaxAMResource``): a part of its fair share; where that is zero, of what
    the cluster has free, within the queue's maximum. Fractions are rounded up."""
    part = as_float32(am_share)

    def limit(own: int, most: int, left: int) -> int:
        return ceil((own or min(most, left)) * part)

    return Resources(
        limit(share.memory_mib, maximum.memory_mib, free.memory_mib),
        limit(share.vcores, maximum.vcores, free.vcores),
        limit(share.gpus, maximum.gpus, free.gpus),
    )


def starved_of(guaranteed: Resources, demand: Resources, used: Resources) -> Resources:
    """The shortfall of a queue below its minimum, or below the part of its fair share that
    preemption defends: no more than it asks for (``FSLeafQueue.minShareStarvation``)."""
    wanted = Resources(
        min(guaranteed.memory_mib, demand.memory_mib),
        min(guaranteed.vcores, demand.vcores),
        min(guaranteed.gpus, demand.gpus),
    )
    return wanted.minus(used)


def as_float32(value: float) -> float:
    """Round as Java's ``float`` does: weights and AM shares are read into one. 0.1 is a little more
    than 0.1, which rounding up can see."""
    try:
        found: Union[float, int] = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("inf")
    return float(found)

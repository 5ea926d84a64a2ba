"""Whom the Fair Scheduler serves first.

After ``DominantResourceFairnessComparatorN`` (the one for more than two resource types),
``FairShareComparator`` and ``FifoComparator`` of Hadoop 3.4. Of what is compared here the smallest
is served first; ties are broken by the time of submission, queues by their names.
"""

from __future__ import annotations

from math import inf

from yarnam.core.model.resources import Resources
from yarnam.core.queues.allocations import Policy

ServingKey = tuple[float, ...]

_NOTHING = Resources()


def serving_key(
    policy: Policy,
    used: Resources,
    cluster: Resources,
    minimum: Resources = _NOTHING,
    weight: float = 1.0,
) -> ServingKey:
    """The place of a queue or a job among its siblings, all of which ask for something.

    ``policy`` is that of the queue above. ``minimum`` and ``weight`` are those of a queue; jobs
    have none. A queue below its minimum goes before all that are not; the resource that counts is
    the one of which it uses most of the cluster (under ``fair``, memory). (Hadoop's ``fair`` takes
    the demand for the minimum where that is less: here the minimum counts.)

    Where Hadoop divides zero by zero, its comparators take the two for equal (NaN), which is not an
    order: the result then depends on names. Here the ratio is 0. So it is with an unused queue of
    weight 0 below a ``drf`` one; once it uses something, and below a ``fair`` one, it comes last.
    """
    if policy is Policy.FIFO:
        return ()
    if policy is Policy.FAIR:
        amount, least = used.memory_mib, minimum.memory_mib
        by_weight = (_ratio(amount, weight),) if weight > 0 else (inf, float(amount))
        return (0.0, amount / least, *by_weight) if amount < least else (1.0, *by_weight)
    parts = [
        (used.memory_mib, minimum.memory_mib, cluster.memory_mib),
        (used.vcores, minimum.vcores, cluster.vcores),
        (used.gpus, minimum.gpus, cluster.gpus),
    ]
    parts.sort(key=_part_of_cluster, reverse=True)
    amount, least, _ = parts[0]
    if amount < least:
        return (0.0, *(_ratio(one, floor) for one, floor, _ in parts))
    return (1.0, *(_ratio(_part_of_cluster(part), weight) for part in parts))


def _ratio(amount: float, whole: float) -> float:
    if whole > 0:
        return amount / whole
    return inf if amount else 0.0


def _part_of_cluster(part: tuple[int, int, int]) -> float:
    used, _, whole = part
    return used / whole if whole else 0.0


def is_below(policy: Policy, used: Resources, share: Resources, cluster: Resources) -> bool:
    """Whether ``used`` is less than ``share``, as the policy of a leaf queue compares amounts: by
    the largest part of the cluster, or by memory alone (``FSAppAttempt.isUsageBelowShare``)."""
    if policy is Policy.DRF:
        return _dominant(used, cluster) < _dominant(share, cluster)
    return used.memory_mib < share.memory_mib


def _dominant(amount: Resources, cluster: Resources) -> float:
    return max(
        _part_of_cluster((amount.memory_mib, 0, cluster.memory_mib)),
        _part_of_cluster((amount.vcores, 0, cluster.vcores)),
        _part_of_cluster((amount.gpus, 0, cluster.gpus)),
    )

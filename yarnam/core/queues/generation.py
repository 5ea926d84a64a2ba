"""An allocation file from a policy in GPUs.

Memory and cores follow the GPUs: a queue with a quarter of them is guaranteed a quarter of the
others. A maximum limits GPUs alone. All queues divide by drf, preemption has timeouts wherever
something is guaranteed, and no job can make a queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from yarnam.core.model.resources import Resources

AM_SHARE = 0.3
"""ApplicationMasters may use this part of a queue's share; more if that would hold fewer than
``AM_JOBS`` of them."""
AM_JOBS = 4
AM_MEMORY_MIB = 2048
"""yarnam's ApplicationMaster as YARN rounds it up (1536 MiB in steps of 1024)."""


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """The settings of one queue. ``gpus`` are guaranteed; ``maximum`` is ``None`` for all there
    are."""

    name: str
    gpus: int = 0
    maximum: int | None = None
    weight: float = 1.0
    max_jobs: int | None = None
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    """With ``users``: the users who may submit; everyone if none is named."""
    is_preemptible: bool = True
    is_fifo: bool = False
    queues: tuple[QueuePolicy, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterPolicy:
    """A whole policy. Times in seconds; ``None`` disables preemption for that reason."""

    cluster: Resources
    queues: tuple[QueuePolicy, ...]
    minimum_after_s: int | None = None
    fair_share_after_s: int | None = None
    default_queue: str = ""
    """Full name of the queue for jobs that name none; if empty, they are rejected."""


def allocation_file(policy: ClusterPolicy) -> str:
    """The XML."""
    total_weight = sum(queue.weight for queue in policy.queues) or 1.0
    body = "".join(_queue(queue, policy, 2, queue.weight / total_weight) for queue in policy.queues)
    timeouts = ""
    if policy.fair_share_after_s is not None:
        timeouts += _element("defaultFairSharePreemptionTimeout", policy.fair_share_after_s, 1)
    if policy.minimum_after_s is not None:
        timeouts += _element("defaultMinSharePreemptionTimeout", policy.minimum_after_s, 1)
    last = (
        f'<rule name="default" queue={quoteattr(policy.default_queue)}/>'
        if policy.default_queue
        else '<rule name="reject"/>'
    )
    return (
        '<?xml version="1.0"?>\n<allocations>\n'
        + _element("defaultQueueSchedulingPolicy", "drf", 1)
        + timeouts
        # An ACL is inherited downwards: a queue can exclude users only if root does.
        + '  <queue name="root">\n'
        + _element("aclSubmitApps", " ", 2)
        + _element("aclAdministerApps", " ", 2)
        + body
        + "  </queue>\n  <queuePlacementPolicy>\n"
        + '    <rule name="specified" create="false"/>\n'
        + f"    {last}\n  </queuePlacementPolicy>\n</allocations>\n"
    )


def _queue(queue: QueuePolicy, policy: ClusterPolicy, depth: int, part: float) -> str:
    """Write one queue; ``part`` is the share of the cluster that its weight gives it."""
    pad = "  " * depth
    weights = sum(one.weight for one in queue.queues) or 1.0
    fields = "".join(_fields(queue, policy, depth + 1, part))
    below = "".join(
        _queue(one, policy, depth + 1, part * one.weight / weights) for one in queue.queues
    )
    return f"{pad}<queue name={quoteattr(queue.name)}>\n{fields}{below}{pad}</queue>\n"


def _fields(queue: QueuePolicy, policy: ClusterPolicy, depth: int, part: float) -> Iterator[str]:
    cluster = policy.cluster
    yield _element("weight", f"{queue.weight:g}", depth)
    if queue.gpus:
        yield _element("minResources", _amounts(_in_proportion(queue.gpus, cluster)), depth)
    if queue.maximum is not None:
        most = Resources(cluster.memory_mib, cluster.vcores, queue.maximum)
        yield _element("maxResources", _amounts(most), depth)
    if queue.max_jobs is not None:
        yield _element("maxRunningApps", queue.max_jobs, depth)
    if not queue.is_preemptible:
        yield _element("allowPreemptionFrom", "false", depth)
    if not queue.queues:
        yield _element("maxAMShare", _am_share(queue, cluster, part), depth)
    if queue.is_fifo:
        yield _element("schedulingPolicy", "fifo", depth)
    people = f"{','.join(queue.users)} {','.join(queue.groups)}".rstrip()
    if people or not queue.queues:
        yield _element("aclSubmitApps", people or "*", depth)


def _in_proportion(gpus: int, cluster: Resources) -> Resources:
    whole = max(1, cluster.gpus)
    return Resources(cluster.memory_mib * gpus // whole, cluster.vcores * gpus // whole, gpus)


def _am_share(queue: QueuePolicy, cluster: Resources, part: float) -> str:
    share = max(cluster.memory_mib * part, _in_proportion(queue.gpus, cluster).memory_mib)
    return f"{min(1.0, max(AM_SHARE, AM_JOBS * AM_MEMORY_MIB / max(1.0, share))):.2g}"


def _amounts(amounts: Resources) -> str:
    return f"memory-mb={amounts.memory_mib}, vcores={amounts.vcores}, yarn.io/gpu={amounts.gpus}"


def _element(tag: str, value: object, depth: int) -> str:
    return f"{'  ' * depth}<{tag}>{escape(str(value))}</{tag}>\n"


def names_of(queues: Sequence[QueuePolicy], above: str = "root") -> Iterator[tuple[str, bool]]:
    """Full names of all queues, and whether each takes jobs."""
    for queue in queues:
        name = f"{above}.{queue.name}"
        yield name, not queue.queues
        yield from names_of(queue.queues, name)

"""The effects of another allocation file: in GPUs, and on the jobs that run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from yarnam.core.model.resources import Resources
from yarnam.core.queues.allocations import Allocations, QueueConfig
from yarnam.core.queues.amounts import UNLIMITED
from yarnam.core.queues.fair_share import bounds_of, instantaneous_shares, steady_shares
from yarnam.core.queues.queues_now import QueuesNow


@dataclass(frozen=True, slots=True)
class Change:
    """One setting or share of one queue. Empty means the queue is not there."""

    queue: str
    what: str
    before: str
    after: str


def compare(before: Allocations, after: Allocations, cluster: Resources) -> tuple[Change, ...]:
    """The differences, queue by queue, in the order of the newer file; removed queues come last."""
    old_shares = steady_shares(before.root, cluster)
    new_shares = steady_shares(after.root, cluster)
    old = {queue.name: queue for queue in before.root.walk()}
    new = {queue.name: queue for queue in after.root.walk()}
    found: list[Change] = []
    for name in [*new, *(name for name in old if name not in new)]:
        left = _described(old.get(name), old_shares, cluster)
        right = _described(new.get(name), new_shares, cluster)
        for what in right or left:
            if left.get(what, "") != right.get(what, ""):
                found.append(Change(name, what, left.get(what, ""), right.get(what, "")))
    return tuple(found)


def _described(
    queue: QueueConfig | None, shares: Mapping[str, Resources], cluster: Resources
) -> Mapping[str, str]:
    if queue is None:
        return {}
    least, most = bounds_of(queue, cluster)
    return {
        "steady share": f"{shares[queue.name].gpus} GPUs",
        "minimum": f"{least.gpus} GPUs",
        "maximum": "none" if most.gpus >= UNLIMITED else f"{most.gpus} GPUs",
        "weight": f"{queue.weight:g}",
        "policy": queue.policy.value,
        "AM share": f"{queue.max_am_share:g}",
        "running jobs": "any" if queue.max_apps is None else f"at most {queue.max_apps}",
        "preempts for its minimum": _after(queue.min_share_timeout_s),
        "preempts for its fair share": _after(queue.fair_share_timeout_s),
        "preemptible": "yes" if queue.is_preemptable else "no",
        "kind": "parent" if queue.is_parent else "leaf",
    }


def _after(timeout_s: int | None) -> str:
    return "never" if timeout_s is None else f"after {timeout_s} s"


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect on the jobs of one queue."""

    queue: str
    message: str


def effects(now: QueuesNow, after: Allocations) -> Iterator[Effect]:
    """Find the effects of a file on the jobs that run and wait now. ``FairScheduler`` takes nothing
    from a queue above its new maximum; only preemption does."""
    planned = {queue.name: queue for queue in after.root.walk()}
    active = {
        queue.name
        for queue in now.root.walk()
        if queue.is_leaf and (queue.running_jobs or queue.pending_jobs)
    }
    shares = instantaneous_shares(after.root, now.root.maximum, active)
    for queue in now.root.walk():
        if queue.name not in active:
            continue
        count = queue.running_jobs + queue.pending_jobs
        jobs = "job stays until it ends" if count == 1 else f"{count} jobs stay until they end"
        config = planned.get(queue.name)
        if config is None or config.is_parent:
            gone = "is gone" if config is None else "takes no jobs any more"
            yield Effect(queue.name, f"{gone}: its {jobs}, new ones are refused")
            continue
        used, share = queue.used.gpus, shares[queue.name].gpus
        most = bounds_of(config, now.root.maximum)[1].gpus
        if used > most:
            yield Effect(
                queue.name, f"uses {used} GPUs, above its new maximum of {most}: it gets no more"
            )
        if used > share and now.preempts and config.is_preemptable:
            yield Effect(
                queue.name,
                f"uses {used} GPUs, and its fair share becomes {share}: up to {used - share} may "
                "be preempted, each gang as a whole",
            )
        if share < queue.fair_share.gpus and used <= share:
            yield Effect(
                queue.name, f"its fair share falls from {queue.fair_share.gpus} to {share}"
            )
        elif share > queue.fair_share.gpus:
            yield Effect(
                queue.name, f"its fair share rises from {queue.fair_share.gpus} to {share}"
            )


def not_taken(now: QueuesNow, planned: Allocations) -> list[str]:
    """The queues whose report by the ResourceManager differs from the file; empty if it has loaded
    the file. Weights show in the steady shares; AM shares and timeouts are not reported."""
    size = now.root.steady_share
    shares = steady_shares(planned.root, size)
    # Queues that were dropped stay while jobs use them, and have a share.
    is_whole = len(now.by_name) == len(shares)
    return [
        queue.name
        for queue in planned.root.walk()
        if (seen := now.by_name.get(queue.name)) is None
        or (seen.minimum, seen.policy, seen.is_preemptable, seen.max_jobs)
        != (queue.minimum, queue.policy.value, queue.is_preemptable, queue.max_apps)
        or seen.maximum != _within(bounds_of(queue, size)[1], size)
        or (is_whole and seen.steady_share != shares[queue.name])
    ]


def _within(maximum: Resources, size: Resources) -> Resources:
    """The value as the ResourceManager shows it."""
    return Resources(
        min(maximum.memory_mib, size.memory_mib),
        min(maximum.vcores, size.vcores),
        min(maximum.gpus, size.gpus),
    )

"""Convert an allocation file for the Capacity Scheduler, in terms of gangs and GPUs.

Hadoop's ``fs2cs`` converts the file word for word. Here a queue's steady share becomes its
capacity, and the rest is set so that a gang which ran before can run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil

from yarnam.core.model.resources import Resources
from yarnam.core.queues.allocations import Allocations, Policy, QueueConfig
from yarnam.core.queues.amounts import GPU
from yarnam.core.queues.capacity.capacity_file import CAPACITY, DOMINANT
from yarnam.core.queues.fair_share import Shares, bounds_of, steady_shares


@dataclass(frozen=True, slots=True)
class ConvertedQueue:
    """GPUs of one queue before and after. ``changes`` are those that its gangs will notice."""

    name: str
    minimum: int
    share: int
    """Its steady share."""
    capacity: float
    maximum: int
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Conversion:
    """``settings`` are those of capacity-scheduler.xml, by name. ``changes`` apply to all
    queues."""

    queues: tuple[ConvertedQueue, ...]
    settings: Mapping[str, str]
    changes: tuple[str, ...]


def convert(given: Allocations, cluster: Resources) -> Conversion:
    """``cluster`` has the resources of all nodes together, with GPUs."""
    shares = steady_shares(given.root, cluster)
    settings = {f"{CAPACITY}.resource-calculator": DOMINANT, **_acls(given.root)}
    queues: list[ConvertedQueue] = []
    most = {"root": cluster.gpus}
    guaranteed = {"root": float(cluster.gpus)}
    for queue in given.root.walk():
        own = f"{CAPACITY}.{queue.name}"
        if queue.children:
            names = (child.name.rpartition(".")[2] for child in queue.children)
            settings[f"{own}.queues"] = ",".join(names)
        parts = _percentages(queue, shares)
        for child in queue.children:
            above = most[queue.name]
            most[child.name] = min(above, bounds_of(child, cluster)[1].gpus)
            percent = parts[child.name]
            guaranteed[child.name] = guaranteed[queue.name] * percent / 100
            limit = 100.0 * most[child.name] / above if above else 100.0
            settings |= _settings(child, percent, max(percent, limit))
            queues.append(_described(child, shares, guaranteed, most[child.name], cluster))
    return Conversion(tuple(queues), settings, tuple(_for_all(given)))


def _percentages(queue: QueueConfig, shares: Shares) -> Mapping[str, float]:
    """The capacities of the queue's children in percent, by their GPUs with all queues in use; they
    add up to 100."""
    gpus = {child.name: shares[child.name].gpus for child in queue.children}
    total = sum(gpus.values())
    found = {
        name: round(100 * own / total, 2) if total else round(100 / len(gpus), 2)
        for name, own in gpus.items()
    }
    if found:
        largest = max(found, key=lambda name: found[name])
        found[largest] = round(found[largest] + 100 - sum(found.values()), 2)
    return found


def _settings(queue: QueueConfig, percent: float, limit: float) -> Mapping[str, str]:
    own = f"{CAPACITY}.{queue.name}"
    found = {
        f"{own}.capacity": f"{percent:g}",
        f"{own}.maximum-capacity": f"{min(100.0, ceil(100 * limit) / 100):g}",
    }
    if not queue.is_preemptable:
        found[f"{own}.disable_preemption"] = "true"
    if queue.max_apps is not None:
        found[f"{own}.max-parallel-apps"] = str(max(0, queue.max_apps))
    found |= _acls(queue)
    if queue.is_parent:
        return found
    # The Fair Scheduler has no limit of a user: one may use all that the queue may.
    factor = ceil(limit / percent) if percent else -1
    found[f"{own}.user-limit-factor"] = str(factor)
    part = queue.max_am_share
    found[f"{own}.maximum-am-resource-percent"] = f"{1.0 if part < 0 else part:g}"
    found[f"{own}.ordering-policy"] = "fifo"
    largest = queue.max_container
    amounts = (largest.memory_mib, largest.vcores, largest.gpus)
    if all(isinstance(amount, int) for amount in amounts):
        memory, vcores, gpus = amounts
        found[f"{own}.maximum-allocation"] = f"memory-mb={memory},vcores={vcores},{GPU}={gpus}"
    return found


def _acls(queue: QueueConfig) -> Mapping[str, str]:
    """Root's too: its default lets everybody in below it as well."""
    found: dict[str, str] = {}
    for tag, key in (
        ("aclSubmitApps", "acl_submit_applications"),
        ("aclAdministerApps", "acl_administer_queue"),
    ):
        acl = queue.element.child(tag)
        if acl is not None:
            found[f"{CAPACITY}.{queue.name}.{key}"] = acl.text
    return found


def _described(
    queue: QueueConfig,
    shares: Shares,
    guaranteed: Mapping[str, float],
    most: int,
    cluster: Resources,
) -> ConvertedQueue:
    least, capacity = bounds_of(queue, cluster)[0].gpus, guaranteed[queue.name]
    changes: list[str] = []
    if capacity < 1:
        changes.append(
            f"its capacity is {capacity:.2f} GPUs: none is guaranteed, it runs on what others leave"
        )
    elif capacity != int(capacity):
        changes.append(f"YARN rounds its {capacity:.2f} GPUs down to {int(capacity)}")
    if capacity + 0.01 < least:
        changes.append(f"it is guaranteed {capacity:.0f} GPUs instead of {least}")
    elif not least and queue.is_leaf and capacity >= 1:
        changes.append(
            "its share is guaranteed now: with the preemption monitor it takes it back from others"
        )
    if queue.is_leaf and queue.policy is not Policy.FIFO:
        changes.append("its jobs get containers in the order in which they came, not in turn")
    if queue.min_share_timeout_s is not None or queue.fair_share_timeout_s is not None:
        changes.append("its own preemption timeouts are gone: one monitor serves all queues")
    if queue.max_am_share < 0:
        changes.append("ApplicationMasters may use all of it, as before")
    return ConvertedQueue(
        queue.name, least, shares[queue.name].gpus, capacity, most, tuple(changes)
    )


def _for_all(given: Allocations) -> Iterator[str]:
    yield (
        "A queue's guarantee is its capacity and no longer moves with the queues that are in use; "
        "what is idle goes to the queue that uses least of its capacity, not by weight."
    )
    yield (
        "Containers that may be anywhere come one per node and heartbeat; yarnam names nodes, "
        "which are filled at once. It asks for racks by the names of their nodes."
    )
    yield (
        "Preemption wants yarn.resourcemanager.scheduler.monitor.enable = true in yarn-site.xml, "
        "with total_preemption_per_round = 1.0: a gang is taken whole."
    )
    yield "Node labels become possible: placement.node_label of a spec."
    if given.rules:
        yield (
            f"The {len(given.rules)} placement rules are not converted: see "
            f"{CAPACITY}.mapping-rule-json."
        )

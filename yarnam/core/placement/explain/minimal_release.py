"""The least that would have to become free for a gang to fit: on which nodes, and how much there.

For a gang of equal tasks the answer is minimal: the fewest GPUs, then the least memory, then the
fewest vcores. On one node each further task costs at least as much as the one before (the first
uses what is left over there already), so the cheapest tasks of all nodes together are the cheapest
solution. Under a node limit all combinations are compared, node by node; on very large clusters
only those of the nodes with the most free. For several roles the answer is sufficient, but need not
be minimal."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from yarnam.core.model.ids import NodeId
from yarnam.core.model.resources import Resources
from yarnam.core.placement.gang_shape import Group, Shape, only_group, size_key, tasks_of
from yarnam.core.placement.packing.bin_packing import PackRules
from yarnam.core.placement.packing.capacity_index import CapacityIndex
from yarnam.core.placement.packing.node_capacity import NodeCapacity, count_in, may_host

Amount = tuple[int, int, int]
"""GPUs, MiB, vcores; compared in this order."""
Release = dict[NodeId, Resources]
"""The resources that must become free on each node, on top of those that are free now."""

NOTHING: Amount = (0, 0, 0)
MOST_WEIGHED = 60_000
"""Steps of the exact answer under a node limit, about 30 ms; beyond it only the freest nodes
count."""
MOST_TASKS = 2000
"""Largest gang whose tasks are placed one by one."""


@dataclass(frozen=True, slots=True)
class _NodeOffer:
    """A node's offer to a group: ``most`` tasks at best, ``now`` of them at no cost."""

    free: NodeCapacity
    now: int
    most: int

    def cost(self, want: Resources, tasks: int) -> Amount:
        """The resources that must become free for this many tasks in all."""
        capacity = self.free
        return (
            max(0, want.gpus * tasks - max(0, capacity.gpus)),
            max(0, want.memory_mib * tasks - max(0, capacity.memory_mib)),
            max(0, want.vcores * tasks - max(0, capacity.vcores)),
        )


def minimal_release(
    idle: CapacityIndex, free: CapacityIndex, shape: Shape, rules: PackRules
) -> Release | None:
    """Find the resources that must become free, by node; None if nothing would help. ``idle`` has
    the nodes of ``free`` as if nothing ran on them."""
    if len(shape) > 1:
        found = _for_roles(idle, free, shape, rules)
    else:
        found = _for_group(idle, free, only_group(shape), rules)
    if not found or after_release(free, found).pack(shape, rules) is None:
        return None
    return found


def after_release(free: CapacityIndex, release: Release) -> CapacityIndex:
    """The free capacity once ``release`` has become free."""
    capacities = [
        _plus(capacity, release[capacity.node]) if capacity.node in release else capacity
        for capacity in free.capacities
    ]
    return CapacityIndex(capacities, free.tie_break)


def _plus(capacity: NodeCapacity, more: Resources) -> NodeCapacity:
    free = capacity.resources.plus(more)
    return capacity._replace(memory_mib=free.memory_mib, vcores=free.vcores, gpus=free.gpus)


def _for_group(
    idle: CapacityIndex, free: CapacityIndex, group: Group, rules: PackRules
) -> Release | None:
    if group.count > MOST_TASKS:
        return None
    nodes = _nodes(idle, free, group, rules.most_per_node(group))
    if rules.node_limit is None or rules.node_limit >= min(group.count, len(nodes)):
        tasks = _cheapest(nodes, group)
    else:
        tasks = _cheapest_on_few(nodes, group, rules.node_limit)
    if tasks is None:
        return None
    found: Release = {}
    for node, count in tasks:
        gpus, memory_mib, vcores = node.cost(group.resources, count)
        if (gpus, memory_mib, vcores) != NOTHING:
            found[node.free.node] = Resources(memory_mib, vcores, gpus)
    return found


def _nodes(idle: CapacityIndex, free: CapacityIndex, group: Group, most: int) -> list[_NodeOffer]:
    """Those that could host a task, the cheapest to fill first."""
    found: list[_NodeOffer] = []
    by_node = free.by_node
    for capacity in idle.capacities:
        could = min(most, count_in(capacity, group.resources))
        if could < 1 or not may_host(group, capacity) or capacity.node not in by_node:
            continue
        left = by_node[capacity.node]
        found.append(_NodeOffer(left, min(could, count_in(left, group.resources)), could))
    found.sort(key=lambda n: (-n.now, n.cost(group.resources, n.now + 1), -n.most, n.free.node))
    return found


def _cheapest(nodes: Sequence[_NodeOffer], group: Group) -> list[tuple[_NodeOffer, int]] | None:
    """Choose the cheapest tasks of all nodes. Among equals, prefer nodes that have something to
    release anyway, then those with the fewest tasks: less has to be free there simultaneously."""
    want = group.resources
    taken = [node.now for node in nodes]
    missing = group.count - sum(taken)
    offers = [
        (_further(node, want, taken[position]), 1, taken[position], position)
        for position, node in enumerate(nodes)
        if taken[position] < node.most
    ]
    heapq.heapify(offers)
    while missing > 0:
        if not offers:
            return None
        position = heapq.heappop(offers)[-1]
        taken[position] += 1
        missing -= 1
        if taken[position] < nodes[position].most:
            further = _further(nodes[position], want, taken[position])
            heapq.heappush(offers, (further, 0, taken[position], position))
    return [(node, count) for node, count in zip(nodes, taken, strict=True) if count > node.now]


def _further(node: _NodeOffer, want: Resources, tasks: int) -> Amount:
    """The cost of one task more."""
    before, after = node.cost(want, tasks), node.cost(want, tasks + 1)
    return (after[0] - before[0], after[1] - before[1], after[2] - before[2])


def _cheapest_on_few(
    nodes: Sequence[_NodeOffer], group: Group, limit: int
) -> list[tuple[_NodeOffer, int]] | None:
    nodes = _distinct(nodes, limit)
    if len(nodes) * group.count * limit * min(group.count, 16) > MOST_WEIGHED:
        return _cheapest(nodes[:limit], group)
    want = group.resources
    # (nodes used, tasks placed) -> (cost, the tasks on each node so far)
    best: dict[tuple[int, int], tuple[Amount, tuple[tuple[int, int], ...]]] = {
        (0, 0): (NOTHING, ())
    }
    for position, node in enumerate(nodes):
        for (used, placed), (so_far, chosen) in list(best.items()):
            if used == limit:
                continue
            for count in range(1, min(node.most, group.count - placed) + 1):
                cost = node.cost(want, count)
                total = (so_far[0] + cost[0], so_far[1] + cost[1], so_far[2] + cost[2])
                key = (used + 1, placed + count)
                if key not in best or total < best[key][0]:
                    best[key] = (total, (*chosen, (position, count)))
    full = [best[key] for key in best if key[1] == group.count]
    if not full:
        return None
    _, chosen = min(full, key=lambda item: (item[0], len(item[1]), item[1]))
    return [(nodes[position], count) for position, count in chosen]


def _distinct(nodes: Sequence[_NodeOffer], limit: int) -> list[_NodeOffer]:
    """Keep at most ``limit`` nodes of each kind: more of them cannot be used together."""
    seen: dict[tuple[int, int, int, int], int] = {}
    kept: list[_NodeOffer] = []
    for node in nodes:
        kind = (node.most, node.free.gpus, node.free.memory_mib, node.free.vcores)
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] <= limit:
            kept.append(node)
    return kept


def _for_roles(
    idle: CapacityIndex, free: CapacityIndex, shape: Shape, rules: PackRules
) -> Release | None:
    """Whole nodes one after another, those with the most free first, until the gang fits; then
    only what the packing needs of each."""
    capacities = sorted(
        free.capacities, key=lambda capacity: (-capacity.gpus, -capacity.memory_mib, capacity.node)
    )
    release: Release = {}
    for capacity in capacities[: 4 * max(8, tasks_of(shape))]:
        if capacity.node not in idle.by_node:
            continue
        more = idle.by_node[capacity.node].resources.minus(capacity.resources)
        if more == Resources():
            continue
        release[capacity.node] = more
        packing = after_release(free, release).pack(shape, rules)
        if packing is not None:
            return _trimmed(free, release, packing.groups, shape)
    return None


def _trimmed(
    free: CapacityIndex, release: Release, groups: Sequence[Sequence[NodeId]], shape: Shape
) -> Release:
    """Only what this packing takes beyond what is free."""
    need: dict[NodeId, Resources] = {}
    for group, nodes in zip(shape, groups, strict=True):
        for node in nodes:
            need[node] = need.get(node, Resources()).plus(group.resources)
    found: Release = {}
    for node in release:
        more = need.get(node, Resources()).minus(free.by_node[node].resources)
        if more != Resources():
            found[node] = more
    return found


def release_amount(release: Release) -> Amount:
    """The sum over all nodes."""
    total = Resources()
    for amount in release.values():
        total = total.plus(amount)
    return size_key(total)


def release_order(release: Release) -> tuple[Amount, int, tuple[tuple[int, int, int], ...]]:
    """Sorts the smallest first: by amount, then by the number of nodes."""
    return (
        release_amount(release),
        len(release),
        tuple(sorted(size_key(r) for r in release.values())),
    )

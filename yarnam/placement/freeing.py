"""How little would have to become free for a gang to fit: on which nodes, and how much there.

For a gang of equal tasks the answer is the smallest: the fewest GPUs, then the least memory, then
the fewest vcores. On one node each further task costs at least as much as the one before (the first
takes what is left over there already), so the cheapest tasks of all nodes together are the cheapest
way. Where only so many nodes may be used, all ways are weighed, node by node; on very large
clusters only the nodes with the most free. For several roles the answer suffices, but need not be
the smallest.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from yarnam.model.ids import NodeId
from yarnam.model.resources import Resources
from yarnam.placement.ground import Ground
from yarnam.placement.rooms import Room, count_in, may_stand
from yarnam.placement.search import PackRules
from yarnam.placement.shapes import Group, Shape, only, size_key

Amount = tuple[int, int, int]
"""GPUs, MiB, vcores; compared in this order."""
Freed = dict[NodeId, Resources]
"""What must become free, on top of what is."""

NOTHING: Amount = (0, 0, 0)
MOST_WEIGHED = 60_000
"""Steps of the exact answer under a node limit, about 30 ms; beyond it the freest nodes count."""
MOST_TASKS = 2000
"""Tasks of a gang that are weighed one by one."""


@dataclass(frozen=True, slots=True)
class _Node:
    """One node's offer to a group: ``most`` tasks at best, ``now`` of them for nothing."""

    free: Room
    now: int
    most: int

    def cost(self, want: Resources, tasks: int) -> Amount:
        """To have room for so many tasks in all."""
        room = self.free
        return (
            max(0, want.gpus * tasks - max(0, room.gpus)),
            max(0, want.memory_mib * tasks - max(0, room.memory_mib)),
            max(0, want.vcores * tasks - max(0, room.vcores)),
        )


def least_to_free(idle: Ground, free: Ground, shape: Shape, rules: PackRules) -> Freed | None:
    """What to free on which nodes; None when nothing would help. ``idle`` has the same nodes as
    ``free``, as if nothing ran on them."""
    if len(shape) > 1:
        found = _for_roles(idle, free, shape, rules)
    else:
        found = _for_group(idle, free, only(shape), rules)
    if not found or with_freed(free, found).pack(shape, rules) is None:
        return None
    return found


def with_freed(free: Ground, freed: Freed) -> Ground:
    """The ground after so much has become free."""
    rooms = [_with(room, freed[room.node]) if room.node in freed else room for room in free.rooms]
    return Ground(rooms, free.taste)


def _with(room: Room, more: Resources) -> Room:
    return room._replace(
        memory_mib=max(0, room.memory_mib) + more.memory_mib,
        vcores=max(0, room.vcores) + more.vcores,
        gpus=max(0, room.gpus) + more.gpus,
    )


def _for_group(idle: Ground, free: Ground, group: Group, rules: PackRules) -> Freed | None:
    if group.count > MOST_TASKS:
        return None
    most = 1 if rules.is_alone(group.role) else group.count
    nodes = _nodes(idle, free, group, most)
    if rules.node_limit is None or rules.node_limit >= min(group.count, len(nodes)):
        tasks = _cheapest(nodes, group)
    else:
        tasks = _cheapest_on_few(nodes, group, rules.node_limit)
    if tasks is None:
        return None
    found: Freed = {}
    for node, count in tasks:
        gpus, memory_mib, vcores = node.cost(group.resources, count)
        if (gpus, memory_mib, vcores) != NOTHING:
            found[node.free.node] = Resources(memory_mib, vcores, gpus)
    return found


def _nodes(idle: Ground, free: Ground, group: Group, most: int) -> list[_Node]:
    """Those that could host a task, the cheapest to fill first."""
    found: list[_Node] = []
    by_node = free.by_node
    for room in idle.rooms:
        could = min(most, count_in(room, group.resources))
        if could < 1 or not may_stand(group, room) or room.node not in by_node:
            continue
        left = by_node[room.node]
        found.append(_Node(left, min(could, count_in(left, group.resources)), could))
    found.sort(key=lambda n: (-n.now, n.cost(group.resources, n.now + 1), -n.most, n.free.node))
    return found


def _cheapest(nodes: Sequence[_Node], group: Group) -> list[tuple[_Node, int]] | None:
    """The cheapest tasks of all nodes; of equally dear ones those on nodes that are paid for, then
    those on nodes with the fewest tasks: less has to be free there together."""
    want = group.resources
    taken = [node.now for node in nodes]
    missing = group.count - sum(taken)
    offers = [
        (_further(node, want, taken[place]), 1, taken[place], place)
        for place, node in enumerate(nodes)
        if taken[place] < node.most
    ]
    heapq.heapify(offers)
    while missing > 0:
        if not offers:
            return None
        place = heapq.heappop(offers)[-1]
        taken[place] += 1
        missing -= 1
        if taken[place] < nodes[place].most:
            further = _further(nodes[place], want, taken[place])
            heapq.heappush(offers, (further, 0, taken[place], place))
    return [(node, count) for node, count in zip(nodes, taken, strict=True) if count > node.now]


def _further(node: _Node, want: Resources, tasks: int) -> Amount:
    """The price of one task more."""
    before, after = node.cost(want, tasks), node.cost(want, tasks + 1)
    return (after[0] - before[0], after[1] - before[1], after[2] - before[2])


def _cheapest_on_few(
    nodes: Sequence[_Node], group: Group, limit: int
) -> list[tuple[_Node, int]] | None:
    nodes = _distinct(nodes, limit)
    if len(nodes) * group.count * limit * min(group.count, 16) > MOST_WEIGHED:
        return _cheapest(nodes[:limit], group)
    want = group.resources
    # (nodes used, tasks placed) -> (price, the tasks on each node so far)
    best: dict[tuple[int, int], tuple[Amount, tuple[tuple[int, int], ...]]] = {
        (0, 0): (NOTHING, ())
    }
    for place, node in enumerate(nodes):
        for (used, placed), (price, chosen) in list(best.items()):
            if used == limit:
                continue
            for count in range(1, min(node.most, group.count - placed) + 1):
                cost = node.cost(want, count)
                total = (price[0] + cost[0], price[1] + cost[1], price[2] + cost[2])
                key = (used + 1, placed + count)
                if key not in best or total < best[key][0]:
                    best[key] = (total, (*chosen, (place, count)))
    full = [best[key] for key in best if key[1] == group.count]
    if not full:
        return None
    _, chosen = min(full, key=lambda item: (item[0], len(item[1]), item[1]))
    return [(nodes[place], count) for place, count in chosen]


def _distinct(nodes: Sequence[_Node], limit: int) -> list[_Node]:
    """At most ``limit`` of nodes that are alike: more of them can not all be used."""
    seen: dict[tuple[int, int, int, int], int] = {}
    kept: list[_Node] = []
    for node in nodes:
        look = (node.most, node.free.gpus, node.free.memory_mib, node.free.vcores)
        seen[look] = seen.get(look, 0) + 1
        if seen[look] <= limit:
            kept.append(node)
    return kept


def _for_roles(idle: Ground, free: Ground, shape: Shape, rules: PackRules) -> Freed | None:
    """Whole nodes one after another, those with the most free first, until the gang fits; then
    each node gives back what is not needed of it."""
    rooms = sorted(free.rooms, key=lambda room: (-room.gpus, -room.memory_mib, room.node))
    freed: Freed = {}
    for room in rooms[: 4 * max(8, sum(group.count for group in shape))]:
        all_of_it = idle.by_node.get(room.node)
        if all_of_it is None:
            continue
        more = Resources(
            max(0, all_of_it.memory_mib - max(0, room.memory_mib)),
            max(0, all_of_it.vcores - max(0, room.vcores)),
            max(0, all_of_it.gpus - max(0, room.gpus)),
        )
        if more == Resources():
            continue
        freed[room.node] = more
        packing = with_freed(free, freed).pack(shape, rules)
        if packing is not None:
            return _trimmed(free, freed, packing.groups, shape)
    return None


def _trimmed(free: Ground, freed: Freed, groups: Sequence[Sequence[NodeId]], shape: Shape) -> Freed:
    """Only what this packing takes beyond what is free."""
    need: dict[NodeId, Resources] = {}
    for group, nodes in zip(shape, groups, strict=True):
        for node in nodes:
            need[node] = need.get(node, Resources()).plus(group.resources)
    found: Freed = {}
    for node in freed:
        room = free.by_node[node]
        have = Resources(max(0, room.memory_mib), max(0, room.vcores), max(0, room.gpus))
        more = need.get(node, Resources()).minus(have)
        if more != Resources():
            found[node] = more
    return found


def price_of(freed: Freed) -> Amount:
    """All of it together."""
    amounts = list(freed.values())
    return (
        sum(amount.gpus for amount in amounts),
        sum(amount.memory_mib for amount in amounts),
        sum(amount.vcores for amount in amounts),
    )


def order_of(freed: Freed) -> tuple[Amount, int, tuple[tuple[int, int, int], ...]]:
    """The smaller the better: amounts, then the number of nodes."""
    return price_of(freed), len(freed), tuple(sorted(size_key(r) for r in freed.values()))

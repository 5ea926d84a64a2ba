"""Which tasks on which nodes: the fewest nodes first, best fit among equals.

For equal tasks (one role) the result is optimal. Each node can host a number c of tasks; k, the
fewest nodes, follows from the largest c. Then, one node after another, the smallest c is taken
that still lets the rest fit on the largest others: so used nodes are filled first and whole
nodes stay whole. Kueue's BestFit example (7 tasks on room for 3, 3, 2, 1) gives 3 + 3 + 1.

With several roles the biggest tasks go first, each role onto nodes already in use where it fits
(placing small ones first can block a solution that exists: Volcano issue 1297). That greedy order
misses some solutions, so on few nodes ``search`` looks for the best one exhaustively.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from yarnam.model.ids import NodeId
from yarnam.placement.rooms import Room, count_in, without
from yarnam.placement.search import NO_RULES, Packing, PackRules, search
from yarnam.placement.shapes import Shape, size_key

Pick = tuple[Room, int]
"""A node and how many tasks go there."""


def pack(rooms: Sequence[Room], shape: Shape, rules: PackRules = NO_RULES) -> Packing | None:
    """All tasks or None."""
    packing = _greedy(rooms, shape, rules)
    if len(shape) > 1 and not rules.is_loose:
        packing = search(rooms, shape, rules, packing)
    if packing is None or rules.node_limit is None or len(packing.nodes) <= rules.node_limit:
        return packing
    return None


def _greedy(rooms: Sequence[Room], shape: Shape, rules: PackRules) -> Packing | None:
    left = {room.node: room for room in rooms}
    used: set[NodeId] = set()
    placed: dict[int, tuple[NodeId, ...]] = {}
    order = sorted(range(len(shape)), key=lambda i: size_key(shape[i].resources), reverse=True)
    for index in order:
        group = shape[index]
        if rules.one_task_per_node:
            picks = _fewest(_hosts(left.values(), shape, index, 1, used), group.count)
        elif rules.is_loose:
            found = _hosts(left.values(), shape, index)
            # Of equal rooms one already in use: so the names of nodes decide nothing.
            found.sort(key=lambda host: (host[:4], host[4] not in used))
            picks = _least_free(found, group.count)
        else:
            picks = _used_first(left, used, shape, index)
        if picks is None:
            return None
        for room, count in picks:
            left[room.node] = without(room, group.resources, count)
            used.add(room.node)
        placed[index] = tuple(room.node for room, count in picks for _ in range(count))
    return Packing(tuple(placed[index] for index in range(len(shape))))


def hosts(rooms: Iterable[Room], shape: Shape) -> int:
    """How many nodes can host at least one of the biggest tasks."""
    want = max((group.resources for group in shape), key=size_key)
    return sum(count_in(room, want) > 0 for room in rooms)


Host = tuple[int, int, int, int, str, Room]
"""Tasks it can host, then what would be left of it (GPUs, memory, vcores), name, room: sorted, the
tightest fit comes first."""


def _hosts(
    rooms: Iterable[Room],
    shape: Shape,
    index: int,
    most: int | None = None,
    barred: Iterable[NodeId] = (),
) -> list[Host]:
    want = shape[index].resources
    limit = shape[index].count if most is None else most
    found: list[Host] = []
    for room in rooms:
        count = count_in(room, want)
        if count < 1 or (barred and room.node in barred):
            continue
        fitting = min(count, limit)
        found.append(
            (
                fitting,
                room.gpus - fitting * want.gpus,
                room.memory_mib - fitting * want.memory_mib,
                room.vcores - fitting * want.vcores,
                room.node,
                room,
            )
        )
    found.sort()
    return found


def _fewest(found: list[Host], count: int) -> list[Pick] | None:
    """The fewest nodes, and among those the tightest fit. ``found`` is sorted and used up."""
    k, reach = 0, 0
    while reach < count:
        k += 1
        if k > len(found):
            return None
        reach += found[-k][0]
    picks: list[Pick] = []
    missing = count
    for others in range(k - 1, -1, -1):
        on_others = sum(host[0] for host in found[len(found) - others :])
        place = bisect_left(found, missing - on_others, key=_fitting)
        host = found.pop(place)
        take = min(host[0], missing)
        picks.append((host[5], take))
        missing -= take
    return picks


def _fitting(host: Host) -> int:
    return host[0]


def _least_free(found: list[Host], count: int) -> list[Pick] | None:
    picks: list[Pick] = []
    missing = count
    for host in found:
        take = min(host[0], missing)
        picks.append((host[5], take))
        missing -= take
        if not missing:
            return picks
    return None


def _used_first(
    left: dict[NodeId, Room], used: set[NodeId], shape: Shape, index: int
) -> list[Pick] | None:
    """Fill nodes that this gang has already, then the fewest others."""
    missing = shape[index].count
    picks: list[Pick] = []
    for host in _hosts((left[node] for node in sorted(used)), shape, index):
        take = min(host[0], missing)
        if take:
            picks.append((host[5], take))
            missing -= take
    if not missing:
        return picks
    others = _fewest(_hosts(left.values(), shape, index, missing, used), missing)
    return None if others is None else [*picks, *others]

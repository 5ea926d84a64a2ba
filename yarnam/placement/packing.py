"""Which tasks on which nodes: the fewest nodes first, best fit among equals.

For equal tasks (one role) the result is optimal. Each node can host a number c of tasks; k, the
fewest nodes, follows from the largest c. Then, one node after another, the smallest c is taken
that still lets the rest fit on the largest others: so used nodes are filled first and whole
nodes stay whole. Kueue's BestFit example (7 tasks on room for 3, 3, 2, 1) gives 3 + 3 + 1.

With several roles the biggest tasks go first, each role onto nodes already in use where it fits
(placing small ones first can block a solution that exists: Volcano issue 1297). That greedy order
misses some solutions, so on few nodes ``search`` looks for the best one exhaustively, unless a
bound shows that there is none on fewer nodes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate

from yarnam.model.ids import NodeId
from yarnam.placement.rooms import NO_TASTE, Fits, Room, Taste, count_in, may_stand, without
from yarnam.placement.search import NO_RULES, Packing, PackRules, search
from yarnam.placement.shapes import Group, Shape, size_key, total_of

Pick = tuple[Room, int]
"""A node and how many tasks go there."""

Host = tuple[int, int, int, int, int, int, Room]
"""Tasks it can host; then what decides among equals, the smaller the better: GPUs left over, bytes
of input there (negative), memory and vcores left over, the job's own order; the room. Sorted, the
tightest fit comes first."""


def pack(
    rooms: Sequence[Room], shape: Shape, rules: PackRules = NO_RULES, taste: Taste = NO_TASTE
) -> Packing | None:
    """All tasks or None."""
    if len(shape) == 1:
        group = shape[0]
        most = 1 if rules.is_alone(group.role) else group.count
        return pack_one(hosts_of(rooms, group, most, taste), group, rules)
    packing = _greedy(rooms, shape, rules, taste)
    if not rules.is_loose and _may_be_better(rooms, shape, packing):
        packing = search(rooms, shape, rules, packing, taste)
    return _limited(packing, rules)


def pack_one(hosts: Sequence[Host], group: Group, rules: PackRules) -> Packing | None:
    """A gang of equal tasks on these hosts, which are sorted and stay as they are."""
    choose = _least_free if rules.is_loose and not rules.is_alone(group.role) else _fewest
    picks = choose(list(hosts), group.count)
    if picks is None:
        return None
    packing = Packing((tuple(room.node for room, count in picks for _ in range(count)),))
    return _limited(packing, rules)


def hosts_of(
    rooms: Iterable[Room],
    group: Group,
    most: int,
    taste: Taste = NO_TASTE,
    barred: Collection[NodeId] = (),
    fits: Fits | None = None,
) -> list[Host]:
    """The nodes that can host one task of the group or more (counted up to ``most``), sorted.
    ``fits`` is for the group's size."""
    want = group.resources
    fits = Fits(want) if fits is None else fits
    is_choosy = group.is_choosy
    local, salt, order = taste.local, taste.salt, taste.order
    found: list[Host] = []
    for room in rooms:
        count = fits[room[2:5]]
        if count < 1 or (barred and room.node in barred):
            continue
        if is_choosy and not may_stand(group, room):
            continue
        fitting = min(count, most)
        found.append(
            (
                fitting,
                room.gpus - fitting * want.gpus,
                -local.get(room.node, 0) if local else 0,
                room.memory_mib - fitting * want.memory_mib,
                room.vcores - fitting * want.vcores,
                order(room.node) if salt else 0,
                room,
            )
        )
    found.sort()
    return found


def _limited(packing: Packing | None, rules: PackRules) -> Packing | None:
    if packing is None or rules.node_limit is None or len(packing.nodes) <= rules.node_limit:
        return packing
    return None


def _may_be_better(rooms: Sequence[Room], shape: Shape, known: Packing | None) -> bool:
    """Whether the sums of what nodes have leave a chance for fewer nodes than are known."""
    if known is None and not all(_has_room(rooms, group) for group in shape):
        return False
    need = total_of(shape)
    least = 1
    for amount, have in (
        (need.gpus, [room.gpus for room in rooms]),
        (need.memory_mib, [room.memory_mib for room in rooms]),
        (need.vcores, [room.vcores for room in rooms]),
    ):
        if amount <= 0:
            continue
        have.sort(reverse=True)
        reach = list(accumulate(have))
        if not reach or max(reach) < amount:
            return False
        least = max(least, 1 + next(i for i, sum_ in enumerate(reach) if sum_ >= amount))
    return known is None or len(known.nodes) > least


def _has_room(rooms: Sequence[Room], group: Group) -> bool:
    return group.count <= sum(
        count_in(room, group.resources) for room in rooms if may_stand(group, room)
    )


def _greedy(rooms: Sequence[Room], shape: Shape, rules: PackRules, taste: Taste) -> Packing | None:
    left = {room.node: room for room in rooms}
    stands: dict[NodeId, set[str]] = {}
    placed: dict[int, tuple[NodeId, ...]] = {}
    order = sorted(range(len(shape)), key=lambda i: size_key(shape[i].resources), reverse=True)
    for index in order:
        group = shape[index]
        barred = {
            node
            for node, roles in stands.items()
            if any(rules.keeps_apart(group.role, role) for role in roles)
        }
        most = 1 if rules.is_alone(group.role) else group.count
        if rules.is_loose and not rules.one_task_per_node:
            hosts = hosts_of(left.values(), group, most, taste, barred)
            # Of equal rooms one already in use: so the names of nodes decide nothing.
            hosts.sort(key=lambda host: (host[:5], host[6].node not in stands))
            picks = _least_free(hosts, group.count)
        else:
            picks = _used_first(left, set(stands), group, most, taste, barred)
        if picks is None:
            return None
        for room, count in picks:
            left[room.node] = without(left[room.node], group.resources, count)
            stands.setdefault(room.node, set()).add(group.role)
        placed[index] = tuple(room.node for room, count in picks for _ in range(count))
    return Packing(tuple(placed[index] for index in range(len(shape))))


def _fewest(found: list[Host], count: int) -> list[Pick] | None:
    """The fewest nodes, and among those the tightest fit. ``found`` is sorted and used up."""
    k, reach = 0, [0]
    while reach[-1] < count:
        k += 1
        if k > len(found):
            return None
        reach.append(reach[-1] + found[-k][0])
    picks: list[Pick] = []
    missing = count
    for others in range(k - 1, -1, -1):
        # What is taken lies below the largest ``others``, so their sum stays what it was.
        place = bisect_left(found, missing - reach[others], key=_fitting)
        host = found.pop(place)
        take = min(host[0], missing)
        picks.append((host[6], take))
        missing -= take
    return picks


def _fitting(host: Host) -> int:
    return host[0]


def _least_free(found: list[Host], count: int) -> list[Pick] | None:
    picks: list[Pick] = []
    missing = count
    for host in found:
        take = min(host[0], missing)
        picks.append((host[6], take))
        missing -= take
        if not missing:
            return picks
    return None


def _used_first(
    left: dict[NodeId, Room],
    used: set[NodeId],
    group: Group,
    most: int,
    taste: Taste,
    barred: Collection[NodeId],
) -> list[Pick] | None:
    """Fill nodes that this gang has already, then the fewest others."""
    missing = group.count
    picks: list[Pick] = []
    for host in hosts_of((left[node] for node in sorted(used)), group, most, taste, barred):
        take = min(host[0], missing)
        if take:
            picks.append((host[6], take))
            missing -= take
    if not missing:
        return picks
    most = min(most, missing)
    others = _fewest(hosts_of(left.values(), group, most, taste, {*used, *barred}), missing)
    return None if others is None else [*picks, *others]

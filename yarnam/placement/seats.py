"""Seats: one strict target per node, where YARN must be left nothing to choose.

With one target for all tasks YARN may put them all on the node whose heartbeat comes first, or one
on each node, and again when the misfits are given back: a spread gang of four took four attempts
that way. Seats are for gangs whose tasks keep apart (``spread``, anti-affinity) and for those that
may use only so many nodes, in places that have more. They cost one service each, so only so many
nodes get one (``PlanPolicy.max_seats``); a gang that needs other nodes is asked for at the wider
targets, and its grants are judged one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from yarnam.model.ids import NodeId
from yarnam.model.job import PackOrSpread
from yarnam.model.placement import Target, TargetAsk
from yarnam.model.resources import Resources
from yarnam.placement.judging import Judged
from yarnam.placement.places import Place, target_at
from yarnam.placement.shapes import biggest, tasks_of
from yarnam.placement.view import View

SEAT = "seat"
"""How the places of seats are named: with a number after it."""

Seats = Mapping[tuple[str, Resources, NodeId], Target]
"""The seat of a role's container on a node."""


def needs_seats(view: View, judged: Iterable[Judged]) -> bool:
    """Whether YARN could fill some place of this job in a way that breaks its wishes."""
    wish = view.job.placement
    if view.job.tasks < 2:
        return False
    if wish.strategy is PackOrSpread.SPREAD or wish.anti_affinity:
        return True
    return any(not one.is_sure for one in judged)


def seat_targets(view: View, judged: Sequence[Judged], most: int) -> tuple[Target, ...]:
    """Seats for every role of the first shape, at most ``most`` in all: on the nodes of the best
    placements, then on those with the most free GPUs. None where they would not seat the gang."""
    if not judged or not needs_seats(view, judged):
        return ()
    shape = judged[0].candidate.shape
    planned = [
        node
        for one in judged
        if one.candidate.shape == shape and one.packing
        for node in one.packing.nodes
    ]
    group = biggest(shape)
    able = [host[6] for host in view.total.hosts(group, group.count)]
    free = view.free.by_node
    taste = view.taste
    able.sort(key=lambda r: (-free[r.node].gpus if r.node in free else 0, taste.order(r.node), r))
    chosen = list(dict.fromkeys([*planned, *(room.node for room in able)]))
    chosen = chosen[: most // len(shape)]
    needed = judged[0].packing.nodes if judged[0].packing else ()
    if len(chosen) < len(needed) or tasks_of(shape) < 2:
        return ()
    return tuple(
        target_at(group, Place(nodes=(node,)), f"{SEAT}{number}")
        for number, node in enumerate(chosen)
        for group in shape
    )


def parted(targets: Iterable[Target]) -> tuple[Seats, tuple[Target, ...]]:
    """The seats among the declared targets, and the others."""
    seats: dict[tuple[str, Resources, NodeId], Target] = {}
    others: list[Target] = []
    for target in targets:
        if target.place.startswith(SEAT):
            seats[target.role, target.resources, target.nodes[0]] = target
        else:
            others.append(target)
    return seats, tuple(others)


def seated(asks: Sequence[TargetAsk], seats: Seats) -> tuple[TargetAsk, ...]:
    """The same gang on the seats of the nodes that it is expected on; unchanged where one of them
    has no seat."""
    found: list[TargetAsk] = []
    for ask in asks:
        target = ask.target
        if len(ask.expected_nodes) != ask.count:
            return tuple(asks)
        for node in dict.fromkeys(ask.expected_nodes):
            seat = seats.get((target.role, target.resources, node))
            if seat is None:
                return tuple(asks)
            count = ask.expected_nodes.count(node)
            found.append(TargetAsk(seat, count, (node,) * count))
    return tuple(found)

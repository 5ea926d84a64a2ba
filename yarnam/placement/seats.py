"""Seats: one strict target per node, for a gang whose tasks must not share a node.

With one target for all tasks YARN may put them all on the node whose heartbeat comes first, and
again when the misfits are given back: a spread gang of four took four attempts that way. A seat
leaves YARN nothing to choose. Seats cost one service each, so only so many nodes get one
(``PlanPolicy.max_seats``); a gang that needs other nodes is asked for at the wider targets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from yarnam.model.ids import NodeId
from yarnam.model.job import JobSpec, PackOrSpread
from yarnam.model.placement import LocalityLevel, Target, TargetAsk
from yarnam.model.resources import Resources
from yarnam.placement.places import Place, targets_at
from yarnam.placement.shapes import Shape, tasks_of

Seats = Mapping[tuple[str, Resources, NodeId], Target]
"""The seat of a role's container on a node."""


def needs_seats(job: JobSpec) -> bool:
    """Whether tasks of this job must be kept apart."""
    return job.placement.strategy is PackOrSpread.SPREAD and job.tasks > 1


def seat_targets(shape: Shape, nodes: Iterable[NodeId], most: int) -> tuple[Target, ...]:
    """Seats for every role on these nodes, the first nodes first, at most ``most`` in all; none
    where that would not seat the whole gang."""
    chosen = list(dict.fromkeys(nodes))[: most // len(shape)]
    if len(chosen) < tasks_of(shape):
        return ()
    return tuple(
        target
        for number, node in enumerate(chosen)
        for target in targets_at(shape, Place(nodes=(node,)), f"s{number}")
    )


def parted(job: JobSpec, targets: Iterable[Target]) -> tuple[Seats, tuple[Target, ...]]:
    """The seats among the declared targets, and the others."""
    if not needs_seats(job):
        return {}, tuple(targets)
    seats: dict[tuple[str, Resources, NodeId], Target] = {}
    others: list[Target] = []
    for target in targets:
        if target.level is LocalityLevel.NODE and len(target.nodes) == 1:
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
        for node in ask.expected_nodes:
            seat = seats.get((target.role, target.resources, node))
            if seat is None:
                return tuple(asks)
            found.append(TargetAsk(seat, 1, (node,)))
    return tuple(found)

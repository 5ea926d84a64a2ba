"""What is left on each node, as plain tuples: cheap by the thousand, which packing wants."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from yarnam.model.ids import NodeId, RackId
from yarnam.model.resources import Resources
from yarnam.model.snapshot import Node

WITHOUT_LIMIT = 2**31
"""How many tasks that want nothing fit into anything (as in ``Resources.count_in``)."""


class Room(NamedTuple):
    """Room on one node. May be negative while a snapshot shows the node overcommitted."""

    node: NodeId
    rack: RackId
    memory_mib: int
    vcores: int
    gpus: int


def total_rooms(nodes: Iterable[Node], excluded: Collection[NodeId]) -> list[Room]:
    """Usable nodes as if nothing ran on them."""
    return [
        Room(n.node_id, n.rack, n.total.memory_mib, n.total.vcores, n.total.gpus)
        for n in nodes
        if n.is_usable and n.node_id not in excluded
    ]


def free_rooms(nodes: Iterable[Node], excluded: Collection[NodeId]) -> list[Room]:
    """Usable nodes with what is free on them now."""
    return [
        Room(
            n.node_id,
            n.rack,
            n.total.memory_mib - n.used.memory_mib,
            n.total.vcores - n.used.vcores,
            n.total.gpus - n.used.gpus,
        )
        for n in nodes
        if n.is_usable and n.node_id not in excluded
    ]


def count_in(room: Room, want: Resources) -> int:
    """How many containers of this size fit into the room."""
    count = WITHOUT_LIMIT
    if want.gpus:
        count = room.gpus // want.gpus
    if want.memory_mib:
        count = min(count, room.memory_mib // want.memory_mib)
    if want.vcores:
        count = min(count, room.vcores // want.vcores)
    return max(0, count)


def without(room: Room, want: Resources, count: int = 1) -> Room:
    """The room that is left beside ``count`` containers of this size."""
    return Room(
        room.node,
        room.rack,
        room.memory_mib - want.memory_mib * count,
        room.vcores - want.vcores * count,
        room.gpus - want.gpus * count,
    )


def with_am_placed(rooms: Sequence[Room], am: Resources, task: Resources) -> list[Room] | None:
    """The rooms beside an ApplicationMaster, put where it costs the fewest tasks; None: no node
    has room for it."""
    best: tuple[int, int, str, int] | None = None
    for place, room in enumerate(rooms):
        if count_in(room, am) < 1:
            continue
        left = without(room, am)
        cost = count_in(room, task) - count_in(left, task)
        key = (cost, room.gpus, room.node, place)
        if best is None or key < best:
            best = key
    if best is None:
        return None
    place = best[3]
    return [*rooms[:place], without(rooms[place], am), *rooms[place + 1 :]]


def by_rack(rooms: Iterable[Room]) -> dict[RackId, list[Room]]:
    """The rooms of each rack, racks by name."""
    racks: dict[RackId, list[Room]] = {}
    for room in rooms:
        racks.setdefault(room.rack, []).append(room)
    return dict(sorted(racks.items()))


def sum_of(rooms: Iterable[Room]) -> Resources:
    """All of it together, negative rooms as nothing."""
    memory_mib = vcores = gpus = 0
    for room in rooms:
        memory_mib += max(0, room.memory_mib)
        vcores += max(0, room.vcores)
        gpus += max(0, room.gpus)
    return Resources(memory_mib, vcores, gpus)

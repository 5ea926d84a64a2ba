"""What is left on each node, as plain tuples: cheap by the thousand, which packing wants."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple
from zlib import crc32

from yarnam.model.gpus import has_words
from yarnam.model.ids import NodeId, RackId
from yarnam.model.resources import Resources
from yarnam.model.snapshot import Node, NodeState
from yarnam.placement.shapes import Group

WITHOUT_LIMIT = 2**31
"""How many tasks that want nothing fit into anything (as in ``Resources.count_in``)."""


class Room(NamedTuple):
    """Room on one node. May be negative while a snapshot shows the node overcommitted."""

    node: NodeId
    rack: RackId
    memory_mib: int
    vcores: int
    gpus: int
    model: str = ""


class Taste(NamedTuple):
    """What decides between rooms that are as good otherwise."""

    local: Mapping[NodeId, int] = {}
    """Bytes of the job's inputs by node: more is better."""
    salt: int = 0
    """Not 0: the order of nodes is another for each salt, so that jobs which look at one cluster
    at the same time do not all choose the same of its equal nodes."""

    def order(self, name: str) -> int:
        """Among names as good otherwise the smallest comes first; then the alphabet decides."""
        return crc32(name.encode(), self.salt) if self.salt else 0


NO_TASTE = Taste()


def salt_of(seed: str) -> int:
    """A salt that is never 0 for a seed that is not empty."""
    return (crc32(seed.encode()) or 1) if seed else 0


def total_rooms(nodes: Iterable[Node], excluded: Collection[NodeId]) -> list[Room]:
    """Usable nodes as if nothing ran on them."""
    running = NodeState.RUNNING
    return [
        Room(n.node_id, n.rack, t.memory_mib, t.vcores, t.gpus, n.gpu_model)
        for n in nodes
        if n.state is running and n.node_id not in excluded
        for t in (n.total,)
    ]


def free_rooms(nodes: Iterable[Node], excluded: Collection[NodeId]) -> list[Room]:
    """Usable nodes with what is free on them now."""
    running = NodeState.RUNNING
    return [
        Room(
            n.node_id,
            n.rack,
            t.memory_mib - u.memory_mib,
            t.vcores - u.vcores,
            t.gpus - u.gpus,
            n.gpu_model,
        )
        for n in nodes
        if n.state is running and n.node_id not in excluded
        for t, u in ((n.total, n.used),)
    ]


def count_in(room: Room, want: Resources) -> int:
    """How many containers of this size fit into the room."""
    count = WITHOUT_LIMIT
    if want.gpus:
        count = room.gpus // want.gpus
        if count <= 0:
            return 0
    if want.memory_mib:
        count = min(count, room.memory_mib // want.memory_mib)
    if want.vcores:
        count = min(count, room.vcores // want.vcores)
    return max(0, count)


Size = tuple[int, int, int]
"""MiB, vcores, GPUs: the middle of a Room."""


class Fits(dict[Size, int]):
    """How many containers of one size fit into rooms of each size. Thousands of nodes have a few
    sizes of room, so each is worked out once."""

    def __init__(self, want: Resources) -> None:
        super().__init__()
        self._want = want

    def __missing__(self, size: Size) -> int:
        count = self[size] = count_in(Room(NodeId(""), RackId(""), *size), self._want)
        return count


def may_stand(group: Group, room: Room) -> bool:
    """Whether the group's tasks may use this node at all. A model that is not known may be taken
    on trust: the node's agent will tell."""
    if group.within_nodes is not None and room.node not in group.within_nodes:
        return False
    if group.within_racks is not None and room.rack not in group.within_racks:
        return False
    if not group.model:
        return True
    return has_words(room.model, group.model) if room.model else group.has_trust


def without(room: Room, want: Resources, count: int = 1) -> Room:
    """The room that is left beside ``count`` containers of this size."""
    return Room(
        room.node,
        room.rack,
        room.memory_mib - want.memory_mib * count,
        room.vcores - want.vcores * count,
        room.gpus - want.gpus * count,
        room.model,
    )


def place_for_am(rooms: Sequence[Room], am: Resources, task: Resources) -> int | None:
    """Where an ApplicationMaster costs the fewest tasks, as an index; None: no node has room for
    it. The node with the fewest GPUs among those, the first among equals."""
    best: tuple[int, int] | None = None
    fits_am, fits = Fits(am), Fits(task)
    for place in sorted(range(len(rooms)), key=lambda place: rooms[place].gpus):
        room = rooms[place]
        if fits_am[room[2:5]] < 1:
            continue
        cost = fits[room[2:5]] - fits[without(room, am)[2:5]]
        if best is None or cost < best[0]:
            best = (cost, place)
        if not cost:
            break
    return best[1] if best else None


def with_am_placed(rooms: Sequence[Room], am: Resources, task: Resources) -> list[Room] | None:
    """The rooms beside an ApplicationMaster; None: no node has room for it."""
    place = place_for_am(rooms, am, task)
    if place is None:
        return None
    return [*rooms[:place], without(rooms[place], am), *rooms[place + 1 :]]


def by_rack(rooms: Iterable[Room]) -> dict[RackId, list[Room]]:
    """The rooms of each rack, racks by name."""
    racks: dict[RackId, list[Room]] = {}
    for room in rooms:
        rack = racks.get(room.rack)
        if rack is None:
            racks[room.rack] = [room]
        else:
            rack.append(room)
    return dict(sorted(racks.items()))


def sum_of(rooms: Iterable[Room]) -> Resources:
    """All of it together, negative rooms as nothing."""
    memory_mib = vcores = gpus = 0
    for room in rooms:
        memory_mib += max(0, room.memory_mib)
        vcores += max(0, room.vcores)
        gpus += max(0, room.gpus)
    return Resources(memory_mib, vcores, gpus)

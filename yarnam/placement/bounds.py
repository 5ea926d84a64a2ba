"""What a place is asked for as, when some of its nodes must not be used.

Skein cannot ask for "all but these". Nodes that the job excludes, or that have another model of
GPU, are kept out by naming what is left: a few racks where those are pure, else a short list of
nodes. Where neither does, the place stays as it is and each grant is judged when it comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from yarnam.model.ids import NodeId, RackId
from yarnam.placement.ground import Ground
from yarnam.placement.places import Place
from yarnam.placement.rooms import Room, count_in, may_stand, total_rooms
from yarnam.placement.shapes import Group
from yarnam.placement.view import View

MOST_NODES_LISTED = 64
"""Longest strict node list of a service. Each node of a list is one more line in every ask the AM
sends (AMRMClientImpl sends one per node)."""
MOST_RACKS_LISTED = 32
"""The same for racks."""
FEW_BAD = 0.1
"""Share of a place's nodes below which those that must not be used are left to the judging of
grants, when the others are too many to be listed: nine grants of ten are right at once."""


@dataclass(frozen=True)
class Bounds:
    """Finds the bounds of places, for one view of a cluster."""

    view: View

    @cached_property
    def _barred(self) -> Ground:
        """Usable nodes that the job must not use."""
        barred = self.view.barred
        nodes = [node for node in self.view.snapshot.nodes if node.node_id in barred]
        return Ground(total_rooms(nodes, ()))

    def bounded(self, place: Place, group: Group) -> Place:
        """What to ask for, so that YARN grants no node to the group that must not be used."""
        if not group.model and not self.view.barred:
            return place
        good = [room for room in self.view.bare.at(place).rooms if self._is_good(room, group)]
        bad = self._bad(place, group)
        if not bad or not good:
            return place
        if racks := self._pure_racks(place, good, bad, group):
            return Place(racks=racks)
        if len(good) <= MOST_NODES_LISTED:
            return Place(nodes=tuple(sorted(room.node for room in good)))
        if len(bad) < FEW_BAD * (len(bad) + len(good)):
            return place
        best = self._best(good, group)
        return Place(nodes=best) if self._holds(best, group) else place

    def _bad(self, place: Place, group: Group) -> list[Room]:
        """Nodes of the place where YARN could put the group though they must not be used."""
        want = group.resources
        inside = [
            room
            for room in self.view.bare.at(place).rooms
            if group.model and count_in(room, want) and not self._is_good(room, group)
        ]
        outside = [room for room in self._barred.at(place).rooms if count_in(room, want)]
        return inside + outside

    def _is_good(self, room: Room, group: Group) -> bool:
        return count_in(room, group.resources) > 0 and may_stand(group, room)

    def _pure_racks(
        self, place: Place, good: Sequence[Room], bad: Sequence[Room], group: Group
    ) -> tuple[RackId, ...]:
        """Racks with good nodes only, where they can hold the group by themselves."""
        if place.nodes or len(place.racks) == 1:
            return ()
        mixed = {room.rack for room in bad}
        kept = [room for room in good if room.rack not in mixed]
        racks = tuple(sorted({room.rack for room in kept}))
        if not racks or len(racks) > MOST_RACKS_LISTED:
            return ()
        return racks if len(kept) == len(good) or len(kept) > MOST_NODES_LISTED else ()

    def _best(self, good: Sequence[Room], group: Group) -> tuple[NodeId, ...]:
        """As many as can be listed, those with the most room now first."""
        free = self.view.free.by_node
        taste, want = self.view.taste, group.resources

        def key(room: Room) -> tuple[int, int, int, str]:
            now = count_in(free[room.node], want) if room.node in free else 0
            bytes_there = taste.local.get(room.node, 0)
            return -now, -bytes_there, taste.order(room.node), room.node

        return tuple(sorted(room.node for room in sorted(good, key=key)[:MOST_NODES_LISTED]))

    def _holds(self, nodes: Sequence[NodeId], group: Group) -> bool:
        rooms = [self.view.bare.by_node[node] for node in nodes]
        return sum(count_in(room, group.resources) for room in rooms) >= group.count

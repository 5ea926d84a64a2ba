"""The rooms of one view of the cluster, with what planning asks of them again and again kept.

A plan looks at the same 10,000 nodes for every place and shape; each question is answered once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

from yarnam.model.ids import NodeId, RackId
from yarnam.model.resources import Resources
from yarnam.placement.packing import Host, hosts_of, pack, pack_one
from yarnam.placement.places import Place
from yarnam.placement.rooms import NO_TASTE, Fits, Room, Taste, by_rack, may_stand
from yarnam.placement.search import NO_RULES, Packing, PackRules
from yarnam.placement.shapes import Group, Shape, biggest, only


class Ground:
    """Rooms that do not change. Not a value: it remembers answers, which depend on nothing else."""

    def __init__(
        self,
        rooms: Sequence[Room],
        taste: Taste = NO_TASTE,
        fits: dict[Resources, Fits] | None = None,
    ) -> None:
        self.rooms = rooms
        self.taste = taste
        self._fits = {} if fits is None else fits
        """By the size of a task; shared with the parts of this ground."""
        self._counts: dict[tuple[Group, int], list[int]] = {}
        self._hosts: dict[tuple[Group, int], list[Host]] = {}
        self._places: dict[Place, Ground] = {}

    @cached_property
    def racks(self) -> dict[RackId, Ground]:
        """By name."""
        return {
            rack: Ground(rooms, self.taste, self._fits)
            for rack, rooms in by_rack(self.rooms).items()
        }

    @cached_property
    def by_node(self) -> dict[NodeId, Room]:
        return {room.node: room for room in self.rooms}

    def at(self, place: Place) -> Ground:
        """The part of it that is in this place."""
        if not place.nodes and not place.racks:
            return self
        if len(place.racks) == 1 and not place.nodes:
            return self.racks.get(place.racks[0]) or Ground(())
        found = self._places.get(place)
        if found is None:
            found = self._places[place] = Ground(self._rooms_at(place), self.taste, self._fits)
        return found

    def counts(self, group: Group, most: int) -> list[int]:
        """How many tasks of the group each node can host (at most ``most``), where it can host
        any; ascending."""
        key = (group, most)
        found = self._counts.get(key)
        if found is None:
            found = self._counts[key] = self._count(group, most)
        return found

    def able(self, shape: Shape) -> int:
        """How many nodes can host at least one of the biggest tasks."""
        group = biggest(shape)
        return len(self.counts(group, group.count))

    def hosts(self, group: Group, most: int) -> list[Host]:
        """See ``hosts_of``; not to be changed."""
        key = (group, most)
        found = self._hosts.get(key)
        if found is None:
            fits = self._fits_of(group.resources)
            found = self._hosts[key] = hosts_of(self.rooms, group, most, self.taste, (), fits)
        return found

    def pack(self, shape: Shape, rules: PackRules = NO_RULES) -> Packing | None:
        """All tasks or None."""
        if len(shape) > 1:
            return pack(self.rooms, shape, rules, self.taste)
        if self.fewest(shape, rules) is None:
            return None
        group = only(shape)
        return pack_one(self.hosts(group, _most(group, rules)), group, rules)

    def fewest(self, shape: Shape, rules: PackRules = NO_RULES) -> int | None:
        """The number of nodes of the tightest packing; None: there is none."""
        if len(shape) > 1:
            packing = pack(self.rooms, shape, rules, self.taste)
            return len(packing.nodes) if packing else None
        group = only(shape)
        counts = self.counts(group, _most(group, rules))
        if sum(counts) < group.count:
            return None
        reach = accumulate(reversed(counts))
        least = next(k for k, sum_ in enumerate(reach, 1) if sum_ >= group.count)
        return least if rules.node_limit is None or least <= rules.node_limit else None

    def may_hold(self, shape: Shape, rules: PackRules = NO_RULES) -> bool:
        """A quick test; False is sure, for a gang of one role True is as well."""
        if len(shape) == 1:
            return self.fewest(shape, rules) is not None
        return all(sum(self.counts(group, _most(group, rules))) >= group.count for group in shape)

    def _fits_of(self, want: Resources) -> Fits:
        found = self._fits.get(want)
        if found is None:
            found = self._fits[want] = Fits(want)
        return found

    def _count(self, group: Group, most: int) -> list[int]:
        fits = self._fits_of(group.resources)
        rooms = self.rooms
        if group.is_choosy:
            rooms = [room for room in rooms if may_stand(group, room)]
        counts = [count for room in rooms if (count := fits[room[2:5]])]
        counts.sort()
        if counts and counts[-1] > most:
            counts = [min(count, most) for count in counts]
        return counts

    def _rooms_at(self, place: Place) -> Sequence[Room]:
        if place.nodes:
            return [self.by_node[node] for node in place.nodes if node in self.by_node]
        return [
            room for rack in place.racks if rack in self.racks for room in self.racks[rack].rooms
        ]


def _most(group: Group, rules: PackRules) -> int:
    return 1 if rules.is_alone(group.role) else group.count

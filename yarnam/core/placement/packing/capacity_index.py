"""The nodes of one view of the cluster, indexed and with computed answers cached.

A plan looks at the same 10,000 nodes for every domain and shape; each answer is computed once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from itertools import accumulate, chain
from typing import Union

from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.resources import Resources
from yarnam.core.placement.domains import PlacementDomain
from yarnam.core.placement.gang_shape import Group, Shape, biggest, only_group
from yarnam.core.placement.packing.bin_packing import (
    NO_RULES,
    Host,
    Packing,
    PackRules,
    hosts_of,
    pack,
    pack_one,
)
from yarnam.core.placement.packing.node_capacity import (
    NO_TIE_BREAK,
    NodeCapacity,
    TaskCounts,
    TieBreak,
    by_rack,
    index_for_am,
    may_host,
    reserve,
)

AfterAm = tuple[Union["CapacityIndex", None], Union[NodeId, None]]
"""The capacity that is left beside an ApplicationMaster, and its node."""


class CapacityIndex:
    """Capacities that do not change. Not a value: it caches answers, which depend on nothing
    else."""

    def __init__(
        self,
        capacities: Sequence[NodeCapacity],
        tie_break: TieBreak = NO_TIE_BREAK,
        fits: dict[Resources, TaskCounts] | None = None,
    ) -> None:
        self.capacities = capacities
        self.tie_break = tie_break
        self._fits = {} if fits is None else fits
        """Answers by the size of a task; shared with the parts of this index."""
        self._counts: dict[tuple[Group, int], list[int]] = {}
        self._hosts: dict[tuple[Group, int], list[Host]] = {}
        self._domains: dict[PlacementDomain, CapacityIndex] = {}
        self._packings: dict[tuple[Shape, PackRules], Packing | None] = {}
        self._in_one_rack: dict[tuple[Shape, PackRules], int | None] = {}
        self._after_am: dict[tuple[Resources, Resources], AfterAm] = {}
        self.evaluated: dict[object, object] = {}
        """The results of ``candidates.evaluate`` for these nodes."""

    @cached_property
    def racks(self) -> dict[RackId, CapacityIndex]:
        """The index of each rack, by its name."""
        return {
            rack: CapacityIndex(capacities, self.tie_break, self._fits)
            for rack, capacities in by_rack(self.capacities).items()
        }

    @cached_property
    def by_node(self) -> dict[NodeId, NodeCapacity]:
        return {capacity.node: capacity for capacity in self.capacities}

    def with_changed(self, changed: Collection[NodeCapacity]) -> CapacityIndex:
        """The same nodes, some of them with other capacities. Racks without one of these keep their
        answers, and make those for all nodes quick."""
        by_node = {capacity.node: capacity for capacity in changed}

        def of(capacities: Sequence[NodeCapacity]) -> CapacityIndex:
            now = [by_node.get(capacity.node, capacity) for capacity in capacities]
            return CapacityIndex(now, self.tie_break, self._fits)

        twin, racks = of(self.capacities), dict(self.racks)
        for rack in {capacity.rack for capacity in changed}:
            racks[rack] = of(racks[rack].capacities)
        twin.racks = racks
        twin.by_node = {**self.by_node, **by_node}
        return twin

    @property
    def answers(self) -> int:
        """How many lists of nodes are kept."""
        parts: list[CapacityIndex] = list(self.racks.values()) if self._has_racks else []
        parts += [index for index, _ in self._after_am.values() if index is not None]
        own = len(self._counts) + len(self._hosts) + len(self._domains) + len(self._packings)
        own += len(self.evaluated)
        return own + sum(part.answers for part in parts)

    def within(self, domain: PlacementDomain) -> CapacityIndex:
        """The part of it that is in this domain."""
        if not domain.nodes and not domain.racks:
            return self
        if len(domain.racks) == 1 and not domain.nodes:
            return self.racks.get(domain.racks[0]) or CapacityIndex(())
        found = self._domains.get(domain)
        if found is None:
            found = self._domains[domain] = CapacityIndex(
                self._capacities_within(domain), self.tie_break, self._fits
            )
        return found

    def without(self, nodes: Collection[NodeId]) -> CapacityIndex:
        """The other nodes. Racks without one of these keep their answers."""

        def left_of(capacities: Sequence[NodeCapacity]) -> CapacityIndex:
            left = [capacity for capacity in capacities if capacity.node not in nodes]
            return CapacityIndex(left, self.tie_break, self._fits)

        twin = left_of(self.capacities)
        if self._has_racks:
            gone = {self.by_node[node].rack for node in nodes if node in self.by_node}
            racks = {
                name: left_of(rack.capacities) if name in gone else rack
                for name, rack in self.racks.items()
            }
            twin.racks = {name: rack for name, rack in racks.items() if rack.capacities}
        return twin

    def after_am(self, am: Resources, task: Resources) -> AfterAm:
        """Place the ApplicationMaster of a gang with such tasks; return the remaining capacity and
        its node, or None if no node can hold it. If the job's roles have several labels, it goes to
        a node without one."""
        found = self._after_am.get((am, task))
        if found is None:
            capacities = [one for one in self.capacities if not one.label] or self.capacities
            chosen = index_for_am(capacities, am, task)
            if chosen is None:
                found = None, None
            else:
                left = reserve(capacities[chosen], am)
                found = self.with_changed([left]), left.node
            self._after_am[am, task] = found
        return found

    def counts(self, group: Group, most: int) -> list[int]:
        """How many tasks of the group each node can host (at most ``most``), where it can host
        any; ascending."""
        key = (group, most)
        found = self._counts.get(key)
        if found is None:
            found = self._counts[key] = self._count(group, most)
        return found

    def able_hosts(self, shape: Shape) -> int:
        """How many nodes can host at least one of the biggest tasks."""
        group = biggest(shape)
        return len(self.counts(group, group.count))

    def hosts(self, group: Group, most: int) -> list[Host]:
        """See ``hosts_of``; callers must not change the list."""
        key = (group, most)
        found = self._hosts.get(key)
        if found is None:
            found = self._hosts[key] = self._sorted_hosts(group, most)
        return found

    def pack(self, shape: Shape, rules: PackRules = NO_RULES) -> Packing | None:
        """A node for every task, or None."""
        key = (shape, rules)
        if key not in self._packings:
            self._packings[key] = self._pack(shape, rules)
        return self._packings[key]

    def _pack(self, shape: Shape, rules: PackRules) -> Packing | None:
        if len(shape) > 1:
            return pack(self.capacities, shape, rules, self.tie_break)
        if self.fewest(shape, rules) is None:
            return None
        group = only_group(shape)
        return pack_one(self.hosts(group, rules.most_per_node(group)), group, rules)

    def fewest(self, shape: Shape, rules: PackRules = NO_RULES) -> int | None:
        """The number of nodes of the tightest packing; ``None`` if there is none."""
        if len(shape) > 1:
            packing = self.pack(shape, rules)
            return len(packing.nodes) if packing else None
        group = only_group(shape)
        counts = self.counts(group, rules.most_per_node(group))
        if sum(counts) < group.count:
            return None
        reach = accumulate(reversed(counts))
        least = next(k for k, sum_ in enumerate(reach, 1) if sum_ >= group.count)
        return least if rules.node_limit is None or least <= rules.node_limit else None

    def fewest_in_one_rack(self, shape: Shape, rules: PackRules) -> int | None:
        """The fewest nodes within one rack, in the rack that needs the fewest; ``None`` if no rack
        holds the gang."""
        key = (shape, rules)
        if key not in self._in_one_rack:
            # Equal racks are packed once.
            racks = {_packing_key(rack, shape, rules): rack for rack in self.racks.values()}
            found = [rack.fewest(shape, rules) for rack in racks.values()]
            least = min((count for count in found if count is not None), default=None)
            self._in_one_rack[key] = least
        return self._in_one_rack[key]

    def may_hold(self, shape: Shape, rules: PackRules = NO_RULES) -> bool:
        """A quick test: False is certain, and so is True for a gang of one role."""
        if len(shape) == 1:
            return self.fewest(shape, rules) is not None
        return all(
            sum(self.counts(group, rules.most_per_node(group))) >= group.count for group in shape
        )

    def _fits_of(self, want: Resources) -> TaskCounts:
        found = self._fits.get(want)
        if found is None:
            found = self._fits[want] = TaskCounts(want)
        return found

    def _sorted_hosts(self, group: Group, most: int) -> list[Host]:
        if self._has_racks:
            racks = self.racks.values()
            return sorted(chain.from_iterable(rack.hosts(group, most) for rack in racks))
        fits = self._fits_of(group.resources)
        return hosts_of(self.capacities, group, most, self.tie_break, (), fits)

    @property
    def _has_racks(self) -> bool:
        """Whether the index is split by rack already: then the racks' answers are combined."""
        return "racks" in self.__dict__

    def _count(self, group: Group, most: int) -> list[int]:
        if self._has_racks:
            racks = self.racks.values()
            return sorted(chain.from_iterable(rack.counts(group, most) for rack in racks))
        fits = self._fits_of(group.resources)
        capacities = self.capacities
        if group.is_choosy:
            capacities = [capacity for capacity in capacities if may_host(group, capacity)]
        counts = [count for capacity in capacities if (count := fits[capacity[2:5]])]
        counts.sort()
        if counts and counts[-1] > most:
            counts = [min(count, most) for count in counts]
        return counts

    def _capacities_within(self, domain: PlacementDomain) -> Sequence[NodeCapacity]:
        if domain.nodes:
            return [self.by_node[node] for node in domain.nodes if node in self.by_node]
        return [
            capacity
            for rack in domain.racks
            if rack in self.racks
            for capacity in self.racks[rack].capacities
        ]


def _packing_key(rack: CapacityIndex, shape: Shape, rules: PackRules) -> object:
    """Equal for racks in which the gang needs equally many nodes."""
    if len(shape) == 1:
        return tuple(rack.counts(shape[0], rules.most_per_node(shape[0])))
    if any(group.is_choosy for group in shape):
        return id(rack)
    return tuple(
        sorted(
            (capacity.gpus, capacity.memory_mib, capacity.vcores) for capacity in rack.capacities
        )
    )

"""How to ask for containers in a domain when some of its nodes must not be used.

Skein cannot ask for "all but these". Nodes that the job excludes, or that have another GPU model,
are kept out by naming what is left: a few racks that have no such nodes, else a short list of
nodes. Where neither works the domain stays as it is, and the AM checks each grant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.placement.domains import PlacementDomain
from yarnam.core.placement.gang_shape import Group
from yarnam.core.placement.job_view import JobView
from yarnam.core.placement.packing.capacity_index import CapacityIndex
from yarnam.core.placement.packing.node_capacity import (
    NodeCapacity,
    count_in,
    may_host,
    total_capacity,
)

MOST_NODES_LISTED = 64
"""Longest strict node list of a service. Each node of a list is one more entry in every request of
the AM (AMRMClientImpl sends one per node)."""
MOST_RACKS_LISTED = 32
"""Longest strict rack list of a service."""
FEW_BAD = 0.1
"""Fraction of a domain's nodes. If fewer than this must not be used and the others are too many to
list, the AM checks grants instead: nine of ten grants fit immediately."""


@dataclass(frozen=True)
class Bounds:
    """Finds the bounds of domains, for one view of a cluster."""

    view: JobView

    @cached_property
    def _excluded(self) -> CapacityIndex:
        """Usable nodes that the job must not use."""
        excluded = self.view.excluded
        nodes = [node for node in self.view.snapshot.nodes if node.node_id in excluded]
        return CapacityIndex(total_capacity(nodes, ()))

    def bounded(self, domain: PlacementDomain, group: Group) -> PlacementDomain:
        """The domain to ask for, so that YARN grants the group no node that it must not use."""
        if not group.model and not self.view.excluded:
            return domain
        good = [
            capacity
            for capacity in self.view.idle.within(domain).capacities
            if self._is_good(capacity, group)
        ]
        bad = self._bad(domain, group)
        if not bad or not good:
            return domain
        if racks := self._pure_racks(domain, good, bad, group):
            return PlacementDomain(racks=racks)
        if len(good) <= MOST_NODES_LISTED:
            return PlacementDomain(nodes=tuple(sorted(capacity.node for capacity in good)))
        if len(bad) < FEW_BAD * (len(bad) + len(good)):
            return domain
        best = self._best(good, group)
        return PlacementDomain(nodes=best) if self._holds(best, group) else domain

    def _bad(self, domain: PlacementDomain, group: Group) -> list[NodeCapacity]:
        """Nodes of the domain where YARN could place the group though they must not be used."""
        want = group.resources
        inside = [
            capacity
            for capacity in self.view.idle.within(domain).capacities
            if group.model and count_in(capacity, want) and not self._is_good(capacity, group)
        ]
        outside = [
            capacity
            for capacity in self._excluded.within(domain).capacities
            if count_in(capacity, want)
        ]
        return inside + outside

    def _is_good(self, capacity: NodeCapacity, group: Group) -> bool:
        return count_in(capacity, group.resources) > 0 and may_host(group, capacity)

    def _pure_racks(
        self,
        domain: PlacementDomain,
        good: Sequence[NodeCapacity],
        bad: Sequence[NodeCapacity],
        group: Group,
    ) -> tuple[RackId, ...]:
        """Racks with good nodes only, if they can hold the group by themselves."""
        if domain.nodes or len(domain.racks) == 1:
            return ()
        mixed = {capacity.rack for capacity in bad}
        kept = [capacity for capacity in good if capacity.rack not in mixed]
        racks = tuple(sorted({capacity.rack for capacity in kept}))
        if not racks or len(racks) > MOST_RACKS_LISTED:
            return ()
        return racks if len(kept) == len(good) or len(kept) > MOST_NODES_LISTED else ()

    def _best(self, good: Sequence[NodeCapacity], group: Group) -> tuple[NodeId, ...]:
        """As many nodes as can be listed, those with the most free capacity first."""
        free = self.view.free.by_node
        tie_break, want = self.view.tie_break, group.resources

        def key(capacity: NodeCapacity) -> tuple[int, int, int, str]:
            now = count_in(free[capacity.node], want) if capacity.node in free else 0
            bytes_there = tie_break.local.get(capacity.node, 0)
            return -now, -bytes_there, tie_break.order(capacity.node), capacity.node

        return tuple(
            sorted(capacity.node for capacity in sorted(good, key=key)[:MOST_NODES_LISTED])
        )

    def _holds(self, nodes: Sequence[NodeId], group: Group) -> bool:
        capacities = [self.view.idle.by_node[node] for node in nodes]
        return sum(count_in(capacity, group.resources) for capacity in capacities) >= group.count

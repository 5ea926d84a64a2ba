"""The indexes of the last snapshot, kept for the next plan: a caller that plans on one cluster
repeatedly indexes only the changes."""

from __future__ import annotations

from operator import attrgetter

from yarnam.core.model.ids import NodeId
from yarnam.core.model.snapshot import Node
from yarnam.core.placement.packing.capacity_index import CapacityIndex
from yarnam.core.placement.packing.node_capacity import free_capacity, total_capacity

MOST_ANSWERS = 8192
"""The most lists of nodes that are kept, for gangs of different shapes. One of 25 nodes takes 3 kB;
with more of them the indexes are built again."""

MOST_EXCLUDED = 16
"""Sets of nodes to avoid, of one snapshot: those that look at it mostly avoid the same."""


class IndexMemory:
    """The usable nodes of the last snapshot, all of them, in no order of a job's own. Not a value:
    what ``indexes`` returns depends on its argument alone, only how fast does not."""

    def __init__(self) -> None:
        self._nodes: tuple[Node, ...] = ()
        self._idle = CapacityIndex(())
        self._free = CapacityIndex(())
        self._without: dict[frozenset[NodeId], tuple[CapacityIndex, CapacityIndex]] = {}

    def indexes(
        self, nodes: tuple[Node, ...], excluded: frozenset[NodeId] = frozenset()
    ) -> tuple[CapacityIndex, CapacityIndex]:
        """The indexes of these nodes, less the excluded ones, sorted by name: of their capacity as
        if nothing ran, and of the free capacity now."""
        self._move_to(nodes)
        if not excluded:
            return self._idle, self._free
        found = self._without.get(excluded)
        if found is None:
            if len(self._without) >= MOST_EXCLUDED:
                self._without.clear()
            found = self._idle.without(excluded), self._free.without(excluded)
            self._without[excluded] = found
        return found

    def _move_to(self, nodes: tuple[Node, ...]) -> None:
        if nodes is not self._nodes:
            changed = _changed(self._nodes, nodes)
            if changed is None or self._answers > MOST_ANSWERS:
                by_name = sorted(nodes, key=attrgetter("node_id"))
                self._idle = CapacityIndex(total_capacity(by_name, ()))
                self._free = CapacityIndex(free_capacity(by_name, ()))
            else:
                self._free = self._free.with_changed(free_capacity(changed, ()))
            self._nodes = nodes
            self._without.clear()

    @property
    def _answers(self) -> int:
        return self._idle.answers + self._free.answers


def _changed(before: tuple[Node, ...], now: tuple[Node, ...]) -> list[Node] | None:
    """The nodes whose use differs; ``None`` if the snapshots differ in more than that."""
    if len(before) != len(now):
        return None
    pairs = [(old, new) for old, new in zip(before, now, strict=True) if old is not new]
    if any(_facts(old) != _facts(new) for old, new in pairs):
        return None
    return [new for _, new in pairs]


def _facts(node: Node) -> tuple[object, ...]:
    return node.node_id, node.rack, node.state, node.total, node.gpu_model, node.label

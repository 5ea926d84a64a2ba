"""Where the bytes of a job's inputs lie."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from yarnam.core.model.ids import NodeId, RackId

MOST_NODES_KEPT = 2000
"""Nodes remembered at most, those with the most bytes: 60 KB of JSON."""


@dataclass(frozen=True, slots=True)
class BytesByNode:
    """How many bytes of the inputs each node holds. A block counts at every node with a replica,
    so the sum over nodes is more than ``total_bytes``.

    ``nodes`` are (node, bytes), the most bytes first, by name among equals. Racks are summed by
    the planner from its snapshot, with ``rack_bytes`` for those that a sum would count twice: a
    block with two replicas in one rack.
    """

    nodes: tuple[tuple[NodeId, int], ...] = ()
    racks: tuple[tuple[RackId, int], ...] = ()
    """(rack, bytes that have at least one replica in it)."""
    total_bytes: int = 0
    """Of the inputs that were read, each byte once."""
    is_sample: bool = False
    """Whether only a part of the inputs was read: there were too many files."""

    def __bool__(self) -> bool:
        return bool(self.nodes)


NO_DATA = BytesByNode()


def bytes_by_node(
    blocks: Iterable[tuple[int, Iterable[tuple[NodeId, RackId]]]], *, is_sample: bool = False
) -> BytesByNode:
    """From blocks as (length in bytes, where its replicas are)."""
    nodes: dict[NodeId, int] = {}
    racks: dict[RackId, int] = {}
    total = 0
    for length, places in blocks:
        total += length
        where = list(places)
        for node in {node for node, _ in where}:
            nodes[node] = nodes.get(node, 0) + length
        for rack in {rack for _, rack in where if rack}:
            racks[rack] = racks.get(rack, 0) + length
    most = sorted(nodes.items(), key=lambda item: (-item[1], item[0]))[:MOST_NODES_KEPT]
    return BytesByNode(tuple(most), tuple(sorted(racks.items())), total, is_sample)

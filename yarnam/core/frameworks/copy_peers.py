"""Which task gets the copies of which other task's checkpoints. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple


class Holder(NamedTuple):
    """Where a task that holds copies is."""

    rack: str
    node: str


def copy_peers(holders: Sequence[Holder]) -> tuple[int | None, ...]:
    """For each task the number of the one that its copies go to: on another node, and on another
    rack if the racks are large enough for that. Nobody gets more than one copy, unless one node has
    more than half of the tasks. ``None`` if all tasks are on one node."""
    count = len(holders)
    nodes = Counter(holder.node for holder in holders)
    if len(nodes) < 2:
        return (None,) * count
    order = sorted(range(count), key=lambda number: (*holders[number], number))
    racks = Counter(holder.rack for holder in holders)
    # Of tasks that are sorted by groups, a shift by the size of the largest group leads each into
    # another group, if no group has more than half of them.
    shifts = (max(racks.values()), max(nodes.values()), count // 2)
    shift = max(
        (shift for shift in shifts if 0 < shift < count),
        key=lambda shift: _quality(holders, order, shift),
    )
    peers: list[int | None] = [None] * count
    for at, number in enumerate(order):
        peers[number] = order[(at + shift) % count]
    load = Counter(peers)
    for number, peer in enumerate(peers):
        if peer is not None and holders[peer].node == holders[number].node:
            others = [n for n in order if holders[n].node != holders[number].node]
            peers[number] = min(others, key=lambda n: load[n])
            load[peers[number]] += 1
    return tuple(peers)


def _quality(holders: Sequence[Holder], order: Sequence[int], shift: int) -> tuple[int, int]:
    pairs = [
        (holders[number], holders[order[(at + shift) % len(order)]])
        for at, number in enumerate(order)
    ]
    other_nodes = sum(one.node != other.node for one, other in pairs)
    return other_nodes, sum(one.rack != other.rack for one, other in pairs)

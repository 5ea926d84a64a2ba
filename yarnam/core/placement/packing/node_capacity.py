"""The capacity of each node as a plain tuple: packing makes thousands of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple
from zlib import crc32

from yarnam.core.model.gpu_names import has_words
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import Node, NodeState
from yarnam.core.placement.gang_shape import Group

WITHOUT_LIMIT = 2**31
"""How many tasks that want nothing fit into anything (as in ``Resources.count_in``)."""


class NodeCapacity(NamedTuple):
    """The total or the free capacity of one node. An amount is negative while a snapshot shows the
    node overcommitted."""

    node: NodeId
    rack: RackId
    memory_mib: int
    vcores: int
    gpus: int
    model: str = ""
    """The model of its GPUs; empty if unknown."""
    label: str = ""
    """The label of its partition; empty if it has none."""

    @property
    def resources(self) -> Resources:
        """The amounts, with negative ones as 0."""
        return Resources(max(0, self.memory_mib), max(0, self.vcores), max(0, self.gpus))


class TieBreak(NamedTuple):
    """The tie-break between nodes that are equally good otherwise."""

    local: Mapping[NodeId, int] = {}
    """Bytes of the job's inputs by node: more is better."""
    salt: int = 0
    """Unless 0, it shuffles equal nodes, each salt in its own way: jobs that plan on one cluster at
    the same time then do not all choose the same nodes."""

    def order(self, name: str) -> int:
        """The sort key of a node or rack; names with equal keys sort by the alphabet."""
        return crc32(name.encode(), self.salt) if self.salt else 0


NO_TIE_BREAK = TieBreak()


def salt_of(seed: str) -> int:
    """The salt for a job's key or application id; 0 for the empty seed only."""
    return (crc32(seed.encode()) or 1) if seed else 0


def total_capacity(nodes: Iterable[Node], excluded: Collection[NodeId]) -> list[NodeCapacity]:
    """Usable nodes as if nothing ran on them."""
    running = NodeState.RUNNING
    return [
        NodeCapacity(n.node_id, n.rack, t.memory_mib, t.vcores, t.gpus, n.gpu_model, n.label)
        for n in nodes
        if n.state is running and n.node_id not in excluded
        for t in (n.total,)
    ]


def free_capacity(nodes: Iterable[Node], excluded: Collection[NodeId]) -> list[NodeCapacity]:
    """Usable nodes with what is free on them now."""
    running = NodeState.RUNNING
    return [
        NodeCapacity(
            n.node_id,
            n.rack,
            t.memory_mib - u.memory_mib,
            t.vcores - u.vcores,
            t.gpus - u.gpus,
            n.gpu_model,
            n.label,
        )
        for n in nodes
        if n.state is running and n.node_id not in excluded
        for t, u in ((n.total, n.used),)
    ]


def count_in(capacity: NodeCapacity, want: Resources) -> int:
    """How many containers of this size fit into the capacity."""
    count = WITHOUT_LIMIT
    if want.gpus:
        count = capacity.gpus // want.gpus
        if count <= 0:
            return 0
    if want.memory_mib:
        count = min(count, capacity.memory_mib // want.memory_mib)
    if want.vcores:
        count = min(count, capacity.vcores // want.vcores)
    return max(0, count)


Size = tuple[int, int, int]
"""MiB, vcores, GPUs: the middle of a ``NodeCapacity``."""


class TaskCounts(dict[Size, int]):
    """How many containers of one size fit into capacities of each size. Thousands of nodes share
    a few sizes, so each count is computed once."""

    def __init__(self, want: Resources) -> None:
        super().__init__()
        self._want = want

    def __missing__(self, size: Size) -> int:
        count = self[size] = count_in(NodeCapacity(NodeId(""), RackId(""), *size), self._want)
        return count


def may_host(group: Group, capacity: NodeCapacity) -> bool:
    """Whether the group's tasks may use this node at all. A node whose GPU model is not known may
    be taken on trust: its agent reports what it finds."""
    if group.within_nodes is not None and capacity.node not in group.within_nodes:
        return False
    if group.within_racks is not None and capacity.rack not in group.within_racks:
        return False
    if group.label is not None and capacity.label != group.label:
        return False
    if not group.model:
        return True
    return has_words(capacity.model, group.model) if capacity.model else group.has_trust


def reserve(capacity: NodeCapacity, want: Resources, count: int = 1) -> NodeCapacity:
    """The capacity that is left beside ``count`` containers of this size."""
    return NodeCapacity(
        capacity.node,
        capacity.rack,
        capacity.memory_mib - want.memory_mib * count,
        capacity.vcores - want.vcores * count,
        capacity.gpus - want.gpus * count,
        capacity.model,
        capacity.label,
    )


def index_for_am(capacities: Sequence[NodeCapacity], am: Resources, task: Resources) -> int | None:
    """The index of the node on which an ApplicationMaster costs the fewest tasks; None if no node
    can hold it. Among equals the node with the fewest GPUs wins, then the first."""
    best: tuple[int, int] | None = None
    fits_am, fits = TaskCounts(am), TaskCounts(task)
    for index in sorted(range(len(capacities)), key=lambda index: capacities[index].gpus):
        capacity = capacities[index]
        if fits_am[capacity[2:5]] < 1:
            continue
        cost = fits[capacity[2:5]] - fits[reserve(capacity, am)[2:5]]
        if best is None or cost < best[0]:
            best = (cost, index)
        if not cost:
            break
    return best[1] if best else None


def by_rack(capacities: Iterable[NodeCapacity]) -> dict[RackId, list[NodeCapacity]]:
    """The capacities of each rack, racks by name."""
    racks: dict[RackId, list[NodeCapacity]] = {}
    for capacity in capacities:
        racks.setdefault(capacity.rack, []).append(capacity)
    return dict(sorted(racks.items()))


def sum_of(capacities: Iterable[NodeCapacity]) -> Resources:
    """The sum, negative amounts as nothing."""
    memory_mib = vcores = gpus = 0
    for capacity in capacities:
        memory_mib += max(0, capacity.memory_mib)
        vcores += max(0, capacity.vcores)
        gpus += max(0, capacity.gpus)
    return Resources(memory_mib, vcores, gpus)

"""Whole nodes that queues are guaranteed, and the effect of placements on them (Zhao et al.,
"HiveD", OSDI 2020).

A queue's quota is a number of whole nodes: what YARN guarantees it (``minimum``) in nodes of the
cluster's usual size. A node is the cell of the one queue whose gangs run there, or free; one on
which two queues have gangs, or an unknown job runs, is *broken*: no queue can have it as a whole
until the others have gone. A quota still covers as many nodes as it has beyond those that its
queue's gangs touch.

A gang that respects cells (``closed_nodes``) uses nodes of its own queue and free ones alone, and
of those it leaves as many as the quotas of all others still cover. So as long as all do, arrivals
and ends in one queue never take a whole node from another's quota: an arrival leaves enough, and an
end frees just the node by which its quota covers more. What is beyond a quota may use what is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from yarnam.core.admission import QueueSnapshot
from yarnam.core.admission.wait_queue import queues_of
from yarnam.core.model.ids import NodeId
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import Node
from yarnam.core.model.tickets import RunningGang, Ticket

UNKNOWN = ""
"""The queue of applications that use GPUs and do not report where."""


@dataclass(frozen=True, slots=True)
class NodeUse:
    """The GPUs that a job holds on a node."""

    job: str
    """Empty if unknown."""
    queue: str
    gpus: int


@dataclass(frozen=True, slots=True)
class BrokenNode:
    """A node that would be whole for a queue if these were not there."""

    node: NodeId
    others: tuple[NodeUse, ...]

    @property
    def gpus(self) -> int:
        return sum(use.gpus for use in self.others)


@dataclass(frozen=True, slots=True)
class QueueCells:
    """Whole nodes of one queue."""

    queue: str
    quota: int
    own: int
    """On which its gangs are alone."""
    free: int
    """Free nodes that it still needs for its quota, and could have."""
    broken: tuple[BrokenNode, ...] = ()
    """Those that it lacks, the ones with the least use by others."""

    @property
    def lacks(self) -> int:
        return max(0, self.quota - self.own - self.free)


@dataclass(frozen=True, slots=True)
class Cells:
    """All queues that have a quota, by name, and their demand on whole nodes together."""

    node_gpus: int
    """The GPUs of a whole node."""
    nodes: int
    """Usable nodes of this size."""
    free: int
    covered: int
    """Whole nodes that all quotas still cover together."""
    queues: tuple[QueueCells, ...]

    @property
    def is_fragmented(self) -> bool:
        return self.covered > self.free or any(one.lacks for one in self.queues)


def usual_gpus(nodes: Iterable[Node]) -> int:
    """GPUs of most nodes that have any; of two sizes that are as frequent the larger."""
    sizes = Counter(node.total.gpus for node in nodes if node.is_usable and node.total.gpus)
    return max(sizes, key=lambda gpus: (sizes[gpus], gpus), default=0)


def quotas_of(minima: Mapping[str, Resources | None], node_gpus: int) -> dict[str, int]:
    """Whole nodes that YARN guarantees to each queue; those without any are left out."""
    gpus_of = {name: minimum.gpus for name, minimum in minima.items() if minimum is not None}
    return {name: gpus // node_gpus for name, gpus in gpus_of.items() if gpus >= node_gpus > 0}


def cells(
    nodes: Sequence[Node],
    gangs: Iterable[RunningGang],
    quotas: Mapping[str, int],
    *,
    only: str = "",
) -> Cells:
    """Compute what the present placement leaves of the quotas; with ``only``, the row of this queue
    alone."""
    placement = _Placement(nodes, gangs)
    rows = tuple(
        _row(placement, queue, quotas[queue]) for queue in sorted(quotas) if only in {"", queue}
    )
    covered = sum(placement.covered(queue, quota) for queue, quota in quotas.items())
    return Cells(placement.node_gpus, len(placement.uses), len(placement.free), covered, rows)


def _row(placement: _Placement, queue: str, quota: int) -> QueueCells:
    own = len(placement.own(queue))
    free = min(len(placement.free), max(0, quota - own))
    row = QueueCells(queue, quota, own, free)
    broken = sorted(
        (
            BrokenNode(node, tuple(use for use in uses if use.queue != queue))
            for node, uses in placement.uses.items()
            if any(use.queue != queue for use in uses)
        ),
        key=lambda one: (one.gpus, one.node),
    )
    return replace(row, broken=tuple(broken[: row.lacks]))


def closed_nodes(
    queue: str,
    nodes: Sequence[Node],
    gangs: Iterable[RunningGang],
    quotas: Mapping[str, int],
    on_their_way: int = 0,
) -> frozenset[NodeId]:
    """Nodes that a gang of this queue may not use if it respects cells. ``on_their_way``: this many
    nodes more are left free, for gangs whose containers are not granted yet."""
    placement = _Placement(nodes, gangs)
    covered = sum(
        placement.covered(other, quota) for other, quota in quotas.items() if other != queue
    )
    allowed = max(0, len(placement.free) - covered - on_their_way)
    # Free nodes that are left to it: together in as few racks as possible.
    in_rack = Counter(placement.racks[node] for node in placement.free)
    free = sorted(
        placement.free,
        key=lambda node: (-in_rack[placement.racks[node]], placement.racks[node], node),
    )
    foreign = (node for node in placement.uses if placement.touched_by(node) - {queue})
    return frozenset((*free[allowed:], *foreign))


def closed_to(me: Ticket, seen: QueueSnapshot) -> frozenset[NodeId]:
    """``closed_nodes`` of a job that waits, by what YARN guarantees the queues."""
    nodes = [node for node in seen.snapshot.nodes if not node.label]
    node_gpus = usual_gpus(nodes)
    minima = {name: view.minimum for name, view in queues_of(seen.snapshot).items()}
    gangs = [gang for gang in seen.running if gang.job != me.job]
    asked = (one.gpus for one in seen.tickets if one.is_acquiring and one.job != me.job)
    on_their_way = sum(-(-gpus // node_gpus) for gpus in asked) if node_gpus else 0
    return closed_nodes(me.queue, nodes, gangs, quotas_of(minima, node_gpus), on_their_way)


@dataclass(slots=True)
class _Placement:
    """Who is on which node of the usual size."""

    nodes: Sequence[Node]
    gangs: Iterable[RunningGang]
    node_gpus: int = 0
    uses: dict[NodeId, list[NodeUse]] = field(default_factory=dict[NodeId, list[NodeUse]])
    racks: dict[NodeId, str] = field(default_factory=dict[NodeId, str])
    free: list[NodeId] = field(default_factory=list[NodeId])

    def __post_init__(self) -> None:
        self.node_gpus = usual_gpus(self.nodes)
        whole = [
            node for node in self.nodes if node.is_usable and node.total.gpus == self.node_gpus
        ]
        self.uses = {node.node_id: [] for node in whole}
        self.racks = {node.node_id: str(node.rack) for node in whole}
        for gang in self.gangs:
            for name, gpus in gang.nodes:
                if gpus and name in self.uses:
                    self.uses[name].append(NodeUse(gang.job, gang.queue, gpus))
        for node in whole:
            mine = self.uses[node.node_id]
            unknown = node.used.gpus - sum(use.gpus for use in mine)
            if unknown > 0:
                mine.append(NodeUse("", UNKNOWN, unknown))
            if not mine:
                self.free.append(node.node_id)

    def touched_by(self, node: NodeId) -> set[str]:
        return {use.queue for use in self.uses[node]}

    def own(self, queue: str) -> Collection[NodeId]:
        """Nodes on which its gangs are alone."""
        return [node for node in self.uses if self.touched_by(node) == {queue}]

    def covered(self, queue: str, quota: int) -> int:
        """Whole nodes that its quota covers beyond those that its gangs touch."""
        touched = sum(queue in self.touched_by(node) for node in self.uses)
        return max(0, quota - touched)

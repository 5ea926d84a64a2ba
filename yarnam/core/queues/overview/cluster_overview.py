"""The cluster as an administrator looks at it: its GPUs, its nodes and who runs there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from yarnam.core.model.ids import NodeId
from yarnam.core.model.snapshot import Closure, Node, NodeState, NodeStrike
from yarnam.core.queues.queues_now import QueueJob

BROKEN = frozenset({NodeState.LOST, NodeState.UNHEALTHY})


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The ResourceManager's word on itself."""

    name: str
    state: str
    version: str = ""
    started_at_s: float | None = None


@dataclass(frozen=True, slots=True)
class GpuUse:
    """Each GPU of the cluster counts once."""

    total: int
    used: int
    free: int
    closed: int
    """Idle on nodes that are cordoned, or leave the cluster."""
    broken: int
    """On nodes that are lost or unhealthy."""


def gpu_use(nodes: Iterable[Node]) -> GpuUse:
    """Count the GPUs of these nodes by what they are doing."""
    total = used = free = closed = broken = 0
    for node in nodes:
        total += node.total.gpus
        if node.state in BROKEN:
            broken += node.total.gpus
            continue
        taken = min(node.used.gpus, node.total.gpus)
        used += taken
        if node.is_usable:
            free += node.total.gpus - taken
        else:
            closed += node.total.gpus - taken
    return GpuUse(total, used, free, closed, broken)


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node with what is known about it."""

    node: Node
    closure: Closure | None = None
    gangs: tuple[tuple[QueueJob, int], ...] = ()
    """The gangs that run there by their own reports, with their GPUs on this node; the most GPUs
    first."""
    strikes: tuple[NodeStrike, ...] = ()
    """The newest first."""

    @property
    def is_full(self) -> bool:
        """Whether it runs and all its GPUs are in use."""
        return self.node.is_usable and self.node.free.gpus < 1 <= self.node.total.gpus

    @property
    def is_stranded(self) -> bool:
        """Whether it has free GPUs that no task can use, because memory or vcores are used up."""
        free = self.node.available
        return free.gpus > 0 and (free.memory_mib < 1 or free.vcores < 1)

    @property
    def needs_attention(self) -> bool:
        return not self.node.is_usable or self.is_stranded or bool(self.strikes)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The words by which nodes are counted and chosen: its state, and what else it is."""
        more = (("full", self.is_full), ("stranded", self.is_stranded),
                ("struck", bool(self.strikes)))  # fmt: skip
        return (self.node.state.value, *(word for word, holds in more if holds))


_ORDER = (NodeState.LOST, NodeState.UNHEALTHY, NodeState.DECOMMISSIONING, NodeState.CORDONED,
          NodeState.RUNNING)  # fmt: skip


def node_rows(
    nodes: Sequence[Node],
    jobs: Iterable[QueueJob] = (),
    closures: Mapping[NodeId, Closure] | None = None,
    strikes: Iterable[NodeStrike] = (),
) -> tuple[NodeRow, ...]:
    """One row for each node; those that need attention come first, then by rack and name."""
    gangs: dict[NodeId, list[tuple[QueueJob, int]]] = defaultdict(list)
    for job in jobs:
        for node, gpus in job.gang.nodes if job.gang is not None else ():
            gangs[node].append((job, gpus))
    struck: dict[NodeId, list[NodeStrike]] = defaultdict(list)
    for strike in strikes:
        struck[strike.node].append(strike)
    rows = [
        NodeRow(
            node,
            (closures or {}).get(node.node_id),
            tuple(sorted(gangs[node.node_id], key=lambda one: (-one[1], one[0].application))),
            tuple(sorted(struck[node.node_id], key=lambda one: (-one.at_s, one.job))),
        )
        for node in nodes
    ]

    def order(row: NodeRow) -> tuple[bool, int, bool, str, str]:
        node = row.node
        state = _ORDER.index(node.state)
        return not row.needs_attention, state, not row.strikes, node.rack, node.node_id

    return tuple(sorted(rows, key=order))


def node_counts(rows: Iterable[NodeRow]) -> Mapping[str, int]:
    """How many nodes are of each of ``NodeRow.kinds``, in the order of their states."""
    words = [state.value for state in _ORDER[::-1]] + ["full", "stranded", "struck"]
    counts = dict.fromkeys(words, 0)
    for row in rows:
        for word in row.kinds:
            counts[word] += 1
    return {word: count for word, count in counts.items() if count}

"""Immutable view of the cluster at one instant: what the planner sees."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from yarnam.model.ids import NodeId, RackId
from yarnam.model.resources import Resources


class NodeState(Enum):
    """The part of YARN's node states that decides whether a node can take containers."""

    RUNNING = "running"
    UNHEALTHY = "unhealthy"
    DECOMMISSIONING = "decommissioning"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Node:
    """One NodeManager. ``http_address`` (host:port) is unique even with several on one host."""

    node_id: NodeId
    rack: RackId
    state: NodeState
    total: Resources
    used: Resources
    http_address: str = ""
    gpu_model: str = ""
    labels: tuple[str, ...] = ()

    @property
    def free(self) -> Resources:
        return self.total.minus(self.used)

    @property
    def is_usable(self) -> bool:
        return self.state is NodeState.RUNNING


@dataclass(frozen=True, slots=True)
class QueueView:
    """A leaf queue of the Fair Scheduler. ``maximum`` None: no limit was configured or seen."""

    name: str
    used: Resources = Resources()
    steady_share: Resources | None = None
    fair_share: Resources | None = None
    maximum: Resources | None = None
    max_container: Resources | None = None
    running_jobs: int = 0
    pending_jobs: int = 0
    max_running_jobs: int | None = None


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """Nodes and one queue, as of ``taken_at_s`` (seconds since the epoch)."""

    taken_at_s: float
    nodes: tuple[Node, ...]
    queue: QueueView
    max_container: Resources | None = None
    """The largest container YARN grants at all (yarn.scheduler.maximum-allocation-*)."""

    def node(self, node_id: NodeId) -> Node | None:
        return next((node for node in self.nodes if node.node_id == node_id), None)

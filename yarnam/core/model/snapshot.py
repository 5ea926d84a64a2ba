"""Immutable view of the cluster at one instant: what the planner sees."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.resources import Resources


class NodeState(Enum):
    """The part of YARN's node states that decides whether a node can take containers."""

    RUNNING = "running"
    UNHEALTHY = "unhealthy"
    DECOMMISSIONING = "decommissioning"
    CORDONED = "cordoned"
    """It runs, and an administrator of yarnam keeps gangs off it (``Closure``)."""
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Closure:
    """An administrator's order that no gang begins in a place: a cordoned node, or a stopped queue.
    Times in seconds since the epoch."""

    by: str
    """Who gave it, by their own word."""
    at_s: float
    reason: str = ""
    drain_by_s: float | None = None
    """When the gangs that are there have to have left; ``None`` if they may run to their end."""
    was_closed: bool = False
    """It was closed before it was drained, and stays so when the drain is taken back."""

    @property
    def words(self) -> str:
        """``by ann: disk errors``."""
        return f"by {self.by}: {self.reason}" if self.reason else f"by {self.by}"


@dataclass(frozen=True, slots=True)
class Closures:
    """All orders at one instant."""

    nodes: Mapping[NodeId, Closure] = field(default_factory=dict["NodeId", Closure])
    queues: Mapping[str, Closure] = field(default_factory=dict[str, Closure])

    def __bool__(self) -> bool:
        return bool(self.nodes or self.queues)

    def of_queue(self, queue: str) -> tuple[str, Closure] | None:
        """The stopped queue that holds up the jobs of this one: itself, or one above it."""
        while queue:
            if queue in self.queues:
                return queue, self.queues[queue]
            queue = queue.rpartition(".")[0]
        return None


class Scheduler(Enum):
    """The part of the ResourceManager that hands out containers."""

    FAIR = "fair"
    CAPACITY = "capacity"
    OTHER = "other"


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
    is_named: bool = True
    """``False`` means who asked is not told its name (a gateway keeps it to itself), and
    ``node_id`` is a name that holds for this snapshot alone."""

    health: str = ""
    """YARN's own reason, if it does not run; empty if it runs or YARN gives none."""

    @property
    def free(self) -> Resources:
        return self.total.minus(self.used)

    @property
    def is_usable(self) -> bool:
        return self.state is NodeState.RUNNING

    @property
    def available(self) -> Resources:
        """What gangs may take of it: nothing while it does not run or is closed to them."""
        return self.free if self.is_usable else Resources()

    @property
    def label(self) -> str:
        """The node's partition, of which it has one; empty without a label."""
        return self.labels[0] if self.labels else ""


@dataclass(frozen=True, slots=True)
class NodeStrike:
    """A job's recent strike against a node, as it has told the other jobs. Anybody may have written
    it."""

    node: NodeId
    job: str
    """The application, by its own word."""
    at_s: float
    why: str = ""


@dataclass(frozen=True, slots=True)
class QueueView:
    """A leaf queue. ``maximum`` is ``None`` if no limit was configured or seen. Under the Capacity
    Scheduler the shares and the minimum are the queue's capacity."""

    name: str
    used: Resources = Resources()
    steady_share: Resources | None = None
    fair_share: Resources | None = None
    minimum: Resources | None = None
    """The guaranteed resources, if any."""
    maximum: Resources | None = None
    max_container: Resources | None = None
    running_jobs: int = 0
    pending_jobs: int = 0
    max_running_jobs: int | None = None
    headroom: Resources | None = None
    """The resources left before this queue or one above it reaches its maximum; ``None`` if no
    limit above it is known, so that ``maximum`` less ``used`` applies."""
    user_limit: Resources | None = None
    """The most that one user may use of it; ``None`` for as much as the queue. YARN lets the last
    container of a user exceed it."""
    used_by: tuple[tuple[str, Resources], ...] = ()
    """The users' shares of it, where ``user_limit`` binds."""
    is_preemptable: bool = True
    """YARN may take containers from it for queues below their share, where it preempts at all."""

    def used_by_user(self, user: str) -> Resources:
        """The resources that this user holds, where ``user_limit`` binds."""
        return next((used for name, used in self.used_by if name == user), Resources())

    def exceeds_user_limit(self, user: str, need: Resources, last: Resources) -> bool:
        """Whether this much more of it would exceed the user's limit now; ``last`` is the container
        that may exceed the limit."""
        if self.user_limit is None:
            return False
        return not self.used_by_user(user).plus(need).minus(last).fits_in(self.user_limit)


@dataclass(frozen=True, slots=True)
class AllocationSteps:
    """How YARN rounds the amounts that it is asked for: up to a multiple of ``increment``, at
    least ``minimum`` (``DominantResourceCalculator.normalize`` in Hadoop's sources)."""

    minimum: Resources = Resources()
    increment: Resources = Resources(1, 1, 1)

    def rounded(self, ask: Resources) -> Resources:
        """The resources that a container with this request takes of its node and queue."""
        least, step = self.minimum, self.increment
        return Resources(
            _rounded_up(max(ask.memory_mib, least.memory_mib), step.memory_mib),
            _rounded_up(max(ask.vcores, least.vcores), step.vcores),
            _rounded_up(max(ask.gpus, least.gpus), step.gpus),
        )


def _rounded_up(amount: int, step: int) -> int:
    return -(-amount // step) * step if step > 1 else amount


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """Nodes and one queue, as of ``taken_at_s`` (seconds since the epoch)."""

    taken_at_s: float
    nodes: tuple[Node, ...]
    queue: QueueView
    max_container: Resources | None = None
    """The largest container YARN grants at all (yarn.scheduler.maximum-allocation-*)."""
    steps: AllocationSteps = AllocationSteps()
    """How it rounds what it is asked for."""
    preempts: bool = False
    """YARN takes containers from queues above their share for those below."""
    queues: tuple[QueueView, ...] = ()
    """All leaf queues, if the view provides them; ``queue`` among them."""
    stopped: str = ""
    """Why no gang of the queue may begin: an administrator has stopped it."""
    is_shared: bool = False
    """Another job took it, so it may be old or forged: enough to wait by, not enough to ask by."""
    scheduler: Scheduler = Scheduler.FAIR
    partitions: tuple[tuple[str, QueueView], ...] = ()
    """The queue's part of each partition, by label, for a job whose roles have several."""

    def queue_in(self, node_label: str | None) -> QueueView:
        """The queue's part of that partition, if the view provides it."""
        return next((view for label, view in self.partitions if label == node_label), self.queue)

    @property
    def has_node_names(self) -> bool:
        """Whether nodes can be asked for by name."""
        return all(node.is_named for node in self.nodes)

    @property
    def grants_rack_asks(self) -> bool:
        """Whether containers come that are asked for strictly in a rack. The Capacity Scheduler
        grants none with its default ``node-locality-delay``: a rack has to miss more heartbeats of
        nodes than that, and one that ends at "anywhere is not allowed" does not count."""
        return self.scheduler is not Scheduler.CAPACITY

    def node(self, node_id: NodeId) -> Node | None:
        return next((node for node in self.nodes if node.node_id == node_id), None)


def in_partitions(snapshot: ClusterSnapshot, node_labels: Collection[str]) -> ClusterSnapshot:
    """The snapshot with the nodes of these partitions only: those with one of the labels, and
    (empty) those without one. YARN gives a container that asks for no label nothing on labelled
    nodes (of a partition that is not exclusive, what is idle; not counted on). Schedulers other
    than the Capacity Scheduler have no labels: all nodes."""
    if snapshot.scheduler is not Scheduler.CAPACITY:
        return snapshot
    nodes = tuple(node for node in snapshot.nodes if node.label in node_labels)
    return snapshot if len(nodes) == len(snapshot.nodes) else replace(snapshot, nodes=nodes)


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """The changes from one snapshot to the next, as another job has published them. The rest
    (racks, sizes and labels of nodes, how YARN rounds) each reader has from a snapshot of its
    own."""

    nodes: dict[NodeId, tuple[NodeState, Resources]]
    """The state of each node, and what is in use there."""
    queues: tuple[QueueView, ...]


def with_summary(
    own: ClusterSnapshot, summary: ClusterSummary, queue: str, taken_at_s: float
) -> ClusterSnapshot:
    """The job's own, earlier snapshot brought up to date by a summary: with the nodes and queues
    that it knows itself and no others. A node that the summary lacks counts as lost."""
    gone = NodeState.LOST, Resources()
    nodes: list[Node] = []
    for node in own.nodes:
        state, used = summary.nodes.get(node.node_id, gone)
        nodes.append(replace(node, state=state, used=used))
    seen = {one.name: one for one in summary.queues}
    queues = tuple(seen.get(one.name, one) for one in own.queues)
    view = next((one for one in queues if one.name == queue), own.queue)
    return replace(
        own, taken_at_s=taken_at_s, nodes=tuple(nodes), queue=view, queues=queues, is_shared=True
    )


# ---- where the bytes of a job's inputs lie -------------------------------------------------------

MOST_NODES_KEPT = 2000
"""Nodes remembered at most, those with the most bytes: 60 KB of JSON."""


@dataclass(frozen=True, slots=True)
class BytesByNode:
    """The bytes of the inputs that each node holds. A block counts at every node with a replica, so
    the sum over nodes is more than ``total_bytes``.

    ``nodes`` are (node, bytes), the most bytes first, by name among equals. Racks are summed by
    the planner from its snapshot, with ``rack_bytes`` for those that a sum would count twice: a
    block with two replicas in one rack.
    """

    nodes: tuple[tuple[NodeId, int], ...] = ()
    racks: tuple[tuple[RackId, int], ...] = ()
    """(rack, bytes that have at least one replica in it)."""
    total_bytes: int = 0
    """The size of the inputs that were read, each byte once."""
    is_sample: bool = False
    """Whether only a part of the inputs was read, because of too many files."""

    def __bool__(self) -> bool:
        return bool(self.nodes)


NO_DATA = BytesByNode()


def bytes_by_node(
    blocks: Iterable[tuple[int, Iterable[tuple[NodeId, RackId]]]], *, is_sample: bool = False
) -> BytesByNode:
    """Sum up blocks, given as (length in bytes, nodes of its replicas)."""
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


# ---- closures ------------------------------------------------------------------------------------


def with_closures(snapshot: ClusterSnapshot, closures: Closures) -> ClusterSnapshot:
    """The cluster as yarnam's administrators leave it to gangs."""
    if not closures:
        return snapshot
    found = closures.of_queue(snapshot.queue.name)
    stopped = f"queue {found[0]} is stopped {found[1].words}" if found else ""
    return replace(snapshot, nodes=with_cordons(snapshot.nodes, closures), stopped=stopped)


def with_cordons(nodes: Iterable[Node], closures: Closures) -> tuple[Node, ...]:
    """The nodes, those that are cordoned in this state and with the reason."""
    return tuple(_cordoned(node, closures.nodes.get(node.node_id)) for node in nodes)


def _cordoned(node: Node, closure: Closure | None) -> Node:
    if closure is None or not node.is_usable:
        return node
    return replace(node, state=NodeState.CORDONED, health=f"cordoned {closure.words}")


def cordoned_nodes(nodes: Iterable[Node]) -> tuple[Node, ...]:
    return tuple(node for node in nodes if node.state is NodeState.CORDONED)


def without_cordons(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """The nodes as they would be if none were cordoned."""
    return tuple(
        replace(node, state=NodeState.RUNNING, health="")
        if node.state is NodeState.CORDONED
        else node
        for node in nodes
    )


def cordons_text(nodes: Iterable[Node]) -> str:
    """``n1 (cordoned by ann: disk errors) and 2 more``."""
    first, *others = cordoned_nodes(nodes)
    more = f" and {len(others)} more" if others else ""
    return f"{first.node_id} ({first.health}){more}"

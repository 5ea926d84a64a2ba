"""Placements: where the gang's containers may land, from tightest to loosest, and why not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum, IntEnum

from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.resources import Resources


class LocalityLevel(IntEnum):
    """How tight a placement is; smaller is tighter."""

    NODE = 0
    RACK = 1
    ANY = 2


@dataclass(frozen=True, slots=True)
class Target:
    """Where one container may land. ``service`` is the Skein service declared for it at submit:
    Skein fixes locality and size per service, so a ladder is a set of services.

    NODE: strictly one of ``nodes``. RACK: strictly one of ``racks``. ANY: wherever YARN likes.
    """

    service: str
    role: str
    level: LocalityLevel
    resources: Resources
    processes_per_task: int = 1
    nodes: tuple[NodeId, ...] = ()
    racks: tuple[RackId, ...] = ()
    gpu_model: str = ""
    """The model that the node must have, as the planner knows it; empty for any. A node of an
    unknown model may have been taken on trust: ``yarnam.core.model.gpu_names.may_be_same`` judges
    what its agent finds."""
    domain: str = ""
    """Name of the placement domain: its targets, one per role, take a whole gang together."""
    memory_level: int = 0
    """How often the containers have been enlarged (``retry.more_memory``)."""

    def accepts(self, node: NodeId, rack: RackId) -> bool:
        """Whether a grant on this node is what was asked for."""
        if self.level is LocalityLevel.NODE:
            return node in self.nodes
        if self.level is LocalityLevel.RACK:
            return rack in self.racks
        return True

    def keeps_clear_of(self, nodes: Collection[NodeId], racks: Collection[RackId]) -> bool:
        """Whether its containers cannot land on any of these nodes, which are in these racks,
        however YARN places them. A rack is named to YARN as a whole."""
        if self.level is LocalityLevel.NODE:
            return not any(node in nodes for node in self.nodes)
        if self.level is LocalityLevel.RACK:
            return not any(rack in racks for rack in self.racks)
        return False


@dataclass(frozen=True, slots=True)
class TargetAsk:
    """``count`` containers of one target. ``expected_nodes`` (one entry per container, may be
    empty at level ANY) is where the planner saw free capacity; only the target binds."""

    target: Target
    count: int
    expected_nodes: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True)
class PrelaunchedService:
    """A service whose containers Skein requests on its own when it starts: one for each of
    ``nodes``, where the planner saw free capacity at submit."""

    service: str
    nodes: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of the ladder: a whole gang at one locality level."""

    number: int
    level: LocalityLevel
    asks: tuple[TargetAsk, ...]
    score: float
    """In [0, 1], higher is better; comparable within one ladder only."""
    reason: str
    node_limit: int | None = None
    """The most distinct nodes that the grants of this rung may use; ``None`` for no limit."""
    one_task_per_node: bool = False
    same_rack: bool = False
    anti_affinity: tuple[tuple[str, str], ...] = ()
    """Pairs of roles that share no node (a role with itself: its tasks share none)."""
    local_bytes: int = 0
    """Bytes of the job's inputs on the expected nodes."""

    @property
    def tasks(self) -> int:
        return sum(ask.count for ask in self.asks)

    @property
    def gpus(self) -> int:
        return sum(ask.count * ask.target.resources.gpus for ask in self.asks)


@dataclass(frozen=True, slots=True)
class HeldTask:
    """A task whose container the gang holds, with what it takes of its node."""

    role: str
    node: NodeId
    rack: RackId
    resources: Resources


@dataclass(frozen=True, slots=True)
class Supplement:
    """Tasks wanted beside those that are held: replacements for lost ones, or growth. The plan
    for it has ``wanted`` alone in its asks; the limits of its rungs (node limit, same rack, one
    task per node) are for the whole gang, the held tasks included."""

    wanted: tuple[TargetAsk, ...]
    """Role and size bind; the target's domain is searched first."""
    held: tuple[HeldTask, ...]
    rung: Rung
    """The rung by which the gang was acquired: its limits are kept where they can be."""


@dataclass(frozen=True, slots=True)
class PlacementPlan:
    """The ladder, tightest rung first; never empty."""

    rungs: tuple[Rung, ...]
    taken_at_s: float = 0.0
    extra_targets: tuple[Target, ...] = ()
    """Further targets to declare at submit: single nodes, for a gang whose tasks must keep apart or
    to few nodes."""
    lead: int = 0
    """How many containers with GPUs are requested first, the others once these are granted; 0 for
    all in one request."""

    def __post_init__(self) -> None:
        if not self.rungs:
            raise ValueError("a plan has at least one rung; return NoFit otherwise")


class Reason(Enum):
    """Why there is no plan. Countable: shown, logged and summed under these names."""

    # Never: no state of the cluster as configured could hold the gang.
    TASK_EXCEEDS_LARGEST_NODE = "task-exceeds-largest-node"
    TASK_EXCEEDS_MAX_CONTAINER = "task-exceeds-max-container"
    GANG_EXCEEDS_CLUSTER = "gang-exceeds-cluster"
    GANG_EXCEEDS_QUEUE = "gang-exceeds-queue"
    GANG_EXCEEDS_RACK = "gang-exceeds-rack"
    GANG_EXCEEDS_NODE_LIMIT = "gang-exceeds-node-limit"
    EVERY_NODE_EXCLUDED = "every-node-excluded"
    NO_NODES = "no-nodes"
    NO_SUCH_GPU_MODEL = "no-such-gpu-model"
    """No node of the cluster has this model of GPU."""
    GANG_EXCEEDS_GPU_MODEL = "gang-exceeds-gpu-model"
    """Nodes of one model cannot hold the gang; the cluster as a whole could."""
    # Not now: waiting can help.
    TOO_FEW_FREE_GPUS = "too-few-free-gpus"
    TOO_FEW_FREE_RESOURCES = "too-few-free-resources"
    FRAGMENTED = "fragmented"
    QUEUE_FULL = "queue-full"
    NO_RACK_FITS = "no-rack-fits"
    NO_GPU_MODEL_FITS = "no-gpu-model-fits"
    CORDONED_NODES = "cordoned-nodes"
    """It would fit, but an administrator has cordoned nodes."""
    QUEUE_STOPPED = "queue-stopped"
    """An administrator has stopped its queue."""
    WAITING_FOR_ADMISSION = "waiting-for-admission"
    """There is free capacity, but other jobs come first."""
    RM_UNREACHABLE = "rm-unreachable"
    """The ResourceManager does not answer, so nothing is known."""


class ChangeKind(Enum):
    """The kind of change that would make a gang fit now."""

    FREE = "free"
    """Others leave some nodes."""
    QUEUE = "queue"
    """Others of the queue end."""
    RELAX = "relax"
    """A constraint of the spec is given up."""
    SMALLER = "smaller"
    """A smaller gang is asked for."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change after which the gang fits now. Computed, not guessed: applied to the snapshot or
    to the spec it gives a plan."""

    kind: ChangeKind
    text: str
    nodes: tuple[tuple[NodeId, Resources], ...] = ()
    """FREE: the resources that must become free on each node, on top of those that are free now."""


@dataclass(frozen=True, slots=True)
class NoFit:
    """No plan exists. ``is_never`` distinguishes NEVER_FITS from "not now"."""

    reason: Reason
    is_never: bool
    message: str
    """The shortage, in words and numbers."""
    hint: str = ""
    """The smallest change that would make it fit: ``changes`` in one sentence, or advice."""
    changes: tuple[Change, ...] = ()
    """Changes each of which would make it fit now, the smallest first."""


@dataclass(frozen=True, slots=True)
class PlanPolicy:
    """Bounds of the planner's own work."""

    max_racks: int = 8
    """Rack rungs (and services) made at most."""
    max_node_sets: int = 4
    """Exact node sets made at most."""
    max_pinned_targets: int = 32
    """Pinned targets declared at most for one gang. Each is a service, which
    costs 0.1 to 0.3 s of submit time (skein-on-yarn.md, 11a)."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A kept task, with its node and the GPUs that it leased there."""

    role: str
    node: NodeId
    rack: RackId
    gpu_ids: tuple[str, ...] = ()
    processes: int = 1
    address: str = ""
    """Host name or IP at which the task's ports listen."""
    ports: tuple[tuple[str, int], ...] = field(default=())
    """Named ports held by the agent; see ``yarnam.wire.rendezvous`` for the names."""

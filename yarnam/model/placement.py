"""Placements: where the gang's containers may land, from tightest to loosest, and why not."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum

from yarnam.model.ids import NodeId, RackId
from yarnam.model.resources import Resources


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

    def accepts(self, node: NodeId, rack: RackId) -> bool:
        """Whether a grant on this node is what was asked for."""
        if self.level is LocalityLevel.NODE:
            return node in self.nodes
        if self.level is LocalityLevel.RACK:
            return rack in self.racks
        return True


@dataclass(frozen=True, slots=True)
class TargetAsk:
    """``count`` containers of one target. ``expected_nodes`` (one entry per container, may be
    empty at level ANY) is where the planner saw room; only the target binds."""

    target: Target
    count: int
    expected_nodes: tuple[NodeId, ...] = ()


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
    """Most distinct nodes that the grants of this rung may use; None: no limit."""
    one_task_per_node: bool = False
    same_rack: bool = False

    @property
    def tasks(self) -> int:
        return sum(ask.count for ask in self.asks)

    @property
    def gpus(self) -> int:
        return sum(ask.count * ask.target.resources.gpus for ask in self.asks)


@dataclass(frozen=True, slots=True)
class PlacementPlan:
    """The ladder, tightest rung first; never empty."""

    rungs: tuple[Rung, ...]
    taken_at_s: float = 0.0
    seats: tuple[Target, ...] = ()
    """Further targets to declare at submit: single nodes, for a gang that spreads its tasks."""

    def __post_init__(self) -> None:
        if not self.rungs:
            raise ValueError("a plan has at least one rung; say NoFit otherwise")


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
    # Not now: waiting can help.
    TOO_FEW_FREE_GPUS = "too-few-free-gpus"
    TOO_FEW_FREE_RESOURCES = "too-few-free-resources"
    FRAGMENTED = "fragmented"
    QUEUE_FULL = "queue-full"
    NO_RACK_HAS_ROOM = "no-rack-has-room"
    RM_UNREACHABLE = "rm-unreachable"
    """The ResourceManager does not answer, so nothing is known."""


@dataclass(frozen=True, slots=True)
class NoFit:
    """No plan exists. ``is_never`` tells NEVER_FITS from not now."""

    reason: Reason
    is_never: bool
    message: str
    """What is missing, in words and numbers."""
    hint: str = ""
    """The smallest change that would make it fit."""


@dataclass(frozen=True, slots=True)
class PlanPolicy:
    """Bounds of the planner's own work."""

    max_racks: int = 8
    """Rack rungs (and services) made at most."""
    max_node_sets: int = 4
    """Exact node sets made at most."""
    max_seats: int = 32
    """Single nodes declared at most for a gang that spreads its tasks. Each is a service, which
    costs 0.1 to 0.3 s of submit time (skein-on-yarn.md, 11a)."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A task that stands: where it is and which GPUs it leased there."""

    role: str
    node: NodeId
    rack: RackId
    gpu_ids: tuple[str, ...] = ()
    processes: int = 1
    address: str = ""
    """Host name or IP at which the task's ports listen."""
    ports: tuple[tuple[str, int], ...] = field(default=())
    """Named ports held by the agent; see ``yarnam.wire.rendezvous`` for the names."""

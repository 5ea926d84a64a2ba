"""A job as the core sees it: parsed, checked, with every default filled in.

``yarnam.spec`` makes a JobSpec from YAML; the AM receives it as JSON. Times are in seconds, sizes
in MiB, paths are strings (the core opens nothing).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from yarnam.model.resources import Resources


class Framework(Enum):
    """Which rendezvous environment the processes get. GENERIC variables are always present."""

    COMMAND = "command"
    JAX = "jax"
    PYTORCH = "pytorch"
    TENSORFLOW = "tensorflow"


class TopologyWish(Enum):
    """How strong the wish for closeness at one level is."""

    REQUIRED = "required"
    PREFERRED = "preferred"
    UNCONSTRAINED = "unconstrained"


class PackOrSpread(Enum):
    """Fill used nodes first, or put every task on a node of its own."""

    PACK = "pack"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True)
class RoleSpec:
    """One kind of gang member. ``resources`` is for one task (one container)."""

    name: str
    tasks: int
    resources: Resources
    command: tuple[str, ...]
    """Argument vector; a shell line arrives as ``("/bin/bash", "-c", line)``."""
    processes_per_task: int = 1
    env: tuple[tuple[str, str], ...] = ()
    ports: tuple[str, ...] = ()
    """Names of extra ports, each process gets one of each as ``YARNAM_PORT_<NAME>``."""


@dataclass(frozen=True, slots=True)
class PlacementWish:
    """What the user wants of the placement."""

    node: TopologyWish = TopologyWish.PREFERRED
    """The whole gang on as few nodes as possible (REQUIRED: on exactly that few)."""
    rack: TopologyWish = TopologyWish.PREFERRED
    """The whole gang in one rack."""
    strategy: PackOrSpread = PackOrSpread.PACK
    exclude_nodes: tuple[str, ...] = ()
    max_nodes: int | None = None


@dataclass(frozen=True, slots=True)
class GangSpec:
    """How long to hold, how often to try, how to back off, when to relax."""

    hold_timeout_s: float = 120.0
    """From the first grant of an attempt until the whole gang must stand."""
    ask_timeout_s: float = 300.0
    """From the ask until the first grant; nothing is held meanwhile."""
    launch_timeout_s: float = 60.0
    """From the launch order until every process has started."""
    attempts: int = 10
    backoff_base_s: float = 5.0
    backoff_cap_s: float = 300.0
    relax_after_attempts: int = 1
    """The ladder goes one rung down after this many failed attempts on a rung."""
    look_before_ask: bool = True
    """Ask YARN only when the snapshot says that the whole gang fits now. Looks that say "not now"
    use up no attempt; they are bounded by ``wait_timeout_s``."""
    wait_timeout_s: float = 7 * 86400.0
    """Longest time, over all attempts, that the job waits before its first start."""


@dataclass(frozen=True, slots=True)
class RetrySpec:
    """How often a running gang is started again, and for whose faults."""

    max_restarts: int = 2
    """For infrastructure's faults (lost node, silent agent, preempted); 0: never."""
    on_user_failure: int = 0
    """How many restarts a failure of the user's own code may use up."""


@dataclass(frozen=True, slots=True)
class CheckpointSpec:
    """Where the training code keeps its checkpoints."""

    directory: str = ""
    keep: int = 3


@dataclass(frozen=True, slots=True)
class ShippedFile:
    """A file or directory that every container gets under ``name`` in its working directory."""

    name: str
    source: str
    """Local path (client side) or an hdfs:// URI once staged."""
    is_archive: bool = False
    sha256: str = ""
    executable: bool = False


@dataclass(frozen=True, slots=True)
class DataInput:
    """An input the job reads; it must exist at submit. ``env`` names the variable with its URI."""

    name: str
    uri: str


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """The user's own Python on the nodes."""

    python: str = "python3"
    archive: str = ""
    """An archive (tar.gz, zip) on HDFS or local, unpacked as ``environment``; python is inside."""


@dataclass(frozen=True, slots=True)
class AmSpec:
    """The ApplicationMaster's own container."""

    resources: Resources = Resources(memory_mib=1536, vcores=1, gpus=0)
    attempts: int = 2
    agent_silence_s: float = 8.0
    """An agent not heard of for this long is lost (heartbeats come every 2 s at the latest)."""
    orphan_timeout_s: float = 30.0
    """An agent that cannot reach the AM for this long stops its processes and leaves."""
    stop_grace_s: float = 10.0
    """Between SIGTERM and SIGKILL of the user's processes."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """Everything that defines a job."""

    name: str
    queue: str
    user: str
    framework: Framework
    roles: tuple[RoleSpec, ...]
    environment: EnvironmentSpec = field(default_factory=EnvironmentSpec)
    env: tuple[tuple[str, str], ...] = ()
    files: tuple[ShippedFile, ...] = ()
    inputs: tuple[DataInput, ...] = ()
    output: str = ""
    checkpoint: CheckpointSpec = field(default_factory=CheckpointSpec)
    placement: PlacementWish = field(default_factory=PlacementWish)
    gang: GangSpec = field(default_factory=GangSpec)
    retry: RetrySpec = field(default_factory=RetrySpec)
    am: AmSpec = field(default_factory=AmSpec)
    flexible_shape: bool = False
    """True when the user gave only ``gpus: N``: the planner may choose another tasks x GPUs shape
    for the single role, keeping the product and the resources per GPU."""
    tags: tuple[str, ...] = ()
    secret_env: tuple[str, ...] = ()
    """Names in ``env`` whose values are never shown."""

    @property
    def gpus(self) -> int:
        return sum(role.tasks * role.resources.gpus for role in self.roles)

    @property
    def tasks(self) -> int:
        return sum(role.tasks for role in self.roles)

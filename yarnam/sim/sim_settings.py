"""The settings of a simulation: modes, the model of YARN, jobs. Values only; times in seconds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache

from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.job_spec import EnvironmentSpec, GangSpec, JobSpec, RoleSpec
from yarnam.core.model.outcomes import ContainerEnd
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import Node, NodeState
from yarnam.core.policies.policy_settings import Settings
from yarnam.core.queues.allocations import QueueConfig


class Mode(Enum):
    """How the jobs contend."""

    TICKETS = "tickets"
    """yarnam with ZooKeeper: plan, and ask when admitted."""
    JITTER = "jitter"
    """yarnam without ZooKeeper: plan, and back off at random."""
    HOLD = "hold for ever"
    """TonY, tf-yarn, raw Skein: ask for everything, keep what comes (peers.md)."""
    HBOX = "hbox, 10 min"
    """hbox: as before, but a job fails that is not complete ten minutes after its first container
    (peers.md, 1.5)."""
    CENTRAL = "central"
    """The yardstick: one scheduler that sees everything, knows all run times and starts a whole
    gang in an instant."""

    DECLARED = "central, declared"
    """The same, but of run times it knows only what the users declare, as yarnam's jobs do."""


class ServingOrder(Enum):
    """In which order the model RM serves those that ask."""

    FAIR = "fair"
    """The Fair Scheduler's order: least use per weight first, queues then applications."""
    RANDOM = "random"
    """Any ask that fits, uniformly: what the closed form of a deadlock assumes."""


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """A leaf queue of the Fair Scheduler."""

    name: str
    weight: float = 1.0
    max_gpus: int | None = None


@dataclass(frozen=True, slots=True)
class PreemptionSettings:
    """YARN's defaults; times in seconds."""

    threshold: float = 0.8
    """yarn.scheduler.fair.preemption.cluster-utilization-threshold, of memory or cores in use:
    with less it takes nothing."""
    wait_before_kill_s: float = 15.0
    """yarn.scheduler.fair.waitTimeBeforeKill"""
    wait_before_check_s: float = 10.0
    """yarn.scheduler.fair.waitTimeBeforeNextStarvationCheck"""
    update_s: float = 0.5
    """yarn.scheduler.fair.update-interval-ms"""


@dataclass(frozen=True, slots=True)
class RmSettings:
    """The model cluster. Delays as measured on Hadoop 3.4.1 (skein-on-yarn.md, 12), each drawn
    uniformly from its range."""

    nodes: int = 250
    gpus_per_node: int = 8
    nodes_per_rack: int = 25
    memory_mib_per_gpu: int = 65536
    vcores_per_gpu: int = 8
    queues: tuple[QueueSettings, ...] = (
        QueueSettings("root.research", 4.0),
        QueueSettings("root.products", 3.0),
        QueueSettings("root.speech", 2.0),
        QueueSettings("root.interns", 1.0, max_gpus=400),
    )
    node_heartbeat_s: float = 1.0
    """yarn.nodemanager heartbeat interval; each node has its own phase."""
    am_heartbeat_s: float = 0.5
    """A message of an AM waits for its next heartbeat, up to this long; so does the answer."""
    assign_multiple: bool = False
    """yarn.scheduler.fair.assignmultiple: more than one container per node heartbeat."""
    reservable_nodes: float = 0.05
    """yarn.scheduler.fair.reservable-nodes: the share of nodes that one application may have
    reserved for asks that do not fit yet."""
    release_s: tuple[float, float] = (0.5, 1.5)
    """The time from the release at the RM until the node's GPUs are free again."""
    agent_start_s: tuple[float, float] = (0.8, 2.3)
    """The time from the grant at the AM until the agent has registered."""
    task_start_s: tuple[float, float] = (0.2, 1.0)
    """The time from the launch order until the processes of a task run."""
    poll_s: float = 0.2
    """The time of a snapshot through the RM's REST API."""
    serving_order: ServingOrder = ServingOrder.FAIR
    root: QueueConfig | None = None
    """The queues of an allocation file; ``None`` to use ``queues``, below root."""
    machines: tuple[Node, ...] = ()
    """The nodes of a real cluster; if empty, there are ``nodes`` that are all alike."""
    preemption: PreemptionSettings | None = None
    """``None`` if YARN does not preempt (``yarn.scheduler.fair.preemption`` is off)."""

    @property
    def gpus(self) -> int:
        if self.machines:
            return sum(node.total.gpus for node in self.machines)
        return self.nodes * self.gpus_per_node

    def all_nodes(self) -> tuple[Node, ...]:
        """The nodes, idle."""
        if self.machines:
            return self.machines
        per_gpu = Resources(self.memory_mib_per_gpu, self.vcores_per_gpu, 1)
        total = per_gpu.times(self.gpus_per_node)
        width = len(str(self.nodes - 1))
        return tuple(
            Node(
                NodeId(f"n{number:0{width}d}"),
                RackId(f"/r{number // self.nodes_per_rack}"),
                NodeState.RUNNING,
                total,
                Resources(),
                f"n{number:0{width}d}:8042",
            )
            for number in range(self.nodes)
        )


@dataclass(frozen=True, slots=True)
class SimJob:
    """One job of the workload. Its ApplicationMaster knows only ``spec``."""

    number: int
    submit_s: float
    duration_s: float
    """The time from the start of all processes to the end."""
    declared_s: float | None
    """The duration that its user declared; ``None`` if not declared."""
    spec: JobSpec
    own_gpus: int = 0
    """The GPUs on which an elastic job runs for ``duration_s``; 0 if its gang has one size."""

    @property
    def gpus(self) -> int:
        """The GPUs of the largest gang that it may have."""
        return self.spec.gpus

    def speed(self, gpus: int) -> float:
        """How fast it runs on this many GPUs, as a multiple of its speed on its own number."""
        return relative_speed(gpus, self.own_gpus) if self.own_gpus else 1.0

    @property
    def queue(self) -> str:
        return self.spec.queue


@dataclass(frozen=True, slots=True)
class InitialGang:
    """A gang that runs when the simulation begins: ``pieces`` are (node, containers) with ``size``
    GPUs each. It counts in no figure but takes its room."""

    name: str
    queue: str
    size: int
    pieces: tuple[tuple[int, int], ...]
    began_s: float
    """Before the simulation: negative or 0."""
    ends_s: float
    declared_ends_s: float | None

    @property
    def gpus(self) -> int:
        return self.size * sum(count for _, count in self.pieces)


@dataclass(frozen=True, slots=True)
class Workload:
    """``jobs`` are numbered from 0 and sorted by their time of submission."""

    jobs: tuple[SimJob, ...]
    initial_gangs: tuple[InitialGang, ...] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """At ``at_s`` all containers on a node end."""

    at_s: float
    node: int
    end: ContainerEnd = ContainerEnd.LOST
    """LOST: the node is gone, and back after ``away_s``. PREEMPTED: YARN takes the containers."""
    away_s: float = 600.0


@dataclass(frozen=True, slots=True)
class SimSettings:
    """One run."""

    mode: Mode
    seed: int = 7
    rm: RmSettings = field(default_factory=RmSettings)
    limit_s: float = 30 * 86400.0
    """Virtual time after which the run is cut off; jobs that have not ended then never will."""
    faults: tuple[Fault, ...] = ()
    policy: str = "smallest-first"
    """The policy of every queue (``core.policies``); needs tickets."""
    policy_settings: Settings = field(default_factory=dict)
    checkpoint_s: float = 600.0
    """The interval between checkpoints, from which restarted processes continue. A gang that is
    suspended writes one before it stops."""
    start_cost_s: float = 0.0
    """The time from the start of all processes until they train, for loading a checkpoint for
    example."""


SCALING = 0.9


def relative_speed(gpus: int, own_gpus: int, scaling: float = SCALING) -> float:
    """An elastic gang of n times the GPUs is n ** ``scaling`` times as fast."""
    return 1.0 if gpus == own_gpus else (gpus / own_gpus) ** scaling


def sim_spec(
    name: str, queue: str, gpus: int, *, per_task: int = 8, gang: GangSpec | None = None
) -> JobSpec:
    """A job that asks for ``gpus`` and leaves the shape to the planner, as most users do; memory
    and cores are half of what the model node has per GPU, so GPUs are what runs short."""
    return replace(_spec_of(queue, gpus, per_task, gang or GangSpec()), name=name)


@lru_cache(maxsize=1024)
def _spec_of(queue: str, gpus: int, per_task: int, gang: GangSpec) -> JobSpec:
    """Jobs of a trace are mostly alike: they share what they have in common."""
    each = min(gpus, per_task)
    while gpus % each:
        each -= 1
    resources = Resources(memory_mib=32768 * each, vcores=4 * each, gpus=each)
    return JobSpec(
        name="",
        queue=queue,
        user="sim",
        framework="command",
        roles=(RoleSpec("worker", gpus // each, resources, ("train",), each),),
        environment=EnvironmentSpec(),
        gang=gang,
        flexible_shape=True,
    )

"""Tickets: the order among jobs that wait for the same GPUs.

A job takes one when it first wants a gang and removes it when the gang is ready or the job ends.
ZooKeeper keeps them if it is available (a ticket goes with its session); without it every job
decides by its own view of the cluster and by jitter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Union

from yarnam.core.model.gpu_names import has_words
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import Node


@dataclass(frozen=True, slots=True)
class Demand:
    """``count`` containers of one size."""

    resources: Resources
    count: int
    nodes: tuple[NodeId, ...] = ()
    racks: tuple[RackId, ...] = ()
    """Containers that have been asked for land on these nodes or in these racks; both empty:
    anywhere."""


ADMISSION_RULES = 8
"""The version of the rules that order the wait queue (``admission.wait_queue``), raised whenever
they change. Jobs of two versions wait in one queue, and by two orders each could wait for the
other."""


SUSPENDED, BACKS_OFF = "it is suspended", "its attempt backs off"
NOT_ITS_TURN = "the policy of its queue has others go first"
"""``Ticket.blocked_reason``: why no free GPU could help a job."""

POLICY_RULES = 4
"""The version of what policies decide, one more whenever a shipped policy orders differently. Jobs
of two versions fall back to the order by arrival (``policy_registry.decide``)."""


class HoldState(Enum):
    """Whether a job holds GPUs."""

    WAITING = "waiting"
    """It has never run."""
    RUNNING = "running"
    SUSPENDED = "suspended"
    """It has run, and waits at a checkpoint."""


@dataclass(frozen=True, slots=True)
class PolicyTicket:
    """One job, waiting or running. Times are seconds by one clock."""

    job: str
    number: int
    """Grows with the time of submission; settles ties."""
    submitted_at_s: float
    gpus: int
    """The GPUs that its gang holds while it runs, or waits for."""
    queue: str = ""
    state: HoldState = HoldState.WAITING
    since_s: float = 0.0
    """When this state began."""
    service_gpu_s: float = 0.0
    """Attained service, GPUs times seconds of run time, up to ``since_s``."""
    counted_gpu_s: float = 0.0
    """The part of it since the last promotion (``Schedule.promoted``)."""
    started_gpu_s: float = 0.0
    """``counted_gpu_s`` when its gang last started after it had waited."""
    remaining_s: float | None = None
    """How much longer it runs on ``gpus``, from ``since_s`` on, as declared or predicted."""
    can_suspend: bool = False
    """It has checkpoints, so it loses nothing but the cost of the pause."""
    pause_cost_s: float = 0.0
    """The measured time that one suspend and resume takes from its gang."""
    least_gpus: int = 0
    """The smallest gang of an elastic job; 0 if its gang has one size."""
    most_gpus: int = 0
    """The largest gang of an elastic job; 0 if its gang has one size."""
    rates: tuple[tuple[int, float], ...] = ()
    """Steps per second for each number of GPUs that an elastic job may have, measured or fitted."""
    remaining_steps: float | None = None
    """The remaining steps by its loss curve or its spec, as of ``since_s``."""
    nodes: int = 0
    """How many nodes its gang runs on; 0 if unknown."""
    is_skewed: bool | None = None
    """One of its tensors holds much of the model, so it suffers when spread; ``None`` if
    unknown."""
    rules: int = POLICY_RULES
    settings_version: int = 0
    """The version of the queue's policy and settings that the job knows."""
    priority: int = 0
    """The user's priority among the jobs of its queue: the policy orders the jobs of one
    priority."""

    @property
    def is_running(self) -> bool:
        return self.state is HoldState.RUNNING

    @property
    def is_elastic(self) -> bool:
        return self.most_gpus > self.least_gpus > 0

    @property
    def smallest(self) -> int:
        """The fewest GPUs that its gang can run on."""
        return self.least_gpus if self.is_elastic else self.gpus

    def service(self, now_s: float) -> float:
        """Attained service so far: GPU-seconds."""
        return self.service_gpu_s + self._running_gpu_s(now_s)

    def counted(self, now_s: float) -> float:
        """Attained service since the last promotion."""
        return self.counted_gpu_s + self._running_gpu_s(now_s)

    def left_s(self, now_s: float) -> float | None:
        """How much longer it runs, at least 0; ``None`` if unknown."""
        if self.remaining_s is None:
            return None
        if self.state is not HoldState.RUNNING:
            return self.remaining_s
        return max(0.0, self.remaining_s - (now_s - self.since_s))

    def rate(self, gpus: int) -> float:
        """Steps per second on this many GPUs: reported, else interpolated between reported sizes,
        in proportion below the smallest of them, and constant above the largest; 0 if nothing is
        known."""
        told = dict(self.rates)
        if gpus in told:
            return told[gpus]
        below = max((size for size in told if size < gpus), default=0)
        above = min((size for size in told if size > gpus), default=0)
        if below and above:
            share = (gpus - below) / (above - below)
            return told[below] + share * (told[above] - told[below])
        nearest = below or above
        return told[nearest] * min(1.0, gpus / nearest) if nearest else 0.0

    def _running_gpu_s(self, now_s: float) -> float:
        if self.state is not HoldState.RUNNING:
            return 0.0
        return self.gpus * max(0.0, now_s - self.since_s)


@dataclass(frozen=True, slots=True)
class Ticket:
    """One job's place in the wait queue, and its demands.

    ``job`` is the YARN application, and counts once. ``number`` grows with each new ticket; the job
    keeps its place by it.
    """

    number: int
    job: str
    name: str
    queue: str
    demands: tuple[Demand, ...]
    taken_at_s: float
    """Seconds since the epoch, by the clock of the job's AM."""
    duration_s: float | None = None
    """How long the gang will run, as declared or predicted; ``None`` if unknown."""
    is_acquiring: bool = False
    """Whether its containers have been requested, so that grants may be on their way to it. Set
    before the requests are sent."""
    gpu_model: str = ""
    """Words of the model that its GPUs must have; empty for any. A node of an unknown model may
    have it."""
    included: tuple[NodeId, ...] = ()
    """The only nodes that its tasks may use; empty for all."""
    excluded: tuple[NodeId, ...] = ()
    """Nodes that its user excluded."""
    node_labels: tuple[str, ...] = ("",)
    """The labels of the only nodes that its tasks may use (Capacity Scheduler); empty for those
    without one."""
    priority: int = 0
    """The priority among the tickets of its queue; see ``core.admission.wait_queue``."""
    blocked_reason: str = ""
    """Why no free GPU could help it now (``SUSPENDED``, ``BACKS_OFF``); empty while it waits for
    GPUs. A blocked ticket keeps its number and holds up no others."""
    seen_at_s: float | None = None
    """When its holder last gave a sign of life, by the clock of the process that decides; ``None``
    if unknown."""
    rules: int = ADMISSION_RULES
    """``ADMISSION_RULES`` of the version that wrote it."""
    user: str = ""
    """The job's user; the ResourceManager has to agree."""
    forecast_s: float | None = None
    """The longest wait that its first forecast expected, from ``taken_at_s`` on and before the
    forecast was widened; ``None`` without a forecast."""
    policy: PolicyTicket | None = None
    """The inputs of its queue's policy; ``None`` if the job knows of no policy, or waits for
    something else than its turn."""

    @property
    def is_choosy(self) -> bool:
        """Whether it cannot use every node."""
        return bool(self.gpu_model or self.included or self.excluded)

    def nodes_of(self, nodes: Iterable[Node]) -> frozenset[NodeId]:
        """Those of these nodes that its tasks with GPUs may use."""
        included, excluded, model = (
            frozenset(self.included),
            frozenset(self.excluded),
            self.gpu_model,
        )
        return frozenset(
            node.node_id
            for node in nodes
            if node.node_id not in excluded
            and (not included or node.node_id in included)
            and (not model or not node.gpu_model or has_words(node.gpu_model, model))
        )

    @property
    def gpus(self) -> int:
        return sum(demand.count * demand.resources.gpus for demand in self.demands)

    @property
    def tasks(self) -> int:
        return sum(demand.count for demand in self.demands)


def in_same_partitions(me: Ticket, tickets: Iterable[Ticket]) -> tuple[Ticket, ...]:
    """Those that wait for nodes of a partition in which ``me`` waits too: no snapshot of its job
    shows the nodes of others."""
    mine = frozenset(me.node_labels)
    return tuple(ticket for ticket in tickets if not mine.isdisjoint(ticket.node_labels))


@dataclass(frozen=True, slots=True)
class LiveApplication:
    """The ResourceManager's record of a live yarnam application."""

    application: str
    user: str
    queue: str
    started_at_s: float
    """When it was submitted: seconds since the epoch, by the ResourceManager's clock."""
    containers: int
    """The containers that it holds, its ApplicationMaster's among them."""
    gpu_s: float = 0.0
    """GPU-seconds that it has been charged so far; 0 if none, or unknown."""


@dataclass(frozen=True, slots=True)
class RunningGang:
    """A gang that runs, or is being launched: the GPUs that it will release, and the earliest
    time."""

    job: str
    queue: str
    gpus: int
    ends_at_s: float | None
    """The end by its declared or predicted duration; ``None`` if unknown."""
    nodes: tuple[tuple[NodeId, int], ...] = ()
    """GPUs that it has on each node; empty if unknown."""
    since_s: float | None = None
    """Its start; ``None`` if unknown. Without a declared end, it is expected to run about as long
    again as it has run (heavy-tailed run times do)."""
    wait_ratio: float | None = None
    """How long it has waited, as a multiple of ``Ticket.forecast_s``; ``None`` without a forecast.
    The forecasts of other jobs are widened by these ratios."""
    user: str = ""
    """Its user; empty if unknown."""
    policy: PolicyTicket | None = None
    """The inputs of its queue's policy; ``None`` if the job knows of no policy."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """The job may ask for its gang now."""

    reason: str
    is_backfill: bool = False
    """Out of turn, because it cannot delay those before it."""
    avoid: tuple[NodeId, ...] = ()
    """Nodes kept for those before it: plan again with these excluded, and ask only if the gang
    fits on the others. Then prefer rungs that leave YARN no choice (``decision.clear_rungs``)."""
    is_strict: bool = False
    """Only such rungs will do: a grant on those nodes would be at the expense of a job that has
    waited long."""
    is_accumulating: bool = False
    """Not all of the gang fits yet, but what is missing is about to come free and others than
    gangs would take it: ask for all of it now (plan blind)."""


@dataclass(frozen=True, slots=True)
class MustWait:
    """Not yet. ``ahead`` jobs come first; ``head`` is the first of them, or the first that takes
    the free GPUs, as one that does not fit is bypassed."""

    ahead: int
    head: Ticket
    reason: str
    is_reserved: bool = False
    """Its gang fits, on nodes that are reserved for the head of the queue."""
    is_by_policy: bool = False
    """The policy of its queue has it wait, whatever is free."""


AdmissionDecision = Union[Admitted, MustWait]

"""What happens to a gang. Every event carries its time, in seconds since the epoch.

The union ``Event`` is closed: ``match`` with ``assert_never`` lets the type checker find a
dropped case. A late or doubled event must be harmless.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Union

from yarnam.model.ids import AskId, ContainerId, NodeId, RackId
from yarnam.model.outcomes import ContainerEnd, ProcessExit
from yarnam.model.placement import NoFit, PlacementPlan


class TimerKind(Enum):
    """The named limits of the gang machine."""

    ASK = "ask"  # no container granted at all
    HOLD = "hold"  # the gang is not complete
    LAUNCH = "launch"  # not every process has started
    BACKOFF = "backoff"  # time to try again
    STOP = "stop"  # the tasks do not stop
    WAIT = "wait"  # the whole time spent waiting for room


@dataclass(frozen=True, slots=True)
class TimerId:
    """A timer is bound to its attempt: one of an older attempt changes nothing."""

    kind: TimerKind
    attempt: int

    def __str__(self) -> str:
        return f"{self.kind.value}@{self.attempt}"


@dataclass(frozen=True, slots=True)
class JobStarted:
    """The first AM attempt begins; nothing is known yet."""

    at_s: float


@dataclass(frozen=True, slots=True)
class AmRestarted:
    """A later AM attempt has read the journal. YARN has killed all containers of the last one."""

    at_s: float
    am_attempt: int


@dataclass(frozen=True, slots=True)
class PlanReady:
    """The planner's answer to ``RequestPlan``: the rungs at or below the one asked for."""

    at_s: float
    attempt: int
    plan: PlacementPlan


@dataclass(frozen=True, slots=True)
class PlanRefused:
    at_s: float
    attempt: int
    no_fit: NoFit


@dataclass(frozen=True, slots=True)
class JitterDrawn:
    """The answer to ``DrawJitter``: ``u`` is uniform in [0, 1)."""

    at_s: float
    attempt: int
    u: float


@dataclass(frozen=True, slots=True)
class ContainerGranted:
    """YARN gave a container for this ask. Its agent is starting."""

    at_s: float
    ask: AskId
    container: ContainerId
    node: NodeId
    rack: RackId


@dataclass(frozen=True, slots=True)
class ContainerEnded:
    """The container is gone; ``diagnostics`` is YARN's text."""

    at_s: float
    ask: AskId
    end: ContainerEnd
    diagnostics: str = ""


@dataclass(frozen=True, slots=True)
class AgentRegistered:
    """The agent in the container called the AM, holds its GPUs and ports and is parked."""

    at_s: float
    ask: AskId
    container: ContainerId
    node: NodeId
    address: str
    gpu_ids: tuple[str, ...]
    ports: tuple[tuple[str, int], ...]
    """Ports held by the agent until the user's process binds them, by name."""
    log_address: str = ""
    """host:port at which the agent serves its logs."""


@dataclass(frozen=True, slots=True)
class AgentUnable:
    """The agent runs but cannot make its task ready (no lease, no port, staging failed)."""

    at_s: float
    ask: AskId
    message: str
    is_user_fault: bool = False


@dataclass(frozen=True, slots=True)
class AgentSilent:
    """Not heard of for longer than the limit."""

    at_s: float
    ask: AskId
    silent_s: float


@dataclass(frozen=True, slots=True)
class TaskStarted:
    """All processes of the task run."""

    at_s: float
    ask: AskId
    attempt: int


@dataclass(frozen=True, slots=True)
class TaskExited:
    """All processes of the task have ended (one failed process ends its task's others)."""

    at_s: float
    ask: AskId
    attempt: int
    exits: tuple[ProcessExit, ...]


@dataclass(frozen=True, slots=True)
class TimerFired:
    at_s: float
    timer: TimerId


@dataclass(frozen=True, slots=True)
class CancelRequested:
    at_s: float
    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class BrokerFailed:
    """The way to YARN is broken for good (Skein's AM is gone, or it refused an ask)."""

    at_s: float
    message: str


Event = Union[
    JobStarted,
    AmRestarted,
    PlanReady,
    PlanRefused,
    JitterDrawn,
    ContainerGranted,
    ContainerEnded,
    AgentRegistered,
    AgentUnable,
    AgentSilent,
    TaskStarted,
    TaskExited,
    TimerFired,
    CancelRequested,
    BrokerFailed,
]

EVENT_TYPES: tuple[type, ...] = (
    JobStarted,
    AmRestarted,
    PlanReady,
    PlanRefused,
    JitterDrawn,
    ContainerGranted,
    ContainerEnded,
    AgentRegistered,
    AgentUnable,
    AgentSilent,
    TaskStarted,
    TaskExited,
    TimerFired,
    CancelRequested,
    BrokerFailed,
)
"""All members of ``Event``, for the wire and for the property tests."""

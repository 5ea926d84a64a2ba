"""Actions of a job in the wait queue. Each action with a serial is answered by an event with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from yarnam.core.admission import Decision, QueueSnapshot
from yarnam.core.model.events import Event
from yarnam.core.model.tickets import RunningGang, Ticket
from yarnam.core.policies.schedule import JobDecision
from yarnam.core.queue_client.cluster_poll import ClusterPoll, PlanOutcome


@dataclass(frozen=True, slots=True)
class WriteTicket:
    """Answered by ``TicketWritten``."""

    serial: int
    ticket: Ticket
    is_taken: bool
    """Whether the job holds a ticket already."""


@dataclass(frozen=True, slots=True)
class WriteRunning:
    """The gang stands: its ticket goes, and the others see what it holds. Answered by
    ``TicketWritten``."""

    serial: int
    gang: RunningGang


@dataclass(frozen=True, slots=True)
class ReadTickets:
    serial: int


@dataclass(frozen=True, slots=True)
class ReadPolicy:
    serial: int


@dataclass(frozen=True, slots=True)
class ClaimTurn:
    """Announces the request for containers, if ``claim_decision`` allows it by the tickets as they
    are at that moment. Answered by ``ClaimEnded``."""

    serial: int
    poll: ClusterPoll
    decided: tuple[Decision, JobDecision | None] | None = None
    """The decision by the tickets that were read before."""


@dataclass(frozen=True, slots=True)
class PollCluster:
    """Answered by ``ClusterPolled``."""

    serial: int
    max_age_s: float | None = None
    """How old another job's snapshot may be; ``None`` asks the ResourceManager and publishes
    nothing, 0 asks it and publishes."""


@dataclass(frozen=True, slots=True)
class ReadSnapshot:
    """Answered by ``SnapshotRead``."""

    serial: int
    max_age_s: float | None = None


@dataclass(frozen=True, slots=True)
class Foresee:
    """Answered by ``ForecastMade``."""

    serial: int
    me: Ticket
    seen: QueueSnapshot


@dataclass(frozen=True, slots=True)
class Pause:
    """Answered by ``PauseOver``."""

    serial: int
    pause_s: float


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Answered by ``Woken``. A later one replaces it."""

    at_s: float


@dataclass(frozen=True, slots=True)
class AnswerPlan:
    """The answer to ``PlanWanted``."""

    poll: ClusterPoll
    outcome: PlanOutcome


@dataclass(frozen=True, slots=True)
class Remember:
    """Keeps the ticket's number for a later AM attempt."""

    number: int
    taken_at_s: float


@dataclass(frozen=True, slots=True)
class Send:
    """An event for the gang machine."""

    event: Event


ClientAction = Union[
    WriteTicket, WriteRunning, ReadTickets, ReadPolicy, ClaimTurn, PollCluster, ReadSnapshot,
    Foresee, Pause, WakeAt, AnswerPlan, Remember, Send,
]  # fmt: skip

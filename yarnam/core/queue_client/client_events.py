"""What happens to a job in the wait queue. An answer carries the serial of the action that it
answers: one that is late, doubled or stale changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from yarnam.core.admission import Decision
from yarnam.core.model.job_status import StartForecast
from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.core.model.tickets import MustWait, PolicyTicket, Ticket
from yarnam.core.policies.chosen_policy import ActivePolicy, QueuePolicy
from yarnam.core.policies.schedule import JobDecision
from yarnam.core.queue_client.cluster_poll import ClusterPoll
from yarnam.core.queue_client.gang_view import GangView
from yarnam.core.queue_client.ticket_list import TicketList


@dataclass(frozen=True, slots=True)
class Moment:
    """When an event happens, and what the shell knows and draws for it."""

    now_s: float
    u: float = 0.0
    """A draw, uniform in [0, 1)."""
    policy_ticket: PolicyTicket | None = None
    """The job's report to the policy of its queue."""
    wait_ends_at_s: float | None = None
    """When the gang machine ends all waiting, if it does."""


# ---- the queue -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Opened:
    """The job begins to connect to the queue."""


@dataclass(frozen=True, slots=True)
class Connected:
    """The queue has been opened."""

    trouble: str = ""
    """Why it does not work yet."""


@dataclass(frozen=True, slots=True)
class OpenFailed:
    """The queue cannot be opened: the job takes no tickets."""

    message: str


@dataclass(frozen=True, slots=True)
class Resumed:
    """An earlier AM attempt had this place in the queue."""

    number: int
    taken_at_s: float


@dataclass(frozen=True, slots=True)
class QueueChanged:
    """The others may have changed since they were last read, or the queue's own state."""

    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Moved:
    """YARN has the job in another of its queues now."""

    queue: str


@dataclass(frozen=True, slots=True)
class TicketWritten:
    serial: int
    ticket: Ticket | None = None
    """With its number, if the ticket was taken."""


@dataclass(frozen=True, slots=True)
class QueueFailed:
    """A call of the queue has failed."""

    serial: int
    message: str


@dataclass(frozen=True, slots=True)
class TicketsRead:
    serial: int
    listed: TicketList


@dataclass(frozen=True, slots=True)
class PolicyRead:
    serial: int
    chosen: QueuePolicy
    active: ActivePolicy | None


@dataclass(frozen=True, slots=True)
class ClaimEnded:
    serial: int
    is_ours: bool
    """Whether the claim holds: no other came between."""
    decision: Decision | None
    """By the tickets that the claim was made on. ``None`` if the job had no ticket."""
    row: JobDecision | None
    listed: TicketList


# ---- the cluster, and time -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlanWanted:
    """The gang machine wants a plan."""

    needs_admission: bool
    """``False`` for lost tasks of a running gang, whose other tasks idle meanwhile, and for a job
    that does not look before it asks."""


@dataclass(frozen=True, slots=True)
class PlanWithdrawn:
    """Nobody waits for the plan any more."""


@dataclass(frozen=True, slots=True)
class ClusterPolled:
    serial: int
    poll: ClusterPoll


@dataclass(frozen=True, slots=True)
class SnapshotRead:
    serial: int
    snapshot: ClusterSnapshot | None
    """``None`` if the ResourceManager does not answer."""


@dataclass(frozen=True, slots=True)
class ForecastMade:
    serial: int
    start: StartForecast | None
    expected_wait_s: float | None = None
    """The longest wait that it expects, before it was widened."""


@dataclass(frozen=True, slots=True)
class PauseOver:
    serial: int


@dataclass(frozen=True, slots=True)
class StillRefused:
    """A job like this one, served before it at the same moment, has been refused: so is this."""

    decision: MustWait
    fits: bool


@dataclass(frozen=True, slots=True)
class Woken:
    """The time of a ``WakeAt`` has come."""


@dataclass(frozen=True, slots=True)
class GangChanged:
    """The gang machine has made a step."""

    view: GangView


@dataclass(frozen=True, slots=True)
class PolicyLookDue:
    """It is time to look at the policy of the queue."""

    view: GangView
    """The gang as it is now. What is shown of it may be older, while the journal is written."""


ClientEvent = Union[
    Opened, Connected, OpenFailed, Resumed, QueueChanged, Moved, TicketWritten, QueueFailed,
    TicketsRead, PolicyRead, ClaimEnded, PlanWanted, PlanWithdrawn, ClusterPolled, SnapshotRead,
    ForecastMade, PauseOver, StillRefused, Woken, GangChanged, PolicyLookDue,
]  # fmt: skip

"""The state of a job's part in the wait queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import inf
from typing import Union

from yarnam.core.admission.delay_limit import Delay
from yarnam.core.admission.entitlement import ClaimHistory
from yarnam.core.admission.job_ticket import job_ticket
from yarnam.core.admission.polling import PollHistory
from yarnam.core.gang import policy_for
from yarnam.core.gang.policy import SizePolicy
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.job_status import StartForecast, WaitQueueStatus
from yarnam.core.model.plans import Target
from yarnam.core.model.tickets import Demand, MustWait, RunningGang, Ticket
from yarnam.core.policies.chosen_policy import NOTHING_CHOSEN, ActivePolicy, QueuePolicy
from yarnam.core.policies.schedule import JobDecision
from yarnam.core.queue_client.cluster_poll import ClusterPoll
from yarnam.core.queue_client.gang_view import GangView
from yarnam.core.queue_client.ticket_list import TicketList


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """The waits of the client, in seconds."""

    patience_s: float = 2.0
    """From the start until the job continues without a queue that does not answer."""
    grace_s: float = 15.0
    """For a queue that has gone away while the job waits."""
    retry_s: float = 2.0
    sign_of_life_s: float = 15.0
    shrink_delay_s: float = 2.0
    last_reason_s: float = 1.0
    """Before the end of all waiting: the gang machine gets the reason first."""


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """The constants of one job."""

    application: str
    gang_ticket: Ticket
    """The ticket for the whole gang, in the smallest containers that it may be cut into."""
    pre_run_ticket: Ticket
    duration_s: float | None
    pre_run_duration_s: float | None
    takes_tickets: bool
    respects_cells: bool
    size: SizePolicy | None
    gpus_of_other_roles: int = 0
    """GPUs of the roles that keep their size."""
    limits: ClientLimits = ClientLimits()
    explains: bool = True
    """Whether a wait says for how long, which takes most of a decision's time."""

    @property
    def queue(self) -> str:
        return self.gang_ticket.queue


def queued_job(
    job: JobSpec,
    targets: Sequence[Target],
    application: str,
    limits: ClientLimits,
    *,
    has_queue: bool,
) -> QueuedJob:
    """``has_queue``: whether there is a ticket queue at all."""
    pre_run, size = job.as_pre_run() if job.pre_run.is_due else job, policy_for(job).size
    others = [role for role in job.roles if size is not None and role.name != size.role]
    return QueuedJob(
        application=application,
        gang_ticket=job_ticket(job, targets, application, 0, 0.0),
        pre_run_ticket=job_ticket(pre_run, targets, application, 0, 0.0),
        duration_s=job.duration_s,
        pre_run_duration_s=pre_run.duration_s,
        takes_tickets=has_queue and job.gang.ticket and job.gang.look_before_ask,
        respects_cells=job.placement.cells,
        size=size,
        gpus_of_other_roles=sum(role.tasks * role.resources.gpus for role in others),
        limits=limits,
    )


# ---- what the others see -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Acquiring:
    """The containers that are still to be granted."""

    demands: tuple[Demand, ...]


@dataclass(frozen=True, slots=True)
class Blocked:
    """The job waits for something else than free GPUs."""

    reason: str
    is_yielding: bool = False
    """It has given its GPUs back for the policy of its queue, which counts it on."""


@dataclass(frozen=True, slots=True)
class Running:
    gang: RunningGang


Shown = Union[Acquiring, Blocked, Running]


@dataclass(frozen=True, slots=True)
class Record:
    """The job's record in the queue while its gang is acquired, runs or is blocked. While the job
    waits for admission, ``Admission`` writes its ticket."""

    shown: Shown | None = None
    """The state to show. ``None`` while the job waits for admission."""
    written: Shown | None = None
    writing: int = 0
    """Serial of the write under way; 0 if there is none."""
    sent: Shown | None = None
    """What that write says. ``None`` if it takes the ticket first."""
    due_at_s: float = -inf
    """When a smaller ticket, or a write that has failed, may be written."""


# ---- waiting for admission -----------------------------------------------------------------------


class Stage(Enum):
    """The next thing that a waiting job needs."""

    IDLE = "idle"
    ENTERING = "entering"
    """The first poll, and the queue's answer to the ticket."""
    READING_SHARED = "reading-shared"
    """The others' tickets, to decide by another job's snapshot."""
    POLLING = "polling"
    """A poll of its own, to confirm what another job's snapshot showed, or for the newest."""
    READING = "reading"
    CLAIMING = "claiming"
    FORECASTING = "forecasting"
    PAUSING = "pausing"
    STAGGERING = "staggering"
    """Something has changed: a moment, so that not all jobs poll together."""
    LOST = "lost"
    """The queue does not answer."""
    POLLING_ALONE = "polling-alone"
    """Without tickets."""
    CONFIRMING = "confirming"
    """Without tickets: a random pause before the poll that has to confirm the room."""
    POLLING_AGAIN = "polling-again"
    POLLING_ONCE = "polling-once"
    """For a request that needs no admission."""


@dataclass(frozen=True, slots=True)
class Admission:
    """One request for a plan, and what is kept from one request to the next."""

    stage: Stage = Stage.IDLE
    awaits: int = 0
    """Serial of the answer that moves it on."""
    entering: int = 0
    """Serial of the ticket's write; 0 once it is answered."""
    is_connecting: bool = False
    """The ticket is not written yet, as the queue does not answer yet."""
    is_queued: bool = False
    poll: ClusterPoll | None = None
    last: MustWait | None = None
    lost_at_s: float | None = None
    is_confirmed: bool = True
    is_second_look: bool = False
    """The cluster was asked anew because another gang had just started."""
    is_changed: bool = False
    """Something has changed in the queue since the others were read."""
    pause_ends_s: float = 0.0
    has_waited: bool = False
    delay: Delay = Delay()
    history: PollHistory = PollHistory()
    claims: ClaimHistory = ClaimHistory()
    claimed_at_s: float | None = None
    """When the job asked for what others hold. ``None`` if its last ask was not a claim."""
    took_s: float = 0.0
    """Seconds that the last own poll took."""
    listed: TicketList | None = None
    started: frozenset[str] = frozenset()
    """Gangs that ran already when the cluster was last asked because of one of them."""
    start: StartForecast | None = None
    next_forecast_s: float = 0.0
    forecast_at_s: float = 0.0
    waiting: WaitQueueStatus | None = None
    """The job's position. ``None`` while it does not wait."""


# ---- the policy of the queue ---------------------------------------------------------------------


class FollowStage(Enum):
    """How far a look at the queue's policy is."""

    NONE = "none"
    POLICY = "policy"
    TICKETS = "tickets"
    SNAPSHOT = "snapshot"
    OWN_TICKETS = "own-tickets"
    """To act, the job goes by a snapshot of its own."""
    OWN_SNAPSHOT = "own-snapshot"


@dataclass(frozen=True, slots=True)
class Following:
    """How a job whose gang runs or is suspended follows the policy."""

    stage: FollowStage = FollowStage.NONE
    awaits: int = 0
    listed: TicketList | None = None
    away_since_s: float | None = None
    before: JobDecision | None = None
    """The decision of the last look. A size counts when two looks come to it."""


# ---- all of it -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueueClient:
    """Times in seconds since the epoch."""

    job: QueuedJob
    serial: int = 0
    opened_at_s: float = 0.0
    is_connected: bool = False
    """The queue has been opened; it may not answer all the same."""
    is_opening: bool = False
    queue_trouble: str = ""
    """Why the queue does not work now, by its own word."""
    trouble: str = ""
    """Why there are no tickets for now, by the last call."""
    ticket: Ticket | None = None
    number: int = 0
    taken_at_s: float = 0.0
    forecast_s: float | None = None
    wait_ratio: float | None = None
    blocked_reason: str = ""
    gang: GangView | None = None
    is_pre_run: bool = False
    launched_at_s: float | None = None
    ran_at_s: float = -inf
    """When the gang was last seen running."""
    chosen: QueuePolicy = NOTHING_CHOSEN
    policy: ActivePolicy | None = None
    """The active policy. ``None`` if nothing but the default is chosen."""
    decision: JobDecision | None = None
    """The policy's decision for this job."""
    record: Record = Record()
    admission: Admission = Admission()
    following: Following = Following()

    @property
    def has_queue(self) -> bool:
        """Whether the job uses tickets at all."""
        return self.job.takes_tickets

    @property
    def waiting(self) -> WaitQueueStatus | None:
        return self.admission.waiting


def new_client(job: QueuedJob, *, is_pre_run: bool = False) -> QueueClient:
    return QueueClient(job, is_pre_run=is_pre_run)


def wanted_ticket(client: QueueClient, now_s: float) -> Ticket:
    """The ticket of a job that waits for its gang, or for its pre-run's container."""
    job = client.job
    return replace(
        job.pre_run_ticket if client.is_pre_run else job.gang_ticket,
        number=client.number,
        taken_at_s=client.taken_at_s if client.number else now_s,
        forecast_s=client.forecast_s,
        blocked_reason=client.blocked_reason,
    )

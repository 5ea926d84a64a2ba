"""``step``: an event in the wait queue, and what the job does. The ApplicationMaster and the
simulator fold the same function."""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.queue_client import admission_wait, policy_following, queue_record
from yarnam.core.queue_client.client_actions import ClientAction
from yarnam.core.queue_client.client_context import ClientStep
from yarnam.core.queue_client.client_events import (
    ClaimEnded,
    ClientEvent,
    ClusterPolled,
    Connected,
    ForecastMade,
    GangChanged,
    Moment,
    Moved,
    Opened,
    OpenFailed,
    PauseOver,
    PlanWanted,
    PlanWithdrawn,
    PolicyLookDue,
    PolicyRead,
    QueueChanged,
    QueueFailed,
    Resumed,
    SnapshotRead,
    StillRefused,
    TicketsRead,
    TicketWritten,
    Woken,
)
from yarnam.core.queue_client.client_state import QueueClient
from yarnam.errors.exhaustive import assert_never


def step(
    client: QueueClient, event: ClientEvent, moment: Moment
) -> tuple[QueueClient, tuple[ClientAction, ...]]:
    """Pure: the same client, event and moment give the same result. An answer that is late,
    doubled or stale changes nothing."""
    ctx = ClientStep(client, moment)
    match event:
        case Opened() | Connected() | OpenFailed() | Resumed() | QueueChanged():
            _connection(ctx, event)
        case PlanWanted():
            admission_wait.request(ctx, event)
        case PlanWithdrawn():
            admission_wait.withdraw(ctx)
        case StillRefused():
            admission_wait.still_refused(ctx, event)
        case GangChanged(view=view):
            queue_record.show(ctx, view)
        case Woken():
            queue_record.woken(ctx)
        case Moved(queue=queue):
            queue_record.moved(ctx, queue)
        case PolicyLookDue(view=view):
            policy_following.begin_look(ctx, view)
        case _:
            _reply(ctx, event)
    return ctx.ended(), tuple(ctx.actions)


def _connection(
    ctx: ClientStep, event: Opened | Connected | OpenFailed | Resumed | QueueChanged
) -> None:
    match event:
        case Opened():
            ctx.set(is_opening=True, opened_at_s=ctx.now_s)
        case Connected(trouble=trouble):
            ctx.set(is_opening=False, is_connected=True, queue_trouble=trouble)
            admission_wait.connection_changed(ctx)
            queue_record.write(ctx)
        case OpenFailed(message=message):
            # No safety rests on it: at random intervals the job gets its gang as well.
            job = replace(ctx.client.job, takes_tickets=False)
            ctx.set(job=job, is_opening=False, trouble=message)
            admission_wait.connection_changed(ctx)
        case Resumed(number=number, taken_at_s=taken_at_s):
            ctx.set(number=number, taken_at_s=taken_at_s)
        case QueueChanged(trouble=trouble):
            ctx.set(queue_trouble=trouble)
            admission_wait.connection_changed(ctx)
        case _:
            assert_never(event)


def _reply(
    ctx: ClientStep,
    event: TicketWritten
    | QueueFailed
    | TicketsRead
    | PolicyRead
    | ClaimEnded
    | ClusterPolled
    | SnapshotRead
    | ForecastMade
    | PauseOver,
) -> None:
    admission, following = ctx.client.admission, ctx.client.following
    if isinstance(event, QueueFailed):
        ctx.set(trouble=event.message)
    serial = event.serial
    if serial == ctx.client.record.writing:
        _of_record(ctx, event)
    elif serial == admission.entering:
        _of_entering(ctx, event)
    elif serial == admission.awaits:
        _of_admission(ctx, event)
    elif serial == following.awaits:
        _of_following(ctx, event)


def _of_record(ctx: ClientStep, event: object) -> None:
    if isinstance(event, TicketWritten):
        queue_record.written(ctx, event)
    elif isinstance(event, QueueFailed):
        queue_record.failed(ctx)


def _of_entering(ctx: ClientStep, event: object) -> None:
    if isinstance(event, TicketWritten):
        admission_wait.ticket_written(ctx, event)
    elif isinstance(event, QueueFailed):
        admission_wait.not_queued(ctx)
    elif isinstance(event, PauseOver):
        # The patience of the start is over: whatever the queue says to it.
        admission_wait.enter_without_patience(ctx)


def _of_admission(ctx: ClientStep, event: object) -> None:
    match event:
        case ClusterPolled(poll=poll):
            admission_wait.polled(ctx, poll)
        case TicketsRead():
            admission_wait.tickets_read(ctx, event)
        case ClaimEnded():
            admission_wait.claim_ended(ctx, event)
        case ForecastMade():
            admission_wait.forecast_made(ctx, event)
        case PauseOver():
            admission_wait.pause_over(ctx)
        case QueueFailed():
            admission_wait.queue_failed(ctx)
        case _:
            pass


def _of_following(ctx: ClientStep, event: object) -> None:
    match event:
        case PolicyRead():
            policy_following.policy_read(ctx, event)
        case TicketsRead():
            policy_following.tickets_read(ctx, event)
        case SnapshotRead(snapshot=snapshot):
            policy_following.snapshot_read(ctx, snapshot)
        case QueueFailed():
            policy_following.failed(ctx)
        case _:
            pass

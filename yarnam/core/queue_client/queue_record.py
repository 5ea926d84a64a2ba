"""The record that other jobs see of a gang that is acquired, runs, or is blocked: grants on
their way, a running gang, a back-off. One write is under way at a time. It is repeated while the
queue does not answer, and as a sign of life."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from yarnam.core.admission.forecast import wait_ratio
from yarnam.core.model.job_status import Phase
from yarnam.core.model.tickets import BACKS_OFF, SUSPENDED, RunningGang
from yarnam.core.policies.queue_schedule import as_running
from yarnam.core.queue_client.admission_rules import policy_ticketed
from yarnam.core.queue_client.client_actions import WakeAt, WriteRunning, WriteTicket
from yarnam.core.queue_client.client_context import ClientStep
from yarnam.core.queue_client.client_events import TicketWritten
from yarnam.core.queue_client.client_state import Acquiring, Blocked, Running, Shown
from yarnam.core.queue_client.gang_view import HOLDING_PHASES, GangView


def show(ctx: ClientStep, view: GangView) -> None:
    """Takes the gang's new state."""
    client = ctx.client
    if not client.has_queue:
        return
    ctx.set(gang=view, is_pre_run=client.is_pre_run and view.is_pre_run)
    if view.phase is Phase.RUNNING:
        ctx.set(ran_at_s=ctx.now_s)
    if view.phase not in HOLDING_PHASES:
        ctx.set(launched_at_s=None)
    shown = _shown(ctx, view)
    if shown is not None and shown != client.record.shown:
        ctx.record(shown=shown)
        write(ctx)


def _shown(ctx: ClientStep, view: GangView) -> Shown | None:
    phase = view.phase
    if phase in {Phase.ACQUIRING, Phase.REPLACING}:
        return Acquiring(view.missing)
    if phase in HOLDING_PHASES:
        return Running(_running(ctx, view))
    if phase is Phase.BACKING_OFF:
        return Blocked(BACKS_OFF)
    if phase is Phase.SUSPENDED:
        return Blocked(SUSPENDED, view.is_yielding)
    return None  # PENDING: the job waits for admission. At its end the queue is closed.


def _running(ctx: ClientStep, view: GangView) -> RunningGang:
    if ctx.client.launched_at_s is None:
        ctx.set(launched_at_s=view.since_s)
        if ctx.client.forecast_s is not None:
            ratio = wait_ratio(view.since_s - ctx.client.taken_at_s, ctx.client.forecast_s)
            ctx.set(wait_ratio=ratio, forecast_s=None)
    client = ctx.client
    launched_at_s = client.launched_at_s
    assert launched_at_s is not None
    job = client.job
    duration_s = job.pre_run_duration_s if client.is_pre_run else job.duration_s
    declared_s = None if duration_s is None else launched_at_s + duration_s
    gang = RunningGang(
        job=job.application,
        queue=job.queue,
        gpus=view.gpus,
        # The program's count is better than its user's expectation.
        ends_at_s=declared_s if view.ends_at_s is None else view.ends_at_s,
        nodes=view.nodes,
        since_s=launched_at_s,
        wait_ratio=client.wait_ratio,
        user=job.gang_ticket.user,
    )
    mine = policy_ticketed(client, job.gang_ticket, ctx.moment).policy
    if mine is not None and view.ends_at_s is not None:
        mine = replace(mine, remaining_s=max(0.0, view.ends_at_s - mine.since_s))
    return gang if mine is None else replace(gang, policy=as_running(mine, gang))


def moved(ctx: ClientStep, queue: str) -> None:
    """Ticket, running gang and policy are those of the queue that the job is in."""
    client = ctx.client
    if queue == client.job.queue:
        return
    job = replace(
        client.job,
        gang_ticket=replace(client.job.gang_ticket, queue=queue),
        pre_run_ticket=replace(client.job.pre_run_ticket, queue=queue),
    )
    ctx.set(job=job, policy=None)
    if client.ticket is not None:
        ctx.set(ticket=replace(client.ticket, queue=queue, policy=None))
    shown = client.record.shown
    if isinstance(shown, Running):
        ctx.record(shown=Running(replace(shown.gang, queue=queue, policy=None)))
    # The record that others see names the queue before, so the job writes it again.
    ctx.record(written=None)
    write(ctx)


# ---- writing -------------------------------------------------------------------------------------


def write(ctx: ClientStep) -> None:
    """Writes what is to be shown, if nothing keeps it from being written now."""
    client, record = ctx.client, ctx.client.record
    shown = record.shown
    if shown is None or record.writing or not client.is_connected:
        return
    if _shrinks(shown, record.written) and record.due_at_s == -inf:
        # Others add what is on its way to what they saw in use a moment ago: a grant may be counted
        # twice for that moment, but never be missed.
        ctx.record(due_at_s=ctx.now_s + client.job.limits.shrink_delay_s)
        record = ctx.client.record
    if ctx.now_s < record.due_at_s and (_shrinks(shown, record.written) or not record.written):
        ctx.do(WakeAt(record.due_at_s))
        return
    _write_now(ctx, shown)


def _shrinks(shown: Shown, written: Shown | None) -> bool:
    return isinstance(shown, Acquiring) and isinstance(written, Acquiring) and shown != written


def _write_now(ctx: ClientStep, shown: Shown) -> None:
    serial, ticket = ctx.next_serial(), ctx.client.ticket
    if isinstance(shown, Running):
        ctx.set(ticket=None)
        ctx.record(writing=serial, sent=shown)
        ctx.do(WriteRunning(serial, shown.gang))
        return
    if ticket is None:
        ctx.record(writing=serial, sent=None)
        ctx.do(WriteTicket(serial, ctx.wanted(), is_taken=False))
        return
    if isinstance(shown, Acquiring):
        demands = shown.demands or ticket.demands
        ticket = replace(ticket, demands=demands, is_acquiring=True, blocked_reason="")
        ctx.set(blocked_reason="")
    else:
        ticket = replace(ticket, is_acquiring=False, blocked_reason=shown.reason)
        ticket = (
            policy_ticketed(ctx.client, ticket, ctx.moment)
            if shown.is_yielding
            else replace(ticket, policy=None)
        )
    ctx.record(writing=serial, sent=shown)
    ctx.do(WriteTicket(serial, ticket, is_taken=True))


def written(ctx: ClientStep, event: TicketWritten) -> None:
    record = ctx.client.record
    ctx.set(trouble="")
    if record.sent is None:
        # The ticket has been taken, and says nothing yet.
        if event.ticket is not None:
            ctx.has_taken(event.ticket)
        ctx.record(writing=0)
        write(ctx)
        return
    is_current = record.shown is not None
    ctx.record(writing=0, written=record.sent if is_current else None, sent=None, due_at_s=-inf)
    if ctx.client.record.written != ctx.client.record.shown:
        write(ctx)
    elif is_current:
        ctx.do(WakeAt(ctx.now_s + ctx.client.job.limits.sign_of_life_s))


def failed(ctx: ClientStep) -> None:
    """Again after a pause."""
    due_at_s = ctx.now_s + ctx.client.job.limits.retry_s
    ctx.record(writing=0, sent=None, written=None, due_at_s=due_at_s)
    if ctx.client.record.shown is not None:
        ctx.do(WakeAt(due_at_s))


def woken(ctx: ClientStep) -> None:
    """A write that was put off, or a sign of life."""
    record = ctx.client.record
    if record.shown is None or record.writing or not ctx.client.is_connected:
        return
    if ctx.now_s < record.due_at_s:
        ctx.do(WakeAt(record.due_at_s))
        return
    _write_now(ctx, record.shown)

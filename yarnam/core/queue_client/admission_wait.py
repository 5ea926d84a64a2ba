"""A job waits until its whole gang fits and it may ask for it.

With tickets the request for a plan is answered only when the admission decision says so. Until then
the job polls the cluster again and again, sooner when something changes among the others, and asks
YARN for nothing. None of that goes through the gang machine, so it uses up no attempt; the
machine's WAIT timer bounds it. A job that waits for long for others to take GPUs that lie idle
waits for them no longer (``delay_limit``).

Jobs that wait share their snapshots of the cluster. By another job's snapshot a job may wait, but
it never acts: before that it asks the ResourceManager itself.

Without tickets there is one poll, or two where room is scarce, and the gang machine backs off
between them.
"""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.admission import Ask, Decision
from yarnam.core.admission.delay_limit import Delay
from yarnam.core.admission.polling import (
    PollHistory,
    accepted_age_s,
    confirm_delay_s,
    may_confirm,
    must_confirm,
    poll_after_change_s,
    poll_interval_s,
)
from yarnam.core.model.plans import NoFit, PlacementPlan, Reason
from yarnam.core.model.tickets import NOT_ITS_TURN, MustWait
from yarnam.core.placement.prelaunch import has_spare_capacity
from yarnam.core.policies.schedule import JobDecision
from yarnam.core.queue_client.admission_rules import (
    OUTDATED,
    decided,
    waiting_ticket,
    with_policy_of,
)
from yarnam.core.queue_client.client_actions import (
    AnswerPlan,
    ClaimTurn,
    Foresee,
    Pause,
    PollCluster,
    ReadTickets,
    WriteTicket,
)
from yarnam.core.queue_client.client_context import ClientStep
from yarnam.core.queue_client.client_events import (
    ClaimEnded,
    ForecastMade,
    PlanWanted,
    StillRefused,
    TicketsRead,
    TicketWritten,
)
from yarnam.core.queue_client.client_state import Stage
from yarnam.core.queue_client.cluster_poll import ClusterPoll, PlanOutcome
from yarnam.core.queue_client.wait_status import overdue_text, wait_status, waiting_text

FORECAST_EVERY_S = 60.0
"""Seconds between two forecasts of the start. A forecast takes up to a second of CPU behind many
other jobs, so it takes at most a fiftieth of the time."""

UNCONFIRMED = "another job's snapshot shows room that was not there a moment ago"

OVERTAKEN = "other jobs asked first"


# ---- a request -----------------------------------------------------------------------------------


def request(ctx: ClientStep, event: PlanWanted) -> None:
    """A request for a plan: an earlier one is over."""
    if not event.needs_admission:
        ctx.admit(stage=Stage.POLLING_ONCE, waiting=None, awaits=_poll(ctx, None))
        return
    admission = ctx.admission
    claims = admission.claims
    if admission.claimed_at_s is not None:
        # The gang has to be acquired anew. How long ago was its claim, if it has run since?
        has_run = ctx.client.ran_at_s >= admission.claimed_at_s
        lasted_s = ctx.now_s - admission.claimed_at_s if has_run else 0.0
        claims = claims.after(ctx.now_s, lasted_s)
    ctx.admit(
        waiting=None,
        last=None,
        lost_at_s=None,
        claims=claims,
        claimed_at_s=None,
        # After an attempt that failed the job trusts nobody at first.
        history=PollHistory(),
    )
    enter(ctx)


def withdraw(ctx: ClientStep) -> None:
    """Nobody waits for the answer any more. The ticket stays: another request follows, or the end
    of the job."""
    ctx.admit(stage=Stage.IDLE, awaits=0, entering=0, poll=None)


def enter(ctx: ClientStep) -> None:
    """One more poll, and a sign of life in the queue. While the queue is away, and may come back
    soon, neither: all jobs together would ask the ResourceManager what one asks for all of them
    otherwise."""
    admission, last = ctx.admission, ctx.admission.last
    if last is not None and ctx.client.queue_trouble and _is_patient(ctx):
        return
    max_age_s = accepted_age_s(admission.history, last, ctx.now_s) if last else None
    ctx.admit(
        stage=Stage.ENTERING,
        poll=None,
        is_queued=False,
        is_confirmed=True,
        is_second_look=False,
        is_connecting=False,
        entering=0,
        awaits=_poll(ctx, max_age_s),
    )
    if ctx.client.has_queue:
        # The gang's last state in the queue is out of date.
        ctx.record(shown=None, written=None)
        _enter_queue(ctx)


def _enter_queue(ctx: ClientStep) -> None:
    """Waits for a queue that does not answer yet, as long as the job may wait for its start."""
    client = ctx.client
    left_s = client.opened_at_s + client.job.limits.patience_s - ctx.now_s
    is_silent = bool(client.queue_trouble) and left_s > 0
    if not client.is_opening and not is_silent:
        _write_ticket(ctx)
        return
    serial = ctx.next_serial()
    ctx.admit(entering=serial, is_connecting=True)
    if not client.is_opening:
        ctx.do(Pause(serial, left_s))


def _write_ticket(ctx: ClientStep) -> None:
    serial, is_taken = ctx.next_serial(), ctx.client.ticket is not None
    ctx.admit(entering=serial, is_connecting=False)
    wanted = ctx.wanted()
    ctx.do(WriteTicket(serial, wanted, is_taken=is_taken))
    if is_taken:
        ctx.set(ticket=wanted)


def enter_without_patience(ctx: ClientStep) -> None:
    """The queue has not answered since the start. It is asked all the same."""
    if ctx.admission.is_connecting:
        _write_ticket(ctx)


def connection_changed(ctx: ClientStep) -> None:
    """The queue has been opened, or cannot be, or its state has changed."""
    ctx.admit(is_changed=True)
    if ctx.admission.is_connecting:
        if ctx.client.has_queue:
            _enter_queue(ctx)
        else:
            not_queued(ctx)
    elif ctx.admission.stage is Stage.PAUSING:
        woken(ctx)


def ticket_written(ctx: ClientStep, event: TicketWritten) -> None:
    if event.ticket is not None:
        ctx.has_taken(event.ticket)
    ctx.set(trouble="")
    ctx.admit(entering=0, is_queued=True, is_connecting=False)
    _decide_if_ready(ctx)


def not_queued(ctx: ClientStep) -> None:
    """The ticket could not be written, or the queue has not answered since the start."""
    ctx.admit(entering=0, is_queued=False, is_connecting=False)
    _decide_if_ready(ctx)


def polled(ctx: ClientStep, poll: ClusterPoll) -> None:
    stage = ctx.admission.stage
    ctx.admit(poll=poll, awaits=0)
    match stage:
        case Stage.ENTERING:
            _decide_if_ready(ctx)
        case Stage.POLLING:
            _decide_by_own_poll(ctx)
        case Stage.POLLING_ALONE:
            _without_tickets(ctx)
        case Stage.POLLING_AGAIN | Stage.POLLING_ONCE:
            _answer_alone(ctx)
        case _:
            pass


# ---- deciding ------------------------------------------------------------------------------------


def _decide_if_ready(ctx: ClientStep) -> None:
    admission = ctx.admission
    poll = admission.poll
    if admission.stage is not Stage.ENTERING or admission.entering or poll is None:
        return
    if admission.last is not None and poll.snapshot.is_shared:
        if not admission.is_queued:
            _lose_queue(ctx)
            return
        _read(ctx, Stage.READING_SHARED)
        return
    _decide_by_own_poll(ctx)


def _decide_by_own_poll(ctx: ClientStep) -> None:
    """The first poll reads the others' tickets only for the claim, which mostly succeeds. Later
    polls decide from the cached copy first, and read the tickets again for the claim."""
    admission, poll = ctx.admission, ctx.admission.poll
    assert poll is not None
    if poll.refusal is not None and poll.refusal.is_never:
        _reply(ctx, poll.refusal)
    elif not admission.is_queued:
        _lose_queue(ctx)
    elif admission.waiting is not None or not poll.fits:
        _read(ctx, Stage.READING)
    else:
        _claim(ctx, None)


def _read(ctx: ClientStep, stage: Stage) -> None:
    serial = ctx.next_serial()
    ctx.admit(stage=stage, awaits=serial, is_changed=False)
    ctx.do(ReadTickets(serial))


def tickets_read(ctx: ClientStep, event: TicketsRead) -> None:
    admission, poll = ctx.admission, ctx.admission.poll
    assert poll is not None
    ctx.client = with_policy_of(ctx.client, event.listed, ctx.moment)
    decision, row = decided(ctx.client, poll, event.listed, ctx.moment)
    ctx.set(decision=row)
    ctx.admit(listed=event.listed)
    if admission.stage is Stage.READING_SHARED:
        last = admission.last
        assert last is not None
        if isinstance(decision, MustWait):
            _must_wait(ctx, decision)
        elif not may_confirm(admission.history, last, ctx.now_s):
            _must_wait(ctx, replace(last, reason=UNCONFIRMED))
        else:
            serial = _poll(ctx, 0.0)
            ctx.admit(stage=Stage.POLLING, awaits=serial, is_confirmed=False)
    elif isinstance(decision, Ask):
        _claim(ctx, (decision, row))
    else:
        _wait_or_refuse(ctx, decision)


def _claim(ctx: ClientStep, decided: tuple[Decision, JobDecision | None] | None) -> None:
    poll, serial = ctx.admission.poll, ctx.next_serial()
    assert poll is not None
    ctx.admit(stage=Stage.CLAIMING, awaits=serial, is_changed=False)
    ctx.do(ClaimTurn(serial, poll, decided))


def claim_ended(ctx: ClientStep, event: ClaimEnded) -> None:
    ctx.client = with_policy_of(ctx.client, event.listed, ctx.moment)
    ctx.admit(listed=event.listed)
    decision = event.decision
    if decision is None:
        _lose_queue(ctx)
        return
    ctx.set(decision=event.row)
    if isinstance(decision, MustWait) and decision.reason == OUTDATED:
        running = frozenset(gang.job for gang in event.listed.running)
        ctx.admit(started=running)
        if not ctx.admission.is_second_look:
            ctx.admit(stage=Stage.POLLING, awaits=_poll(ctx, 0.0), is_second_look=True)
            return
    if isinstance(decision, Ask) and not event.is_ours:
        # Overtaken several times in a row: others are on their way, so poll again.
        decision = MustWait(0, waiting_ticket(ctx.client, ctx.moment), OVERTAKEN)
    if isinstance(decision, Ask):
        _note_own_poll(ctx, None)
        ctx.set(ticket=decision.ticket)
        ctx.admit(has_waited=False, claimed_at_s=ctx.now_s if decision.is_claim else None)
        _reply(ctx, decision.plan)
    else:
        _wait_or_refuse(ctx, decision)


def _wait_or_refuse(ctx: ClientStep, decision: MustWait | NoFit) -> None:
    """By this job's own poll the gang may not be requested now, or never fits."""
    if isinstance(decision, MustWait):
        _note_own_poll(ctx, decision)
        _must_wait(ctx, decision)
    else:
        _note_own_poll(ctx, None)
        _reply(ctx, decision)


def _note_own_poll(ctx: ClientStep, wait: MustWait | None) -> None:
    admission = ctx.admission
    poll, history = admission.poll, admission.history
    assert poll is not None
    if wait is not None:
        unconfirmed = 0 if admission.is_confirmed else history.unconfirmed + 1
        history = replace(history, unconfirmed=unconfirmed)
        history = history.after_own_poll(wait, ctx.now_s, ctx.moment.u)
    ctx.admit(took_s=poll.took_s, history=history)


# ---- waiting -------------------------------------------------------------------------------------


def _must_wait(ctx: ClientStep, decision: MustWait) -> None:
    poll = ctx.admission.poll
    assert poll is not None
    ctx.admit(lost_at_s=None, last=decision, has_waited=True)
    _write_blocked(ctx, NOT_ITS_TURN if decision.is_by_policy else "")
    is_shared = poll.snapshot.is_shared
    if _has_been_delayed(ctx, decision, fits=poll.fits, is_shared=is_shared):
        # The job continues without the wait queue, for now.
        ctx.set(trouble=overdue_text(decision))
        ctx.admit(waiting=None)
        _without_tickets(ctx)
        return
    if not _foresee(ctx):
        _settle_down(ctx)


def still_refused(ctx: ClientStep, event: StillRefused) -> None:
    """Of jobs that are alike one has decided for all."""
    if ctx.admission.stage is not Stage.PAUSING:
        return
    ctx.admit(last=event.decision)
    if _has_been_delayed(ctx, event.decision, fits=event.fits, is_shared=False):
        ctx.admit(waiting=None, stage=Stage.POLLING_ALONE, awaits=_poll(ctx, None))


def _write_blocked(ctx: ClientStep, reason: str) -> None:
    """The job waits for its turn, not for free GPUs; with an empty reason it waits for those."""
    ticket = ctx.client.ticket
    if reason == ctx.client.blocked_reason or ticket is None:
        return
    _update(ctx, blocked_reason=reason, ticket=replace(ticket, blocked_reason=reason))


def _update(ctx: ClientStep, **changes: object) -> None:
    ctx.set(**changes)
    ticket = ctx.client.ticket
    assert ticket is not None
    ctx.do(WriteTicket(ctx.next_serial(), ticket, is_taken=True))


def _has_been_delayed(ctx: ClientStep, decision: MustWait, *, fits: bool, is_shared: bool) -> bool:
    """Whether others have left GPUs idle for too long. By this job's own polls; another's can only
    show that the GPUs have been in use meanwhile."""
    delay, me = ctx.admission.delay, waiting_ticket(ctx.client, ctx.moment)
    if decision.is_by_policy:
        # A policy may keep GPUs idle, as ``fifo`` does for the first in the queue.
        ctx.admit(delay=Delay())
        return False
    if is_shared:
        if not fits:
            ctx.admit(delay=delay.not_fitting(ctx.now_s))
        return False
    delay = delay.after(decision, ctx.now_s, fits=fits)
    ctx.admit(delay=delay)
    return delay.is_over(me, decision)


def _foresee(ctx: ClientStep) -> bool:
    """Begins a forecast of the start, now and then, as it takes a while."""
    admission = ctx.admission
    if ctx.client.policy is not None:
        ctx.admit(start=None)  # Forecasts know the order of today's rules only.
        return False
    listed, poll = admission.listed, admission.poll
    if listed is None or poll is None or ctx.now_s < admission.next_forecast_s:
        return False
    me, serial = waiting_ticket(ctx.client, ctx.moment), ctx.next_serial()
    ctx.admit(stage=Stage.FORECASTING, awaits=serial, forecast_at_s=ctx.now_s)
    ctx.do(Foresee(serial, me, listed.queue_snapshot(me, poll.snapshot, ctx.now_s)))
    return True


def forecast_made(ctx: ClientStep, event: ForecastMade) -> None:
    """The first forecast is noted with the ticket: how well it holds tells others how far to trust
    theirs."""
    began_s, ticket = ctx.admission.forecast_at_s, ctx.client.ticket
    took_s = ctx.now_s - began_s
    ctx.admit(start=event.start, next_forecast_s=ctx.now_s + max(FORECAST_EVERY_S, 50.0 * took_s))
    is_first = ticket is not None and ticket.forecast_s is None
    if event.expected_wait_s is not None and ticket is not None and is_first:
        forecast_s = max(0.0, began_s - ticket.taken_at_s) + event.expected_wait_s
        _update(ctx, forecast_s=forecast_s, ticket=replace(ticket, forecast_s=forecast_s))
    _settle_down(ctx)


def _settle_down(ctx: ClientStep) -> None:
    """Shows the wait, and pauses until the next poll; near the end of all waiting the gang machine
    gets the reason."""
    poll, last = ctx.admission.poll, ctx.admission.last
    assert poll is not None
    assert last is not None
    shown = wait_status(ctx.client, last, poll.refusal)
    ctx.admit(waiting=shown)
    ends_at_s, limits = ctx.moment.wait_ends_at_s, ctx.client.job.limits
    if ends_at_s is not None and ctx.now_s >= ends_at_s - limits.last_reason_s:
        outcome = poll.outcome
        if not isinstance(outcome, NoFit):
            outcome = NoFit(
                Reason.WAITING_FOR_ADMISSION, is_never=False, message=waiting_text(shown)
            )
        _reply(ctx, outcome)
        return
    # Polling a large cluster is work for the ResourceManager: let it rest ten times as long.
    pause_s = max(_rest_s(poll), poll_interval_s(last, ctx.moment.u))
    if ends_at_s is not None:
        pause_s = max(0.0, min(pause_s, ends_at_s - limits.last_reason_s - ctx.now_s))
    serial = ctx.next_serial()
    ctx.admit(stage=Stage.PAUSING, awaits=serial, pause_ends_s=ctx.now_s + pause_s)
    ctx.do(Pause(serial, pause_s))
    if ctx.admission.is_changed:
        woken(ctx)


def _rest_s(poll: ClusterPoll) -> float:
    return 0.0 if poll.snapshot.is_shared else 10 * poll.took_s


def woken(ctx: ClientStep) -> None:
    """A change among the others brings the next poll forward, in the order of the queue, so that
    they do not all poll at the same time."""
    admission = ctx.admission
    poll, last = admission.poll, admission.last
    if admission.stage is not Stage.PAUSING or poll is None or last is None:
        return
    left_s = admission.pause_ends_s - ctx.now_s
    soon_s = max(_rest_s(poll), poll_after_change_s(last, ctx.moment.u, admission.took_s))
    serial = ctx.next_serial()
    ctx.admit(stage=Stage.STAGGERING, awaits=serial, is_changed=False)
    ctx.do(Pause(serial, max(0.0, min(left_s, soon_s))))


def pause_over(ctx: ClientStep) -> None:
    match ctx.admission.stage:
        case Stage.LOST if not ctx.client.queue_trouble:
            _come_back(ctx)
        case Stage.PAUSING | Stage.STAGGERING | Stage.LOST:
            ctx.admit(is_changed=False)
            enter(ctx)
        case Stage.CONFIRMING:
            ctx.admit(stage=Stage.POLLING_AGAIN, awaits=_poll(ctx, None))
        case _:
            pass


def _come_back(ctx: ClientStep) -> None:
    """The queue is there again, for all jobs that have waited for it: they poll in its order."""
    admission, last = ctx.admission, ctx.admission.last
    assert last is not None
    serial = ctx.next_serial()
    ctx.admit(stage=Stage.STAGGERING, awaits=serial, is_changed=False)
    ctx.do(Pause(serial, poll_after_change_s(last, ctx.moment.u, admission.took_s)))


# ---- without -------------------------------------------------------------------------------------


def _lose_queue(ctx: ClientStep) -> None:
    """The queue does not answer. A job that was in it a moment ago waits for a while."""
    if _is_patient(ctx):
        return
    ctx.admit(waiting=None)
    poll = ctx.admission.poll
    if poll is not None and poll.snapshot.is_shared:
        ctx.admit(stage=Stage.POLLING_ALONE, awaits=_poll(ctx, None))
    else:
        _without_tickets(ctx)


def _is_patient(ctx: ClientStep) -> bool:
    """Whether the job, which was in the queue a moment ago, waits for it now: until the next try,
    at most for its grace."""
    limits, lost_at_s = ctx.client.job.limits, ctx.admission.lost_at_s
    lost_at_s = ctx.now_s if lost_at_s is None else lost_at_s
    ctx.admit(lost_at_s=lost_at_s)
    patience_s = lost_at_s + limits.grace_s - ctx.now_s
    if ctx.admission.last is None or patience_s <= 0:
        return False
    serial = ctx.next_serial()
    ctx.admit(stage=Stage.LOST, awaits=serial, entering=0)
    ctx.do(Pause(serial, min(limits.retry_s, patience_s)))
    return True


def queue_failed(ctx: ClientStep) -> None:
    """The tickets could not be read, or the claim not be made."""
    if ctx.admission.stage in {Stage.READING_SHARED, Stage.READING, Stage.CLAIMING}:
        _lose_queue(ctx)


def _without_tickets(ctx: ClientStep) -> None:
    """Where room is scarce, poll again after a random pause, and ask only if the GPUs are still
    free."""
    poll = ctx.admission.poll
    assert poll is not None
    outcome = poll.outcome
    has_spare = isinstance(outcome, PlacementPlan) and has_spare_capacity(
        poll.snapshot, outcome.rungs[0]
    )
    if must_confirm(outcome, has_spare=has_spare, has_waited=ctx.admission.has_waited):
        serial = ctx.next_serial()
        ctx.admit(stage=Stage.CONFIRMING, awaits=serial)
        ctx.do(Pause(serial, confirm_delay_s(ctx.moment.u)))
        return
    ctx.admit(has_waited=isinstance(outcome, NoFit))
    _reply(ctx, outcome)


def _answer_alone(ctx: ClientStep) -> None:
    poll = ctx.admission.poll
    assert poll is not None
    outcome = poll.outcome
    if ctx.admission.stage is Stage.POLLING_AGAIN:
        ctx.admit(has_waited=isinstance(outcome, NoFit))
    _reply(ctx, outcome)


# ---- inside --------------------------------------------------------------------------------------


def _poll(ctx: ClientStep, max_age_s: float | None) -> int:
    serial = ctx.next_serial()
    ctx.do(PollCluster(serial, max_age_s))
    return serial


def _reply(ctx: ClientStep, outcome: PlanOutcome) -> None:
    poll = ctx.admission.poll
    assert poll is not None
    ctx.admit(stage=Stage.IDLE, awaits=0, entering=0, poll=None)
    ctx.do(AnswerPlan(poll, outcome))

"""SUSPENDED: the gang holds nothing, because a user or the policy of its queue suspended it; the
job continues when it is resumed.

A launched gang is stopped first, as before a preemption: its processes finish one more step and
save. In any other phase, the gang gives up its work immediately. A process that fails while it is
stopped (its checkpoint cannot be written, say) is a failure like any other, and the job is not
suspended.
"""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.gang.attempts import close_attempt, hold_nothing, next_number, suspend_text
from yarnam.core.gang.context import AllEnded, StepContext
from yarnam.core.gang.phases import concluding
from yarnam.core.gang.phases.first_cause import causing_loss, first_failure
from yarnam.core.gang.phases.stopping import stop_gang, stopping_of
from yarnam.core.gang.phases.waiting.pending import begin_wait, enter_pending
from yarnam.core.gang.state import StopKind
from yarnam.core.model.actions import CancelPlanRequest
from yarnam.core.model.events import (
    AmRestarted,
    Event,
    ResumeRequested,
    SuspendRequested,
    TimerKind,
)
from yarnam.core.model.job_status import Phase

# ---- guards --------------------------------------------------------------------------------------


def has_begun(ctx: StepContext, event: Event) -> bool:
    """The job has begun."""
    return ctx.gang.is_started


def may_resume(ctx: StepContext, event: ResumeRequested) -> bool:
    """A user resumes it, or the policy does what it has suspended."""
    return ctx.gang.is_yielding or not event.is_policy


def is_taken_over(ctx: StepContext, event: SuspendRequested) -> bool:
    """The policy of its queue has suspended it, and now a user does."""
    return ctx.gang.is_yielding and not event.is_policy


def is_to_suspend(ctx: StepContext, event: AllEnded) -> bool:
    """It was stopped to be suspended, and no process failed on its own."""
    if stopping_of(ctx).kind is not StopKind.SUSPENDED:
        return False
    return first_failure(ctx.gang) is None or causing_loss(ctx.gang) is not None


# ---- operations ----------------------------------------------------------------------------------


def stop(ctx: StepContext, event: SuspendRequested) -> None:
    """StopTask for every member; start STOP."""
    kind, text = StopKind.SUSPENDED, suspend_text(event)
    stop_gang(ctx, kind, text, limit_s=event.limit_s, is_policy=event.is_policy)


def suspend_stopped(ctx: StepContext, event: AllEnded) -> None:
    """Release all; start SUSPENSION."""
    concluding.note_progress(ctx, counts_failure=False)
    stopping = stopping_of(ctx)
    _suspend(ctx, stopping.text, stopping.limit_s, is_policy=stopping.is_policy)


def suspend(ctx: StepContext, event: SuspendRequested) -> None:
    """Release all; CancelPlanRequest; start SUSPENSION."""
    search = ctx.gang.search
    # An elastic gang may have asked once more, as a plan for its largest size was on its way; and
    # an answer from before an earlier suspension may have taken the place of the one it waits for.
    may_be_asked = ctx.gang.phase in {Phase.PENDING, Phase.ACQUIRING, Phase.BACKING_OFF}
    if may_be_asked or (search is not None and search.is_planning):
        ctx.do(CancelPlanRequest(ctx.gang.attempt))
    _suspend(ctx, suspend_text(event), event.limit_s, is_policy=event.is_policy)


def resume(ctx: StepContext, event: Event) -> None:
    """The next attempt number; start WAIT; RequestPlan from the first rung on."""
    ctx.disarm(TimerKind.SUSPENSION)
    ctx.gang = replace(
        ctx.gang,
        attempt=next_number(ctx.gang),
        is_yielding=False,
    )
    ctx.acquisition = replace(ctx.acquisition, failures=0, refused_plans=0, avoid=())
    begin_wait(ctx)
    enter_pending(ctx)


def stay(ctx: StepContext, event: AmRestarted) -> None:
    """Start SUSPENSION again with the time left."""
    ctx.gang = replace(ctx.gang, am_attempt=event.am_attempt)
    ctx.rearm()


def keep(ctx: StepContext, event: SuspendRequested) -> None:
    """It is the user's suspension from now on; start SUSPENSION."""
    text = suspend_text(event)
    ctx.gang = replace(ctx.gang, is_yielding=False, reason=text)
    ctx.arm(TimerKind.SUSPENSION, event.limit_s)


def _suspend(ctx: StepContext, text: str, limit_s: float, *, is_policy: bool) -> None:
    close_attempt(ctx, text)
    ctx.disarm(TimerKind.WAIT)
    hold_nothing(ctx, Phase.SUSPENDED, text)
    ctx.gang = replace(ctx.gang, is_yielding=is_policy)
    ctx.arm(TimerKind.SUSPENSION, limit_s)

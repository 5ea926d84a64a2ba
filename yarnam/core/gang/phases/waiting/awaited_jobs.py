"""PENDING or SUSPENDED, before the first plan: the gang waits for other jobs (``depends_on``).

It requests nothing meanwhile, and WAIT, the limit of the wait for free capacity, does not run. The
wait for other jobs ends with them: each of them has limits of its own.
"""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.gang.attempts import finish
from yarnam.core.gang.context import StepContext
from yarnam.core.gang.phases.waiting.pending import begin_wait, enter_pending
from yarnam.core.model.events import AwaitedJobsSeen
from yarnam.core.model.outcomes import VerdictKind
from yarnam.errors import ExitCode

# ---- guards --------------------------------------------------------------------------------------


def waits_in_vain(ctx: StepContext, event: AwaitedJobsSeen) -> bool:
    """One of the jobs that it waits for can no longer end as it has to."""
    return bool(ctx.gang.awaited) and any(job.is_in_vain for job in event.jobs)


def is_last_met(ctx: StepContext, event: AwaitedJobsSeen) -> bool:
    """All jobs that it waits for have ended as they have to."""
    return bool(ctx.gang.awaited) and all(job.is_met for job in event.jobs)


def waits(ctx: StepContext, event: AwaitedJobsSeen) -> bool:
    """It waits for other jobs."""
    return bool(ctx.gang.awaited)


# ---- operations ----------------------------------------------------------------------------------


def fail(ctx: StepContext, event: AwaitedJobsSeen) -> None:
    """Finish with DEPENDENCY_FAILED."""
    job, *others = (job for job in event.jobs if job.is_in_vain)
    more = f", and {len(others)} more" if others else ""
    named = job.application if job.name == job.application else f"{job.name} ({job.application})"
    if job.state is None:
        text = f"YARN has forgotten how {named} ended{more}"
    else:
        text = f"{named} has ended as {job.state.value}{more}"
    hint = f"See why: yarnam explain {job.application}\nThen submit this job again."
    message = f"this job waits for success (depends_on), and {text}"
    finish(ctx, VerdictKind.FAILED, ExitCode.DEPENDENCY_FAILED, message, hint)


def begin(ctx: StepContext, event: AwaitedJobsSeen) -> None:
    """It waits for them no longer; start WAIT; RequestPlan."""
    ctx.gang = replace(ctx.gang, awaited=())
    begin_wait(ctx)
    enter_pending(ctx)


def note_met(ctx: StepContext, event: AwaitedJobsSeen) -> None:
    """It waits for them no longer."""
    ctx.gang = replace(ctx.gang, awaited=())


def note(ctx: StepContext, event: AwaitedJobsSeen) -> None:
    """Remember their states."""
    ctx.gang = replace(ctx.gang, awaited=event.jobs)

"""STORING: the gang has succeeded, and the files that its tasks wrote become the job's output.

The gang holds no container any more: storing is a matter of renames, and GPUs must not wait for it.
The shell does it (``StoreOutputs``), as often as the machine orders it, and finally reports that
the output is in place or that it will not be. Two things end it early: its limit (STORE) and a
user's cancel. Then the machine orders the shell to stop, and the shell has ``store_margin_s`` to
report the outcome (STOP), for a rename under way may still succeed. Nothing is ever run again from
here.

A new ApplicationMaster continues where the last one stopped.
"""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.gang.attempts import OF_AN_ATTEMPT, cancel_text, close_attempt, finish
from yarnam.core.gang.context import AllEnded, StepContext
from yarnam.core.gang.phases.concluding import success_text
from yarnam.core.gang.state import Gang, Storing
from yarnam.core.model.actions import StopStoring, StoreOutputs
from yarnam.core.model.events import (
    AmRestarted,
    CancelRequested,
    OutputsStored,
    StoringFailed,
    StoringTroubled,
    TimerFired,
    TimerKind,
)
from yarnam.core.model.ids import TaskId
from yarnam.core.model.job_status import Phase, byte_words
from yarnam.core.model.outcomes import VerdictKind
from yarnam.errors import ExitCode

# ---- guards --------------------------------------------------------------------------------------


def goes_on(
    ctx: StepContext, event: StoringTroubled | StoringFailed | TimerFired | CancelRequested
) -> bool:
    """It has not been stopped."""
    return _storing(ctx).ending is None


def was_cancelled(ctx: StepContext, event: StoringFailed | TimerFired) -> bool:
    """It was stopped for a cancel."""
    return _storing(ctx).ending is VerdictKind.CANCELLED


# ---- operations ----------------------------------------------------------------------------------


def begin(ctx: StepContext, event: AllEnded) -> None:
    """Release all; StoreOutputs; start STORE."""
    limit_s = ctx.policy.store_timeout_s
    assert limit_s is not None
    text = success_text(ctx.gang)
    close_attempt(ctx, text)
    ctx.release_all("its processes have ended")
    ctx.disarm(TimerKind.WAIT, *OF_AN_ATTEMPT)
    ctx.enter(Phase.STORING)
    ctx.gang = replace(ctx.gang, storing=Storing(text), stopping=None, search=None)
    ctx.arm(TimerKind.STORE, limit_s)
    ctx.do(StoreOutputs(ctx.gang.attempt, _tasks(ctx.gang)))


def succeed(ctx: StepContext, event: OutputsStored) -> None:
    """Finish with OK."""
    ctx.gang = replace(ctx.gang, stored=event)
    files = f"{event.files} file{'' if event.files == 1 else 's'}"
    what = f"{files} of output ({byte_words(event.size_bytes)}) stored"
    if event.renamed:
        what += f", {event.renamed} under another name"
    finish(ctx, VerdictKind.SUCCEEDED, ExitCode.OK, f"{_storing(ctx).text}; {what}")


def note_trouble(ctx: StepContext, event: StoringTroubled) -> None:
    """Remember why storing is delayed."""
    ctx.gang = replace(ctx.gang, reason=event.message)


def fail(ctx: StepContext, event: StoringFailed) -> None:
    """Finish with what is in the way."""
    text = f"{_storing(ctx).text}, but the outputs could not be stored: {event.message}"
    finish(ctx, VerdictKind.FAILED, ExitCode(event.exit_code), text, event.hint)


def time_out(ctx: StepContext, event: TimerFired) -> None:
    """StopStoring; start STOP."""
    trouble = f": {ctx.gang.reason}" if ctx.gang.reason else ""
    text = f"not within {ctx.policy.store_timeout_s:.0f} s{trouble}"
    _stop(ctx, VerdictKind.FAILED, text)


def stop_for_cancel(ctx: StepContext, event: CancelRequested) -> None:
    """StopStoring; start STOP."""
    _stop(ctx, VerdictKind.CANCELLED, cancel_text(event))


def end_cancelled(ctx: StepContext, event: StoringFailed | TimerFired) -> None:
    """Finish with CANCELLED."""
    text = f"{_storing(ctx).why}, while the outputs were being stored"
    finish(ctx, VerdictKind.CANCELLED, ExitCode.CANCELLED, text)


def end_late(ctx: StepContext, event: StoringFailed | TimerFired) -> None:
    """It was stopped for its limit: Finish with what was in the way, else with UNAVAILABLE."""
    code = ExitCode.UNAVAILABLE
    hint = "Check the output's directory: it is either complete or absent."
    if isinstance(event, StoringFailed):
        code, hint = ExitCode(event.exit_code), event.hint
    storing = _storing(ctx)
    text = f"{storing.text}, but the outputs were not stored: {storing.why}"
    finish(ctx, VerdictKind.FAILED, code, text, hint)


def go_on(ctx: StepContext, event: AmRestarted) -> None:
    """Start the timer again with the time left; StoreOutputs, or StopStoring, again."""
    ctx.gang = replace(ctx.gang, am_attempt=event.am_attempt)
    ctx.rearm()
    storing = _storing(ctx)
    if storing.ending is not None:
        ctx.do(StopStoring(ctx.gang.attempt, storing.why))
    else:
        ctx.do(StoreOutputs(ctx.gang.attempt, _tasks(ctx.gang)))


def _stop(ctx: StepContext, ending: VerdictKind, why: str) -> None:
    ctx.disarm(TimerKind.STORE)
    storing = replace(_storing(ctx), ending=ending, why=why)
    ctx.gang = replace(ctx.gang, storing=storing, reason=f"stopping: {why}")
    ctx.arm(TimerKind.STOP, ctx.policy.store_margin_s)
    ctx.do(StopStoring(ctx.gang.attempt, why))


def _storing(ctx: StepContext) -> Storing:
    assert ctx.gang.storing is not None
    return ctx.gang.storing


def _tasks(gang: Gang) -> tuple[TaskId, ...]:
    """In rank order: that of the launch."""
    return tuple(member.task for member in gang.members if member.task is not None)

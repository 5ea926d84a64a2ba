"""A pre-run: one process of the job is tried before its gang is acquired.

It is a gang of one task: it waits, is acquired, staged, launched and stopped like every gang, by
limits of its own (``GangPolicy.pre_run``). Only its end is another one:

- it passes when its process ends well, or has not failed within the time limit (PRE_RUN). Then all
  is released, and the gang is asked for;
- a failure that is the job's own ends the job, with the same verdict as of a gang;
- what is not the job's own (a preemption, a lost node, a transient failure) is retried for free, a
  few times. After that the gang is acquired without it, since a gang has means against such faults;
- running out of memory, where ``retry.more_memory`` allows larger containers, lets the gang begin
  with those.
"""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.failures.retry_decision import RetryBudget
from yarnam.core.gang.attempts import OF_AN_ATTEMPT, back_off, close_attempt, next_number
from yarnam.core.gang.context import AllEnded, StepContext
from yarnam.core.gang.phases import concluding
from yarnam.core.gang.phases.first_cause import causing_loss
from yarnam.core.gang.phases.stopping import stop_gang, stopping_of
from yarnam.core.gang.phases.waiting.pending import enter_pending
from yarnam.core.gang.state import Gang, LossKind, StopKind
from yarnam.core.model.events import TimerFired, TimerKind
from yarnam.core.model.job_spec import PRE_RUN_RETRIES
from yarnam.core.model.job_status import PreRunState, PreRunStatus
from yarnam.core.model.outcomes import RetryAction

# ---- guards --------------------------------------------------------------------------------------


def is_over(ctx: StepContext, event: AllEnded) -> bool:
    """The pre-run has passed; or the gang begins with larger containers; or it was retried often
    enough."""
    if not ctx.gang.is_pre_run:
        return False
    has_ended = concluding.has_succeeded(ctx, event) or _needs_memory(ctx)
    if stopping_of(ctx).kind is StopKind.SUSPENDED:
        return has_ended
    return has_ended or (_is_not_the_jobs(ctx) and _status(ctx.gang).retries >= PRE_RUN_RETRIES)


def is_disturbed(ctx: StepContext, event: AllEnded) -> bool:
    """The pre-run ended by a fault that is not the job's own."""
    is_suspension = stopping_of(ctx).kind is StopKind.SUSPENDED
    return ctx.gang.is_pre_run and not is_suspension and _is_not_the_jobs(ctx)


# ---- operations ----------------------------------------------------------------------------------


def began_to_run(ctx: StepContext) -> None:
    """Start PRE_RUN, in a pre-run."""
    if ctx.gang.is_pre_run:
        ctx.arm(TimerKind.PRE_RUN, ctx.policy.pre_run_limit_s)


def stop_in_time(ctx: StepContext, event: TimerFired) -> None:
    """It has passed: StopTask; start STOP."""
    text = f"the pre-run ran for {ctx.policy.pre_run_limit_s:.0f} s without a failure"
    stop_gang(ctx, StopKind.SUCCEEDED, text)


def go_on(ctx: StepContext, event: AllEnded) -> None:
    """Release all; start WAIT; RequestPlan for the gang."""
    status = _ended(ctx, event)
    text = f"the pre-run {status.words}"
    close_attempt(ctx, text)
    ctx.release_all("the pre-run has ended")
    ctx.disarm(TimerKind.WAIT, *OF_AN_ATTEMPT)
    # From here on the gang is fresh; only the knowledge of nodes stays.
    ctx.gang = replace(
        ctx.gang,
        pre_run=status,
        attempt=next_number(ctx.gang),
        size=ctx.job_policy.tasks,
        members=(),
        rung=None,
        stopping=None,
        acquisition=replace(ctx.acquisition, failures=0, refused_plans=0, avoid=(), user_faults=0),
        retries=replace(ctx.retries, memory_level=1 if status.needs_memory else 0),
    )
    ctx.arm(TimerKind.WAIT, ctx.policy.gang.wait_timeout_s)
    enter_pending(ctx)


def retry(ctx: StepContext, event: AllEnded) -> None:
    """Release all, for free; DrawJitter."""
    status = _status(ctx.gang)
    status = replace(status, retries=status.retries + 1)
    text = concluding.platform_text(ctx)
    if stopping_of(ctx).kind is StopKind.LEFT:
        text = stopping_of(ctx).text
    ctx.gang = replace(ctx.gang, pre_run=status)
    back_off(ctx, f"{text}; the pre-run starts again, retry {status.retries} of {PRE_RUN_RETRIES}")


# ---- judging -------------------------------------------------------------------------------------


def _ended(ctx: StepContext, event: AllEnded) -> PreRunStatus:
    """The pre-run's result: what its process has shown of the program."""
    before = _status(ctx.gang)
    exits = [process for member in ctx.gang.members for process in member.exits]
    if not concluding.has_succeeded(ctx, event) and not _needs_memory(ctx):
        return replace(before, state=PreRunState.GIVEN_UP)
    return replace(
        before,
        state=PreRunState.PASSED,
        needs_memory=_needs_memory(ctx) and not concluding.has_succeeded(ctx, event),
        step_s=next((process.step_s for process in exits if process.step_s is not None), None),
        peak_memory_mib=max((process.peak_memory_mib or 0 for process in exits), default=0) or None,
    )


def _status(gang: Gang) -> PreRunStatus:
    assert gang.pre_run is not None
    return gang.pre_run


def _needs_memory(ctx: StepContext) -> bool:
    """It ran out of memory, and the job allows larger containers."""
    is_short = concluding.action_after(ctx.gang) is RetryAction.MORE_MEMORY
    return is_short and ctx.job_policy.memory_levels > 0


def _is_not_the_jobs(ctx: StepContext) -> bool:
    if stopping_of(ctx).kind is StopKind.LEFT:
        return True
    loss = causing_loss(ctx.gang)
    if loss is not None and loss[1].kind is LossKind.UNABLE_USER:
        return False
    # NONE: it would fail again. USER: the job's own retries are not for its pre-run.
    return concluding.budget(ctx) not in {RetryBudget.NONE, RetryBudget.USER}

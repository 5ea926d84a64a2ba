"""PENDING: the planner is asked where the whole gang could go now."""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.gang import node_blacklist
from yarnam.core.gang.attempts import back_off, begin_attempt, finish
from yarnam.core.gang.context import StepContext
from yarnam.core.gang.gang_requests import ask_for, patience_left_s, request_plan
from yarnam.core.gang.policy import GangPolicy
from yarnam.core.model.events import (
    AmRestarted,
    Event,
    JobStarted,
    PlanReady,
    PlanRefused,
    TimerKind,
)
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import VerdictKind
from yarnam.core.model.plans import Rung
from yarnam.errors import ExitCode

# ---- guards --------------------------------------------------------------------------------------


def is_new(ctx: StepContext, event: Event) -> bool:
    """The job has not begun."""
    return not ctx.gang.is_started


def is_not_the_gang(ctx: StepContext, event: PlanReady) -> bool:
    """The plan has less or more than the gang, by a bug of the planner."""
    return _not_the_gang(ctx.policy, event.plan.rungs[0]) is not None


def is_worth_waiting(ctx: StepContext, event: PlanReady) -> bool:
    """Elastic: the plan has less than the largest size, and the gang still has patience."""
    size = ctx.policy.size
    if size is None or patience_left_s(ctx.gang, ctx.policy, ctx.at_s) <= 0:
        return False
    requested = ctx.size_request.tasks
    planned = sum(ask.count for ask in event.plan.rungs[0].asks if ask.target.role == size.role)
    return planned < (size.most if requested is None else size.bounded(requested))


def is_blacklist_in_the_way(ctx: StepContext, event: PlanRefused) -> bool:
    """It never fits, but nodes are on the job's blacklist."""
    return event.no_fit.is_never and bool(ctx.nodes.exclusions)


def is_never(ctx: StepContext, event: PlanRefused) -> bool:
    """It never fits."""
    return event.no_fit.is_never


# ---- operations ----------------------------------------------------------------------------------


def begin(ctx: StepContext, event: JobStarted | AmRestarted) -> None:
    """Start WAIT, which limits the whole wait for room; RequestPlan. A job that waits for others
    does neither yet."""
    if isinstance(event, AmRestarted):
        ctx.gang = replace(ctx.gang, am_attempt=event.am_attempt)
    ctx.gang = replace(ctx.gang, is_started=True)
    begin_wait(ctx)
    enter_pending(ctx)


def plan_again(ctx: StepContext, event: AmRestarted) -> None:
    """Start the timers again with the time left; RequestPlan again."""
    ctx.gang = replace(ctx.gang, am_attempt=event.am_attempt)
    ctx.rearm()
    enter_pending(ctx)


def begin_wait(ctx: StepContext) -> None:
    """Start WAIT, unless the job waits for others."""
    if not ctx.gang.awaited:
        ctx.arm(TimerKind.WAIT, ctx.policy.gang.wait_timeout_s)


def enter_pending(ctx: StepContext) -> None:
    """RequestPlan, from the rung on that the failures so far have led to."""
    ctx.enter(Phase.PENDING)
    if ctx.gang.awaited:
        return
    ctx.acquisition = replace(ctx.acquisition, refusals=())
    request_plan(ctx, ctx.acquisition.avoid)


def ask_for_gang(ctx: StepContext, event: PlanReady) -> None:
    """AskContainer for every task of the tightest rung, or for its lead; start ASK."""
    rung = event.plan.rungs[0]
    ctx.disarm(TimerKind.PATIENCE)
    ctx.enter(Phase.ACQUIRING)
    begin_attempt(ctx, ctx.gang.attempt, rung, asked=rung.tasks)
    members = ask_for(ctx, rung, event.plan.lead)
    ctx.gang = replace(ctx.gang, members=members)
    ctx.arm(TimerKind.ASK, ctx.policy.gang.ask_timeout_s)


def wait_for_largest(ctx: StepContext, event: PlanReady) -> None:
    """Count the refused plan, not an attempt; DrawJitter."""
    patience_s = patience_left_s(ctx.gang, ctx.policy, ctx.at_s)
    ctx.acquisition = replace(ctx.acquisition, refused_plans=ctx.acquisition.refused_plans + 1)
    tasks = event.plan.rungs[0].tasks
    back_off(
        ctx,
        f"only {tasks} tasks fit: waiting up to {patience_s:.0f} s more for the largest gang",
    )


def blame_planner(ctx: StepContext, event: PlanReady) -> None:
    """Finish with INTERNAL."""
    fault = _not_the_gang(ctx.policy, event.plan.rungs[0]) or ""
    hint = "This is a bug in the planner."
    finish(ctx, VerdictKind.FAILED, ExitCode.INTERNAL, fault, hint)


def lift_blacklist(ctx: StepContext, event: PlanRefused) -> None:
    """Lift all exclusions; RequestPlan again."""
    node_blacklist.lift_all(ctx)
    enter_pending(ctx)


def fail_for_ever(ctx: StepContext, event: PlanRefused) -> None:
    """Finish with NEVER_FITS."""
    no_fit = event.no_fit
    message = f"{no_fit.message} [{no_fit.reason.value}]"
    last = ctx.gang.history[-1] if ctx.retries.memory_level else None
    if last is not None:
        message += f"\nlarger containers were asked for after: {last.outcome}"
    cause = last.cause if last is not None else None
    finish(ctx, VerdictKind.FAILED, ExitCode.NEVER_FITS, message, no_fit.hint, cause)


def wait_for_capacity(ctx: StepContext, event: PlanRefused) -> None:
    """Count the refused plan, not an attempt; DrawJitter."""
    no_fit = event.no_fit
    ctx.acquisition = replace(ctx.acquisition, refused_plans=ctx.acquisition.refused_plans + 1)
    back_off(ctx, f"{no_fit.message}; {no_fit.hint}" if no_fit.hint else no_fit.message)


def take_what_fits(ctx: StepContext, event: Event) -> None:
    """RequestPlan again, for the largest size that fits."""
    request_plan(ctx)


def _not_the_gang(policy: GangPolicy, rung: Rung) -> str | None:
    """Whether a plan leaves out a part of the gang: nothing less is ever asked for."""
    for role, least, most in policy.ranges:
        planned = sum(
            ask.count * ask.target.processes_per_task
            for ask in rung.asks
            if ask.target.role == role
        )
        if not least <= planned <= most:
            wanted = f"{least}" if least == most else f"{least} to {most}"
            return f"the plan has {planned} processes of role {role}, the gang has {wanted}"
    return None

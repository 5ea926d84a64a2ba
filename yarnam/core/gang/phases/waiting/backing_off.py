"""BACKING_OFF: nothing is held, and the gang waits a random while before it tries again."""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.gang.attempts import next_number
from yarnam.core.gang.context import StepContext
from yarnam.core.gang.gang_requests import patience_left_s
from yarnam.core.gang.phases.waiting.pending import enter_pending
from yarnam.core.gang.policy import GangPolicy
from yarnam.core.gang.state import Gang
from yarnam.core.model.actions import DrawJitter
from yarnam.core.model.events import AmRestarted, JitterDrawn, TimerFired, TimerKind


def is_undrawn(ctx: StepContext, event: JitterDrawn) -> bool:
    """The wait has not begun."""
    return ctx.gang.timer(TimerKind.BACKOFF) is None


def wait(ctx: StepContext, event: JitterDrawn) -> None:
    """Start BACKOFF: uniform from nothing to the whole back-off (full jitter), so that contenders
    that failed together do not come back together."""
    delay_s = backoff_delay_s(ctx.gang, ctx.policy, event.u)
    patience_s = patience_left_s(ctx.gang, ctx.policy, ctx.at_s)
    if ctx.acquisition.refused_plans and patience_s > 0:
        # When it is over, a smaller gang will do: that request must not come late.
        delay_s = min(delay_s, patience_s)
    ctx.arm(TimerKind.BACKOFF, delay_s)


def try_again(ctx: StepContext, event: TimerFired) -> None:
    """The next attempt number; RequestPlan from the rung on that the failures lead to."""
    ctx.gang = replace(ctx.gang, attempt=next_number(ctx.gang))
    enter_pending(ctx)


def go_on_waiting(ctx: StepContext, event: AmRestarted) -> None:
    """Start the timers again with the time left; DrawJitter if none was drawn."""
    ctx.gang = replace(ctx.gang, am_attempt=event.am_attempt)
    ctx.rearm()
    if ctx.gang.timer(TimerKind.BACKOFF) is None:
        ctx.do(DrawJitter(ctx.gang.attempt))


def backoff_delay_s(gang: Gang, policy: GangPolicy, u: float) -> float:
    """``u`` times min(cap, base * 2^(n-1)), n the failures (or preemptions, transient failures,
    refused plans) in a row."""
    cap_s = policy.gang.backoff_cap_s
    acquisition, retries = gang.acquisition, gang.retries
    n = max(acquisition.failures, retries.preempted_in_row, retries.transients_in_row)
    if acquisition.refused_plans:
        cap_s = min(cap_s, policy.replan_cap_s)
        n = acquisition.refused_plans
    doublings = min(max(0, n - 1), 30)
    limit_s = min(cap_s, policy.gang.backoff_base_s * 2.0**doublings)
    return max(min(policy.backoff_floor_s, limit_s), u * limit_s)

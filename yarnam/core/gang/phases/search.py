"""Another place for a part of the gang, in ACQUIRING and REPLACING: the planner is asked for what
is missing, the others are held meanwhile.

What it finds is asked for. A refusal is followed by further requests until the phase's limit ends
it: HOLD or RECOVERY.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from yarnam.core.gang.attempts import back_off, fail_attempt
from yarnam.core.gang.context import StepContext
from yarnam.core.gang.gang_requests import (
    ask_for,
    counted,
    request_supplement,
    supplement_of,
    targets_of,
)
from yarnam.core.gang.phases.barrier import go_on_with_rest, rest_is_enough
from yarnam.core.gang.state import MemberState, Search
from yarnam.core.model.actions import DrawJitter
from yarnam.core.model.events import JitterDrawn, PlanReady, PlanRefused, TimerFired, TimerKind
from yarnam.core.model.job_status import Phase
from yarnam.core.model.plans import Target

# ---- guards --------------------------------------------------------------------------------------


def is_found(ctx: StepContext, event: PlanReady) -> bool:
    """The plan is for what is missing now: the answer to the last request, not to an older one."""
    search = ctx.gang.search
    if search is None or not search.is_planning:
        return False
    return _sizes(search.missing) == _sizes(targets_of(event.plan.rungs[0]))


def is_hopeless(ctx: StepContext, event: PlanRefused) -> bool:
    """The missing tasks never fit; or, elastic: the ready ones are enough without them."""
    search = ctx.gang.search
    if search is None or not search.is_planning:
        return False
    # An elastic gang that has run does not idle until there is room: it grows when there is. A gang
    # that has not run yet waits until HOLD ends.
    is_replacing = ctx.gang.phase is Phase.REPLACING
    return event.no_fit.is_never or (is_replacing and rest_is_enough(ctx))


def is_open(ctx: StepContext, event: PlanRefused) -> bool:
    """The missing tasks do not fit now."""
    return ctx.gang.search is not None and ctx.gang.search.is_planning


def is_due(ctx: StepContext, event: JitterDrawn) -> bool:
    """The next request is to be made."""
    search = ctx.gang.search
    if search is None or search.is_planning or not search.missing:
        return False
    return ctx.gang.timer(TimerKind.BACKOFF) is None


# ---- operations ----------------------------------------------------------------------------------


def ask_elsewhere(ctx: StepContext, event: PlanReady) -> None:
    """AskContainer for what was missing."""
    search, rung = ctx.gang.search, event.plan.rungs[0]
    assert search is not None
    ctx.disarm(TimerKind.BACKOFF)
    expected = (node for ask in rung.asks for node in ask.expected_nodes)
    avoid = tuple(dict.fromkeys((*search.avoid, *expected)))
    search = replace(search, missing=(), is_planning=False, avoid=avoid)
    ctx.gang = replace(ctx.gang, rung=rung, search=search)
    asked = ask_for(ctx, rung)
    ctx.gang = replace(ctx.gang, members=(*ctx.gang.members, *asked))
    if ctx.gang.phase is Phase.REPLACING:
        # In ACQUIRING, HOLD bounds it as it bounds the others that have been asked for.
        share = ctx.policy.search_grant_share
        ctx.arm(TimerKind.BACKOFF, ctx.policy.gang.recovery_timeout_s * share)


def wait_for_place(ctx: StepContext, event: PlanRefused) -> None:
    """DrawJitter for the next request."""
    gang = ctx.gang
    assert gang.search is not None
    ctx.gang = replace(
        gang, reason=event.no_fit.message, search=replace(gang.search, is_planning=False)
    )
    ctx.acquisition = replace(ctx.acquisition, refused_plans=ctx.acquisition.refused_plans + 1)
    ctx.do(DrawJitter(gang.attempt))


def wait_until_due(ctx: StepContext, event: JitterDrawn) -> None:
    """Start BACKOFF."""
    policy = ctx.policy
    delay_s = max(policy.backoff_floor_s, event.u * policy.search_interval_s)
    ctx.arm(TimerKind.BACKOFF, delay_s)


def search_again(ctx: StepContext, event: TimerFired) -> None:
    """RequestPlan for what is missing; in REPLACING first withdraw what is not granted by now."""
    search = ctx.gang.search
    if search is None:
        return
    asked = [m for m in ctx.gang.members if m.state is MemberState.ASKED]
    withdrawn = asked if ctx.gang.phase is Phase.REPLACING else []
    for member in withdrawn:
        ctx.release(member, "no grant came in time")
    missing = (*search.missing, *(member.target for member in withdrawn))
    ctx.gang = replace(
        ctx.gang,
        members=tuple(m for m in ctx.gang.members if m not in withdrawn),
        search=replace(search, missing=missing),
    )
    if missing:
        request_place(ctx)


def give_up_search(ctx: StepContext, event: PlanRefused) -> None:
    """Release all, the attempt has failed; or, elastic: launch those that are ready."""
    give_up(ctx, event.no_fit.message)


def start_search(ctx: StepContext, search: Search) -> None:
    """Ask for a place for what is missing; BACKOFF is for the next request."""
    ctx.gang = replace(ctx.gang, search=search)
    ctx.disarm(TimerKind.BACKOFF)
    request_place(ctx)


def request_place(ctx: StepContext) -> None:
    """RequestPlan for what is missing, beside what is held."""
    search = ctx.gang.search
    assert search is not None
    ctx.gang = replace(ctx.gang, search=replace(search, is_planning=True))
    request_supplement(ctx, supplement_of(ctx.gang, counted(search.missing)), search.avoid)


def give_up(ctx: StepContext, why: str) -> None:
    """The whole gang is released and starts over; or it continues with the rest, where that is
    enough."""
    search = ctx.gang.search
    text = f"{search.why}: {why}" if search is not None else why
    if rest_is_enough(ctx):
        go_on_with_rest(ctx, text)
    elif ctx.gang.phase is Phase.ACQUIRING:
        fail_attempt(ctx, text)
    else:
        back_off(ctx, text)


def _sizes(targets: list[Target] | tuple[Target, ...]) -> Counter[tuple[object, ...]]:
    """The properties of a task that are the same wherever it goes."""
    return Counter((t.role, t.resources, t.processes_per_task) for t in targets)

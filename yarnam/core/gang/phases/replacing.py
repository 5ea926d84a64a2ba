"""REPLACING: a launched gang has lost tasks, and they are replaced in place.

When every process has ended (they were stopped with time to write a checkpoint), the containers
whose agents are well are kept, their agents parked as at the first barrier. The planner is asked
for the missing tasks alone, beside those that are held: by the same rung where there is room, else
by looser ones, as far as the job's spec allows. What it finds is asked for and verified as in any
attempt. When the gang is whole, ranks are fixed anew and all processes start from their last
checkpoint.

It is a new attempt: launches are keyed by its number, so whatever an agent still says of the one
before changes nothing. The kept members keep the names of their asks.

All of it is limited by the RECOVERY timer until the last grant, then by LOCALIZE, since what is
held is idle. It uses up one of ``retry.max_restarts``, or of ``gang.attempts`` where not every
process had started, whether it succeeds or the whole gang has to start over.
"""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.gang import node_blacklist
from yarnam.core.gang.attempts import (
    begin_attempt,
    close_attempt,
    count_preemption,
    next_number,
    reask_limit,
)
from yarnam.core.gang.context import StepContext
from yarnam.core.gang.phases.barrier import localize_text, open_barrier
from yarnam.core.gang.phases.search import give_up, start_search
from yarnam.core.gang.policy import GangPolicy
from yarnam.core.gang.state import Gang, Member, MemberState, Search
from yarnam.core.model.events import ContainerEnded, TimerFired, TimerKind
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import ContainerEnd, ExitKind

# ---- guards --------------------------------------------------------------------------------------


def is_preempted(ctx: StepContext, event: ContainerEnded) -> bool:
    """YARN takes one of those that are held."""
    return event.end is ContainerEnd.PREEMPTED


# ---- operations ----------------------------------------------------------------------------------


def give_up_preempted(ctx: StepContext, event: ContainerEnded) -> None:
    """A preempted gang goes as one: release all, for free; DrawJitter."""
    member = ctx.member
    ctx.drop(member)
    count_preemption(ctx)
    text = event.diagnostics or f"YARN says {event.end.value}"
    give_up(ctx, f"{member.name}: preempted: {text}")


def time_out(ctx: StepContext, event: TimerFired) -> None:
    """The kept containers have idled for long enough: release all; DrawJitter."""
    if event.timer.kind is TimerKind.LOCALIZE:
        give_up(ctx, localize_text(ctx))
        return
    ready = sum(member.state is MemberState.READY for member in ctx.gang.members)
    trouble = f"; last trouble: {ctx.gang.reason}" if ctx.gang.reason else ""
    limit_s = ctx.policy.gang.recovery_timeout_s
    give_up(
        ctx,
        f"could not replace lost tasks within {limit_s:.0f} s: "
        f"{ready} of {ctx.gang.size} ready{trouble}",
    )


def can_replace(ctx: StepContext) -> bool:
    """Whether anything is left to keep, and the job wants it kept."""
    gang, policy = ctx.gang, ctx.policy
    if policy.gang.recovery_timeout_s <= 0 or gang.rung is None:
        return False
    return any(is_keepable(gang, policy, member, ctx.at_s) for member in gang.members)


def is_keepable(gang: Gang, policy: GangPolicy, member: Member, at_s: float) -> bool:
    """Its processes have ended, by the word of its agent, or were not started; its agent is still
    there; and the node is not one that the job refuses."""
    return (
        (member.state is MemberState.EXITED or member.is_to_start)
        and not member.is_gone
        and not member.leaves
        and member.grant is not None
        and member.agent is not None
        and all(process.kind is not ExitKind.NOT_STARTED for process in member.exits)
        and node_blacklist.why_excluded(gang, policy, member.grant.node, at_s) is None
    )


def keepable(ctx: StepContext) -> list[Member]:
    gang = ctx.gang
    return [m for m in gang.members if is_keepable(gang, ctx.policy, m, ctx.at_s)]


def begin_replacing(ctx: StepContext, text: str) -> None:
    """Keep the containers that can be kept, release the rest, and ask the planner for room for the
    missing tasks; if none is missing, open the barrier immediately."""
    rung = ctx.gang.rung
    assert rung is not None
    kept = keepable(ctx)
    lost = [m for m in ctx.gang.members if m not in kept]
    for member in lost:
        if member.loss is None or member.is_holding:
            ctx.release(member, text)
    close_attempt(ctx, f"{text}, in place")
    ctx.disarm(TimerKind.STOP)
    ctx.enter(Phase.REPLACING, text)
    begin_attempt(ctx, next_number(ctx.gang), rung, kept, asked=len(lost))
    if not lost:
        open_barrier(ctx)
        return
    ctx.arm(TimerKind.RECOVERY, ctx.policy.gang.recovery_timeout_s)
    start_search(ctx, Search(_lost_text(lost), tuple(member.target for member in lost)))


def lose(ctx: StepContext, member: Member, why: str, *, is_gone: bool) -> None:
    """One more is missing, kept or new: ask for room for it too, unless that was tried enough."""
    search = ctx.gang.search
    assert search is not None
    if not is_gone:
        ctx.release(member, why)
    ctx.drop(member)
    if member.ask.attempt != ctx.gang.attempt:
        *past, record = ctx.gang.history
        record = replace(record, asked=record.asked + 1, kept=record.kept - 1)
        ctx.gang = replace(ctx.gang, history=(*past, record))
    limit = reask_limit(ctx)
    if ctx.acquisition.reasks >= limit:
        give_up(ctx, f"gave up after {limit} replaced containers; the last one: {why}")
        return
    if not any(m.state is MemberState.READY for m in ctx.gang.members):
        give_up(ctx, f"nothing is left to keep; the last one: {member.name}: {why}")
        return
    ctx.gang = replace(ctx.gang, reason=f"{member.name}: {why}")
    ctx.acquisition = replace(ctx.acquisition, reasks=ctx.acquisition.reasks + 1)
    start_search(ctx, replace(search, missing=(*search.missing, member.target)))


def _lost_text(lost: list[Member]) -> str:
    """``worker-3 on n5 (agent silent)``, and how many more."""
    shown: list[str] = []
    for member in lost[:3]:
        node = f" on {member.grant.node}" if member.grant else ""
        shown.append(f"{member.name}{node} ({_how(member)})")
    more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
    return ", ".join(shown) + more


def _how(member: Member) -> str:
    if member.loss is not None:
        return member.loss.kind.value
    return member.leaves or "not to be kept"

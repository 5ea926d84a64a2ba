"""The barrier: the whole gang is ready, so its ranks are fixed and its processes may start.

Where inputs are brought to the nodes first, the barrier has two steps: the members learn their
ranks and fetch what these read (STAGING), and when all have it, all start (LAUNCHING).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from yarnam.core.gang.attempts import begin_attempt, close_attempt, next_number
from yarnam.core.gang.context import StepContext
from yarnam.core.gang.policy import GangPolicy
from yarnam.core.gang.ranks import in_rank_order
from yarnam.core.gang.state import Gang, Member, MemberState
from yarnam.core.model.actions import GangMember, LaunchGang, PrepareGang
from yarnam.core.model.events import TimerKind
from yarnam.core.model.job_status import Phase
from yarnam.core.model.plans import Placed, Rung


def open_barrier(ctx: StepContext) -> None:
    """Fix the ranks; have the inputs fetched, or launch at once."""
    ordered = in_rank_order(ctx.gang.members, ctx.policy)
    members = tuple(replace(member, is_staged=False) for member in ordered)
    is_staged = ctx.policy.staging_timeout_s > 0
    ctx.enter(Phase.STAGING if is_staged else Phase.LAUNCHING)
    ctx.gang = replace(ctx.gang, members=members, search=None)
    ctx.disarm(TimerKind.ASK, TimerKind.HOLD, TimerKind.RECOVERY, TimerKind.BACKOFF)
    if is_staged:
        ctx.arm(TimerKind.STAGING, ctx.policy.staging_timeout_s)
        ctx.do(PrepareGang(ctx.gang.attempt, _launched(ctx.gang)))
    else:
        order_launch(ctx)


def order_launch(ctx: StepContext) -> None:
    """Once for each attempt."""
    ctx.arm(TimerKind.LAUNCH, ctx.policy.gang.launch_timeout_s)
    ctx.do(LaunchGang(ctx.gang.attempt, _launched(ctx.gang)))


def relaunch(ctx: StepContext, stay: Iterable[Member], text: str, rung: Rung | None = None) -> None:
    """Start these, whose processes have ended or never ran, as the whole gang in a new attempt;
    release the others. ``rung``: theirs, if another than before."""
    stay = tuple(stay)
    names = {member.ask for member in stay}
    for member in ctx.gang.members:
        if member.ask not in names and (member.loss is None or member.is_holding):
            ctx.release(member, text)
    close_attempt(ctx, text)
    ctx.disarm(TimerKind.STOP, TimerKind.RESIZE, TimerKind.GROWTH)
    rung = rung or ctx.gang.rung
    assert rung is not None
    begin_attempt(ctx, next_number(ctx.gang), rung, stay)
    open_barrier(ctx)
    ctx.gang = replace(ctx.gang, reason=text)


def go_on_with_rest(ctx: StepContext, why: str) -> None:
    """Stop waiting for the others: what has not come is withdrawn, and those that are ready
    start."""
    rest = ready(ctx.gang)
    for member in ctx.gang.members:
        if member not in rest:
            ctx.release(member, why)
    ctx.gang = replace(ctx.gang, members=rest, size=len(rest))
    open_barrier(ctx)
    ctx.gang = replace(ctx.gang, reason=why)


def is_enough(policy: GangPolicy, members: Iterable[Member]) -> bool:
    """Whether these are a gang of one of the sizes that the job allows."""
    processes: dict[str, int] = {}
    for member in members:
        role = member.target.role
        processes[role] = processes.get(role, 0) + member.target.processes_per_task
    return all(least <= processes.get(role, 0) <= most for role, least, most in policy.ranges)


def rest_is_enough(ctx: StepContext) -> bool:
    """Of an elastic gang: whether those that are ready by now may start without the others."""
    return ctx.policy.size is not None and is_enough(ctx.policy, ready(ctx.gang))


def is_whole(gang: Gang) -> bool:
    """Every task granted, verified and its agent parked."""
    is_complete = gang.search is None or not gang.search.missing
    return is_complete and all(m.state is MemberState.READY for m in gang.members)


def ready(gang: Gang) -> tuple[Member, ...]:
    return tuple(member for member in gang.members if member.state is MemberState.READY)


def _launched(gang: Gang) -> tuple[GangMember, ...]:
    return tuple(_gang_member(member) for member in gang.members)


def _gang_member(member: Member) -> GangMember:
    assert member.task is not None
    assert member.grant is not None
    assert member.agent is not None
    return GangMember(
        ask=member.ask,
        task=member.task,
        placed=Placed(
            role=member.target.role,
            node=member.grant.node,
            rack=member.grant.rack,
            gpu_ids=member.agent.gpu_ids,
            processes=member.target.processes_per_task,
            address=member.agent.address,
            ports=member.agent.ports,
        ),
    )

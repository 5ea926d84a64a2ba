"""The barrier: the whole gang is ready, so its ranks are fixed and its processes may start.

Where inputs are brought to the nodes first, the barrier has two steps: the members learn their
ranks and fetch what these read (STAGING), and when all have it, all start (LAUNCHING).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from yarnam.core.failures.node_judgement import partners
from yarnam.core.gang.attempts import begin_attempt, close_attempt, next_number
from yarnam.core.gang.context import StepContext
from yarnam.core.gang.policy import GangPolicy
from yarnam.core.gang.roles.ranks import in_rank_order
from yarnam.core.gang.roles.start_order import unready, with_waiting
from yarnam.core.gang.state import Gang, Member, MemberState
from yarnam.core.model.actions import (
    CheckedNode,
    CheckNodes,
    CheckPeer,
    GangMember,
    LaunchGang,
    PrepareGang,
)
from yarnam.core.model.events import TimerKind
from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_spec import NodeCheck
from yarnam.core.model.job_status import Phase
from yarnam.core.model.plans import Placed, Rung

CHECK_LIMITS_S = {NodeCheck.OFF: 0.0, NodeCheck.QUICK: 10.0, NodeCheck.FULL: 60.0}
"""The time for all nodes to answer: the check itself takes less (``yarnam.agent.checks``)."""

OF_ACQUIRING = (
    TimerKind.ASK,
    TimerKind.HOLD,
    TimerKind.LOCALIZE,
    TimerKind.RECOVERY,
    TimerKind.BACKOFF,
)
"""Timers that end when the whole gang is there."""

MOST_REFERENCES = 3
"""Nodes that are known to be good, and are measured again beside new ones."""


def open_barrier(ctx: StepContext) -> None:
    """Fix the ranks; have the inputs fetched, or launch immediately. Before that have the nodes
    checked, where the job asks for it."""
    if ctx.policy.check is not NodeCheck.OFF and (new := _unchecked(ctx.gang)):
        _begin_check(ctx, new)
        return
    ordered = in_rank_order(ctx.gang.members, ctx.policy)
    members = tuple(replace(member, is_staged=False) for member in ordered)
    is_staged = ctx.policy.staging_timeout_s > 0
    ctx.enter(Phase.STAGING if is_staged else Phase.LAUNCHING)
    ctx.gang = replace(ctx.gang, members=members, search=None)
    ctx.disarm(*OF_ACQUIRING)
    if is_staged:
        ctx.arm(TimerKind.STAGING, ctx.policy.staging_timeout_s)
        ctx.do(PrepareGang(ctx.gang.attempt, _launched(ctx.gang)))
    else:
        order_launch(ctx)


def _unchecked(gang: Gang) -> list[Member]:
    """One member on each node that is not known to be good."""
    known = _known_nodes(gang)
    return [member for node, member in _on_nodes(gang).items() if node not in known]


def _known_nodes(gang: Gang) -> set[NodeId]:
    return {m.grant.node for m in gang.members if m.is_checked and m.grant is not None}


def _on_nodes(gang: Gang) -> dict[NodeId, Member]:
    """The first member on each node."""
    found: dict[NodeId, Member] = {}
    for member in gang.members:
        if member.grant is not None:
            found.setdefault(member.grant.node, member)
    return found


def _begin_check(ctx: StepContext, new: list[Member]) -> None:
    """These measure their nodes, and some others that are known."""
    known = _known_nodes(ctx.gang)
    others = [member for node, member in _on_nodes(ctx.gang).items() if node in known]
    chosen = [*new, *others[:MOST_REFERENCES]]
    number, limit_s = ctx.gang.checks + 1, CHECK_LIMITS_S[ctx.policy.check]
    asks = {member.ask for member in chosen}
    members = tuple(
        replace(member, check=number, measures=None) if member.ask in asks else member
        for member in ctx.gang.members
    )
    ctx.enter(Phase.CHECKING)
    ctx.gang = replace(ctx.gang, members=members, search=None, checks=number)
    ctx.disarm(*OF_ACQUIRING)
    ctx.arm(TimerKind.CHECK, limit_s)
    peers = [
        CheckPeer(member.grant.node, member.agent.log_address)
        for member in chosen
        if member.grant is not None and member.agent is not None
    ]
    nodes = tuple(
        CheckedNode(member.ask, peers[place].node, tuple(peers[other] for other in others))
        for place, (member, others) in enumerate(zip(chosen, partners(len(peers)), strict=True))
    )
    is_full = ctx.policy.check is NodeCheck.FULL
    ctx.do(CheckNodes(ctx.gang.attempt, number, is_full, limit_s, nodes))


def order_launch(ctx: StepContext) -> None:
    """Order the launch of those that may start now, once for each attempt; the others follow."""
    members = tuple(replace(member, is_waiting=True) for member in ctx.gang.members)
    ctx.gang = with_waiting(replace(ctx.gang, members=members), ctx.policy)
    _launch(ctx)


def launch_next(ctx: StepContext) -> bool:
    """A member has come further: order the launch of those that may start now, and limit what is
    waited for: LAUNCH for processes that start, READY for those that are to get ready. Return
    whether only the end of others is waited for, which has no such limit."""
    before = ctx.gang
    if not any(rules.after for _, rules in ctx.policy.rules):
        return False
    ctx.gang = with_waiting(before, ctx.policy)
    if ctx.gang != before:
        ctx.disarm(TimerKind.READY)
        _launch(ctx)
        return False
    is_starting = any(m.state is MemberState.READY and not m.is_to_start for m in before.members)
    late = unready(before, ctx.policy)
    if late and not is_starting:
        ctx.disarm(TimerKind.LAUNCH)
        if ctx.gang.timer(TimerKind.READY) is None:
            ctx.arm(TimerKind.READY, ready_limit_s(late, ctx.policy))
    return not late and not is_starting


def ready_limit_s(late: Iterable[Member], policy: GangPolicy) -> float:
    """How long the gang waits for these roles, once all of their processes have started."""
    return max(policy.rules_of(member.target.role).ready.timeout_s for member in late)


def _launch(ctx: StepContext) -> None:
    ctx.arm(TimerKind.LAUNCH, ctx.policy.gang.launch_timeout_s)
    waiting = tuple(member.ask for member in ctx.gang.members if member.is_waiting)
    ctx.do(LaunchGang(ctx.gang.attempt, _launched(ctx.gang), waiting))


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
    """Elastic: the tasks that are ready by now may start without the others."""
    return ctx.policy.size is not None and is_enough(ctx.policy, ready(ctx.gang))


def localize_text(ctx: StepContext) -> str:
    """``the files of worker-1 on n2 were not on the node within 1800 s (gang.localize_timeout):
    1 of 2 tasks were ready``."""
    late = [member for member in ctx.gang.members if member.state is not MemberState.READY]
    trouble = f"; last trouble: {ctx.gang.reason}" if ctx.gang.reason else ""
    return (
        f"the files of {members_text(late)} were not on the node within "
        f"{ctx.policy.gang.localize_timeout_s:.0f} s (gang.localize_timeout): "
        f"{len(ready(ctx.gang))} of {ctx.gang.size} tasks were ready{trouble}"
    )


def members_text(members: Sequence[Member]) -> str:
    """``worker-1 on n2, worker-3 on n4``, the first ones."""
    shown = ", ".join(
        f"{member.name} on {member.grant.node}" if member.grant else member.name
        for member in members[:8]
    )
    return f"{shown} and more" if len(members) > 8 else shown


def is_whole(gang: Gang) -> bool:
    """Every task granted, verified and its agent parked."""
    is_complete = gang.search is None or not gang.search.missing
    return is_complete and all(m.state is MemberState.READY for m in gang.members)


def ready(gang: Gang) -> tuple[Member, ...]:
    return tuple(member for member in gang.members if member.state is MemberState.READY)


def _launched(gang: Gang) -> tuple[GangMember, ...]:
    return tuple(gang_member(member) for member in gang.members)


def gang_member(member: Member) -> GangMember:
    """The member as it is launched."""
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

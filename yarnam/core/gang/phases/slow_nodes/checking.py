"""CHECKING: the whole gang is held, and its nodes are checked before the barrier opens.

One agent of each node measures CPU, memory, disk and links; the nodes that are slow or broken get a
strike, and their tasks are replaced as in ACQUIRING. No process runs yet. Tasks that stay keep what
their node has shown: only new nodes are checked again, beside some that are known.
"""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.failures.node_judgement import BadNode, bad_nodes
from yarnam.core.gang import fitness, node_blacklist
from yarnam.core.gang.context import StepContext
from yarnam.core.gang.phases import acquiring
from yarnam.core.gang.phases.barrier import open_barrier
from yarnam.core.gang.phases.staging import step_back
from yarnam.core.gang.state import Gang
from yarnam.core.model.events import NodeChecked, TimerFired, TimerKind
from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import NodeMeasures

# ---- guards --------------------------------------------------------------------------------------


def is_awaited(ctx: StepContext, event: NodeChecked) -> bool:
    """The agent takes part in this check, and has not answered it."""
    member = ctx.member
    is_current = event.check == ctx.gang.checks == member.check
    return is_current and member.measures is None


def is_last(ctx: StepContext, event: NodeChecked) -> bool:
    """All the others have answered."""
    if not is_awaited(ctx, event):
        return False
    return all(
        member.measures is not None
        for member in ctx.gang.members
        if member.check == ctx.gang.checks and member.ask != ctx.member.ask
    )


# ---- operations ----------------------------------------------------------------------------------


def note(ctx: StepContext, event: NodeChecked) -> None:
    """Its measures are noted."""
    ctx.put(ctx.member, replace(ctx.member, measures=event.measures))


def judge(ctx: StepContext, event: NodeChecked) -> None:
    """Fix the ranks and open the barrier; where nodes are slow or broken, strike them and acquire
    again: replace their members; cancel CHECK, start HOLD."""
    note(ctx, event)
    _judge(ctx)


def judge_without(ctx: StepContext, event: TimerFired) -> None:
    """Handle it as the last answer; nodes without one are broken, unless most of them are."""
    _judge(ctx)


def _judge(ctx: StepContext) -> None:
    found = bad_nodes(_measures(ctx.gang))
    bad = {NodeId(one.node) for one in found}
    ctx.disarm(TimerKind.CHECK)
    members = tuple(
        member
        if member.grant is None or member.grant.node in bad
        else replace(member, is_checked=True, measures=None)
        for member in ctx.gang.members
    )
    ctx.gang = replace(ctx.gang, members=members)
    if not found:
        open_barrier(ctx)
        return
    step_back(ctx)
    for one in found:
        _replace_on(ctx, one)
    acquiring.leave_excluded(ctx)


def _replace_on(ctx: StepContext, bad: BadNode) -> None:
    node = NodeId(bad.node)
    why = f"node check: {bad.why}"
    node_blacklist.strike(ctx, node, why)
    for member in ctx.gang.members:
        is_there = member.grant is not None and member.grant.node == node
        if is_there and ctx.gang.phase is Phase.ACQUIRING and ctx.gang.find(member.ask) is member:
            # Nothing of this gang goes there again in this attempt.
            misfit = fitness.Misfit(f"{node}: {bad.why}", is_unfit=True)
            fitness.note_refusal(ctx, member, node, misfit)
            acquiring.replace_member(ctx, member, why, is_gone=False)


def _measures(gang: Gang) -> dict[str, NodeMeasures | None]:
    return {
        str(member.grant.node): member.measures
        for member in gang.members
        if member.grant is not None and member.check == gang.checks
    }

"""RUNNING: ranks slow the gang. It is noted, and what runs on a slow node moves where the job asks
for that: all processes are stopped with time to write a checkpoint, and the tasks of that node are
replaced, those of the others kept."""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.failures.straggler_detection import cleared, with_causes
from yarnam.core.gang import node_blacklist
from yarnam.core.gang.attempts import back_off
from yarnam.core.gang.context import AllEnded, StepContext
from yarnam.core.gang.phases.concluding import note_progress
from yarnam.core.gang.phases.first_cause import causing_loss, first_failure
from yarnam.core.gang.phases.replacing import begin_replacing, can_replace
from yarnam.core.gang.phases.stopping import stop_gang, stopping_of
from yarnam.core.gang.state import Gang, StopKind
from yarnam.core.model.events import StragglersFound
from yarnam.core.model.ids import NodeId
from yarnam.core.model.outcomes import SlownessCause, Straggler

# ---- guards --------------------------------------------------------------------------------------


def are_to_move(ctx: StepContext, event: StragglersFound) -> bool:
    """The job asks for it, has not moved any too often, and it is not their data."""
    rules = ctx.policy.stragglers
    if not rules.replace or ctx.retries.straggler_moves >= rules.max_replacements:
        return False
    return bool(_slow_nodes(ctx.gang, event))


def has_been_slowed(ctx: StepContext, event: AllEnded) -> bool:
    """It was stopped to move tasks from a slow node, and nothing went wrong meanwhile."""
    is_slowed = stopping_of(ctx).kind is StopKind.SLOWED
    return is_slowed and first_failure(ctx.gang) is None and causing_loss(ctx.gang) is None


# ---- operations ----------------------------------------------------------------------------------


def note(ctx: StepContext, event: StragglersFound) -> None:
    """They are in the status and in the record of the attempt."""
    if not ctx.gang.history:
        return
    nodes = _nodes(ctx.gang)
    *past, record = ctx.gang.history
    found = _with_causes(ctx.gang, event)
    past = [replace(one, stragglers=cleared(one.stragglers, found, nodes)) for one in past]
    ctx.gang = replace(ctx.gang, history=(*past, replace(record, stragglers=found)))


def stop_to_move(ctx: StepContext, event: StragglersFound) -> None:
    """Note them, with a strike against their nodes; StopTask for every member; start STOP."""
    note(ctx, event)
    nodes = _slow_nodes(ctx.gang, event)
    worst = {node: one for one in reversed(event.stragglers) if (node := NodeId(one.node)) in nodes}
    for node, one in worst.items():
        node_blacklist.strike(ctx, node, one.words)
    first = event.stragglers[0]
    text = f"{first.words}; its task moves to another node"
    stop_gang(ctx, StopKind.SLOWED, text, slow_nodes=nodes)


def move(ctx: StepContext, event: AllEnded) -> None:
    """For free, a bounded number of times: keep the tasks of the other nodes, replace those of the
    slow ones; where none can be kept release all and DrawJitter."""
    stopping = stopping_of(ctx)
    note_progress(ctx, counts_failure=False)
    for member in ctx.gang.members:
        if member.grant is not None and member.grant.node in stopping.slow_nodes:
            ctx.put(member, replace(member, leaves="its node slows the gang"))
    ctx.retries = replace(ctx.retries, straggler_moves=ctx.retries.straggler_moves + 1)
    most = ctx.policy.stragglers.max_replacements
    text = f"{stopping.text}, {ctx.retries.straggler_moves} of {most} times"
    if can_replace(ctx):
        begin_replacing(ctx, text)
    else:
        back_off(ctx, text)


def _slow_nodes(gang: Gang, event: StragglersFound) -> tuple[NodeId, ...]:
    """Where the stragglers are that do not take their slowness along."""
    found = _with_causes(gang, event)
    slow = (NodeId(one.node) for one in found if one.cause is not SlownessCause.DATA)
    return tuple(dict.fromkeys(slow))


def _with_causes(gang: Gang, event: StragglersFound) -> tuple[Straggler, ...]:
    earlier = [one for record in gang.history[:-1] for one in record.stragglers]
    return with_causes(event.stragglers, earlier, _nodes(gang))


def _nodes(gang: Gang) -> dict[int, str]:
    """The node of each rank."""
    return {
        member.first_rank + local: str(member.grant.node)
        for member in gang.members
        if member.grant is not None
        for local in range(member.target.processes_per_task)
    }

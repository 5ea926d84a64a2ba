"""LAUNCHING and RUNNING: processes end, members are lost, and both stop the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Union

from yarnam.core.gang import attempts, node_blacklist
from yarnam.core.gang.context import StepContext
from yarnam.core.gang.phases.first_cause import exits_text
from yarnam.core.gang.phases.stopping import (
    MAY_RUN,
    loss_of,
    mark_lost,
    may_run,
    stop_gang,
)
from yarnam.core.gang.roles.completion import (
    is_complete,
    is_early_exit,
    is_optional,
    is_tolerable,
)
from yarnam.core.gang.state import Member, MemberState, StopKind
from yarnam.core.model.actions import StopTask
from yarnam.core.model.events import (
    AgentSilent,
    AgentUnable,
    BrokerFailed,
    CancelRequested,
    ConditionChanged,
    ContainerEnded,
    ContainersMarked,
    GangHung,
    IdleGpusFound,
    InputsRefused,
    LossFlat,
    NodeLeaving,
    NodesCordoned,
    NotebookIdle,
    TaskExited,
    TaskFailing,
    TaskReady,
    TimerFired,
    TimerKind,
)
from yarnam.core.model.job_status import Condition
from yarnam.core.model.printable import duration

Trouble = Union[ContainerEnded, AgentUnable, AgentSilent]

COMPLETE = "every role that has to end is complete"

LEAVE_MARGIN_S = 5.0
"""The margin between the end of the stop and that of the node: the release reaches the NodeManager
by a heartbeat of the AM (0.25 s) and one of its own (1 s)."""

DRAINED = "is drained by an administrator"

# ---- guards --------------------------------------------------------------------------------------


def has_exited(ctx: StepContext, event: Trouble) -> bool:
    """Its processes have reported how they ended."""
    return ctx.member.state is MemberState.EXITED


def is_failure(ctx: StepContext, event: TaskExited) -> bool:
    """A process failed, or was stopped from outside, and the gang cannot do without its task."""
    if ctx.member.has_ended:
        return False
    ended = after_exit(ctx, event)
    return not ended.is_ok and not is_tolerable(ended, _with(ctx, ended), ctx.policy)


def is_too_early(ctx: StepContext, event: TaskExited) -> bool:
    """A service ended well that must run until the others are complete."""
    if ctx.member.has_ended:
        return False
    ended = after_exit(ctx, event)
    return is_early_exit(ended, _with(ctx, ended), ctx.policy)


def is_failing(ctx: StepContext, event: TaskFailing) -> bool:
    """The member's end is not known, and the gang cannot do without it."""
    ended = replace(ctx.member, state=MemberState.EXITED, exits=event.exits)
    is_needed = not is_tolerable(ended, _with(ctx, ended), ctx.policy)
    return ctx.member.state in MAY_RUN and is_needed


def is_last_to_end(ctx: StepContext, event: TaskExited) -> bool:
    """With this end every role that has to end is complete."""
    ended = after_exit(ctx, event)
    return not ctx.member.has_ended and is_complete(_with(ctx, ended), ctx.policy)


def is_running(ctx: StepContext, event: TaskExited) -> bool:
    """The member has ended well, or the gang continues without it; others are needed."""
    return not ctx.member.has_ended


def is_loss(ctx: StepContext, event: Trouble) -> bool:
    """The gang cannot do without the member."""
    lost = _after_loss(ctx, event)
    return not ctx.member.has_ended and not is_tolerable(lost, _with(ctx, lost), ctx.policy)


def is_last_loss(ctx: StepContext, event: Trouble) -> bool:
    """The gang continues without the member, and every role that has to end is complete."""
    lost = _after_loss(ctx, event)
    return not ctx.member.has_ended and is_complete(_with(ctx, lost), ctx.policy)


def is_there(ctx: StepContext, event: Trouble) -> bool:
    """The gang continues without the member."""
    return not ctx.member.has_ended


def is_marked(ctx: StepContext, event: ContainersMarked) -> bool:
    """YARN is about to take a container of the gang that is not optional, or a user tries that."""
    return bool(event.by) or any(member.ask in event.asks for member in _needed_there(ctx))


def is_awaited(ctx: StepContext, event: TaskReady) -> bool:
    """The member was not ready, and has not ended."""
    return not ctx.member.is_serving and not ctx.member.has_ended


def is_on_node(ctx: StepContext, event: NodeLeaving) -> bool:
    """A task of the gang that is not optional is on that node."""
    return any(
        member.grant is not None and member.grant.node == event.node
        for member in _needed_there(ctx)
    )


def after_exit(ctx: StepContext, event: TaskExited) -> Member:
    """The member as it is once it has ended."""
    return replace(ctx.member, state=MemberState.EXITED, exits=event.exits)


def _after_loss(ctx: StepContext, event: Trouble) -> Member:
    return replace(ctx.member, state=MemberState.LOST, loss=loss_of(event, ctx.at_s))


def _with(ctx: StepContext, changed: Member) -> Iterator[Member]:
    return (changed if m is ctx.member else m for m in ctx.gang.members)


# ---- operations ----------------------------------------------------------------------------------


def began_to_run(ctx: StepContext) -> None:
    """Start TIME_LIMIT: the stop, with all of its grace, is over when the limit is. Start LEAVE
    where a node has been drained meanwhile."""
    leave_drained(ctx)
    limit_s = ctx.policy.time_limit_s
    if limit_s is not None and not ctx.gang.is_pre_run:
        stop_s = ctx.policy.stop_grace_s + ctx.policy.stop_margin_s
        ctx.arm(TimerKind.TIME_LIMIT, max(0.0, limit_s - ctx.gang.ran_s - stop_s))


def stop_at_limit(ctx: StepContext, event: TimerFired) -> None:
    """StopTask for every member, with time for a checkpoint; start STOP."""
    limit_s = ctx.policy.time_limit_s or 0.0
    text = f"the job has run for as long as it may (time_limit: {duration(limit_s)})"
    stop_gang(ctx, StopKind.TIMED_OUT, text)


def note_exit(ctx: StepContext, event: TaskExited) -> None:
    """The member is EXITED."""
    ended = after_exit(ctx, event)
    is_tolerated = not ended.is_ok and is_tolerable(ended, _with(ctx, ended), ctx.policy)
    ctx.put(ctx.member, replace(ended, is_tolerated=is_tolerated))


def note_loss(ctx: StepContext, event: Trouble) -> None:
    """The member is LOST."""
    mark_lost(ctx, ctx.member, loss_of(event, ctx.at_s), is_tolerated=True)


def note_ready(ctx: StepContext, event: TaskReady) -> None:
    """The member is ready."""
    ctx.put(ctx.member, replace(ctx.member, is_serving=True))


def stop_for_failure(ctx: StepContext, event: TaskExited) -> None:
    """The member is EXITED; StopTask for the others; start STOP."""
    note_exit(ctx, event)
    _blame_role(ctx)
    stop_gang(ctx, StopKind.FAILED, f"{ctx.member.name} {exits_text(event.exits)}")


def stop_for_early_exit(ctx: StepContext, event: TaskExited) -> None:
    """The member is EXITED; StopTask for the others; start STOP."""
    note_exit(ctx, event)
    role = ctx.member.target.role
    text = f"{ctx.member.name} ended before the roles that {role} serves were complete"
    hint = f"Let {role} run until it is stopped, or write early_exit: accept for it."
    stop_gang(ctx, StopKind.UNMET, text, hint=hint)


def stop_for_failing(ctx: StepContext, event: TaskFailing) -> None:
    """StopTask for the other members; start STOP."""
    _blame_role(ctx)
    text = f"{ctx.member.name} {exits_text(event.exits)}"
    stop_gang(ctx, StopKind.FAILED, text, ending=ctx.member)


def note_idle_gpus(ctx: StepContext, event: IdleGpusFound) -> None:
    """It is in the status and in the record of the attempt."""
    if ctx.gang.history:
        *past, record = ctx.gang.history
        ctx.gang = replace(ctx.gang, history=(*past, replace(record, idle_gpus=event.idle)))


def note_condition(ctx: StepContext, event: ConditionChanged) -> None:
    """It is in the status and in the record of the attempt: the newest of each type."""
    if not ctx.gang.history:
        return
    *past, record = ctx.gang.history
    before = next((one for one in record.conditions if one.type == event.type), None)
    others = tuple(one for one in record.conditions if one.type != event.type)
    if event.message:
        now = (*others, Condition(event.type, event.message, event.at_s))
    elif before is not None and before.ended_at_s is None:
        now = (*others, replace(before, ended_at_s=event.at_s))
    else:
        return
    ctx.gang = replace(ctx.gang, history=(*past, replace(record, conditions=now)))


def stop_for_hang(ctx: StepContext, event: GangHung) -> None:
    """StopTask for every member; start STOP."""
    stop_gang(ctx, StopKind.FAILED, f"hangs: {event.finding.line}", hang=event)


def stop_early(ctx: StepContext, event: LossFlat | NotebookIdle) -> None:
    """StopTask for every member, with time for a checkpoint; start STOP. The job has succeeded."""
    stop_gang(ctx, StopKind.FLAT, f"stopped early: {event.text}")


def stop_when_done(ctx: StepContext, event: TaskExited) -> None:
    """The member is EXITED; StopTask for those that still run; start STOP."""
    note_exit(ctx, event)
    stop_gang(ctx, StopKind.SUCCEEDED, COMPLETE)


def stop_when_lost(ctx: StepContext, event: Trouble) -> None:
    """The member is LOST; StopTask for those that still run; start STOP."""
    note_loss(ctx, event)
    stop_gang(ctx, StopKind.SUCCEEDED, COMPLETE)


def _blame_role(ctx: StepContext) -> None:
    """The rule of the role cannot be met any more: the failures that were tolerated until now have
    their part in that."""
    role = ctx.member.target.role
    for member in ctx.gang.members:
        is_failure = member.is_tolerated and member.state is MemberState.EXITED
        if is_failure and member.target.role == role:
            ctx.put(member, replace(member, is_tolerated=False))


def note_gone(ctx: StepContext, event: Trouble) -> None:
    """The member cannot be kept any more."""
    if not ctx.member.is_gone:
        ctx.put(ctx.member, replace(ctx.member, is_gone=True))


def stop_for_loss(ctx: StepContext, event: Trouble) -> None:
    """The member is LOST; StopTask for the others; start STOP."""
    _blame_role(ctx)
    loss = loss_of(event, ctx.at_s)
    mark_lost(ctx, ctx.member, loss)
    stop_gang(ctx, StopKind.FAILED, f"{ctx.member.name} {loss.kind.value}: {loss.text}")


def stop_for_preemption(ctx: StepContext, event: ContainersMarked) -> None:
    """The members are marked; StopTask for every member; start STOP."""
    marked = [member for member in _there(ctx) if event.by or member.ask in event.asks]
    why = f"interrupted by {event.by}" if event.by else "YARN is about to preempt it"
    for member in marked:
        ctx.put(member, replace(member, leaves=why))
    names = ", ".join(member.name for member in marked)
    said = f"interrupted by {event.by}" if event.by else "preempted: YARN has announced it"
    stop_gang(ctx, StopKind.LEFT, f"{names}: {said}")


def note_leaving(ctx: StepContext, event: NodeLeaving) -> None:
    """The members are marked; start LEAVE, unless it fires earlier."""
    for member in _there(ctx):
        if member.grant is not None and member.grant.node == event.node:
            ctx.put(member, replace(member, leaves=f"{event.node} leaves the cluster"))
    needed_s = ctx.policy.stop_grace_s + ctx.policy.stop_margin_s + LEAVE_MARGIN_S
    due_s, known_s = ctx.at_s + event.timeout_s - needed_s, ctx.gang.deadline_s(TimerKind.LEAVE)
    if known_s is not None:
        due_s = min(due_s, known_s)
    ctx.arm(TimerKind.LEAVE, max(0.0, due_s - ctx.at_s))


def take_cordons(ctx: StepContext, event: NodesCordoned) -> None:
    """Remember them. The members on nodes that are drained are marked; start LEAVE, or cancel it
    where none is left."""
    node_blacklist.take_cordons(ctx, event)
    leave_drained(ctx)


def leave_drained(ctx: StepContext) -> None:
    """Mark the members on nodes that are drained, and have the gang leave in time."""
    until = {one.node: one.leave_by_s for one in ctx.nodes.cordoned if one.leave_by_s is not None}
    limits: list[float] = []
    for member in _needed_there(ctx):
        limit_s = until.get(member.grant.node) if member.grant is not None else None
        if limit_s is not None and member.grant is not None:
            limits.append(limit_s)
            if not member.leaves:
                ctx.put(member, replace(member, leaves=f"{member.grant.node} {DRAINED}"))
        elif member.leaves.endswith(DRAINED):
            ctx.put(member, replace(member, leaves=""))
    others = any(m.leaves and not m.leaves.endswith(DRAINED) for m in _there(ctx))
    known_s = ctx.gang.deadline_s(TimerKind.LEAVE)
    if limits:
        needed_s = ctx.policy.stop_grace_s + ctx.policy.stop_margin_s + LEAVE_MARGIN_S
        due_s = min(limits) - needed_s
        if others and known_s is not None:
            due_s = min(due_s, known_s)
        ctx.arm(TimerKind.LEAVE, max(0.0, due_s - ctx.at_s))
    elif known_s is not None and not others:
        ctx.disarm(TimerKind.LEAVE)


def leave_node(ctx: StepContext, event: TimerFired) -> None:
    """StopTask for every member; start STOP."""
    marked = [member for member in _there(ctx) if member.leaves]
    names = ", ".join(member.name for member in marked)
    why = marked[0].leaves if marked else "a node leaves the cluster"
    stop_gang(ctx, StopKind.LEFT, f"{names}: {why}")


def _there(ctx: StepContext) -> list[Member]:
    """The members whose processes may run."""
    return [member for member in ctx.gang.members if member.state in MAY_RUN]


def _needed_there(ctx: StepContext) -> list[Member]:
    return [member for member in _there(ctx) if not is_optional(member, ctx.policy)]


def stop_for_cancel(ctx: StepContext, event: CancelRequested) -> None:
    """StopTask for every member; start STOP."""
    stop_gang(ctx, StopKind.CANCELLED, attempts.cancel_text(event))


def stop_for_inputs(ctx: StepContext, event: InputsRefused) -> None:
    """StopTask for every member; start STOP."""
    stop_gang(ctx, StopKind.REFUSED, event.message)


def fail_broker(ctx: StepContext, event: BrokerFailed) -> None:
    """StopTask where processes run; release all; Finish with UNAVAILABLE."""
    for member in ctx.gang.members:
        if may_run(member):
            text = "the way to YARN is broken"
            ctx.do(StopTask(member.ask, ctx.gang.attempt, ctx.policy.stop_grace_s, text))
    attempts.fail_broker(ctx, event)

"""LAUNCHING and RUNNING: processes end, members are lost, and both stop the others."""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.gang import attempts
from yarnam.core.gang.context import StepContext
from yarnam.core.gang.phases.first_cause import exits_text
from yarnam.core.gang.phases.stopping import (
    MAY_RUN,
    is_done,
    loss_of,
    mark_lost,
    stop_gang,
)
from yarnam.core.gang.state import Member, MemberState, StopKind
from yarnam.core.model.actions import StopTask
from yarnam.core.model.events import (
    AgentSilent,
    AgentUnable,
    BrokerFailed,
    CancelRequested,
    ContainerEnded,
    ContainersMarked,
    GangHung,
    InputsRefused,
    NodeLeaving,
    TaskExited,
    TaskFailing,
    TimerFired,
    TimerKind,
)
from yarnam.core.model.outcomes import ExitKind

LEAVE_MARGIN_S = 5.0
"""Between the end of the stop and that of the node: the release reaches the NodeManager by a
heartbeat of the AM (0.25 s) and one of its own (1 s)."""

# ---- guards --------------------------------------------------------------------------------------


def has_exited(ctx: StepContext, event: ContainerEnded | AgentUnable | AgentSilent) -> bool:
    """Its processes have said how they ended."""
    return ctx.member.state is MemberState.EXITED


def is_failure(ctx: StepContext, event: TaskExited) -> bool:
    """A process failed, or was stopped by nobody here."""
    if ctx.member.state is MemberState.EXITED:
        return False
    return not event.exits or any(process.kind is not ExitKind.OK for process in event.exits)


def is_up(ctx: StepContext, event: TaskFailing) -> bool:
    """The member's end is not known."""
    return ctx.member.state in MAY_RUN


def is_last_to_succeed(ctx: StepContext, event: TaskExited) -> bool:
    """All but parameter servers have ended well."""
    if ctx.member.state is MemberState.EXITED:
        return False
    return is_done(ctx.gang, ended_well=ctx.member)


def is_running(ctx: StepContext, event: TaskExited) -> bool:
    """The member has ended well, and others are needed."""
    return ctx.member.state is not MemberState.EXITED


def is_marked(ctx: StepContext, event: ContainersMarked) -> bool:
    """YARN is about to take a container of the gang."""
    return any(member.ask in event.asks for member in _there(ctx))


def is_on_node(ctx: StepContext, event: NodeLeaving) -> bool:
    """A task of the gang is on that node."""
    return any(
        member.grant is not None and member.grant.node == event.node for member in _there(ctx)
    )


# ---- operations ----------------------------------------------------------------------------------


def note_exit(ctx: StepContext, event: TaskExited) -> None:
    """The member is EXITED."""
    ctx.put(ctx.member, replace(ctx.member, state=MemberState.EXITED, exits=event.exits))


def stop_for_failure(ctx: StepContext, event: TaskExited) -> None:
    """The member is EXITED; StopTask for the others; start STOP."""
    note_exit(ctx, event)
    stop_gang(ctx, StopKind.FAILED, f"{ctx.member.name} {exits_text(event.exits)}")


def stop_for_failing(ctx: StepContext, event: TaskFailing) -> None:
    """StopTask for the other members; start STOP."""
    text = f"{ctx.member.name} {exits_text(event.exits)}"
    stop_gang(ctx, StopKind.FAILED, text, ending=ctx.member)


def stop_for_hang(ctx: StepContext, event: GangHung) -> None:
    """StopTask for every member; start STOP."""
    stop_gang(ctx, StopKind.FAILED, f"hangs: {event.finding.line}", hang=event)


def stop_when_done(ctx: StepContext, event: TaskExited) -> None:
    """The member is EXITED; StopTask for the parameter servers; start STOP."""
    note_exit(ctx, event)
    stop_gang(ctx, StopKind.SUCCEEDED, "every other task has succeeded")


def note_gone(ctx: StepContext, event: ContainerEnded | AgentUnable | AgentSilent) -> None:
    """The member cannot be kept any more."""
    if not ctx.member.is_gone:
        ctx.put(ctx.member, replace(ctx.member, is_gone=True))


def stop_for_loss(ctx: StepContext, event: ContainerEnded | AgentUnable | AgentSilent) -> None:
    """The member is LOST; StopTask for the others; start STOP."""
    loss = loss_of(event, ctx.at_s)
    mark_lost(ctx, ctx.member, loss)
    stop_gang(ctx, StopKind.FAILED, f"{ctx.member.name} {loss.kind.value}: {loss.text}")


def stop_for_preemption(ctx: StepContext, event: ContainersMarked) -> None:
    """The members are marked; StopTask for every member; start STOP."""
    marked = [member for member in _there(ctx) if member.ask in event.asks]
    for member in marked:
        ctx.put(member, replace(member, leaves="YARN is about to preempt it"))
    names = ", ".join(member.name for member in marked)
    stop_gang(ctx, StopKind.LEFT, f"{names}: preempted: YARN has announced it")


def note_leaving(ctx: StepContext, event: NodeLeaving) -> None:
    """The members are marked; start LEAVE."""
    for member in _there(ctx):
        if member.grant is not None and member.grant.node == event.node:
            ctx.put(member, replace(member, leaves=f"{event.node} leaves the cluster"))
    needed_s = ctx.policy.stop_grace_s + ctx.policy.stop_margin_s + LEAVE_MARGIN_S
    ctx.arm(TimerKind.LEAVE, max(0.0, event.timeout_s - needed_s))


def leave_node(ctx: StepContext, event: TimerFired) -> None:
    """StopTask for every member; start STOP."""
    marked = [member for member in _there(ctx) if member.leaves]
    names = ", ".join(member.name for member in marked)
    why = marked[0].leaves if marked else "a node leaves the cluster"
    stop_gang(ctx, StopKind.LEFT, f"{names}: {why}")


def _there(ctx: StepContext) -> list[Member]:
    """The members whose processes may run."""
    return [member for member in ctx.gang.members if member.state in MAY_RUN]


def stop_for_cancel(ctx: StepContext, event: CancelRequested) -> None:
    """StopTask for every member; start STOP."""
    stop_gang(ctx, StopKind.CANCELLED, attempts.cancel_text(event))


def stop_for_inputs(ctx: StepContext, event: InputsRefused) -> None:
    """StopTask for every member; start STOP."""
    stop_gang(ctx, StopKind.REFUSED, event.message)


def fail_broker(ctx: StepContext, event: BrokerFailed) -> None:
    """StopTask where processes run; release all; Finish with UNAVAILABLE."""
    for member in ctx.gang.members:
        if member.state in MAY_RUN:
            text = "the way to YARN is broken"
            ctx.do(StopTask(member.ask, ctx.gang.attempt, ctx.policy.stop_grace_s, text))
    attempts.fail_broker(ctx, event)

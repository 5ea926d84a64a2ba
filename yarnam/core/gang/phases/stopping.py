"""STOPPING: all processes are stopped, and the gang waits until every end is known and explained.

The first report is seldom the first cause: peers of a lost task fail too. So what to do next is
decided only when all ends are known (``AllEnded``), by the first cause.
"""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.gang import node_blacklist
from yarnam.core.gang.attempts import (
    OF_AN_ATTEMPT,
    cancel_text,
    suspend_text,
)
from yarnam.core.gang.context import StepContext
from yarnam.core.gang.roles.completion import is_optional
from yarnam.core.gang.state import Loss, LossKind, Member, MemberState, StopKind, Stopping
from yarnam.core.model.actions import StopTask
from yarnam.core.model.events import (
    AgentSilent,
    AgentUnable,
    AmRestarted,
    CancelRequested,
    ContainerEnded,
    Event,
    GangHung,
    InputsRefused,
    SuspendRequested,
    TaskExited,
    TimerFired,
    TimerKind,
)
from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import ContainerEnd, ExitKind

MAY_RUN = frozenset({MemberState.READY, MemberState.STARTED})
"""States of a launched member whose processes may run: the agent's report is awaited."""

UNTIL_STOPPED = (
    TimerKind.LAUNCH,
    TimerKind.READY,
    TimerKind.RESIZE,
    TimerKind.LEAVE,
    TimerKind.REFORM,
    TimerKind.PRE_RUN,
    TimerKind.TIME_LIMIT,
)
"""Timers of a launched gang."""

LOSS_OF_END = {
    ContainerEnd.LOST: LossKind.NODE,
    ContainerEnd.PREEMPTED: LossKind.PREEMPTED,
    ContainerEnd.FAILED: LossKind.ENDED,
    ContainerEnd.EXITED: LossKind.ENDED,
    ContainerEnd.RELEASED: LossKind.ENDED,
}

AGAINST_THE_NODE = frozenset({LossKind.NODE, LossKind.SILENT, LossKind.UNABLE})

PASSING = frozenset({StopKind.LEFT, StopKind.RESIZED, StopKind.SLOWED})
"""The events that stop a healthy gang to start it again."""

AGREEABLE = PASSING | {
    StopKind.CANCELLED,
    StopKind.SUSPENDED,
    StopKind.FLAT,
    StopKind.TIMED_OUT,
}
"""The events that stop a healthy gang, whose processes can therefore finish one more step."""


def may_run(member: Member) -> bool:
    """Whether processes of a launched gang's member may run."""
    return member.state in MAY_RUN and not member.is_to_start


# ---- into the phase ------------------------------------------------------------------------------


def stop_gang(
    ctx: StepContext,
    kind: StopKind,
    text: str,
    *,
    grace_s: float | None = None,
    to: int | None = None,
    ending: Member | None = None,
    hang: GangHung | None = None,
    slow_nodes: tuple[NodeId, ...] = (),
    hint: str = "",
    limit_s: float = 0.0,
    is_policy: bool = False,
) -> None:
    """Stop every process that may run, and wait for the agents to report how they ended.
    ``grace_s`` replaces the job's usual grace; for ``to`` see ``Stopping``; ``ending`` is a member
    whose agent ends its processes already; ``hang`` and ``slow_nodes`` are the reasons, with a
    ``hint`` for the user; ``limit_s`` is the longest suspension; ``is_policy``: the policy of its
    queue suspends it."""
    was_running = ctx.gang.phase is Phase.RUNNING
    ran_s = ctx.at_s - ctx.gang.since_s if was_running else 0.0
    grace_s = ctx.policy.stop_grace_s if grace_s is None else grace_s
    if kind is not StopKind.RESIZED:
        ctx.drop_growth(text)
    ctx.drop_leaving(text)
    ctx.disarm(*UNTIL_STOPPED)
    ctx.enter(Phase.STOPPING, text)
    stopping = Stopping(
        kind, text, was_running, ran_s, to, None, hang, slow_nodes, hint, limit_s, is_policy
    )
    ctx.gang = replace(ctx.gang, stopping=stopping)
    awaited = [m for m in ctx.gang.members if may_run(m)]
    # Those that are left wait for the others in vain.
    idle_grace_s = ctx.policy.failure_grace_s if kind is StopKind.FAILED else None
    # Only the whole gang can finish a step together: a collective operation would wait for a lost
    # member.
    is_whole = all(m.state is MemberState.STARTED and not m.is_gone for m in ctx.gang.members)
    agreeing = len(awaited) if is_whole and was_running and kind in AGREEABLE else 0
    for member in awaited:
        if ending is None or member.ask != ending.ask:
            ctx.do(StopTask(member.ask, ctx.gang.attempt, grace_s, text, idle_grace_s, agreeing))
    if awaited:
        ctx.arm(TimerKind.STOP, grace_s + ctx.policy.stop_margin_s)
    settle(ctx)


def settle(ctx: StepContext) -> None:
    """Conclude as soon as every member's end is known and explained."""
    members, stopping = ctx.gang.members, ctx.gang.stopping
    if any(may_run(m) for m in members):
        return
    wait_s = 0.0
    if stopping is not None and stopping.kind in {
        StopKind.FAILED,
        StopKind.RESIZED,
        StopKind.SLOWED,
        StopKind.SUSPENDED,
        StopKind.UNMET,
    }:
        unexplained = [m.loss for m in members if m.loss and m.loss.kind is LossKind.ENDED]
        noticed_at_s = max((loss.noticed_at_s for loss in unexplained), default=None)
        if noticed_at_s is not None:
            wait_s = noticed_at_s + ctx.policy.explain_grace_s - ctx.at_s
    if wait_s <= 0:
        ctx.is_concluded = True
        return
    deadline_s = ctx.gang.deadline_s(TimerKind.STOP)
    if deadline_s is None or ctx.at_s + wait_s < deadline_s:
        ctx.arm(TimerKind.STOP, wait_s)


# ---- guards: events ------------------------------------------------------------------------------


def is_news(ctx: StepContext, event: TaskExited) -> bool:
    """The agent's word on how its processes ended: it wins over YARN's word on the container."""
    member = ctx.member
    if member.state is MemberState.EXITED:
        return False
    return member.loss is None or member.loss.kind in {LossKind.ENDED, LossKind.SILENT}


def is_not_lost(ctx: StepContext, event: ContainerEnded | AgentUnable | AgentSilent) -> bool:
    """The member's end is not known."""
    return ctx.member.state is not MemberState.LOST


def is_undecided(ctx: StepContext, event: InputsRefused) -> bool:
    """The job has neither succeeded nor been cancelled."""
    undecided = PASSING | {StopKind.FAILED, StopKind.UNMET, StopKind.SUSPENDED}
    return stopping_of(ctx).kind in undecided


def is_passing(ctx: StepContext, event: SuspendRequested) -> bool:
    """Nothing is wrong with it: it would start again."""
    stopping = stopping_of(ctx)
    return stopping.kind in PASSING or (stopping.is_policy and not event.is_policy)


def is_resize(ctx: StepContext, event: Event) -> bool:
    """Elastic: it is stopped for a change of size."""
    return stopping_of(ctx).kind is StopKind.RESIZED


# ---- operations: events --------------------------------------------------------------------------


def note_exit(ctx: StepContext, event: TaskExited) -> None:
    """The member is EXITED."""
    member = ctx.member
    has_ended = member.loss is not None and member.loss.kind is LossKind.ENDED
    is_gone = member.is_gone or has_ended
    exited = replace(
        member, state=MemberState.EXITED, exits=event.exits, loss=None, is_gone=is_gone
    )
    has_failed = any(one.kind not in {ExitKind.OK, ExitKind.STOPPED} for one in exited.exits)
    is_tolerated = has_failed and is_optional(member, ctx.policy)
    ctx.put(member, replace(exited, is_tolerated=is_tolerated))
    settle(ctx)


def note_loss(ctx: StepContext, event: ContainerEnded | AgentUnable | AgentSilent) -> None:
    """The member is LOST; an unexplained end shortens STOP to a grace."""
    is_tolerated = is_optional(ctx.member, ctx.policy)
    mark_lost(ctx, ctx.member, loss_of(event, ctx.at_s), is_tolerated=is_tolerated)
    settle(ctx)


def time_out(ctx: StepContext, event: TimerFired) -> None:
    """Tasks that have not reported how they ended are given up."""
    ctx.is_concluded = True


def cancel(ctx: StepContext, event: CancelRequested) -> None:
    """The gang ends as CANCELLED."""
    _stop_for(ctx, StopKind.CANCELLED, cancel_text(event))


def refuse_inputs(ctx: StepContext, event: InputsRefused) -> None:
    """The gang ends as FAILED."""
    _stop_for(ctx, StopKind.REFUSED, event.message)


def suspend(ctx: StepContext, event: SuspendRequested) -> None:
    """The gang is suspended then."""
    kind, text = StopKind.SUSPENDED, suspend_text(event)
    _stop_for(ctx, kind, text, limit_s=event.limit_s, is_policy=event.is_policy)


def conclude_late(ctx: StepContext, event: AmRestarted) -> None:
    """Conclude by what is known: YARN has killed all containers."""
    ctx.forget(*OF_AN_ATTEMPT)
    ctx.rearm()
    gone = tuple(replace(member, is_gone=True) for member in ctx.gang.members)
    ctx.gang = replace(ctx.gang, am_attempt=event.am_attempt, members=gone)
    ctx.resizing = replace(ctx.resizing, growth=None)
    ctx.is_concluded = True


# ---- losses --------------------------------------------------------------------------------------


def loss_of(event: ContainerEnded | AgentUnable | AgentSilent, now_s: float) -> Loss:
    """The end of a launched member, in words."""
    if isinstance(event, ContainerEnded):
        text = event.diagnostics or f"YARN says {event.end.value}"
        return Loss(LOSS_OF_END[event.end], event.at_s, now_s, text, event.finding)
    if isinstance(event, AgentUnable):
        kind = LossKind.UNABLE_USER if event.is_user_fault else LossKind.UNABLE
        return Loss(kind, event.at_s, now_s, event.message)
    since_s = event.at_s - event.silent_s
    return Loss(LossKind.SILENT, since_s, now_s, f"not heard of for {event.silent_s:.0f} s")


def mark_lost(ctx: StepContext, member: Member, loss: Loss, *, is_tolerated: bool = False) -> None:
    """A launched member is gone. What speaks against its node is a strike; a container that ended
    unexplained does not: it may have been the program's own doing."""
    lost = replace(member, state=MemberState.LOST, loss=loss, is_tolerated=is_tolerated)
    ctx.put(member, lost)
    if loss.kind is LossKind.NODE:
        # A NodeManager's end is not the end of what it started: its agent may continue training.
        ctx.release(member, "its node is lost")
    if member.grant is not None and loss.kind in AGAINST_THE_NODE:
        why = f"{loss.kind.value}: {loss.text}"
        is_full = loss.kind is LossKind.NODE
        node_blacklist.strike(ctx, member.grant.node, why, is_full=is_full)


def _stop_for(
    ctx: StepContext,
    kind: StopKind,
    text: str,
    *,
    limit_s: float = 0.0,
    is_policy: bool = False,
) -> None:
    if kind is StopKind.SUSPENDED:
        ctx.drop_growth(text)
    stopping = replace(
        stopping_of(ctx), kind=kind, text=text, to=None, limit_s=limit_s, is_policy=is_policy
    )
    ctx.gang = replace(ctx.gang, stopping=stopping, reason=text)
    settle(ctx)


def stopping_of(ctx: StepContext) -> Stopping:
    """Why and how the gang is being stopped."""
    assert ctx.gang.stopping is not None
    return ctx.gang.stopping

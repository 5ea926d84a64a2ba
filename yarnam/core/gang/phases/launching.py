"""LAUNCHING: the members start their processes, and report when all of them run.

Where a role starts only when another one has ended (``until: ended``), the gang is RUNNING
meanwhile, and LAUNCHING again then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from yarnam.core.gang.context import StepContext
from yarnam.core.gang.phases.barrier import launch_next, ready_limit_s
from yarnam.core.gang.phases.running import Trouble, note_exit, note_loss, note_ready
from yarnam.core.gang.phases.stopping import stop_gang
from yarnam.core.gang.roles.start_order import unready, with_waiting
from yarnam.core.gang.state import Gang, Member, MemberState, StopKind
from yarnam.core.model.events import (
    Event,
    TaskExited,
    TaskReady,
    TaskStarted,
    TimerFired,
    TimerKind,
)
from yarnam.core.model.job_status import Phase

UP = frozenset({MemberState.STARTED, MemberState.EXITED, MemberState.LOST})
"""Those that are lost in these phases are lost without the gang."""

# ---- guards --------------------------------------------------------------------------------------


def is_ready(ctx: StepContext, event: TaskStarted) -> bool:
    """The member has not started, as far as known."""
    return ctx.member.state is MemberState.READY


def is_last_to_start(ctx: StepContext, event: Event) -> bool:
    """All the others have started, or ended well."""
    return ctx.member.state not in UP and _others_are_up(ctx.gang, ctx.member)


def is_last_up(ctx: StepContext, event: TaskExited | Trouble) -> bool:
    """The member has ended, and all the others have started, or ended."""
    return not ctx.member.has_ended and _others_are_up(ctx.gang, ctx.member)


def frees_others(ctx: StepContext, event: TaskExited | Trouble) -> bool:
    """Other roles start when this one has ended, and the member is the last of it."""
    if ctx.member.has_ended or not any(other.is_to_start for other in ctx.gang.members):
        return False
    gang = replace(
        ctx.gang,
        members=tuple(
            replace(other, state=MemberState.EXITED) if other is ctx.member else other
            for other in ctx.gang.members
        ),
    )
    return with_waiting(gang, ctx.policy) != gang


# ---- operations ----------------------------------------------------------------------------------


def note_started(ctx: StepContext, event: TaskStarted) -> None:
    """The member is STARTED."""
    ctx.put(ctx.member, replace(ctx.member, state=MemberState.STARTED))


def start_next(ctx: StepContext, event: TaskStarted) -> None:
    """The member is STARTED; LaunchGang for the roles that come next, if it was the last; the gang
    runs while only the end of others is waited for."""
    note_started(ctx, event)
    _go_on(ctx)


def ready_next(ctx: StepContext, event: TaskReady) -> None:
    """The member is ready; LaunchGang for the roles that come next, if it was the last; the gang
    runs while only the end of others is waited for."""
    note_ready(ctx, event)
    _go_on(ctx)


def exit_next(ctx: StepContext, event: TaskExited) -> None:
    """The member is EXITED; LaunchGang for the roles that come next, if it was the last; the gang
    runs while only the end of others is waited for."""
    note_exit(ctx, event)
    _go_on(ctx)


def lose_next(ctx: StepContext, event: Trouble) -> None:
    """The member is LOST; LaunchGang for the roles that come next, if it was the last; the gang
    runs while only the end of others is waited for."""
    note_loss(ctx, event)
    _go_on(ctx)


def launch_freed(ctx: StepContext, event: TaskExited) -> None:
    """The member is EXITED; LaunchGang for the roles that waited for that."""
    note_exit(ctx, event)
    ctx.enter(Phase.LAUNCHING)
    launch_next(ctx)


def launch_freed_by_loss(ctx: StepContext, event: Trouble) -> None:
    """The member is LOST; LaunchGang for the roles that waited for that."""
    note_loss(ctx, event)
    ctx.enter(Phase.LAUNCHING)
    launch_next(ctx)


def run(ctx: StepContext, event: TaskStarted) -> None:
    """Cancel LAUNCH and WAIT; failures in a row: 0."""
    note_started(ctx, event)
    _run(ctx)


def run_without(ctx: StepContext, event: TaskExited) -> None:
    """The member is EXITED; cancel LAUNCH and WAIT; failures in a row: 0."""
    note_exit(ctx, event)
    _run(ctx)


def run_without_lost(ctx: StepContext, event: Trouble) -> None:
    """The member is LOST; cancel LAUNCH and WAIT; failures in a row: 0."""
    note_loss(ctx, event)
    _run(ctx)


def time_out(ctx: StepContext, event: TimerFired) -> None:
    """StopTask for every member; start STOP."""
    late = [m for m in ctx.gang.members if m.state is MemberState.READY and not m.is_to_start]
    names = _names(late)
    limit_s = ctx.policy.gang.launch_timeout_s
    text = f"{names} did not start within {limit_s:.0f} s of the launch order"
    stop_gang(ctx, StopKind.FAILED, text)


def time_out_ready(ctx: StepContext, event: TimerFired) -> None:
    """StopTask for every member that has started; start STOP."""
    late = unready(ctx.gang, ctx.policy)
    limit_s = ready_limit_s(late, ctx.policy)
    roles = dict.fromkeys(member.target.role for member in late)
    ways = " and ".join(
        f"{role} (port {port})" if (port := ctx.policy.rules_of(role).ready.port) else role
        for role in roles
    )
    text = f"{_names(late)} did not get ready within {limit_s:.0f} s of the start: {ways}"
    hint = "See its logs; where it only needs longer, allow a longer ready.timeout for the role."
    stop_gang(ctx, StopKind.UNMET, text, hint=hint)


def _names(members: Sequence[Member]) -> str:
    names = [member.name for member in members]
    return ", ".join(names[:8]) + (" and more" if len(names) > 8 else "")


def _go_on(ctx: StepContext) -> None:
    if launch_next(ctx):
        _run(ctx)


def _run(ctx: StepContext) -> None:
    ctx.disarm(TimerKind.LAUNCH, TimerKind.READY, TimerKind.WAIT)
    ctx.enter(Phase.RUNNING)
    if not any(member.is_to_start for member in ctx.gang.members):
        # Tasks that have not started may still fail the attempt, again and again.
        ctx.acquisition = replace(ctx.acquisition, failures=0, refused_plans=0, user_faults=0)


def _others_are_up(gang: Gang, member: Member) -> bool:
    return all(other.state in UP for other in gang.members if other is not member)

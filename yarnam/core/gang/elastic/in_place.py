"""An in-place elastic gang: an elastic gang whose processes continue when it changes its size.

Its framework re-forms the group of processes on its own (``elastic.restart: false``). So tasks
leave and join a RUNNING gang within one attempt:

- *Lost*: a task that the platform took is dropped, where enough are left. The others continue.
- *Leaving*: to shrink, or before YARN takes a container, the processes of those tasks alone are
  stopped (STOP limits that), and their containers are released then.
- *Joining*: the containers to grow by, all READY, start their processes as one (GROWTH limits
  that). Each is a member once its processes have started.

``LaunchGang`` sends the current members to the first task, where the framework's rendezvous runs,
after each change and before any task is stopped for it. Where the framework cannot continue, the
attempt ends, as in any gang: the first task is lost, too few tasks are left, a process failed, or a
task is lost while others start or end.

An in-place elastic gang starts as any other: all or none. It has one role.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import count

from yarnam.core.gang import node_blacklist
from yarnam.core.gang.attempts import count_preemption
from yarnam.core.gang.context import StepContext
from yarnam.core.gang.phases.barrier import gang_member
from yarnam.core.gang.phases.concluding import to_stay
from yarnam.core.gang.phases.stopping import loss_of, mark_lost
from yarnam.core.gang.policy import GangPolicy
from yarnam.core.gang.roles.ranks import in_rank_order
from yarnam.core.gang.state import Gang, LossKind, Member, MemberState
from yarnam.core.model.actions import LaunchGang, StopTask
from yarnam.core.model.events import (
    AgentSilent,
    AgentUnable,
    ContainerEnded,
    ContainersMarked,
    TaskExited,
    TaskFailing,
    TaskStarted,
    TimerFired,
    TimerKind,
)
from yarnam.core.model.ids import AskId, TaskId
from yarnam.core.model.job_status import Phase

SPARED = frozenset({LossKind.NODE, LossKind.PREEMPTED, LossKind.SILENT, LossKind.UNABLE})
"""Losses that are the platform's doing in any case."""


def resizes_in_place(policy: GangPolicy) -> bool:
    """Whether its processes continue when it changes its size."""
    return policy.size is not None and not policy.size.rules.restart


def can_resize(gang: Gang) -> bool:
    """A gang of which nothing has ended, or is being stopped."""
    is_up = all(member.state is MemberState.STARTED for member in gang.members)
    return gang.phase is Phase.RUNNING and is_up and not gang.resizing.leaving


def is_joining(gang: Gang) -> bool:
    """Whether tasks to grow by have been launched."""
    return bool(_coming(gang))


# ---- guards --------------------------------------------------------------------------------------


def is_leaving(ctx: StepContext, event: object) -> bool:
    """In place: its processes are being stopped, and the gang continues."""
    return ctx.member in ctx.resizing.leaving


def is_coming(ctx: StepContext, event: object) -> bool:
    """In place: it has been launched to join the gang."""
    return ctx.member in _coming(ctx.gang)


def is_spared(ctx: StepContext, event: ContainerEnded | AgentUnable | AgentSilent) -> bool:
    """In place: the platform has taken it, and the gang continues without it."""
    loss = loss_of(event, ctx.at_s)
    is_platform = loss.kind in SPARED or (loss.kind is LossKind.ENDED and loss.finding is None)
    return is_platform and _can_spare(ctx, {ctx.member.ask})


def are_spared(ctx: StepContext, event: ContainersMarked) -> bool:
    """In place: YARN is about to take containers, and the gang continues without them."""
    return not event.by and _can_spare(ctx, _marked(ctx, event))


def may_leave_node(ctx: StepContext, event: TimerFired) -> bool:
    """In place: the gang continues without those that are on the node."""
    going = _on_leaving_nodes(ctx)
    return resizes_in_place(ctx.policy) and (not going or _can_spare(ctx, going))


def _can_spare(ctx: StepContext, going: Collection[AskId]) -> bool:
    """The first task stays, and enough others; all run."""
    gang, size = ctx.gang, ctx.policy.size
    if size is None or not resizes_in_place(ctx.policy) or not going:
        return False
    is_up = all(member.state is MemberState.STARTED for member in gang.members)
    left = [member for member in gang.members if member.ask not in going]
    is_first_kept = bool(left) and left[0] is gang.members[0]
    has_gone = len(left) + len(going) == len(gang.members)
    return is_up and is_first_kept and has_gone and len(left) >= size.least


def _marked(ctx: StepContext, event: ContainersMarked) -> set[AskId]:
    return {member.ask for member in ctx.gang.members if member.ask in event.asks}


def _on_leaving_nodes(ctx: StepContext) -> set[AskId]:
    return {member.ask for member in ctx.gang.members if member.leaves}


# ---- operations: tasks that go -------------------------------------------------------------------


def go_on_without(ctx: StepContext, event: ContainerEnded | AgentUnable | AgentSilent) -> None:
    """The member leaves the gang, without its container; LaunchGang informs the first task."""
    member, loss = ctx.member, loss_of(event, ctx.at_s)
    if loss.kind is LossKind.PREEMPTED:
        count_preemption(ctx, ctx.at_s - ctx.gang.since_s)
    text = f"{member.name} {loss.kind.value}: {loss.text}"
    _note_loss(ctx, event)
    _drop(ctx, {member.ask}, f"{text}; going on with {len(ctx.gang.members) - 1} tasks")


def leave_preempted(ctx: StepContext, event: ContainersMarked) -> None:
    """StopTask for the marked members alone, after LaunchGang has told the first task; start
    STOP."""
    going = _marked(ctx, event)
    names = ", ".join(member.name for member in ctx.gang.members if member.ask in going)
    count_preemption(ctx, ctx.at_s - ctx.gang.since_s)
    _leave(ctx, going, f"{names}: preempted: YARN has announced it", ctx.policy.stop_grace_s)


def leave_node(ctx: StepContext, event: TimerFired) -> None:
    """StopTask for the members there alone, after LaunchGang has told the first task; start
    STOP."""
    going = [member for member in ctx.gang.members if member.leaves]
    if going:
        names = ", ".join(member.name for member in going)
        text = f"{names}: {going[0].leaves}"
        _leave(ctx, {member.ask for member in going}, text, ctx.policy.stop_grace_s)


def shrink(ctx: StepContext, to: int, text: str) -> None:
    """StopTask for all tasks but the first and those nearest to each other."""
    size = ctx.policy.size
    assert size is not None
    first, *others = ctx.gang.members
    stay = {first.ask, *(member.ask for member in to_stay(tuple(others), size.role, to - 1))}
    going = {member.ask for member in others if member.ask not in stay}
    _leave(ctx, going, text, size.rules.checkpoint_grace_s)
    ctx.enter(Phase.RUNNING, text)


def ignore_failing(ctx: StepContext, event: TaskFailing) -> None:
    """It is being stopped."""


def note_left(ctx: StepContext, event: TaskExited) -> None:
    """Release it. With the last one cancel STOP; tasks that wait to join start."""
    ctx.release(ctx.member, ctx.gang.reason)
    _forget_leaving(ctx, {ctx.member.ask})


def note_left_lost(ctx: StepContext, event: ContainerEnded | AgentUnable | AgentSilent) -> None:
    """It is gone. With the last one cancel STOP; tasks that wait to join start."""
    _note_loss(ctx, event)
    _forget_leaving(ctx, {ctx.member.ask})


def time_out(ctx: StepContext, event: TimerFired) -> None:
    """Release those that have not stopped in time."""
    for member in ctx.resizing.leaving:
        ctx.release(member, "it did not stop in time")
    _forget_leaving(ctx, {member.ask for member in ctx.resizing.leaving})


def _leave(ctx: StepContext, going: set[AskId], text: str, grace_s: float) -> None:
    leaving = tuple(member for member in ctx.gang.members if member.ask in going)
    ctx.resizing = replace(ctx.resizing, leaving=(*ctx.resizing.leaving, *leaving))
    _drop(ctx, going, text)
    for member in leaving:
        ctx.do(StopTask(member.ask, ctx.gang.attempt, grace_s, text))
    ctx.arm(TimerKind.STOP, grace_s + ctx.policy.stop_margin_s)


def _note_loss(ctx: StepContext, event: ContainerEnded | AgentUnable | AgentSilent) -> None:
    """A strike against its node where that speaks for one; its container, if there may be one, is
    released."""
    member, loss = ctx.member, loss_of(event, ctx.at_s)
    mark_lost(ctx, member, loss)
    if replace(member, state=MemberState.LOST, loss=loss).is_holding:
        ctx.release(member, f"{loss.kind.value}: {loss.text}")


def _drop(ctx: StepContext, going: Collection[AskId], text: str) -> None:
    gang = ctx.gang
    left = tuple(member for member in gang.members if member.ask not in going)
    growth = gang.resizing.growth
    if growth is not None:
        growth = replace(growth, to=growth.to - len(gang.members) + len(left))
        ctx.resizing = replace(ctx.resizing, growth=growth)
    ctx.gang = replace(ctx.gang, members=left, size=len(left), reason=text)


def _forget_leaving(ctx: StepContext, gone: Collection[AskId]) -> None:
    left = tuple(member for member in ctx.resizing.leaving if member.ask not in gone)
    ctx.resizing = replace(ctx.resizing, leaving=left)
    if not left:
        ctx.disarm(TimerKind.STOP)
        start_joining(ctx)


# ---- operations: tasks that come -----------------------------------------------------------------


def start_joining(ctx: StepContext) -> None:
    """When all containers to grow by are READY: LaunchGang for them alone; start GROWTH again."""
    gang, growth = ctx.gang, ctx.resizing.growth
    if growth is None or not growth.members or not can_resize(gang) or _coming(gang):
        return
    if any(member.state is not MemberState.READY for member in growth.members):
        return
    if any(_is_excluded(ctx, member) for member in growth.members):
        ctx.drop_growth("a node is on the blacklist by now")
        return
    joining = _numbered(gang, in_rank_order(growth.members, ctx.policy))
    ctx.resizing = replace(ctx.resizing, growth=replace(growth, members=joining))
    ctx.arm(TimerKind.GROWTH, ctx.policy.gang.launch_timeout_s + ctx.policy.staging_timeout_s)


def join(ctx: StepContext, event: TaskStarted) -> None:
    """The member is STARTED. With the last one cancel GROWTH."""
    gang, growth = ctx.gang, ctx.resizing.growth
    assert growth is not None
    new = replace(ctx.member, state=MemberState.STARTED)
    members = _in_order((*gang.members, new))
    left = tuple(member for member in growth.members if member.ask != new.ask)
    ctx.gang = replace(gang, members=members, size=len(members))
    ctx.resizing = replace(ctx.resizing, growth=replace(growth, members=left) if left else None)
    if left:
        return
    ctx.gang = replace(ctx.gang, rung=growth.rung or gang.rung)
    ctx.disarm(TimerKind.GROWTH)
    ctx.enter(Phase.RUNNING, growth.text)


def fail_to_join(ctx: StepContext, event: TaskExited | TaskFailing) -> None:
    """Release all that have not joined."""
    ctx.drop_growth(f"{ctx.member.name} failed as it started")


def _is_excluded(ctx: StepContext, member: Member) -> bool:
    grant = member.grant
    why = node_blacklist.why_excluded
    return grant is not None and why(ctx.gang, ctx.policy, grant.node, ctx.at_s) is not None


def _numbered(gang: Gang, joining: Iterable[Member]) -> tuple[Member, ...]:
    """Give them the lowest free numbers: then all numbers below the size are taken, so that a
    member's place in the gang is its rank."""
    used = {member.task.index for member in gang.members if member.task is not None}
    free = (number for number in count() if number not in used)
    return tuple(
        replace(
            member,
            task=TaskId(member.target.role, number),
            first_rank=number * member.target.processes_per_task,
        )
        for member, number in zip(joining, free, strict=False)
    )


def _in_order(members: Iterable[Member]) -> tuple[Member, ...]:
    return tuple(sorted(members, key=lambda member: member.first_rank))


# ---- who belongs to it ---------------------------------------------------------------------------


def publish(ctx: StepContext, before: Gang) -> None:
    """After each step of a RUNNING gang: if its members have changed, inform the first task, and
    start the new members. This comes first among the actions: no member is stopped before it."""
    if not resizes_in_place(ctx.policy) or before.phase is not Phase.RUNNING:
        return
    known = {member.ask for member in _crew(before)}
    crew = _crew(ctx.gang)
    if ctx.gang.phase is not Phase.RUNNING or known == {member.ask for member in crew}:
        return
    others = tuple(member.ask for member in crew[1:] if member.ask in known)
    launch = LaunchGang(ctx.gang.attempt, tuple(map(gang_member, crew)), others)
    ctx.actions.insert(0, launch)


def _crew(gang: Gang) -> tuple[Member, ...]:
    return _in_order((*gang.members, *_coming(gang)))


def _coming(gang: Gang) -> tuple[Member, ...]:
    """Those to grow by that have been launched."""
    members = gang.resizing.growth.members if gang.resizing.growth is not None else ()
    return tuple(member for member in members if member.task is not None)

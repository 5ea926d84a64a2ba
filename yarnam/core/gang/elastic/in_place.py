"""An in-place elastic gang: an elastic gang whose processes continue when it changes its size.

Its framework re-forms the group of processes on its own (``elastic.restart: false``). So tasks
leave and join a RUNNING gang within one attempt:

- *Lost*: a task that the platform took is dropped, where enough are left. The others continue.
- *Leaving*: to shrink, or before YARN takes a container, the processes of those tasks alone leave.
  Where the framework lets them do so on their own, they are given notice: the first task knows, and
  they get a signal only when NOTICE is over. Elsewhere they are stopped immediately. STOP limits
  that, and their containers are released then.
- *Joining*: the containers to grow by, all READY, start their processes as one (GROWTH limits
  that). Each is a member once its processes have started.

``LaunchGang`` sends the current members to the first task, where the framework's rendezvous runs,
after each change and before any task is stopped for it. The framework reports each group that it
has formed (``GroupFormed``). One of all members has to follow a change within REFORM: else the gang
hangs, and is stopped as one that does. Where the framework cannot continue, the attempt ends, as in
any gang: the first task is lost, too few tasks are left, a process failed, or a task is lost while
others start or end.

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
from yarnam.core.gang.phases.stopping import loss_of, mark_lost, stop_gang
from yarnam.core.gang.policy import GangPolicy
from yarnam.core.gang.roles.ranks import in_rank_order
from yarnam.core.gang.state import Gang, LossKind, Member, MemberState, StopKind
from yarnam.core.model.actions import LaunchGang, StopTask
from yarnam.core.model.events import (
    AgentSilent,
    AgentUnable,
    ContainerEnded,
    ContainersMarked,
    GangHung,
    GroupFormed,
    TaskExited,
    TaskFailing,
    TaskStarted,
    TimerFired,
    TimerKind,
)
from yarnam.core.model.ids import AskId, TaskId
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import FailureClass, FailureRole, Finding, RetryAction
from yarnam.errors import Blame

SPARED = frozenset({LossKind.NODE, LossKind.PREEMPTED, LossKind.SILENT, LossKind.UNABLE})
"""Losses that are the platform's doing in any case."""

LEAVE_S = 10.0
"""The time to exit for tasks that have been given notice, once the others have formed a group
without them: a Python with a framework takes a second or two, on a busy node several."""

PREEMPTION_NOTICE = 0.5
"""The share of the time before YARN takes a container in which its task may leave on its own."""


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


def is_newer_group(ctx: StepContext, event: GroupFormed) -> bool:
    """In place: it is newer than the group that is known."""
    return resizes_in_place(ctx.policy) and event.number > ctx.resizing.group


def is_unformed(ctx: StepContext, event: TimerFired) -> bool:
    """In place: all members run, and the framework reports its groups."""
    return ctx.resizing.group > 0 and all(
        member.state is MemberState.STARTED for member in ctx.gang.members
    )


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
    """The marked members leave, after LaunchGang has told the first task: StopTask for them alone,
    and STOP, or NOTICE first."""
    going = _marked(ctx, event)
    names = ", ".join(member.name for member in ctx.gang.members if member.ask in going)
    count_preemption(ctx, ctx.at_s - ctx.gang.since_s)
    _leave_in(ctx, going, f"{names}: preempted: YARN has announced it", ctx.policy.stop_grace_s)


def leave_node(ctx: StepContext, event: TimerFired) -> None:
    """The members there leave, after LaunchGang has told the first task: StopTask for them alone,
    and STOP, or NOTICE first."""
    going = [member for member in ctx.gang.members if member.leaves]
    if going:
        names = ", ".join(member.name for member in going)
        text = f"{names}: {going[0].leaves}"
        _leave_in(ctx, {member.ask for member in going}, text, ctx.policy.stop_grace_s)


def shrink(ctx: StepContext, to: int, text: str) -> None:
    """All tasks leave but the first and those nearest to each other."""
    size = ctx.policy.size
    assert size is not None
    first, *others = ctx.gang.members
    stay = {first.ask, *(member.ask for member in to_stay(tuple(others), size.role, to - 1))}
    going = {member.ask for member in others if member.ask not in stay}
    _leave(ctx, going, text, size.rules.checkpoint_grace_s, size.rules.reform_timeout_s)
    ctx.enter(Phase.RUNNING, text)


def ignore_failing(ctx: StepContext, event: TaskFailing) -> None:
    """It is leaving."""


def note_left(ctx: StepContext, event: TaskExited) -> None:
    """Release it. With the last one cancel NOTICE and STOP; tasks that wait to join start."""
    ctx.release(ctx.member, ctx.gang.reason)
    _forget_leaving(ctx, {ctx.member.ask})


def note_left_lost(ctx: StepContext, event: ContainerEnded | AgentUnable | AgentSilent) -> None:
    """It is gone. With the last one cancel NOTICE and STOP; tasks that wait to join start."""
    _note_loss(ctx, event)
    _forget_leaving(ctx, {ctx.member.ask})


def stop_leaving(ctx: StepContext, event: TimerFired) -> None:
    """StopTask for those that have not left on their own; start STOP."""
    _signal(ctx, ctx.resizing.leaving, ctx.resizing.leave_grace_s, "it did not leave in time")


def time_out(ctx: StepContext, event: TimerFired) -> None:
    """Release those that have not stopped in time."""
    for member in ctx.resizing.leaving:
        ctx.release(member, "it did not stop in time")
    _forget_leaving(ctx, {member.ask for member in ctx.resizing.leaving})


def _leave_in(ctx: StepContext, going: set[AskId], text: str, limit_s: float) -> None:
    """They have to have left when the limit is over."""
    notice_s = limit_s * PREEMPTION_NOTICE if _gives_notice(ctx) else 0.0
    _leave(ctx, going, text, limit_s - notice_s, notice_s)


def _leave(ctx: StepContext, going: set[AskId], text: str, grace_s: float, notice_s: float) -> None:
    resizing = ctx.resizing
    leaving = tuple(member for member in ctx.gang.members if member.ask in going)
    gives_notice = _gives_notice(ctx)
    ctx.resizing = replace(resizing, leaving=(*resizing.leaving, *leaving))
    _drop(ctx, going, text)
    if not gives_notice:
        _signal(ctx, leaving, grace_s, text)
        return
    until_s = ctx.gang.deadline_s(TimerKind.NOTICE)
    if until_s is not None:
        notice_s = min(notice_s, max(0.0, until_s - ctx.at_s))
        grace_s = min(grace_s, resizing.leave_grace_s)
    ctx.resizing = replace(ctx.resizing, leave_grace_s=grace_s)
    ctx.arm(TimerKind.NOTICE, notice_s)


def _gives_notice(ctx: StepContext) -> bool:
    """Unless others that leave have got their signal: the group breaks in any case then."""
    size, gang = ctx.policy.size, ctx.gang
    is_notice = not gang.resizing.leaving or gang.timer(TimerKind.NOTICE) is not None
    return size is not None and size.leaves_on_notice and is_notice


def _signal(ctx: StepContext, leaving: Iterable[Member], grace_s: float, text: str) -> None:
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
        ctx.disarm(TimerKind.STOP, TimerKind.NOTICE)
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


# ---- the group of its processes ------------------------------------------------------------------


def note_group(ctx: StepContext, event: GroupFormed) -> None:
    """With a group of all members cancel REFORM; those that were given notice have LEAVE_S left.
    With another one REFORM starts, unless it runs."""
    crew = tuple(member.ask for member in _crew(ctx.gang))
    is_whole = event.number > ctx.resizing.group_before and event.tasks == len(crew)
    ctx.resizing = replace(ctx.resizing, group=event.number, grouped=crew if is_whole else ())
    if not is_whole:
        if ctx.gang.phase is Phase.RUNNING and ctx.gang.timer(TimerKind.REFORM) is None:
            _await_group(ctx)
        return
    ctx.disarm(TimerKind.REFORM)
    until_s = ctx.gang.deadline_s(TimerKind.NOTICE)
    if until_s is not None:
        ctx.arm(TimerKind.NOTICE, min(LEAVE_S, max(0.0, until_s - ctx.at_s)))


def _await_group(ctx: StepContext) -> None:
    assert ctx.policy.size is not None
    notice_end_s = ctx.gang.deadline_s(TimerKind.NOTICE)
    notice_s = 0.0 if notice_end_s is None else max(0.0, notice_end_s - ctx.at_s)
    ctx.arm(TimerKind.REFORM, notice_s + ctx.policy.size.rules.reform_timeout_s)


def stop_unformed(ctx: StepContext, event: TimerFired) -> None:
    """StopTask for every member; start STOP."""
    assert ctx.policy.size is not None
    limit_s = ctx.policy.size.rules.reform_timeout_s
    line = f"{len(_crew(ctx.gang))} tasks did not re-form their group within {limit_s:.0f} s"
    hang = GangHung(ctx.at_s, ctx.gang.attempt, (), _unformed(line))
    stop_gang(ctx, StopKind.FAILED, f"hangs: {line}", hang=hang)


def _unformed(line: str) -> Finding:
    return Finding(
        rule="reform",
        failure=FailureClass.HANG,
        role=FailureRole.ROOT,
        action=RetryAction.RETRY,
        blame=Blame.INFRA,
        line=line,
        explanation="Tasks had left or joined, and the processes did not continue together.",
        hint="Commit more often than every elastic.reform_timeout, or raise that limit.",
    )


# ---- who belongs to it ---------------------------------------------------------------------------


def publish(ctx: StepContext, before: Gang) -> None:
    """After each step of a RUNNING gang: if its members have changed, inform the first task, and
    start the new members. This comes first among the actions: no member is stopped before it.
    REFORM limits the time until their processes form a group; a notice comes before it."""
    if not resizes_in_place(ctx.policy) or before.phase is not Phase.RUNNING:
        return
    known = {member.ask for member in _crew(before)}
    crew = _crew(ctx.gang)
    if ctx.gang.phase is not Phase.RUNNING or known == {member.ask for member in crew}:
        return
    others = tuple(member.ask for member in crew[1:] if member.ask in known)
    launch = LaunchGang(ctx.gang.attempt, tuple(map(gang_member, crew)), others)
    ctx.actions.insert(0, launch)
    if {member.ask for member in crew} == {*ctx.resizing.grouped}:
        ctx.disarm(TimerKind.REFORM)  # those that were to join did not
        return
    ctx.resizing = replace(ctx.resizing, group_before=ctx.resizing.group)
    _await_group(ctx)


def _crew(gang: Gang) -> tuple[Member, ...]:
    return _in_order((*gang.members, *_coming(gang)))


def _coming(gang: Gang) -> tuple[Member, ...]:
    """Those to grow by that have been launched."""
    members = gang.resizing.growth.members if gang.resizing.growth is not None else ()
    return tuple(member for member in members if member.task is not None)

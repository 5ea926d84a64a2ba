"""From the plan to the complete gang: asks, grants, verification, replacement, the barrier."""

from __future__ import annotations

from dataclasses import replace

from yarnam.errors import ExitCode
from yarnam.gang import nodes, recovery, refusing
from yarnam.gang.asks import (
    is_largest,
    is_whole,
    look,
    misfit,
    mixes_models,
    new_member,
    not_the_gang,
    on_excluded,
    wrong_agent,
    wrong_model,
)
from yarnam.gang.barrier import launch
from yarnam.gang.ending import back_off, fail_attempt, finish, patience_left_s
from yarnam.gang.state import Member, MemberState
from yarnam.gang.turn import Turn
from yarnam.model.actions import ReleaseContainer
from yarnam.model.events import (
    AgentRegistered,
    AgentSilent,
    AgentUnable,
    ContainerEnded,
    ContainerGranted,
    PlanReady,
    PlanRefused,
    TimerKind,
)
from yarnam.model.outcomes import ContainerEnd, VerdictKind
from yarnam.model.status import AttemptRecord, Phase


def begin(turn: Turn) -> None:
    """The job starts: its whole wait for room is limited from here on."""
    turn.gang = replace(turn.gang, is_started=True)
    turn.arm(TimerKind.WAIT, turn.policy.wait_timeout_s)
    request_plan(turn)


def request_plan(turn: Turn) -> None:
    """Look at the cluster, from the rung on that the failures so far have led to."""
    turn.enter(Phase.PENDING)
    turn.gang = replace(turn.gang, refusals=())
    look(turn, avoid=turn.gang.avoid)


def plan_ready(turn: Turn, event: PlanReady) -> None:
    """Ask for every container of the tightest rung, all at once."""
    if event.attempt != turn.gang.attempt:
        return
    if turn.gang.recovery is not None:
        recovery.plan_ready(turn, event)
        return
    if turn.gang.phase is not Phase.PENDING or not turn.gang.is_started:
        return
    nodes.learn_size(turn, event.nodes)
    gang, rung = turn.gang, event.plan.rungs[0]
    fault = not_the_gang(turn.policy, rung)
    if fault:
        finish(turn, VerdictKind.FAILED, ExitCode.INTERNAL, fault, "This is a bug in the planner.")
        return
    patience_s = patience_left_s(gang, turn.policy, turn.at_s)
    if patience_s > 0 and not is_largest(turn.policy, gang, rung):
        turn.gang = replace(turn.gang, looks=gang.looks + 1)
        room = f"room for {rung.tasks} tasks, less than the largest gang"
        back_off(turn, f"{room}, which is waited for up to {patience_s:.0f} s more")
        return
    turn.disarm(TimerKind.PATIENCE)
    turn.enter(Phase.ACQUIRING)
    record = AttemptRecord(
        attempt=gang.attempt,
        rung=rung.number,
        level=rung.level.name,
        started_at_s=turn.at_s,
        asked=rung.tasks,
    )
    turn.gang = replace(
        turn.gang,
        size=rung.tasks,
        rung=rung,
        members=(),
        next_number=0,
        looks=0,
        misfits=0,
        refusals=(),
        reasks=0,
        history=(*turn.gang.history, record),
    )
    members = tuple(
        new_member(turn, ask.target, rung.level) for ask in rung.asks for _ in range(ask.count)
    )
    turn.gang = replace(turn.gang, members=members)
    turn.arm(TimerKind.ASK, turn.policy.ask_timeout_s)


def plan_refused(turn: Turn, event: PlanRefused) -> None:
    """Never: the job ends, unless that is for its blacklist, which gives way then. Not now: look
    again later; no attempt is used up."""
    if event.attempt != turn.gang.attempt:
        return
    if turn.gang.recovery is not None:
        recovery.plan_refused(turn, event)
        return
    if turn.gang.phase is not Phase.PENDING or not turn.gang.is_started:
        return
    nodes.learn_size(turn, event.nodes)
    gang, no_fit = turn.gang, event.no_fit
    if no_fit.is_never and nodes.lift_all(turn):
        request_plan(turn)
        return
    if no_fit.is_never:
        message = f"{no_fit.message} [{no_fit.reason.value}]"
        finish(turn, VerdictKind.FAILED, ExitCode.NEVER_FITS, message, no_fit.hint)
        return
    turn.gang = replace(turn.gang, looks=gang.looks + 1)
    back_off(turn, f"{no_fit.message}; {no_fit.hint}" if no_fit.hint else no_fit.message)


def granted(turn: Turn, event: ContainerGranted) -> None:
    """Hold the container if it is what was asked for, else give it back and ask again."""
    member = turn.gang.find(event.ask)
    if member is None:
        turn.do(ReleaseContainer(event.ask, "granted too late: no longer asked for"))
        return
    if turn.gang.phase is not Phase.ACQUIRING or member.state is not MemberState.ASKED:
        return
    unfit = refusing.why_unfit(turn.gang, member.target, event.node)
    problem = unfit or misfit(turn, member, event)
    if problem:
        refusing.note(turn, member, event.node, problem, is_unfit=unfit is not None)
        lose(turn, member, f"misfit: {problem}", is_gone=False)
        return
    turn.put(member, replace(member, state=MemberState.GRANTED, grant=event))
    is_first = turn.gang.recovery is None or turn.gang.recovery.is_first
    if is_first and turn.gang.timer(TimerKind.HOLD) is None:
        turn.disarm(TimerKind.ASK)
        turn.arm(TimerKind.HOLD, turn.policy.hold_timeout_s)
    if member.agent is not None:
        registered(turn, member.agent)


def registered(turn: Turn, event: AgentRegistered) -> None:
    """The agent is parked: check once more where it is; the last one opens the barrier."""
    member = turn.gang.find(event.ask)
    if member is None:
        turn.do(ReleaseContainer(event.ask, "its agent came too late: no longer asked for"))
        return
    if turn.gang.phase is not Phase.ACQUIRING:
        return
    if member.state is MemberState.ASKED:
        turn.put(member, replace(member, agent=event))
        return
    if member.state is not MemberState.GRANTED or member.grant is None:
        return
    model = wrong_model(member, event) or mixes_models(turn, member, event)
    problem = wrong_agent(member, event) or model
    if problem:
        refusing.note(turn, member, event.node, problem, is_unfit=problem == model)
        lose(turn, member, f"misfit: {problem}", is_gone=False)
        return
    turn.put(member, replace(member, state=MemberState.READY, agent=event))
    if is_whole(turn.gang):
        launch(turn)


def unable(turn: Turn, member: Member, event: AgentUnable) -> None:
    """An agent cannot make its task ready: elsewhere it may work, unless the job is to blame."""
    if member.state is MemberState.ASKED:
        return
    if event.is_user_fault:
        turn.gang = replace(turn.gang, user_faults=turn.gang.user_faults + 1)
        if turn.gang.user_faults >= turn.policy.user_faults:
            where = f" on {member.grant.node}" if member.grant else ""
            message = f"{member.name}{where} cannot be made ready: {event.message}"
            hint = "Seen on more than one container: correct the job and submit it again."
            finish(turn, VerdictKind.FAILED, ExitCode.USER_FAILED, message, hint)
            return
    why = f"its agent cannot make it ready: {event.message}"
    if member.grant is not None and not event.is_user_fault:
        nodes.strike(turn, member.grant.node, why)
    lose(turn, member, why, is_gone=False)
    leave_excluded(turn)


def silent(turn: Turn, member: Member, event: AgentSilent) -> None:
    """An agent that was heard of before has gone quiet."""
    if member.state is MemberState.ASKED:
        return
    why = f"its agent was not heard of for {event.silent_s:.0f} s"
    if member.grant is not None:
        nodes.strike(turn, member.grant.node, why)
    lose(turn, member, why, is_gone=False)
    leave_excluded(turn)


def ended(turn: Turn, member: Member, event: ContainerEnded) -> None:
    """A container is gone before the gang was whole. One that held a place in a gang that ran
    takes the whole gang with it when YARN preempted it."""
    text = event.diagnostics or f"YARN says {event.end.value}"
    why = f"its container ended: {text}"
    in_place = turn.gang.recovery is not None and not turn.gang.recovery.is_first
    if event.end is ContainerEnd.PREEMPTED and in_place:
        recovery.preempted(turn, member, text)
        return
    if member.grant is not None and event.end is ContainerEnd.LOST:
        nodes.strike(turn, member.grant.node, f"node lost: {text}", is_full=True)
    elif member.grant is not None and event.end is ContainerEnd.FAILED and member.agent is None:
        nodes.strike(turn, member.grant.node, f"a container could not be started: {text}")
    # A lost NodeManager's containers live on: their agents must be told.
    lose(turn, member, why, is_gone=event.end is not ContainerEnd.LOST)
    leave_excluded(turn)


def leave_excluded(turn: Turn) -> None:
    """A node was excluded while the gang is being acquired: nothing is held there any more."""
    for member in on_excluded(turn.gang, turn.policy, turn.at_s):
        if turn.gang.phase is Phase.ACQUIRING and turn.gang.find(member.ask) is member:
            lose(turn, member, "its node is on the blacklist by now", is_gone=False)


def lose(turn: Turn, member: Member, why: str, *, is_gone: bool) -> None:
    """A member is no good any more: ask for another in its place while the hold lasts; elsewhere
    where no node of its target can help."""
    if turn.gang.recovery is not None and not turn.gang.recovery.is_first:
        recovery.lose(turn, member, why, is_gone=is_gone)
        return
    if not is_gone:
        turn.release(member, why)
    limit = recovery.reask_limit(turn)
    if turn.gang.reasks >= limit:
        turn.gang = replace(
            turn.gang, members=tuple(m for m in turn.gang.members if m is not member)
        )
        fail_attempt(turn, f"gave up after {limit} replaced containers; the last one: {why}")
        return
    turn.gang = replace(turn.gang, reasks=turn.gang.reasks + 1, reason=f"{member.name}: {why}")
    useless = refusing.why_useless(turn.gang, turn.policy, member.target, turn.at_s)
    if useless is None:
        turn.put(member, new_member(turn, member.target, member.level))
        return
    turn.gang = replace(turn.gang, members=tuple(m for m in turn.gang.members if m is not member))
    if any(m.grant is not None for m in turn.gang.members):
        recovery.look_elsewhere(turn, member, useless)
    else:
        fail_attempt(turn, useless)

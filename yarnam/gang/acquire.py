"""From the plan to the complete gang: asks, grants, verification, replacement, the barrier."""

from __future__ import annotations

from dataclasses import replace

from yarnam.errors import ExitCode
from yarnam.gang.ending import back_off, fail_attempt, finish
from yarnam.gang.ranks import in_rank_order
from yarnam.gang.state import Gang, GangPolicy, Member, MemberState
from yarnam.gang.turn import Turn
from yarnam.model.actions import AskContainer, GangMember, LaunchGang, ReleaseContainer, RequestPlan
from yarnam.model.events import (
    AgentRegistered,
    AgentUnable,
    ContainerGranted,
    PlanReady,
    PlanRefused,
    TimerKind,
)
from yarnam.model.ids import AskId, NodeId, RackId
from yarnam.model.outcomes import VerdictKind
from yarnam.model.placement import LocalityLevel, Placed, Rung, Target
from yarnam.model.status import AttemptRecord, Phase


def begin(turn: Turn) -> None:
    """The job starts: its whole wait for room is limited from here on."""
    turn.gang = replace(turn.gang, is_started=True)
    turn.arm(TimerKind.WAIT, turn.policy.wait_timeout_s)
    request_plan(turn)


def request_plan(turn: Turn) -> None:
    """Look at the cluster, from the rung on that the failures so far have led to."""
    turn.enter(Phase.PENDING)
    turn.do(
        RequestPlan(
            attempt=turn.gang.attempt,
            first_rung=turn.gang.failures // turn.policy.relax_after_attempts,
            excluded=turn.policy.excluded,
        )
    )


def plan_ready(turn: Turn, event: PlanReady) -> None:
    """Ask for every container of the tightest rung, all at once."""
    gang = turn.gang
    if gang.phase is not Phase.PENDING or not gang.is_started or event.attempt != gang.attempt:
        return
    rung = event.plan.rungs[0]
    fault = _not_the_gang(rung, turn.policy)
    if fault:
        finish(turn, VerdictKind.FAILED, ExitCode.INTERNAL, fault, "This is a bug in the planner.")
        return
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
        reasks=0,
        history=(*turn.gang.history, record),
    )
    members = tuple(
        _new_member(turn, ask.target, rung.level) for ask in rung.asks for _ in range(ask.count)
    )
    turn.gang = replace(turn.gang, members=members)
    turn.arm(TimerKind.ASK, turn.policy.ask_timeout_s)


def plan_refused(turn: Turn, event: PlanRefused) -> None:
    """Never: the job ends. Not now: look again later; no attempt is used up."""
    gang = turn.gang
    if gang.phase is not Phase.PENDING or not gang.is_started or event.attempt != gang.attempt:
        return
    no_fit = event.no_fit
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
    problem = _misfit(turn.gang, turn.policy, member, event.node, event.rack)
    if problem:
        _refuse_misfit(turn, member, problem)
        return
    turn.put(member, replace(member, state=MemberState.GRANTED, grant=event))
    if turn.gang.timer(TimerKind.HOLD) is None:
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
    if (event.node, event.container) != (member.grant.node, member.grant.container):
        _refuse_misfit(
            turn,
            member,
            f"granted as {member.grant.container} on {member.grant.node}, but its agent runs in "
            f"{event.container} on {event.node}",
        )
        return
    turn.put(member, replace(member, state=MemberState.READY, agent=event))
    if all(m.state is MemberState.READY for m in turn.gang.members):
        _launch(turn)


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
    lose(turn, member, f"its agent cannot make it ready: {event.message}", is_gone=False)


def lose(turn: Turn, member: Member, why: str, *, is_gone: bool) -> None:
    """A member is no good any more: ask for another in its place while the hold lasts."""
    if not is_gone:
        turn.release(member, why)
    limit = max(8, turn.policy.reasks_per_task * len(turn.gang.members))
    if turn.gang.reasks >= limit:
        turn.gang = replace(
            turn.gang, members=tuple(m for m in turn.gang.members if m is not member)
        )
        fail_attempt(turn, f"gave up after {limit} replaced containers; the last one: {why}")
        return
    turn.gang = replace(turn.gang, reasks=turn.gang.reasks + 1, reason=f"{member.name}: {why}")
    turn.put(member, _new_member(turn, member.target, member.level))


def _new_member(turn: Turn, target: Target, level: LocalityLevel) -> Member:
    ask = AskId(turn.gang.attempt, target.role, turn.gang.next_number)
    turn.gang = replace(turn.gang, next_number=turn.gang.next_number + 1)
    turn.do(AskContainer(ask, target))
    return Member(ask=ask, target=target, level=level)


def _refuse_misfit(turn: Turn, member: Member, problem: str) -> None:
    turn.gang = replace(turn.gang, misfits=turn.gang.misfits + 1)
    lose(turn, member, f"misfit: {problem}", is_gone=False)


def _misfit(
    gang: Gang, policy: GangPolicy, member: Member, node: NodeId, rack: RackId
) -> str | None:
    """Why this grant is not what was asked for; None when it is."""
    rung = gang.rung
    if node in policy.excluded:
        return f"{node} is excluded by the job"
    if not member.target.accepts(node, rack):
        return f"{node} in {rack} is outside of {member.target.service}"
    if rung is None:
        return None
    held = [m.grant for m in gang.members if m.grant is not None]
    nodes = {grant.node for grant in held}
    if rung.one_task_per_node and node in nodes:
        return f"{node} holds a task already, and the job spreads its tasks"
    if rung.node_limit is not None and len(nodes | {node}) > rung.node_limit:
        return f"{node} would be one node more than the {rung.node_limit} allowed"
    if rung.same_rack and any(grant.rack != rack for grant in held):
        return f"{node} is in {rack}, the others are in {held[0].rack}"
    return None


def _not_the_gang(rung: Rung, policy: GangPolicy) -> str | None:
    """Whether a plan leaves out a part of the gang: nothing less is ever asked for."""
    for role, wanted in policy.roles:
        planned = sum(
            ask.count * ask.target.processes_per_task
            for ask in rung.asks
            if ask.target.role == role
        )
        if planned != wanted:
            return f"the plan has {planned} processes of role {role}, the gang has {wanted}"
    return None


def _launch(turn: Turn) -> None:
    """The whole gang stands: fix the ranks and open the barrier, once."""
    members = in_rank_order(turn.gang.members, turn.policy)
    turn.enter(Phase.LAUNCHING)
    turn.gang = replace(turn.gang, members=members)
    turn.disarm(TimerKind.ASK, TimerKind.HOLD)
    turn.arm(TimerKind.LAUNCH, turn.policy.launch_timeout_s)
    turn.do(LaunchGang(turn.gang.attempt, tuple(_launched(member) for member in members)))


def _launched(member: Member) -> GangMember:
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

"""Asking for members, and whether what came is what was asked for."""

from __future__ import annotations

from dataclasses import replace

from yarnam.gang import nodes
from yarnam.gang.ending import patience_left_s
from yarnam.gang.state import Gang, GangPolicy, Member, MemberState
from yarnam.gang.turn import Turn
from yarnam.model.actions import AskContainer, RequestPlan
from yarnam.model.events import AgentRegistered, ContainerGranted, TimerKind
from yarnam.model.gpus import has_words, is_same_model, may_be_same
from yarnam.model.ids import AskId, NodeId
from yarnam.model.job import ANY_GPU_MODEL, SAME_GPU_MODEL
from yarnam.model.placement import LocalityLevel, Rung, Supplement, Target


def new_member(turn: Turn, target: Target, level: LocalityLevel) -> Member:
    """Ask for one container, under a name never used before."""
    ask = AskId(turn.gang.attempt, target.role, turn.gang.next_number)
    turn.gang = replace(turn.gang, next_number=turn.gang.next_number + 1)
    turn.do(AskContainer(ask, target))
    return Member(ask=ask, target=target, level=level)


def look(turn: Turn, supplement: Supplement | None = None, avoid: tuple[NodeId, ...] = ()) -> None:
    """Ask the planner, which leaves out the excluded nodes and uses the suspected ones last."""
    gang, policy = turn.gang, turn.policy
    out = left_out(gang, policy, turn.at_s)
    last = dict.fromkeys((*nodes.suspects(gang, policy, turn.at_s), *avoid))
    least, most = _sizes(turn)
    if supplement is None and least is not None:
        # The question may stand in line for long: when patience is over, it is another one.
        turn.arm(TimerKind.PATIENCE, patience_left_s(gang, policy, turn.at_s))
    turn.do(
        RequestPlan(
            attempt=gang.attempt,
            first_rung=gang.failures // policy.relax_after_attempts if supplement is None else 0,
            excluded=out,
            suspects=tuple(node for node in last if node not in out),
            supplement=supplement,
            most_tasks=most if supplement is None else None,
            least_tasks=least if supplement is None else None,
        )
    )


def left_out(gang: Gang, policy: GangPolicy, at_s: float) -> tuple[NodeId, ...]:
    """Nodes that the planner must not use now: those that are excluded, and those on which grants
    of this attempt were refused for what the node is."""
    out = nodes.excluded(gang, policy, at_s)
    return tuple(dict.fromkeys((*out, *(r.node for r in gang.refusals if r.is_unfit))))


def _sizes(turn: Turn) -> tuple[int | None, int | None]:
    """The fewest and the most tasks of the elastic role that will do now: within its patience a
    gang waits for its largest size, which a user's wish may set."""
    size, wish = turn.policy.size, turn.gang.wish
    if size is None:
        return None, None
    most = None if wish is None else size.bounded(wish)
    is_patient = patience_left_s(turn.gang, turn.policy, turn.at_s) > 0
    return (size.most if most is None else most) if is_patient else None, most


def misfit(turn: Turn, member: Member, event: ContainerGranted) -> str | None:
    """Why this grant is not what was asked for; None when it is."""
    gang = turn.gang
    why = nodes.why_excluded(gang, turn.policy, event.node, turn.at_s)
    if why is not None:
        return why
    if not member.target.accepts(event.node, event.rack):
        return f"{event.node} in {event.rack} is outside of {member.target.service}"
    return _spoils(gang, member, event)


def _spoils(gang: Gang, member: Member, event: ContainerGranted) -> str | None:
    """Why the gang as a whole would not be what its rung says with this grant in it."""
    rung, node, rack = gang.rung, event.node, event.rack
    if rung is None:
        return None
    held = [(m.target.role, m.grant) for m in gang.members if m.grant is not None]
    there = {grant.node for _, grant in held}
    if rung.one_task_per_node and node in there:
        return f"{node} holds a task already, and the job spreads its tasks"
    for one, other in (*rung.apart, *((b, a) for a, b in rung.apart)):
        if member.target.role == one and any(r == other and g.node == node for r, g in held):
            return f"{node} holds a task of role {other}, and {one} keeps apart from it"
    if rung.node_limit is not None and len(there | {node}) > rung.node_limit:
        return f"{node} would be one node more than the {rung.node_limit} allowed"
    if rung.same_rack and any(grant.rack != rack for _, grant in held):
        return f"{node} is in {rack}, the others are in {held[0][1].rack}"
    return None


def wrong_agent(member: Member, event: AgentRegistered) -> str | None:
    """Why the agent that registered does not belong to the container that was granted; None when
    it does."""
    grant = member.grant
    assert grant is not None
    if (event.node, event.container) != (grant.node, grant.container):
        return (
            f"granted as {grant.container} on {grant.node}, but its agent runs in "
            f"{event.container} on {event.node}"
        )
    return None


def wrong_model(member: Member, event: AgentRegistered) -> str | None:
    """Why the GPUs that this agent found are not those that were asked for; None when they are,
    or nobody knows."""
    wanted = member.target.gpu_model
    if wanted and event.gpu_model and not may_be_same(wanted, event.gpu_model):
        return f"{event.node} has {event.gpu_model}, the gang wants {wanted}"
    return None


def mixes_models(turn: Turn, member: Member, event: AgentRegistered) -> str | None:
    """Why the GPUs that this agent found do not go with the job's wish or with the rest of the
    gang; None when they do, or nobody knows. For nodes whose model the planner did not know."""
    wishes = dict(turn.policy.gpu_models)
    wish = wishes.get(member.target.role, ANY_GPU_MODEL)
    if wish == ANY_GPU_MODEL or not event.gpu_model:
        return None
    if wish != SAME_GPU_MODEL and not has_words(event.gpu_model, wish):
        return f"{event.node} has {event.gpu_model}, the job wants {wish}"
    for other in turn.gang.members:
        stands = other.state not in {MemberState.ASKED, MemberState.LOST}
        found = other.agent.gpu_model if other.agent is not None and stands else ""
        is_alike = wishes.get(other.target.role) == wish
        if found and is_alike and not is_same_model(found, event.gpu_model):
            return f"{event.node} has {event.gpu_model}, the others have {found}"
    return None


def not_the_gang(policy: GangPolicy, rung: Rung) -> str | None:
    """Whether a plan leaves out a part of the gang: nothing less is ever asked for."""
    for role, least, most in policy.ranges:
        planned = sum(
            ask.count * ask.target.processes_per_task
            for ask in rung.asks
            if ask.target.role == role
        )
        if not least <= planned <= most:
            wanted = f"{least}" if least == most else f"{least} to {most}"
            return f"the plan has {planned} processes of role {role}, the gang has {wanted}"
    return None


def is_largest(policy: GangPolicy, gang: Gang, rung: Rung) -> bool:
    """Whether the plan is for the largest size that the job, or its user, wants."""
    size = policy.size
    if size is None:
        return True
    planned = sum(ask.count for ask in rung.asks if ask.target.role == size.role)
    return planned >= (size.most if gang.wish is None else size.bounded(gang.wish))


def is_whole(gang: Gang) -> bool:
    """Every task granted, verified and its agent parked."""
    is_complete = gang.recovery is None or not gang.recovery.missing
    return is_complete and all(m.state is MemberState.READY for m in gang.members)


def on_excluded(gang: Gang, policy: GangPolicy, at_s: float) -> list[Member]:
    """Members whose container is on a node that is excluded by now."""
    out = set(nodes.excluded(gang, policy, at_s))
    return [m for m in gang.members if m.grant is not None and m.grant.node in out]

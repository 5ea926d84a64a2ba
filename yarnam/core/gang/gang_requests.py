"""The gang's requests: plans from the planner, containers from YARN."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from yarnam.core.gang import node_blacklist
from yarnam.core.gang.context import StepContext
from yarnam.core.gang.policy import GangPolicy
from yarnam.core.gang.state import Gang, Member, MemberState
from yarnam.core.model.actions import AskContainer, RequestPlan
from yarnam.core.model.events import TimerKind
from yarnam.core.model.ids import AskId, NodeId
from yarnam.core.model.plans import HeldTask, LocalityLevel, Rung, Supplement, Target, TargetAsk


def ask_container(
    ctx: StepContext, target: Target, level: LocalityLevel, *, is_later: bool = False
) -> Member:
    """Ask for one container, under a name never used before."""
    ask = AskId(ctx.gang.attempt, target.role, ctx.acquisition.next_number)
    ctx.acquisition = replace(ctx.acquisition, next_number=ctx.acquisition.next_number + 1)
    if not is_later:
        ctx.do(AskContainer(ask, target))
    return Member(ask=ask, target=target, level=level, is_later=is_later)


def ask_for(ctx: StepContext, rung: Rung, lead: int = 0) -> tuple[Member, ...]:
    """Ask for every container of a rung; with a lead, for no more than so many that have GPUs."""
    members: list[Member] = []
    with_gpus = 0
    for target in targets_of(rung):
        with_gpus += target.resources.gpus > 0
        is_later = 0 < lead < with_gpus and target.resources.gpus > 0
        members.append(ask_container(ctx, target, rung.level, is_later=is_later))
    return tuple(members)


def ask_for_rest(ctx: StepContext) -> None:
    """The leading containers are granted: ask for the others."""
    asked = [m for m in ctx.gang.members if m.state is MemberState.ASKED]
    if all(member.is_later for member in asked):
        for member in asked:
            ctx.do(AskContainer(member.ask, member.target))
            ctx.put(member, replace(member, is_later=False))


def targets_of(rung: Rung) -> list[Target]:
    """One target for each task."""
    return [ask.target for ask in rung.asks for _ in range(ask.count)]


def request_plan(ctx: StepContext, avoid: tuple[NodeId, ...] = ()) -> None:
    """Ask the planner for the whole gang, from the rung that the failures so far led to. The plan
    leaves out excluded nodes; the nodes of ``avoid``, the suspected and the hinted ones are used
    last."""
    policy = ctx.policy
    least, most = _sizes(ctx)
    if least is not None:
        # The request may wait for long: when patience is over, it is another one.
        ctx.arm(TimerKind.PATIENCE, patience_left_s(ctx.gang, policy, ctx.at_s))
    first_rung = ctx.acquisition.failures // max(1, policy.gang.relax_after_attempts)
    excluded, suspects, doubtful = _nodes(ctx, avoid)
    ctx.do(
        RequestPlan(
            attempt=ctx.gang.attempt,
            first_rung=first_rung,
            excluded=excluded,
            suspects=suspects,
            doubtful=doubtful,
            most_tasks=most,
            least_tasks=least,
            memory_level=ctx.retries.memory_level,
            is_pre_run=ctx.gang.is_pre_run,
        )
    )


def request_supplement(
    ctx: StepContext, supplement: Supplement, avoid: tuple[NodeId, ...] = ()
) -> None:
    """Ask the planner for some tasks beside those that are held."""
    excluded, suspects, doubtful = _nodes(ctx, avoid)
    level = ctx.retries.memory_level
    ctx.do(
        RequestPlan(
            ctx.gang.attempt,
            0,
            excluded,
            suspects,
            doubtful,
            supplement,
            memory_level=level,
            is_pre_run=ctx.gang.is_pre_run,
        )
    )


def supplement_of(gang: Gang, wanted: Iterable[tuple[Target, int]]) -> Supplement:
    """Tasks wanted beside those that the gang holds, by the limits of its rung."""
    assert gang.rung is not None
    held = tuple(
        HeldTask(m.target.role, m.grant.node, m.grant.rack, m.target.resources)
        for m in gang.members
        if m.grant is not None
    )
    return Supplement(tuple(TargetAsk(target, n) for target, n in wanted), held, gang.rung)


def counted(targets: Iterable[Target]) -> Iterable[tuple[Target, int]]:
    return Counter(targets).items()


def excluded_nodes(gang: Gang, policy: GangPolicy, at_s: float) -> tuple[NodeId, ...]:
    """Nodes that the planner must not use now: those that are excluded, and those on which grants
    of this attempt were refused for what the node is."""
    out = node_blacklist.excluded(gang, policy, at_s)
    return tuple(dict.fromkeys((*out, *(r.node for r in gang.acquisition.refusals if r.is_unfit))))


def patience_left_s(gang: Gang, policy: GangPolicy, at_s: float) -> float:
    """How long an elastic gang still waits for room for its largest size; 0 if it takes what
    fits."""
    wait_ends_s = gang.deadline_s(TimerKind.WAIT)
    if policy.size is None or wait_ends_s is None:
        return 0.0
    waits_since_s = wait_ends_s - policy.gang.wait_timeout_s
    return max(0.0, waits_since_s + policy.size.rules.patience_s - at_s)


def _nodes(ctx: StepContext, avoid: tuple[NodeId, ...]) -> tuple[tuple[NodeId, ...], ...]:
    """Nodes not to be used, nodes to be used last, and those to be used just before them."""
    gang, policy, at_s = ctx.gang, ctx.policy, ctx.at_s
    out = excluded_nodes(gang, policy, at_s)
    struck = node_blacklist.suspects(gang, policy, at_s)
    suspects = tuple(node for node in struck if node not in out)
    doubts = dict.fromkeys((*node_blacklist.hinted(gang, policy, at_s), *avoid))
    return out, suspects, tuple(node for node in doubts if node not in {*out, *suspects})


def _sizes(ctx: StepContext) -> tuple[int | None, int | None]:
    """The fewest and the most tasks of the elastic role that will do now: within its patience a
    gang waits for its largest size, which a user may have set."""
    size, requested = ctx.policy.size, ctx.size_request.tasks
    if size is None:
        return None, None
    most = None if requested is None else size.bounded(requested)
    is_patient = patience_left_s(ctx.gang, ctx.policy, ctx.at_s) > 0
    return (size.most if most is None else most) if is_patient else None, most

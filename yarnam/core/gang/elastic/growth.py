"""Resize a running elastic gang: probe the cluster, follow a user's request, grow and shrink.

The gang probes the cluster periodically (the RESIZE timer), and immediately when a user asks for
another size. ``sizing.decide_size`` decides what follows from a probe. ``in_place`` resizes a gang
whose processes continue; this module resizes all others. To shrink, it stops all processes with
time to write a checkpoint, and restarts those that stay. To grow, it asks for more containers
while the job still trains, and parks them until all of them are ready. Only then does it stop the
processes, once, and start all of them again. If the containers do not come within the hold timeout,
or one of them is unfit, it releases them without interrupting the training.
"""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.gang import fitness, node_blacklist
from yarnam.core.gang.context import StepContext
from yarnam.core.gang.elastic import in_place
from yarnam.core.gang.elastic.sizing import (
    ClusterProbe,
    Keep,
    Shrink,
    SizeFacts,
    SizeReason,
    decide_size,
    next_probe_s,
)
from yarnam.core.gang.gang_requests import (
    ask_for,
    excluded_nodes,
    request_supplement,
    supplement_of,
)
from yarnam.core.gang.phases.stopping import stop_gang
from yarnam.core.gang.policy import SizePolicy
from yarnam.core.gang.state import Gang, Growth, Member, MemberState, StopKind
from yarnam.core.model.actions import ProbeCluster
from yarnam.core.model.events import (
    AgentRegistered,
    AgentSilent,
    AgentUnable,
    ClusterSeen,
    ContainerEnded,
    ContainerGranted,
    PlanReady,
    PlanRefused,
    ScaleRequested,
    TimerFired,
    TimerKind,
)
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import ContainerEnd
from yarnam.core.model.plans import Supplement

REASON_TEXT = {
    SizeReason.IDLE_GPUS: "GPUs are idle",
    SizeReason.OVER_SHARE: "the queue is over its fair share and others wait",
    SizeReason.OUTRANKED: "a job of higher priority waits in its queue",
}

# ---- guards --------------------------------------------------------------------------------------


def is_another_size(ctx: StepContext, event: ScaleRequested) -> bool:
    """Elastic: a size that the job may have, and has not been asked for already; a policy's counts
    unless a user or the program has asked for one."""
    size, request = ctx.job_policy.size, ctx.size_request
    if size is None or not (event.tasks is None or size.least <= event.tasks <= size.most):
        return False
    if event.is_program:
        return event.tasks != request.program_tasks or event.scheduled > request.scheduled
    if event.is_policy and (request.is_by_user or request.is_by_program):
        return False
    is_by_same = request.is_by_user or event.is_policy or request.tasks is None
    return event.tasks != request.tasks or not is_by_same


def is_awaited(ctx: StepContext, event: ClusterSeen) -> bool:
    """Elastic: a probe is out, and the gang may change its size."""
    return ctx.resizing.is_probing and in_place.can_resize(ctx.gang)


def is_planned(ctx: StepContext, event: PlanReady) -> bool:
    """Elastic: the plan is for the tasks to grow by."""
    return is_planning(ctx, event) and _is_of_growth(ctx, event)


def is_planning(ctx: StepContext, event: PlanReady | PlanRefused) -> bool:
    """Elastic: the plan for the tasks to grow by is awaited."""
    return ctx.resizing.growth is not None and not ctx.resizing.growth.members


def is_joining(ctx: StepContext, event: ContainerEnded | AgentUnable | AgentSilent) -> bool:
    """Elastic: it concerns a container to grow by."""
    if ctx.resizing.growth is None or ctx.member not in ctx.resizing.growth.members:
        return False
    return ctx.member.state is not MemberState.ASKED or isinstance(event, ContainerEnded)


def is_refused(ctx: StepContext, event: ContainerGranted | AgentRegistered) -> bool:
    """Elastic: a misfit among the containers to grow by."""
    is_grant = isinstance(event, ContainerGranted)
    if not (is_asked if is_grant else is_granted)(ctx, event):
        return False
    return fitness.why_refused(ctx.gang, ctx.policy, ctx.member, event, ctx.at_s) is not None


def is_asked(ctx: StepContext, event: ContainerGranted | AgentRegistered) -> bool:
    """Elastic: the container to grow by is asked for."""
    return ctx.resizing.growth is not None and ctx.member.state is MemberState.ASKED


def is_asked_and_registered(ctx: StepContext, event: ContainerGranted) -> bool:
    """Elastic: its agent was quicker than YARN's report of the grant."""
    return is_asked(ctx, event) and ctx.member.agent is not None


def is_granted(ctx: StepContext, event: ContainerGranted | AgentRegistered) -> bool:
    """Elastic: the container to grow by is held."""
    return ctx.resizing.growth is not None and ctx.member.state is MemberState.GRANTED


# ---- operations: the size ------------------------------------------------------------------------


def began_to_run(ctx: StepContext) -> None:
    """All processes have started: the next probe is in its time, or now where a user has asked for
    another size."""
    size = ctx.policy.size
    if size is None:
        return
    ctx.resizing = replace(ctx.resizing, is_probing=False, over_since_s=None)
    ctx.arm(TimerKind.RESIZE, size.rules.grow_interval_s)
    requested = ctx.size_request.tasks
    if requested is not None and requested != _tasks(ctx.gang, size):
        probe(ctx)


def note_size(ctx: StepContext, event: ScaleRequested) -> None:
    """Elastic: remember the size that was asked for. What the program asked for counts again when
    its user leaves the size to the job."""
    before, tasks = ctx.size_request, event.tasks
    if event.is_program:
        scheduled = max(before.scheduled, event.scheduled)
        ctx.size_request = replace(before, program_tasks=tasks, scheduled=scheduled)
        if before.is_by_user:
            return
    is_program = event.is_program or (tasks is None and not event.is_policy)
    tasks = ctx.size_request.program_tasks if is_program else tasks
    ctx.size_request = replace(
        ctx.size_request,
        tasks=tasks,
        is_by_policy=event.is_policy and tasks is not None,
        is_by_program=is_program and tasks is not None,
    )
    if tasks != before.tasks:
        ctx.drop_growth(f"{event.by} asked for another size")


def take_size(ctx: StepContext, event: ScaleRequested) -> None:
    """Elastic: shrink to the size immediately, or ProbeCluster for room to grow to it."""
    before = ctx.size_request.tasks
    note_size(ctx, event)
    requested = ctx.size_request.tasks
    is_new = requested is not None and requested != before
    if is_new and not ctx.gang.is_pre_run and in_place.can_resize(ctx.gang):
        _decide(ctx, ClusterProbe(0))
        probe(ctx)


def probe_in_time(ctx: StepContext, event: TimerFired) -> None:
    """Elastic: ProbeCluster; start RESIZE again."""
    probe(ctx)


def probe(ctx: StepContext) -> None:
    """Ask how many more tasks would fit, and whether another job should have the GPUs."""
    size, gang = ctx.policy.size, ctx.gang
    if size is None or gang.phase is not Phase.RUNNING:
        return
    ctx.arm(TimerKind.RESIZE, size.rules.grow_interval_s)
    if ctx.resizing.growth is not None and ctx.resizing.growth.members:
        return
    growth = _supplement(gang, size, _tasks_to_grow(gang, size))
    if growth is None or not in_place.can_resize(gang):
        return
    ctx.resizing = replace(ctx.resizing, is_probing=True, growth=None)
    out = excluded_nodes(gang, ctx.policy, ctx.at_s)
    ctx.do(ProbeCluster(gang.attempt, growth, out))


def take_probe(ctx: StepContext, event: ClusterSeen) -> None:
    """Elastic: grow (RequestPlan for more tasks), shrink (StopTask for every member; in place: for
    those that leave), or keep the size; start RESIZE again."""
    size, over_since_s = ctx.policy.size, ctx.resizing.over_since_s
    assert size is not None
    if not (event.excess or event.outranked):
        over_since_s = None
    elif over_since_s is None:
        over_since_s = ctx.at_s
    ctx.resizing = replace(ctx.resizing, is_probing=False, over_since_s=over_since_s)
    ctx.arm(TimerKind.RESIZE, next_probe_s(size, event.u))
    _decide(ctx, ClusterProbe(event.spare, event.excess, event.waiting, event.outranked))


def _decide(ctx: StepContext, found: ClusterProbe) -> None:
    gang, size = ctx.gang, ctx.policy.size
    assert size is not None
    tasks = _tasks(gang, size)
    request, over_since_s = gang.size_request, gang.resizing.over_since_s
    is_firm = not request.is_by_program
    facts = SizeFacts(tasks, gang.since_s, request.tasks, over_since_s, is_firm)
    decision = decide_size(facts, found, size, ctx.at_s)
    if isinstance(decision, Keep):
        return
    text = f"{tasks} -> {decision.to} tasks: {_reason_text(gang, decision.reason)}"
    if isinstance(decision, Shrink):
        ctx.drop_growth(text)
        _stop(ctx, text, to=decision.to)
    else:
        growth = _supplement(gang, size, decision.to - tasks)
        assert growth is not None
        ctx.resizing = replace(ctx.resizing, growth=Growth(decision.to, text))
        request_supplement(ctx, growth)


# ---- operations: the containers to grow by -------------------------------------------------------


def ask_more(ctx: StepContext, event: PlanReady) -> None:
    """AskContainer for each of the tasks to grow by; start GROWTH."""
    growth, rung = ctx.resizing.growth, event.plan.rungs[0]
    assert growth is not None
    members = ask_for(ctx, rung)
    ctx.resizing = replace(ctx.resizing, growth=replace(growth, members=members, rung=rung))
    ctx.arm(TimerKind.GROWTH, ctx.policy.gang.hold_timeout_s)


def give_up_plan(ctx: StepContext, event: PlanReady | PlanRefused) -> None:
    """No room: keep the size until the next probe."""
    ctx.resizing = replace(ctx.resizing, growth=None)


def hold(ctx: StepContext, event: ContainerGranted) -> None:
    """Hold it; the last one starts GROWTH again, for its localization."""
    _put(ctx, replace(ctx.member, state=MemberState.GRANTED, grant=event))
    growth, limit_s = ctx.resizing.growth, ctx.policy.gang.localize_timeout_s
    assert growth is not None
    if limit_s > 0 and _is_granted(growth):
        ctx.arm(TimerKind.GROWTH, limit_s)


def hold_registered(ctx: StepContext, event: ContainerGranted) -> None:
    """Hold it; verify its agent."""
    hold(ctx, event)
    agent = ctx.member.agent
    assert agent is not None
    if is_refused(ctx, agent):
        give_back(ctx, agent)
    else:
        make_ready(ctx, agent)


def note_agent(ctx: StepContext, event: AgentRegistered) -> None:
    """Remember it until the grant is reported."""
    _put(ctx, replace(ctx.member, agent=event))


def make_ready(ctx: StepContext, event: AgentRegistered) -> None:
    """The container is READY; with the last one StopTask for every member, with time for a
    checkpoint, and start STOP. In place: LaunchGang for those that join."""
    _put(ctx, replace(ctx.member, state=MemberState.READY, agent=event))
    growth = ctx.resizing.growth
    assert growth is not None
    is_whole = all(m.state is MemberState.READY for m in growth.members)
    if in_place.resizes_in_place(ctx.policy):
        in_place.start_joining(ctx)
    elif is_whole and in_place.can_resize(ctx.gang):
        ctx.disarm(TimerKind.GROWTH)
        _stop(ctx, growth.text)


def give_back(ctx: StepContext, event: ContainerGranted | AgentRegistered) -> None:
    """Release all containers to grow by, and remember the node."""
    misfit = fitness.why_refused(ctx.gang, ctx.policy, ctx.member, event, ctx.at_s)
    assert misfit is not None
    fitness.note_refusal(ctx, ctx.member, event.node, misfit)
    ctx.drop_growth(f"misfit: {misfit.why}")


def lose(ctx: StepContext, event: ContainerEnded | AgentUnable | AgentSilent) -> None:
    """Release the other containers to grow by."""
    member, growth = ctx.member, ctx.resizing.growth
    assert growth is not None
    why = _trouble_text(event)
    if member.grant is not None:
        is_lost = isinstance(event, ContainerEnded) and event.end is ContainerEnd.LOST
        is_silent = isinstance(event, AgentSilent)
        is_unable = isinstance(event, AgentUnable) and not (
            event.is_user_fault or event.is_node_busy
        )
        if is_lost or is_silent or is_unable:
            node_blacklist.strike(ctx, member.grant.node, why, is_full=is_lost)
    if isinstance(event, ContainerEnded):
        others = tuple(m for m in growth.members if m is not member)
        ctx.resizing = replace(ctx.resizing, growth=replace(growth, members=others))
    ctx.drop_growth(why)


def time_out(ctx: StepContext, event: TimerFired) -> None:
    """Release all containers to grow by."""
    growth = ctx.resizing.growth
    if growth is None:
        return
    if in_place.is_joining(ctx.gang):
        ctx.drop_growth(f"{len(growth.members)} tasks that were to join did not start in time")
        return
    ready = sum(member.state is MemberState.READY for member in growth.members)
    limits = ctx.policy.gang
    limit_s = limits.hold_timeout_s
    if _is_granted(growth):
        limit_s = limits.localize_timeout_s or limit_s
    ctx.drop_growth(
        f"{ready} of {len(growth.members)} containers to grow by were ready within {limit_s:.0f} s"
    )


def _is_granted(growth: Growth) -> bool:
    return all(member.state is not MemberState.ASKED for member in growth.members)


def _reason_text(gang: Gang, reason: SizeReason) -> str:
    if reason is SizeReason.REQUESTED:
        return f"as {gang.size_request.requester} asked"
    return REASON_TEXT.get(reason, str(reason.value))


def _stop(ctx: StepContext, text: str, *, to: int | None = None) -> None:
    assert ctx.policy.size is not None
    if to is not None and in_place.resizes_in_place(ctx.policy):
        in_place.shrink(ctx, to, text)
        return
    grace_s = ctx.policy.size.rules.checkpoint_grace_s
    stop_gang(ctx, StopKind.RESIZED, text, grace_s=grace_s, to=to)


def _is_of_growth(ctx: StepContext, event: PlanReady) -> bool:
    size, growth, rung = ctx.policy.size, ctx.resizing.growth, event.plan.rungs[0]
    if size is None or growth is None or any(a.target.role != size.role for a in rung.asks):
        return False
    return rung.tasks == growth.to - _tasks(ctx.gang, size)


def _trouble_text(event: ContainerEnded | AgentUnable | AgentSilent) -> str:
    if isinstance(event, ContainerEnded):
        return f"its container ended: {event.diagnostics or event.end.value}"
    if isinstance(event, AgentUnable):
        return f"its agent cannot make it ready: {event.message}"
    return f"its agent was not heard of for {event.silent_s:.0f} s"


def _put(ctx: StepContext, new: Member) -> None:
    growth = ctx.resizing.growth
    assert growth is not None
    members = tuple(new if m is ctx.member else m for m in growth.members)
    ctx.resizing = replace(ctx.resizing, growth=replace(growth, members=members))
    ctx.found = new


def _tasks(gang: Gang, size: SizePolicy) -> int:
    return sum(member.target.role == size.role for member in gang.members)


def _tasks_to_grow(gang: Gang, size: SizePolicy) -> int:
    """How many more tasks it may have, as a user asked or by its own rules."""
    if gang.size_request.tasks is None and not size.rules.grow:
        return 0
    top = size.most if gang.size_request.tasks is None else size.bounded(gang.size_request.tasks)
    return max(0, top - _tasks(gang, size))


def _supplement(gang: Gang, size: SizePolicy, count: int) -> Supplement | None:
    target = next((m.target for m in gang.members if m.target.role == size.role), None)
    if target is None or gang.rung is None:
        return None
    return supplement_of(gang, [(target, count)])

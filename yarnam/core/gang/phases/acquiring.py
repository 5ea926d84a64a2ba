"""ACQUIRING: containers are asked for, granted, verified and held, until the whole gang is ready.

Holding and verifying are the same in REPLACING, where a running gang gets what it has lost.
"""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.failures.retry_decision import RetryBudget, RetryState, decide_retry
from yarnam.core.gang import fitness, node_blacklist
from yarnam.core.gang.attempts import back_off, fail_attempt, finish, reask_limit
from yarnam.core.gang.context import StepContext
from yarnam.core.gang.gang_requests import ask_container, ask_for_rest
from yarnam.core.gang.phases import replacing
from yarnam.core.gang.phases.barrier import (
    go_on_with_rest,
    is_whole,
    localize_text,
    open_barrier,
    ready,
    rest_is_enough,
)
from yarnam.core.gang.phases.first_cause import container_cause
from yarnam.core.gang.phases.search import start_search
from yarnam.core.gang.state import Member, MemberState, Search
from yarnam.core.model.events import (
    AgentRegistered,
    AgentSilent,
    AgentUnable,
    ContainerEnded,
    ContainerGranted,
    Event,
    NodesSuspected,
    TimerFired,
    TimerKind,
)
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import ContainerEnd, VerdictKind
from yarnam.errors import Blame, ExitCode

# ---- guards --------------------------------------------------------------------------------------


def is_refused(ctx: StepContext, event: ContainerGranted | AgentRegistered) -> bool:
    """A misfit: on an excluded or unfit node, outside of its target, against the gang's shape; or
    the agent is another one, or found other GPUs."""
    expected = MemberState.ASKED
    if isinstance(event, AgentRegistered):
        expected = MemberState.GRANTED
    if ctx.member.state is not expected:
        return False
    return fitness.why_refused(ctx.gang, ctx.policy, ctx.member, event, ctx.at_s) is not None


def is_asked(ctx: StepContext, event: Event) -> bool:
    """The container is asked for, and not granted as far as known."""
    return ctx.member.state is MemberState.ASKED


def is_asked_and_registered(ctx: StepContext, event: ContainerGranted) -> bool:
    """Its agent was quicker than YARN's report of the grant."""
    return ctx.member.state is MemberState.ASKED and ctx.member.agent is not None


def is_granted(ctx: StepContext, event: Event) -> bool:
    """The container is held, its agent not registered yet."""
    return ctx.member.state is MemberState.GRANTED


def is_held(ctx: StepContext, event: Event) -> bool:
    """The container is held."""
    return ctx.member.state is not MemberState.ASKED


def is_repeated_fault_of_job(ctx: StepContext, event: AgentUnable) -> bool:
    """The job's own fault, by the word of as many agents as it takes."""
    is_heard = ctx.member.state is not MemberState.ASKED and event.is_user_fault
    return is_heard and ctx.acquisition.user_faults + 1 >= ctx.policy.user_faults


def rest_may_start(ctx: StepContext, event: TimerFired) -> bool:
    """Elastic: the tasks that are ready are enough."""
    return rest_is_enough(ctx)


def is_not_retried(ctx: StepContext, event: ContainerEnded) -> bool:
    """YARN reports a failure that another container would meet too."""
    return _budget(ctx, event) is RetryBudget.NONE


def is_short_of_memory(ctx: StepContext, event: ContainerEnded) -> bool:
    """The container needed more memory, and containers can be enlarged."""
    return _budget(ctx, event) is RetryBudget.LARGER


# ---- operations ----------------------------------------------------------------------------------


def give_back(ctx: StepContext, event: ContainerGranted | AgentRegistered) -> None:
    """ReleaseContainer; AskContainer under a new name, or elsewhere where that cannot help."""
    misfit = fitness.why_refused(ctx.gang, ctx.policy, ctx.member, event, ctx.at_s)
    assert misfit is not None
    fitness.note_refusal(ctx, ctx.member, event.node, misfit)
    replace_member(ctx, ctx.member, f"misfit: {misfit.why}", is_gone=False)


def hold(ctx: StepContext, event: ContainerGranted) -> None:
    """Hold it; the first one of an attempt cancels ASK and starts HOLD, the last one cancels HOLD
    or RECOVERY and starts LOCALIZE, the last one that leads is followed by AskContainer for the
    others."""
    ctx.put(ctx.member, replace(ctx.member, state=MemberState.GRANTED, grant=event))
    ask_for_rest(ctx)
    _limit_hold(ctx)


def hold_registered(ctx: StepContext, event: ContainerGranted) -> None:
    """Hold it; verify its agent."""
    hold(ctx, event)
    agent = ctx.member.agent
    ctx.found = ctx.gang.find(event.ask)
    assert agent is not None
    if is_refused(ctx, agent):
        give_back(ctx, agent)
    else:
        make_ready(ctx, agent)


def note_agent(ctx: StepContext, event: AgentRegistered) -> None:
    """Remember it until the grant is reported."""
    ctx.put(ctx.member, replace(ctx.member, agent=event))


def make_ready(ctx: StepContext, event: AgentRegistered) -> None:
    """The member is READY; with the last one fix the ranks and open the barrier."""
    ctx.put(ctx.member, replace(ctx.member, state=MemberState.READY, agent=event))
    if is_whole(ctx.gang):
        open_barrier(ctx)


def fail_job_by_agents(ctx: StepContext, event: AgentUnable) -> None:
    """Release all; Finish with USER_FAILED."""
    member = ctx.member
    ctx.acquisition = replace(ctx.acquisition, user_faults=ctx.acquisition.user_faults + 1)
    where = f" on {member.grant.node}" if member.grant else ""
    message = f"{member.name}{where} cannot be made ready: {event.message}"
    hint = "Seen on more than one container: correct the job and submit it again."
    finish(ctx, VerdictKind.FAILED, ExitCode.USER_FAILED, message, hint)


def fail_job_by_container(ctx: StepContext, event: ContainerEnded) -> None:
    """Release all; Finish with USER_FAILED, or ATTEMPTS_EXHAUSTED where the infrastructure is to
    blame."""
    finding, text = event.finding, _end_text(event)
    assert finding is not None
    where = f" on {ctx.member.grant.node}" if ctx.member.grant else ""
    message = f"{ctx.member.name}{where} could not be started: {text}"
    if finding.explanation:
        message = f"{message}\n{finding.explanation}"
    is_user = finding.blame is Blame.USER
    code = ExitCode.USER_FAILED if is_user else ExitCode.ATTEMPTS_EXHAUSTED
    cause = container_cause(ctx.member, text, finding)
    finish(ctx, VerdictKind.FAILED, code, message, finding.hint, cause)


def enlarge(ctx: StepContext, event: ContainerEnded) -> None:
    """Release all, for free; DrawJitter, for larger containers."""
    level, most = ctx.retries.memory_level + 1, ctx.policy.memory_levels
    ctx.retries = replace(ctx.retries, memory_level=level)
    text = f"{ctx.member.name}: {_end_text(event)}"
    ctx.drop(ctx.member)
    back_off(ctx, f"{text}; larger containers (retry.more_memory, {level} of {most} times)")


def replace_unable(ctx: StepContext, event: AgentUnable) -> None:
    """ReleaseContainer; AskContainer under a new name, or elsewhere where that cannot help."""
    member = ctx.member
    why = f"its agent cannot make it ready: {event.message}"
    if event.is_user_fault:
        ctx.acquisition = replace(ctx.acquisition, user_faults=ctx.acquisition.user_faults + 1)
    elif member.grant is not None and event.is_node_busy:
        # Any user of the node can do this to every job: it costs the node nothing but this attempt.
        fitness.note_refusal(ctx, member, member.grant.node, fitness.Misfit(why, is_unfit=True))
    elif member.grant is not None:
        node_blacklist.strike(ctx, member.grant.node, why)
    replace_member(ctx, member, why, is_gone=False)
    leave_excluded(ctx)


def replace_silent(ctx: StepContext, event: AgentSilent) -> None:
    """ReleaseContainer; AskContainer under a new name, or elsewhere where that cannot help."""
    member = ctx.member
    why = f"its agent was not heard of for {event.silent_s:.0f} s"
    if member.grant is not None:
        node_blacklist.strike(ctx, member.grant.node, why)
    replace_member(ctx, member, why, is_gone=False)
    leave_excluded(ctx)


def replace_ended(ctx: StepContext, event: ContainerEnded) -> None:
    """AskContainer under a new name, or elsewhere where that cannot help; ReleaseContainer where
    its node is lost, since it may live on."""
    member = ctx.member
    text = _end_text(event)
    if member.grant is not None and event.end is ContainerEnd.LOST:
        node_blacklist.strike(ctx, member.grant.node, f"node lost: {text}", is_full=True)
    elif member.grant is not None and event.end is ContainerEnd.FAILED and member.agent is None:
        why = f"a container could not be started: {text}"
        node_blacklist.strike(ctx, member.grant.node, why)
    # A lost NodeManager's containers live on: their agents must be notified.
    is_gone = event.end is not ContainerEnd.LOST
    replace_member(ctx, member, f"its container ended: {text}", is_gone=is_gone)
    leave_excluded(ctx)


def take_hints(ctx: StepContext, event: NodesSuspected) -> None:
    """With a strike of this job's own, a hint excludes the node: the tasks there are replaced."""
    node_blacklist.take_hints(ctx, event)
    leave_excluded(ctx)


def time_out_ask(ctx: StepContext, event: TimerFired) -> None:
    """Withdraw all asks; the attempt has failed."""
    limit_s = ctx.policy.gang.ask_timeout_s
    fail_attempt(ctx, f"no container was granted within {limit_s:.0f} s")


def time_out_hold(ctx: StepContext, event: TimerFired) -> None:
    """Release all, granted and outstanding; the attempt has failed."""
    fail_attempt(ctx, _hold_text(ctx))


def time_out_localize(ctx: StepContext, event: TimerFired) -> None:
    """Release all; the attempt has failed. The next one uses the nodes that were not ready last."""
    members = ctx.gang.members
    at = {member.grant.node for member in ready(ctx.gang) if member.grant is not None}
    late = (member.grant.node for member in members if member.grant is not None)
    fail_attempt(ctx, localize_text(ctx), late=tuple(node for node in late if node not in at))


def start_with_rest(ctx: StepContext, event: TimerFired) -> None:
    """Withdraw what has not come; fix the ranks and open the barrier."""
    is_localizing = event.timer.kind is TimerKind.LOCALIZE
    go_on_with_rest(ctx, localize_text(ctx) if is_localizing else _hold_text(ctx))


def replace_member(ctx: StepContext, member: Member, why: str, *, is_gone: bool) -> None:
    """A member is no good any more: ask for another in its place while the limit lasts; elsewhere
    where no node of its target can help. Of a gang that was localizing, HOLD or RECOVERY starts
    again."""
    if ctx.gang.phase is Phase.REPLACING:
        replacing.lose(ctx, member, why, is_gone=is_gone)
    else:
        _ask_again(ctx, member, why, is_gone=is_gone)
    if ctx.gang.timer(TimerKind.LOCALIZE) is not None:
        _limit_hold(ctx)


def _ask_again(ctx: StepContext, member: Member, why: str, *, is_gone: bool) -> None:
    if not is_gone:
        ctx.release(member, why)
    limit = reask_limit(ctx)
    if ctx.acquisition.reasks >= limit:
        ctx.drop(member)
        fail_attempt(ctx, f"gave up after {limit} replaced containers; the last one: {why}")
        return
    ctx.gang = replace(ctx.gang, reason=f"{member.name}: {why}")
    ctx.acquisition = replace(ctx.acquisition, reasks=ctx.acquisition.reasks + 1)
    useless = fitness.why_useless(ctx.gang, ctx.policy, member.target, ctx.at_s)
    if useless is None:
        ctx.put(member, ask_container(ctx, member.target, member.level))
        return
    ctx.drop(member)
    if any(m.grant is not None for m in ctx.gang.members):
        _search_for(ctx, member, useless)
    else:
        fail_attempt(ctx, useless)


def leave_excluded(ctx: StepContext) -> None:
    """A node was excluded while the gang is being acquired: nothing is held there any more."""
    for member in node_blacklist.members_on_excluded(ctx.gang, ctx.policy, ctx.at_s):
        is_acquiring = ctx.gang.phase in {Phase.ACQUIRING, Phase.REPLACING}
        if is_acquiring and ctx.gang.find(member.ask) is member:
            replace_member(ctx, member, "its node is on the blacklist by now", is_gone=False)


def _limit_hold(ctx: StepContext) -> None:
    """Something is held: HOLD, or RECOVERY, limits the wait for the other grants, and LOCALIZE that
    for the agents. Others' work is kept out all the while, so one of them always runs."""
    gang, limits = ctx.gang, ctx.policy.gang
    kind, limit_s = TimerKind.HOLD, limits.hold_timeout_s
    if gang.is_localizing and limits.localize_timeout_s > 0:
        kind, limit_s = TimerKind.LOCALIZE, limits.localize_timeout_s
    elif gang.phase is Phase.REPLACING:
        kind, limit_s = TimerKind.RECOVERY, limits.recovery_timeout_s
    if gang.timer(kind) is None:
        ctx.disarm(TimerKind.ASK, TimerKind.HOLD, TimerKind.RECOVERY, TimerKind.LOCALIZE)
        ctx.arm(kind, limit_s)


def _search_for(ctx: StepContext, member: Member, why: str) -> None:
    """The others are held or on their way: the planner is asked for another place for this one."""
    known = ctx.gang.search or Search(why, ())
    avoid = (*known.avoid, *(one.node for one in ctx.acquisition.refusals))
    start_search(
        ctx,
        replace(
            known,
            why=why,
            missing=(*known.missing, member.target),
            avoid=tuple(dict.fromkeys(avoid)),
        ),
    )


def _budget(ctx: StepContext, event: ContainerEnded) -> RetryBudget | None:
    """The budget that pays for a replacement; ``None`` where YARN's report matches no rule. No
    process has run: what may pass is paid by the limit of replaced containers and by
    ``gang.attempts``, not by the restarts of a gang that ran."""
    if event.finding is None:
        return None
    retries, policy = ctx.retries, ctx.policy
    state = RetryState(
        restarts_left=1,
        user_retries_left=policy.retry.on_user_failure - retries.user_retries,
        free_left_s=policy.transient_limit_s,
        stuck=0,
        step=retries.furthest_step,
        leaves_out_inputs=policy.leaves_out_inputs,
        has_more_memory=retries.memory_level < policy.memory_levels,
    )
    return decide_retry(event.finding.action, state).budget


def _end_text(event: ContainerEnded) -> str:
    return event.diagnostics or f"YARN says {event.end.value}"


def _hold_text(ctx: StepContext) -> str:
    gang = ctx.gang
    granted = sum(member.state is not MemberState.ASKED for member in gang.members)
    ready = sum(member.state is MemberState.READY for member in gang.members)
    last = f"; last trouble: {gang.reason}" if gang.reason else ""
    return (
        f"the hold of {ctx.policy.gang.hold_timeout_s:.0f} s ended with {granted} of {gang.size} "
        f"granted, {ready} ready{last}"
    )

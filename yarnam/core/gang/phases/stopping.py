"""STOPPING: all processes are stopped, and the gang waits until every end is known and explained.

The first report is seldom the first cause: peers of a lost task fail too. So what to do next is
decided only when all ends are known (``AllEnded``), by the first cause.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from signal import Signals

from yarnam.core.gang import node_blacklist
from yarnam.core.gang.attempts import (
    OF_AN_ATTEMPT,
    back_off,
    cancel_text,
    count_preemption,
    fail_attempt,
    finish,
    finish_refused,
)
from yarnam.core.gang.context import AllEnded, StepContext
from yarnam.core.gang.phases.barrier import is_enough, relaunch
from yarnam.core.gang.phases.replacing import begin_replacing, can_replace, keepable
from yarnam.core.gang.policy import PS_ROLE
from yarnam.core.gang.state import Gang, Loss, LossKind, Member, MemberState, StopKind, Stopping
from yarnam.core.model.actions import StopTask
from yarnam.core.model.events import (
    AgentSilent,
    AgentUnable,
    AmRestarted,
    CancelRequested,
    ContainerEnded,
    Event,
    InputsRefused,
    TaskExited,
    TimerFired,
    TimerKind,
)
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import ContainerEnd, ExitKind, ProcessExit, VerdictKind
from yarnam.errors import ExitCode

MAY_RUN = frozenset({MemberState.READY, MemberState.STARTED})
"""States of a launched member whose processes may run: the agent's report is awaited."""

HARMLESS = frozenset({ExitKind.OK, ExitKind.STOPPED})

LOSS_OF_END = {
    ContainerEnd.LOST: LossKind.NODE,
    ContainerEnd.PREEMPTED: LossKind.PREEMPTED,
    ContainerEnd.FAILED: LossKind.ENDED,
    ContainerEnd.EXITED: LossKind.ENDED,
    ContainerEnd.RELEASED: LossKind.ENDED,
}

AGAINST_THE_NODE = frozenset({LossKind.NODE, LossKind.SILENT, LossKind.UNABLE})

CAUSE_SLACK_S = 7.0
"""A loss noticed up to this much after a process failed may have caused it: peers of a lost task
fail at once, YARN's word comes a NodeManager heartbeat (1 s), an AM heartbeat (3 s while it is
idle) and a poll (0.5 s) later, and the nodes' clocks differ."""

LAST_LINES = 20
"""Lines of output in a verdict; the rest is in the logs."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """The process that failed first."""

    member: Member
    process: ProcessExit


# ---- into the phase ------------------------------------------------------------------------------


def stop_gang(
    ctx: StepContext,
    kind: StopKind,
    text: str,
    *,
    grace_s: float | None = None,
    to: int | None = None,
) -> None:
    """Stop every process that may run, and wait for the agents to say how they ended. ``grace_s``:
    in place of the job's usual one; ``to``: see ``Stopping``."""
    was_running = ctx.gang.phase is Phase.RUNNING
    ran_s = ctx.at_s - ctx.gang.since_s if was_running else 0.0
    grace_s = ctx.policy.stop_grace_s if grace_s is None else grace_s
    if kind is not StopKind.RESIZED:
        ctx.drop_growth(text)
    ctx.disarm(TimerKind.LAUNCH, TimerKind.RESIZE)
    ctx.enter(Phase.STOPPING, text)
    ctx.gang = replace(ctx.gang, stopping=Stopping(kind, text, was_running, ran_s, to))
    awaited = [m for m in ctx.gang.members if m.state in MAY_RUN]
    for member in awaited:
        ctx.do(StopTask(member.ask, ctx.gang.attempt, grace_s, text))
    if awaited:
        ctx.arm(TimerKind.STOP, grace_s + ctx.policy.stop_margin_s)
    settle(ctx)


def settle(ctx: StepContext) -> None:
    """Conclude as soon as every member's end is known and explained."""
    members, stopping = ctx.gang.members, ctx.gang.stopping
    if any(m.state in MAY_RUN for m in members):
        return
    wait_s = 0.0
    if stopping is not None and stopping.kind in {StopKind.FAILED, StopKind.RESIZED}:
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
    return _kind(ctx) in {StopKind.FAILED, StopKind.RESIZED}


def is_resize(ctx: StepContext, event: Event) -> bool:
    """Elastic: it is stopped for a change of size."""
    return _kind(ctx) is StopKind.RESIZED


# ---- guards: every end is known ------------------------------------------------------------------


def was_cancelled(ctx: StepContext, event: AllEnded) -> bool:
    """The job was cancelled."""
    return _kind(ctx) is StopKind.CANCELLED


def was_refused(ctx: StepContext, event: AllEnded) -> bool:
    """The job's inputs were refused."""
    return _kind(ctx) is StopKind.REFUSED


def has_succeeded(ctx: StepContext, event: AllEnded) -> bool:
    """All but parameter servers have ended well."""
    kind = _kind(ctx)
    return kind is StopKind.SUCCEEDED or (kind is StopKind.RESIZED and is_done(ctx.gang))


def has_succeeded_with_outputs(ctx: StepContext, event: AllEnded) -> bool:
    """All but parameter servers have ended well, and the job has outputs."""
    return ctx.policy.store_timeout_s is not None and has_succeeded(ctx, event)


def is_resized_as_planned(ctx: StepContext, event: AllEnded) -> bool:
    """Elastic: all have stopped for the change of size, and nothing went wrong meanwhile."""
    if _kind(ctx) is not StopKind.RESIZED or ctx.policy.size is None:
        return False
    return first_failure(ctx.gang) is None and len(keepable(ctx)) == len(ctx.gang.members)


def was_preempted(ctx: StepContext, event: AllEnded) -> bool:
    """YARN preempted a task."""
    loss = _causing_loss(ctx.gang)
    return loss is not None and loss[1].kind is LossKind.PREEMPTED


def is_fault_of_job(ctx: StepContext, event: AllEnded) -> bool:
    """An agent was unable by the job's own fault."""
    loss = _causing_loss(ctx.gang)
    return loss is not None and loss[1].kind is LossKind.UNABLE_USER


def is_retriable_failure(ctx: StepContext, event: AllEnded) -> bool:
    """A process failed first, and the user's retries are not used up."""
    if not has_user_failed(ctx, event):
        return False
    culprit = first_failure(ctx.gang)
    assert culprit is not None
    is_retriable = culprit.process.kind is not ExitKind.COMMAND_NOT_FOUND
    return is_retriable and ctx.gang.user_retries < ctx.policy.retry.on_user_failure


def has_user_failed(ctx: StepContext, event: AllEnded) -> bool:
    """A process failed first."""
    culprit = first_failure(ctx.gang)
    if culprit is None or culprit.process.kind is ExitKind.NOT_STARTED:
        return False
    return _causing_loss(ctx.gang) is None


def never_ran(ctx: StepContext, event: AllEnded) -> bool:
    """The platform is to blame, and not every process had started."""
    stopping = ctx.gang.stopping
    return stopping is not None and not stopping.was_running


# ---- operations: events --------------------------------------------------------------------------


def note_exit(ctx: StepContext, event: TaskExited) -> None:
    """The member is EXITED."""
    member = ctx.member
    has_ended = member.loss is not None and member.loss.kind is LossKind.ENDED
    is_gone = member.is_gone or has_ended
    exited = replace(
        member, state=MemberState.EXITED, exits=event.exits, loss=None, is_gone=is_gone
    )
    ctx.put(member, exited)
    settle(ctx)


def note_loss(ctx: StepContext, event: ContainerEnded | AgentUnable | AgentSilent) -> None:
    """The member is LOST; an end that nobody explains shortens STOP to a grace."""
    mark_lost(ctx, ctx.member, loss_of(event, ctx.at_s))
    settle(ctx)


def time_out(ctx: StepContext, event: TimerFired) -> None:
    """Tasks that have not said how they ended are given up."""
    ctx.is_concluded = True


def cancel(ctx: StepContext, event: CancelRequested) -> None:
    """The gang ends as CANCELLED."""
    _stop_for(ctx, StopKind.CANCELLED, cancel_text(event))


def refuse_inputs(ctx: StepContext, event: InputsRefused) -> None:
    """The gang ends as FAILED."""
    _stop_for(ctx, StopKind.REFUSED, event.message)


def conclude_late(ctx: StepContext, event: AmRestarted) -> None:
    """Conclude by what is known: YARN has killed all containers."""
    ctx.forget(*OF_AN_ATTEMPT)
    ctx.rearm()
    gone = tuple(replace(member, is_gone=True) for member in ctx.gang.members)
    ctx.gang = replace(ctx.gang, am_attempt=event.am_attempt, members=gone, growth=None)
    ctx.is_concluded = True


# ---- operations: every end is known --------------------------------------------------------------


def end_cancelled(ctx: StepContext, event: AllEnded) -> None:
    """Release all; Finish with CANCELLED."""
    finish(ctx, VerdictKind.CANCELLED, ExitCode.CANCELLED, _stopping(ctx).text)


def end_refused(ctx: StepContext, event: AllEnded) -> None:
    """Release all; Finish with BAD_SPEC."""
    finish_refused(ctx, _stopping(ctx).text)


def succeed(ctx: StepContext, event: AllEnded) -> None:
    """Release all; Finish with OK."""
    finish(ctx, VerdictKind.SUCCEEDED, ExitCode.OK, success_text(ctx.gang))


def regroup(ctx: StepContext, event: AllEnded) -> None:
    """Release those that do not stay; a new attempt with the others and those that join."""
    gang, size, stopping = ctx.gang, ctx.policy.size, _stopping(ctx)
    assert size is not None
    joining = gang.growth.members if gang.growth is not None else ()
    rung = gang.growth.rung if gang.growth is not None else None
    if any(
        member.grant is not None
        and node_blacklist.why_excluded(gang, ctx.policy, member.grant.node, ctx.at_s)
        for member in joining
    ):
        ctx.drop_growth("a node is on the blacklist by now")
        joining, rung = (), None
    stay = gang.members
    if stopping.to is not None:
        stay = to_stay(stay, size.role, stopping.to)
    relaunch(ctx, (*stay, *joining), stopping.text, rung)


def restart_preempted(ctx: StepContext, event: AllEnded) -> None:
    """Release all, for free; DrawJitter. Elastic: relaunch those that are left, if enough."""
    _drop_failed_growth(ctx)
    member, loss = _cause(ctx)
    text = _loss_text(member, loss)
    count_preemption(ctx, _stopping(ctx).ran_s)
    if not _goes_on_smaller(ctx, text):
        back_off(ctx, f"{text}; a preempted gang starts again for free")


def fail_job_by_agent(ctx: StepContext, event: AllEnded) -> None:
    """Release all; Finish with USER_FAILED."""
    _drop_failed_growth(ctx)
    finish(ctx, VerdictKind.FAILED, ExitCode.USER_FAILED, _loss_text(*_cause(ctx)))


def retry_for_user(ctx: StepContext, event: AllEnded) -> None:
    """Release all, for one of the user's retries; DrawJitter."""
    text = _judge_culprit(ctx)
    retries = ctx.gang.user_retries + 1
    ctx.gang = replace(ctx.gang, user_retries=retries)
    back_off(ctx, f"{text}; retry {retries} of {ctx.policy.retry.on_user_failure}")


def fail_job(ctx: StepContext, event: AllEnded) -> None:
    """Release all; Finish with USER_FAILED and the last lines of the first cause."""
    text = _judge_culprit(ctx)
    culprit = first_failure(ctx.gang)
    assert culprit is not None
    lines = culprit.process.last_lines[-LAST_LINES:]
    quoted = "".join(f"\n  | {line}" for line in lines)
    message = f"{text}\nits last lines:{quoted}" if lines else f"{text}; it printed no output"
    hint = f"Read all of its output with: yarnam logs JOB --task {culprit.member.name}"
    finish(ctx, VerdictKind.FAILED, ExitCode.USER_FAILED, message, hint)


def restart_unlaunched(ctx: StepContext, event: AllEnded) -> None:
    """For one failed attempt: keep what is well and replace the lost, else release all and
    DrawJitter; with no attempt left Finish with ATTEMPTS_EXHAUSTED."""
    _drop_failed_growth(ctx)
    loss = _causing_loss(ctx.gang)
    text = _platform_text(ctx)
    failures = ctx.gang.failures + 1
    if loss is None or failures >= ctx.policy.attempts or not can_replace(ctx):
        fail_attempt(ctx, text, ExitCode.ATTEMPTS_EXHAUSTED)
        return
    ctx.gang = replace(ctx.gang, failures=failures)
    begin_replacing(ctx, f"{text}; failed attempt {failures} of {ctx.policy.attempts}")


def restart(ctx: StepContext, event: AllEnded) -> None:
    """For one restart: keep what is well and replace the lost, else release all and DrawJitter;
    with no restart left Finish with ATTEMPTS_EXHAUSTED. Elastic: relaunch those that are left."""
    _drop_failed_growth(ctx)
    text, allowed = _platform_text(ctx), ctx.policy.retry.max_restarts
    if ctx.gang.restarts < allowed:
        ctx.gang = replace(ctx.gang, restarts=ctx.gang.restarts + 1)
        text = f"{text}; restart {ctx.gang.restarts} of {allowed}"
        if can_replace(ctx):
            begin_replacing(ctx, text)
        elif not _goes_on_smaller(ctx, text):
            back_off(ctx, text)
    elif not _goes_on_smaller(ctx, text):
        message = f"{text}; all {allowed} restarts are used up"
        hint = "Submit it again, or allow more retry.max_restarts."
        finish(ctx, VerdictKind.FAILED, ExitCode.ATTEMPTS_EXHAUSTED, message, hint)


# ---- losses --------------------------------------------------------------------------------------


def loss_of(event: ContainerEnded | AgentUnable | AgentSilent, now_s: float) -> Loss:
    """What became of a launched member."""
    if isinstance(event, ContainerEnded):
        text = event.diagnostics or f"YARN says {event.end.value}"
        return Loss(LOSS_OF_END[event.end], event.at_s, now_s, text)
    if isinstance(event, AgentUnable):
        kind = LossKind.UNABLE_USER if event.is_user_fault else LossKind.UNABLE
        return Loss(kind, event.at_s, now_s, event.message)
    since_s = event.at_s - event.silent_s
    return Loss(LossKind.SILENT, since_s, now_s, f"not heard of for {event.silent_s:.0f} s")


def mark_lost(ctx: StepContext, member: Member, loss: Loss) -> None:
    """A launched member is gone. What speaks against its node is a strike; a container that ended
    unexplained does not: it may have been the program's own doing."""
    ctx.put(member, replace(member, state=MemberState.LOST, loss=loss))
    if loss.kind is LossKind.NODE:
        # A NodeManager's end is not the end of what it started: its agent may go on training.
        ctx.release(member, "its node is lost")
    if member.grant is not None and loss.kind in AGAINST_THE_NODE:
        why = f"{loss.kind.value}: {loss.text}"
        is_full = loss.kind is LossKind.NODE
        node_blacklist.strike(ctx, member.grant.node, why, is_full=is_full)


def first_loss(gang: Gang) -> tuple[Member, Loss] | None:
    """The loss that came first; a preemption before all others, because YARN said so itself."""
    losses = [(member, member.loss) for member in gang.members if member.loss is not None]
    return min(
        losses,
        key=lambda pair: (pair[1].kind is not LossKind.PREEMPTED, pair[1].at_s),
        default=None,
    )


def first_failure(gang: Gang) -> Culprit | None:
    """The failing process that ended first: the others mostly failed because of it."""
    culprits = [
        Culprit(member, process)
        for member in gang.members
        for process in member.exits
        if process.kind not in HARMLESS
    ]
    return min(culprits, key=lambda c: (c.process.ended_at_s, c.member.first_rank), default=None)


def is_done(gang: Gang, ended_well: Member | None = None) -> bool:
    """All have succeeded (``ended_well`` does so now); parameter servers need not end."""
    needed = [m for m in gang.members if m.target.role != PS_ROLE] or list(gang.members)
    return all(member.is_ok or member is ended_well for member in needed)


def to_stay(members: tuple[Member, ...], role: str, count: int) -> tuple[Member, ...]:
    """Which ``count`` tasks of the role stay, with all of the other roles: those in the racks, and
    on the nodes, with the most of them, so that the rest is close together."""
    grants = [m.grant for m in members if m.target.role == role and m.grant is not None]
    racks: dict[str, int] = {}
    nodes: dict[str, int] = {}
    for grant in grants:
        racks[grant.rack] = racks.get(grant.rack, 0) + 1
        nodes[grant.node] = nodes.get(grant.node, 0) + 1

    def key(member: Member) -> tuple[int, str, int, str, int]:
        assert member.grant is not None
        rack, node = member.grant.rack, member.grant.node
        return -racks[rack], rack, -nodes[node], node, member.first_rank

    mine = [member for member in members if member.target.role == role]
    chosen = {member.ask for member in sorted(mine, key=key)[:count]}
    return tuple(m for m in members if m.target.role != role or m.ask in chosen)


def _causing_loss(gang: Gang) -> tuple[Member, Loss] | None:
    """The first loss, unless a process had failed clearly before it."""
    loss, culprit = first_loss(gang), first_failure(gang)
    if loss is None or culprit is None:
        return loss
    return loss if loss[1].at_s <= culprit.process.ended_at_s + CAUSE_SLACK_S else None


def _cause(ctx: StepContext) -> tuple[Member, Loss]:
    loss = _causing_loss(ctx.gang)
    assert loss is not None
    return loss


def _judge_culprit(ctx: StepContext) -> str:
    """What the user's process did; a crash may speak against its node."""
    _drop_failed_growth(ctx)
    culprit = first_failure(ctx.gang)
    assert culprit is not None
    text = culprit_text(culprit)
    if culprit.process.kind is ExitKind.SIGNAL and culprit.member.grant is not None:
        node_blacklist.crashed(ctx, culprit.member.grant.node, text)
    return text


def _goes_on_smaller(ctx: StepContext, text: str) -> bool:
    """An elastic gang of which enough is left shrinks instead of dying."""
    size, stay = ctx.policy.size, tuple(keepable(ctx))
    if size is None or not is_enough(ctx.policy, stay):
        return False
    if ctx.gang.requested_size is not None:
        stay = to_stay(stay, size.role, ctx.gang.requested_size)
    relaunch(ctx, stay, f"{text}; going on with {len(stay)} of {ctx.gang.size} tasks")
    return True


def _drop_failed_growth(ctx: StepContext) -> None:
    ctx.drop_growth("a task was lost while the gang was stopped")


def _stop_for(ctx: StepContext, kind: StopKind, text: str) -> None:
    stopping = replace(_stopping(ctx), kind=kind, text=text, to=None)
    ctx.gang = replace(ctx.gang, stopping=stopping, reason=text)
    settle(ctx)


def _stopping(ctx: StepContext) -> Stopping:
    assert ctx.gang.stopping is not None
    return ctx.gang.stopping


def _kind(ctx: StepContext) -> StopKind:
    return _stopping(ctx).kind


# ---- texts ---------------------------------------------------------------------------------------


def success_text(gang: Gang) -> str:
    processes = sum(member.target.processes_per_task for member in gang.members)
    return f"all {processes} processes of {len(gang.members)} tasks ended well"


def culprit_text(culprit: Culprit) -> str:
    """``worker-1 (rank 3) on node2 exited with code 1``."""
    member, process = culprit.member, culprit.process
    rank = member.first_rank + process.local_rank
    node = f" on {member.grant.node}" if member.grant else ""
    return f"{member.name} (rank {rank}){node} {exit_text(process)}"


def exits_text(exits: tuple[ProcessExit, ...]) -> str:
    """How the first failing process of a task ended."""
    failing = [process for process in exits if process.kind not in HARMLESS]
    first = min(failing, key=lambda process: process.ended_at_s, default=None)
    return exit_text(first) if first else "stopped without a stop request"


def exit_text(process: ProcessExit) -> str:
    """How a process ended, in words."""
    if process.kind is ExitKind.NON_ZERO:
        return f"exited with code {process.code}"
    if process.kind is ExitKind.SIGNAL:
        return f"was killed by {signal_name(process.signal)}"
    return {
        ExitKind.OK: "ended well",
        ExitKind.COMMAND_NOT_FOUND: "could not start: command not found",
        ExitKind.NOT_STARTED: "could not be started",
        ExitKind.STOPPED: "was stopped",
    }[process.kind]


def signal_name(number: int) -> str:
    """``SIGKILL``; of a number without a name ``signal 99``."""
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def _loss_text(member: Member, loss: Loss) -> str:
    node = f" on {member.grant.node}" if member.grant else ""
    return f"{member.name}{node}: {loss.kind.value}: {loss.text}"


def _platform_text(ctx: StepContext) -> str:
    loss, culprit = _causing_loss(ctx.gang), first_failure(ctx.gang)
    if loss is not None:
        return _loss_text(*loss)
    return culprit_text(culprit) if culprit else _stopping(ctx).text

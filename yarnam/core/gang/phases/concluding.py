"""Every end of a stopped gang is known (``AllEnded``): find the first cause, and decide what
follows.

A process's evidence shows whether its failure is transient (``yarnam.core.failures``). Budgets
count restarts without progress: they reset when the gang got further than ever before.
"""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.failures.retry_decision import (
    RetryBudget,
    RetryDecision,
    RetryState,
    decide_retry,
)
from yarnam.core.gang import node_blacklist
from yarnam.core.gang.attempts import (
    back_off,
    count_preemption,
    fail_attempt,
    finish,
    finish_refused,
)
from yarnam.core.gang.context import AllEnded, StepContext
from yarnam.core.gang.phases.barrier import is_enough, relaunch
from yarnam.core.gang.phases.first_cause import (
    cause_of,
    causing_loss,
    culprit_text,
    ended_text,
    finding_text,
    first_failure,
    loss_text,
)
from yarnam.core.gang.phases.replacing import begin_replacing, can_replace, keepable
from yarnam.core.gang.phases.stopping import PASSING, stopping_of
from yarnam.core.gang.roles.completion import is_complete
from yarnam.core.gang.state import WELL_ENDED, Gang, Loss, LossKind, Member, StopKind
from yarnam.core.model.outcomes import ExitKind, RetryAction, VerdictKind
from yarnam.core.model.printable import duration
from yarnam.errors import Blame, ExitCode

LAST_LINES = 20
"""Lines of output in a verdict; the rest is in the logs."""


# ---- guards -------------------------------------------------------------------------------------


def was_cancelled(ctx: StepContext, event: AllEnded) -> bool:
    """The job was cancelled."""
    return stopping_of(ctx).kind is StopKind.CANCELLED


def was_refused(ctx: StepContext, event: AllEnded) -> bool:
    """The job's inputs were refused."""
    return stopping_of(ctx).kind is StopKind.REFUSED


def has_succeeded(ctx: StepContext, event: AllEnded) -> bool:
    """Every role that has to end is complete."""
    kind = stopping_of(ctx).kind
    may_be_done = kind in PASSING or kind in {StopKind.SUSPENDED, StopKind.TIMED_OUT}
    is_done = may_be_done and is_complete(ctx.gang.members, ctx.policy)
    return kind in WELL_ENDED or is_done


def has_succeeded_with_outputs(ctx: StepContext, event: AllEnded) -> bool:
    """Every role that has to end is complete, and the job has outputs."""
    return ctx.policy.store_timeout_s is not None and has_succeeded(ctx, event)


def has_timed_out(ctx: StepContext, event: AllEnded) -> bool:
    """It has run for its time_limit."""
    return stopping_of(ctx).kind is StopKind.TIMED_OUT


def is_resized_as_planned(ctx: StepContext, event: AllEnded) -> bool:
    """Elastic: all have stopped for the change of size, and nothing went wrong meanwhile."""
    if stopping_of(ctx).kind is not StopKind.RESIZED or ctx.policy.size is None:
        return False
    return first_failure(ctx.gang) is None and len(keepable(ctx)) == len(ctx.gang.members)


def has_left(ctx: StepContext, event: AllEnded) -> bool:
    """YARN had announced that it would take containers."""
    return stopping_of(ctx).kind is StopKind.LEFT


def was_preempted(ctx: StepContext, event: AllEnded) -> bool:
    """YARN preempted a task."""
    loss = causing_loss(ctx.gang)
    return loss is not None and loss[1].kind is LossKind.PREEMPTED


def is_fault_of_job(ctx: StepContext, event: AllEnded) -> bool:
    """An agent was unable by the job's own fault."""
    loss = causing_loss(ctx.gang)
    return loss is not None and loss[1].kind is LossKind.UNABLE_USER


def is_unmet(ctx: StepContext, event: AllEnded) -> bool:
    """A task did not do what its role has to, and nothing else was the cause."""
    is_clear = first_failure(ctx.gang) is None and causing_loss(ctx.gang) is None
    return stopping_of(ctx).kind is StopKind.UNMET and is_clear


def is_free_retry(ctx: StepContext, event: AllEnded) -> bool:
    """The first cause is transient, and has not lasted for too long."""
    return budget(ctx) is RetryBudget.FREE


def is_user_retry(ctx: StepContext, event: AllEnded) -> bool:
    """A process failed first by the job's own fault, and its retries are not used up."""
    return budget(ctx) is RetryBudget.USER


def is_restart(ctx: StepContext, event: AllEnded) -> bool:
    """A process failed first in a way that can pass, and restarts are left."""
    return budget(ctx) is RetryBudget.RESTARTS


def is_memory_retry(ctx: StepContext, event: AllEnded) -> bool:
    """A process ran out of memory first, and the containers can be enlarged."""
    return budget(ctx) is RetryBudget.LARGER


def has_failed_for_good(ctx: StepContext, event: AllEnded) -> bool:
    """A process failed first, and is not to be started again."""
    return budget(ctx) is RetryBudget.NONE


def never_ran(ctx: StepContext, event: AllEnded) -> bool:
    """The platform is to blame, and not every process had started."""
    stopping = ctx.gang.stopping
    return stopping is not None and not stopping.was_running


# ---- operations ----------------------------------------------------------------------------------


def end_cancelled(ctx: StepContext, event: AllEnded) -> None:
    """Release all; Finish with CANCELLED."""
    finish(ctx, VerdictKind.CANCELLED, ExitCode.CANCELLED, stopping_of(ctx).text)


def end_refused(ctx: StepContext, event: AllEnded) -> None:
    """Release all; Finish with BAD_SPEC."""
    finish_refused(ctx, stopping_of(ctx).text)


def end_at_limit(ctx: StepContext, event: AllEnded) -> None:
    """Release all; Finish with TIME_LIMIT."""
    note_progress(ctx, counts_failure=False)
    hint = "Submit it again to continue from its checkpoint, or allow a longer time_limit."
    finish(ctx, VerdictKind.FAILED, ExitCode.TIME_LIMIT, stopping_of(ctx).text, hint)


def succeed(ctx: StepContext, event: AllEnded) -> None:
    """Release all; Finish with OK."""
    finish(ctx, VerdictKind.SUCCEEDED, ExitCode.OK, success_text(ctx.gang))


def regroup(ctx: StepContext, event: AllEnded) -> None:
    """Release those that do not stay; a new attempt with the others and those that join."""
    gang, size, stopping = ctx.gang, ctx.policy.size, stopping_of(ctx)
    assert size is not None
    joining = gang.resizing.growth.members if gang.resizing.growth is not None else ()
    rung = gang.resizing.growth.rung if gang.resizing.growth is not None else None
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


def leave(ctx: StepContext, event: AllEnded) -> None:
    """Release all, for free; DrawJitter. Elastic: relaunch those that are left, if enough."""
    _drop_failed_growth(ctx)
    _restart_for_free(ctx, stopping_of(ctx).text)


def restart_preempted(ctx: StepContext, event: AllEnded) -> None:
    """Release all, for free; DrawJitter. Elastic: relaunch those that are left, if enough."""
    _drop_failed_growth(ctx)
    _restart_for_free(ctx, loss_text(*_cause(ctx)))


def _restart_for_free(ctx: StepContext, text: str) -> None:
    note_progress(ctx, counts_failure=False)
    count_preemption(ctx, stopping_of(ctx).ran_s)
    if not _goes_on_smaller(ctx, text):
        back_off(ctx, f"{text}; a preempted gang starts again for free")


def fail_job_by_agent(ctx: StepContext, event: AllEnded) -> None:
    """Release all; Finish with USER_FAILED."""
    _drop_failed_growth(ctx)
    finish(ctx, VerdictKind.FAILED, ExitCode.USER_FAILED, loss_text(*_cause(ctx)))


def fail_unmet(ctx: StepContext, event: AllEnded) -> None:
    """Release all; Finish with USER_FAILED."""
    stopping = stopping_of(ctx)
    finish(ctx, VerdictKind.FAILED, ExitCode.USER_FAILED, stopping.text, stopping.hint)


def retry_for_free(ctx: StepContext, event: AllEnded) -> None:
    """Release all, for free; DrawJitter."""
    text = _judge(ctx)
    retries = ctx.retries
    since_s = ctx.at_s if retries.transient_since_s is None else retries.transient_since_s
    row = retries.transients_in_row + 1
    ctx.retries = replace(retries, transients_in_row=row, transient_since_s=since_s)
    left_s = ctx.policy.transient_limit_s - (ctx.at_s - since_s)
    cause = stopping_of(ctx).cause
    hint = f": {cause.finding.hint}" if cause is not None and cause.finding.hint else ""
    back_off(ctx, f"{text}; retried for free, for another {duration(left_s)} at most{hint}")


def retry_for_user(ctx: StepContext, event: AllEnded) -> None:
    """Release all, for one of the user's retries; DrawJitter."""
    text = _judge(ctx)
    retries = ctx.retries.user_retries + 1
    ctx.retries = replace(ctx.retries, user_retries=retries)
    back_off(ctx, f"{text}; retry {retries} of {ctx.policy.retry.on_user_failure}")


def enlarge(ctx: StepContext, event: AllEnded) -> None:
    """Release all, for free; DrawJitter, for larger containers."""
    text = _judge(ctx)
    level, most = ctx.retries.memory_level + 1, ctx.policy.memory_levels
    ctx.retries = replace(ctx.retries, memory_level=level, stuck=0)
    back_off(ctx, f"{text}; larger containers (retry.more_memory, {level} of {most} times)")


def restart_failed(ctx: StepContext, event: AllEnded) -> None:
    """For one restart: start again in the containers that are held, without a node that may be to
    blame; where they cannot be kept, or an input is to be checked first, release all and
    DrawJitter."""
    text = _judge(ctx)
    culprit = first_failure(ctx.gang)
    if culprit is not None and culprit.action is RetryAction.ELSEWHERE:
        member = culprit.member
        if member.grant is not None:
            node_blacklist.strike(ctx, member.grant.node, text)
        if not member.is_gone:
            # It ended on its own: to be released, and replaced.
            ctx.put(member, replace(member, is_gone=True))
    ctx.retries = replace(ctx.retries, restarts=ctx.retries.restarts + 1)
    text = f"{text}; restart {ctx.retries.restarts} of {ctx.policy.retry.max_restarts}"
    if culprit is not None and culprit.action is RetryAction.WITHOUT_INPUT:
        # A check takes seconds to minutes: nothing is held meanwhile.
        _drop_failed_growth(ctx)
        back_off(ctx, f"{text}, without the files that are proved corrupt by then")
        return
    _start_again(ctx, text)


def fail_job(ctx: StepContext, event: AllEnded) -> None:
    """Release all; Finish with USER_FAILED, or ATTEMPTS_EXHAUSTED where the infrastructure is to
    blame; with the first cause, what followed it, and its last lines."""
    decision = _decision(ctx)
    text = _judge(ctx)
    cause = stopping_of(ctx).cause
    assert cause is not None
    assert decision is not None
    lines = [text]
    if cause.finding.rule:
        lines.append(cause.finding.explanation)
    if cause.then:
        lines.append(f"{_then_words(ctx)}: {', '.join(cause.then)}")
    if decision.why:
        lines.append(f"not started again: {decision.why}")
    culprit = first_failure(ctx.gang)
    if culprit is not None and culprit.member.name == cause.task:
        last = culprit.process.last_lines[-LAST_LINES:]
        lines.append("its last lines:" if last else "it printed no output")
        lines += [f"  | {line}" for line in last]
    is_user = cause.finding.blame is Blame.USER
    code = ExitCode.USER_FAILED if is_user else ExitCode.ATTEMPTS_EXHAUSTED
    hint = f"Read all of its output with: yarnam logs JOB --task {cause.task}"
    if cause.finding.rule:
        hint = f"{cause.finding.hint}\n{hint}\nSee how this was found with: yarnam explain JOB"
    finish(ctx, VerdictKind.FAILED, code, "\n".join(lines), hint)


def restart_unlaunched(ctx: StepContext, event: AllEnded) -> None:
    """For one failed attempt: keep what is well and replace the lost, else release all and
    DrawJitter; with no attempt left Finish with ATTEMPTS_EXHAUSTED."""
    _drop_failed_growth(ctx)
    loss = causing_loss(ctx.gang)
    text = platform_text(ctx)
    failures = ctx.acquisition.failures + 1
    if loss is None or failures >= ctx.policy.attempts or not can_replace(ctx):
        fail_attempt(ctx, text, ExitCode.ATTEMPTS_EXHAUSTED)
        return
    ctx.acquisition = replace(ctx.acquisition, failures=failures)
    begin_replacing(ctx, f"{text}; failed attempt {failures} of {ctx.policy.attempts}")


def restart(ctx: StepContext, event: AllEnded) -> None:
    """For one restart: keep what is well and replace the lost, else release all and DrawJitter;
    with no restart left Finish with ATTEMPTS_EXHAUSTED. Elastic: relaunch those that are left."""
    _drop_failed_growth(ctx)
    text, allowed = platform_text(ctx), ctx.policy.retry.max_restarts
    note_progress(ctx, counts_failure=False)
    if ctx.retries.restarts < allowed:
        ctx.retries = replace(ctx.retries, restarts=ctx.retries.restarts + 1)
        _start_again(ctx, f"{text}; restart {ctx.retries.restarts} of {allowed}")
    elif not _goes_on_smaller(ctx, text):
        message = f"{text}; all {allowed} restarts are used up"
        hint = "Submit it again, or allow more retry.max_restarts."
        finish(ctx, VerdictKind.FAILED, ExitCode.ATTEMPTS_EXHAUSTED, message, hint)


def _then_words(ctx: StepContext) -> str:
    return "where they were" if stopping_of(ctx).hang is not None else "after it"


# ---- judging -------------------------------------------------------------------------------------


def budget(ctx: StepContext) -> RetryBudget | None:
    """The budget that pays for a retry; ``None`` if no process was the first cause."""
    decision = _decision(ctx)
    return None if decision is None else decision.budget


def _decision(ctx: StepContext) -> RetryDecision | None:
    """Decide on a retry after a process failed first, or after YARN ended a container for what it
    did; ``None`` if the first cause is another one."""
    gang, retries, policy = ctx.gang, ctx.retries, ctx.policy
    action = action_after(gang)
    if action is None:
        return None
    further, stuck = progress(gang)
    free_left_s = policy.transient_limit_s
    if retries.transient_since_s is not None and not further:
        free_left_s -= ctx.at_s - retries.transient_since_s
    state = RetryState(
        restarts_left=policy.retry.max_restarts - (0 if further else retries.restarts),
        user_retries_left=policy.retry.on_user_failure - (0 if further else retries.user_retries),
        free_left_s=free_left_s,
        stuck=stuck,
        step=retries.furthest_step if not further else _step(gang),
        leaves_out_inputs=policy.leaves_out_inputs,
        has_more_memory=retries.memory_level < policy.memory_levels,
    )
    return decide_retry(action, state)


def action_after(gang: Gang) -> RetryAction | None:
    """The retry action of the first cause's rule; ``None`` if no process was the first cause."""
    if gang.stopping is not None and gang.stopping.hang is not None:
        return gang.stopping.hang.finding.action
    loss = causing_loss(gang)
    if loss is not None:
        is_known = loss[1].kind is LossKind.ENDED and loss[1].finding is not None
        return loss[1].finding.action if is_known and loss[1].finding else None
    culprit = first_failure(gang)
    if culprit is None or culprit.process.kind is ExitKind.NOT_STARTED:
        return None
    return culprit.action


def _step(gang: Gang) -> int | None:
    """The furthest step that a process of this attempt reported."""
    steps = [p.step for m in gang.members for p in m.exits if p.step is not None]
    return max(steps, default=None)


def progress(gang: Gang) -> tuple[bool, int]:
    """Whether this attempt got further than all before, and how many failures in a row have not,
    including this one; 0 if no attempt has reported a step."""
    step, furthest = _step(gang), gang.retries.furthest_step
    if step is not None and (furthest is None or step > furthest):
        return True, 1
    return False, gang.retries.stuck + 1 if furthest is not None else 0


def note_progress(ctx: StepContext, *, counts_failure: bool = True) -> None:
    """Set the budgets back where the gang got further. ``counts_failure``: else it was not the
    job's doing that it ended."""
    retries = ctx.retries
    further, stuck = progress(ctx.gang)
    stopping = stopping_of(ctx)
    if further:
        step = _step(ctx.gang)
        retries = replace(retries, furthest_step=step, restarts=0, user_retries=0, stuck=0)
    if further or stopping.ran_s >= ctx.policy.steady_run_s:
        retries = replace(retries, transients_in_row=0, transient_since_s=None)
    if counts_failure:
        retries = replace(retries, stuck=stuck)
    ctx.retries = retries


def _judge(ctx: StepContext) -> str:
    """Note the first cause and how far the gang was; a crash may speak against its node."""
    _drop_failed_growth(ctx)
    gang = ctx.gang
    ctx.gang = replace(gang, stopping=replace(stopping_of(ctx), cause=cause_of(gang)))
    note_progress(ctx)
    if (hang := stopping_of(ctx).hang) is not None:
        return f"the gang hung{finding_text(hang.finding)}"
    loss, culprit = causing_loss(gang), first_failure(gang)
    if loss is not None:
        return f"{loss_text(*loss)}{finding_text(loss[1].finding)}"
    assert culprit is not None
    text = culprit_text(culprit)
    if culprit.process.kind is ExitKind.SIGNAL and culprit.member.grant is not None:
        node_blacklist.crashed(ctx, culprit.member.grant.node, text)
    return text


def _start_again(ctx: StepContext, text: str) -> None:
    """In place where that is possible, else smaller, else by a new acquisition."""
    if can_replace(ctx):
        begin_replacing(ctx, text)
    elif not _goes_on_smaller(ctx, text):
        back_off(ctx, text)


def _goes_on_smaller(ctx: StepContext, text: str) -> bool:
    """An elastic gang of which enough is left shrinks instead of dying."""
    size, stay = ctx.policy.size, tuple(keepable(ctx))
    if size is None or not is_enough(ctx.policy, stay):
        return False
    if ctx.size_request.tasks is not None:
        stay = to_stay(stay, size.role, ctx.size_request.tasks)
    relaunch(ctx, stay, f"{text}; going on with {len(stay)} of {ctx.gang.size} tasks")
    return True


def _drop_failed_growth(ctx: StepContext) -> None:
    ctx.drop_growth("a task was lost while the gang was stopped")


def _cause(ctx: StepContext) -> tuple[Member, Loss]:
    loss = causing_loss(ctx.gang)
    assert loss is not None
    return loss


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


# ---- words ---------------------------------------------------------------------------------------


def success_text(gang: Gang) -> str:
    stopping = gang.stopping
    text = _ended_well(gang)
    if stopping is not None and stopping.kind is StopKind.FLAT:
        text = f"{stopping.text}; {text}"
    reporting = [p for m in gang.members for p in m.exits if p.step is not None]
    if reporting and all(process.has_only_restored for process in reporting):
        step = max(process.step or 0 for process in reporting)
        text += f"; the checkpoint of step {step} was restored, and no step was reported after it:"
        text += " there was nothing left to train"
    return text


def _ended_well(gang: Gang) -> str:
    """``3 of 4 worker tasks ended well, 2 of ps were stopped; tolerated: tensorboard-0
    exited with code 1``."""
    if all(member.is_ok for member in gang.members):
        processes = sum(member.target.processes_per_task for member in gang.members)
        return f"all {processes} processes of {len(gang.members)} tasks ended well"
    parts: list[str] = []
    for role in dict.fromkeys(member.target.role for member in gang.members):
        own = [member for member in gang.members if member.target.role == role]
        well = sum(member.is_ok for member in own)
        rest = sum(not (m.is_ok or m.is_tolerated or m.is_waiting) for m in own)
        if well:
            of = f"{well} of {len(own)}" if well < len(own) else f"{well}"
            parts.append(f"{of} {role} task{'s' if len(own) > 1 else ''} ended well")
        if rest:
            parts.append(f"{rest} {role} task{'s' if rest > 1 else ''} stopped then")
    text = ", ".join(parts)
    failed = [f"{m.name} {ended_text(m)}" for m in gang.members if m.is_tolerated]
    return text + (f"; tolerated: {', '.join(failed)}" if failed else "")


def platform_text(ctx: StepContext) -> str:
    """Describe the causing loss, or else the first failure."""
    loss, culprit = causing_loss(ctx.gang), first_failure(ctx.gang)
    if loss is not None:
        return loss_text(*loss)
    return culprit_text(culprit) if culprit else stopping_of(ctx).text

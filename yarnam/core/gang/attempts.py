"""How attempts begin and end, and with them the job: the history, the back-off, the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from yarnam.core.gang.context import StepContext
from yarnam.core.gang.state import Gang, Member, MemberState
from yarnam.core.model.actions import DrawJitter, Finish
from yarnam.core.model.events import (
    AmRestarted,
    BrokerFailed,
    CancelRequested,
    Event,
    InputsRefused,
    SuspendRequested,
    TimerKind,
)
from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_status import AttemptRecord, Phase
from yarnam.core.model.outcomes import FirstCause, Verdict, VerdictKind
from yarnam.core.model.plans import Rung, Target
from yarnam.errors import ExitCode

FINAL_PHASE = {
    VerdictKind.SUCCEEDED: Phase.SUCCEEDED,
    VerdictKind.FAILED: Phase.FAILED,
    VerdictKind.CANCELLED: Phase.CANCELLED,
}

HISTORY_SHOWN = 10
"""Attempts in a verdict: YARN's diagnostics should still have room for what to do next."""

OF_AN_ATTEMPT = tuple(kind for kind in TimerKind if kind not in {TimerKind.WAIT, TimerKind.STORE})
"""Timers that end with the attempt. WAIT goes over all of them until the gang runs."""


OF_THE_PROGRAM = frozenset({ExitCode.USER_FAILED, ExitCode.ATTEMPTS_EXHAUSTED})

PRE_RUN_HINT = (
    "Nothing of the gang was asked for. A program that cannot run as one process of one needs "
    "pre_run: off."
)


def begin_attempt(
    ctx: StepContext, attempt: int, rung: Rung, kept: Iterable[Member] = (), *, asked: int = 0
) -> None:
    """A new attempt, by this rung, with the members that are kept: their agents are parked as at
    the first barrier. ``asked``: how many containers it asks for."""
    members = tuple(
        replace(
            member,
            state=MemberState.READY,
            exits=(),
            loss=None,
            is_tolerated=False,
            is_waiting=False,
            is_serving=False,
        )
        for member in kept
    )
    record = AttemptRecord(
        attempt=attempt,
        rung=rung.number,
        level=rung.level.name,
        started_at_s=ctx.at_s,
        asked=asked,
        kept=len(members),
        is_pre_run=ctx.gang.is_pre_run,
    )
    ctx.gang = replace(
        ctx.gang,
        attempt=attempt,
        rung=rung,
        members=members,
        size=asked + len(members),
        stopping=None,
        history=(*ctx.gang.history, record),
        acquisition=replace(
            ctx.acquisition, next_number=0, refused_plans=0, misfits=0, refusals=(), reasks=0
        ),
        resizing=replace(
            ctx.resizing, growth=None, leaving=(), group=0, group_before=0, grouped=()
        ),
    )


def next_number(gang: Gang) -> int:
    """The number of the next attempt: they only grow, and each is used once."""
    return len(gang.history) + 1


def close_attempt(ctx: StepContext, outcome: str) -> None:
    """Write the end of the current attempt into the history, if it has begun and not ended."""
    history = ctx.gang.history
    if not history or history[-1].ended_at_s is not None:
        return
    record = history[-1]
    mine = [m for m in ctx.gang.members if m.ask.attempt == record.attempt]
    granted = ctx.gang.granted_in(record.attempt)
    levels = Counter(m.level.name for m in granted)
    waited = Counter(_asked_where(m.target) for m in mine if m.state is MemberState.ASKED)
    if ctx.gang.search is not None:
        waited.update(_asked_where(target) for target in ctx.gang.search.missing)
    ended = replace(
        record,
        ended_at_s=ctx.at_s,
        granted=len(granted),
        outcome=outcome,
        granted_by_level=tuple(levels.items()),
        missing=tuple(f"{count} {where}" for where, count in waited.items()),
        cause=ctx.gang.stopping.cause if ctx.gang.stopping else None,
    )
    ctx.gang = replace(ctx.gang, history=(*history[:-1], ended))


def fail_attempt(
    ctx: StepContext,
    outcome: str,
    code: ExitCode = ExitCode.GANG_TIMEOUT,
    *,
    late: Iterable[NodeId] = (),
) -> None:
    """Count a failed acquisition: back off, or finish the job after its last attempt. ``late``:
    nodes where tasks were not ready in time."""
    close_attempt(ctx, outcome)
    # The planner learns what an agent found wrong with a node. The node is out of bounds only
    # within this attempt: the whole gang may well fit on the nodes that did not suit the other
    # tasks.
    unfit = (refusal.node for refusal in ctx.acquisition.refusals if refusal.is_unfit)
    avoid = tuple(dict.fromkeys((*_not_granted(ctx.gang), *late, *unfit)))
    ctx.acquisition = replace(ctx.acquisition, failures=ctx.acquisition.failures + 1, avoid=avoid)
    if ctx.acquisition.failures < ctx.policy.attempts:
        back_off(ctx, outcome)
        return
    count = ctx.acquisition.failures
    what = "pre-run" if ctx.gang.is_pre_run else "gang"
    message = f"the {what} could not be started in {count} attempt{'s' if count != 1 else ''}"
    finish(
        ctx,
        VerdictKind.FAILED,
        code,
        f"{message}:\n{history_text(ctx.gang)}",
        "Submit it again when the cluster has more free capacity, or allow more gang.attempts, "
        "a longer gang.hold_timeout or gang.localize_timeout, or a looser placement.",
    )


def back_off(ctx: StepContext, reason: str) -> None:
    """Hold nothing, wait a random while, then try again; unless all waiting is over."""
    close_attempt(ctx, reason)
    deadline_s = ctx.gang.deadline_s(TimerKind.WAIT)
    if deadline_s is not None and ctx.at_s >= deadline_s:
        fail_wait(ctx, reason)
        return
    hold_nothing(ctx, Phase.BACKING_OFF, reason)
    if deadline_s is None:
        ctx.arm(TimerKind.WAIT, ctx.policy.gang.wait_timeout_s)
    ctx.do(DrawJitter(ctx.gang.attempt))


def hold_nothing(ctx: StepContext, phase: Phase, reason: str) -> None:
    """Release all, and enter a phase in which nothing is held."""
    ctx.release_all(reason)
    ctx.disarm(*OF_AN_ATTEMPT)
    ctx.enter(phase, reason)
    ctx.gang = replace(ctx.gang, members=(), rung=None, stopping=None, search=None)


def fail_wait(ctx: StepContext, reason: str) -> None:
    """The job has waited for its gang as long as it may."""
    past = history_text(ctx.gang)
    finish(
        ctx,
        VerdictKind.FAILED,
        ExitCode.GANG_TIMEOUT,
        f"waited {ctx.policy.gang.wait_timeout_s:.0f} s for free capacity: {reason or 'none'}"
        + (f"\n{past}" if past else ""),
        "Submit it again when the cluster has more free capacity, or allow a longer "
        "gang.wait_timeout.",
    )


def finish(
    ctx: StepContext,
    kind: VerdictKind,
    code: ExitCode,
    message: str,
    hint: str = "",
    cause: FirstCause | None = None,
) -> None:
    """The end: release everything, cancel every timer, and give one final verdict. ``cause`` is
    that of an earlier attempt, if it still counts."""
    if ctx.gang.is_pre_run and code in OF_THE_PROGRAM:
        message = f"the pre-run failed: {message}"
        hint = "\n".join(part for part in (hint, PRE_RUN_HINT) if part)
    close_attempt(ctx, message.splitlines()[0])
    cause = ctx.gang.stopping.cause if ctx.gang.stopping else cause
    ctx.release_all("the job has ended")
    ctx.disarm(*TimerKind)
    ctx.enter(FINAL_PHASE[kind])
    verdict = Verdict(kind, int(code), message, hint, ctx.at_s, cause)
    ctx.gang = replace(ctx.gang, verdict=verdict, stopping=None, search=None)
    ctx.do(Finish(verdict))


# ---- rows of many phases -------------------------------------------------------------------------


def cancel(ctx: StepContext, event: CancelRequested) -> None:
    """Release all; Finish with CANCELLED."""
    finish(ctx, VerdictKind.CANCELLED, ExitCode.CANCELLED, cancel_text(event))


def refuse_inputs(ctx: StepContext, event: InputsRefused) -> None:
    """Release all; Finish with BAD_SPEC."""
    finish_refused(ctx, event.message)


def fail_broker(ctx: StepContext, event: BrokerFailed) -> None:
    """Release all; Finish with UNAVAILABLE."""
    message = f"the way to YARN is broken: {event.message}"
    hint = "See the ApplicationMaster's log; submit the job again when YARN is well."
    finish(ctx, VerdictKind.FAILED, ExitCode.UNAVAILABLE, message, hint)


def end_wait(ctx: StepContext, event: Event) -> None:
    """Release all; Finish with GANG_TIMEOUT."""
    close_attempt(ctx, "gang.wait_timeout is over")
    fail_wait(ctx, ctx.gang.reason)


def start_over(ctx: StepContext, event: AmRestarted) -> None:
    """Forget the members, since YARN has killed them; same counts; DrawJitter."""
    reason = f"the ApplicationMaster was started again (its attempt {event.am_attempt})"
    ctx.gang = replace(ctx.gang, am_attempt=event.am_attempt)
    ctx.resizing = replace(ctx.resizing, growth=None, leaving=())
    close_attempt(ctx, reason)
    ctx.forget(*OF_AN_ATTEMPT)
    ctx.rearm()
    ctx.gang = replace(ctx.gang, members=(), stopping=None)
    back_off(ctx, reason)


def finish_again(ctx: StepContext, event: AmRestarted) -> None:
    """Finish with the same verdict again."""
    ctx.gang = replace(ctx.gang, am_attempt=event.am_attempt)
    if ctx.gang.verdict is not None:
        ctx.do(Finish(ctx.gang.verdict))


def cancel_text(event: CancelRequested) -> str:
    return f"cancelled by {event.by}" + (f": {event.reason}" if event.reason else "")


def suspend_text(event: SuspendRequested) -> str:
    return f"suspended by {event.by}" + (f": {event.reason}" if event.reason else "")


def finish_refused(ctx: StepContext, text: str) -> None:
    """The job's inputs are corrupt, and its policy is not to continue with that."""
    hint = "Mend or replace the files, or leave them out with on_corrupt: skip and max_skipped."
    finish(ctx, VerdictKind.FAILED, ExitCode.BAD_SPEC, text, hint)


def count_preemption(ctx: StepContext, ran_s: float = 0.0) -> None:
    """YARN took a container back: free, but the back-off grows while it continues like that."""
    retries = ctx.retries
    is_steady = ran_s >= ctx.policy.steady_run_s
    ctx.retries = replace(
        retries,
        preemptions=retries.preemptions + 1,
        preempted_in_row=1 if is_steady else retries.preempted_in_row + 1,
    )


def reask_limit(ctx: StepContext) -> int:
    """Containers replaced within one attempt before it is given up."""
    return max(8, ctx.policy.reasks_per_task * ctx.gang.size)


def history_text(gang: Gang) -> str:
    """The last attempts, one line each: what was asked, what was granted, what was missing."""
    lines = [_record_text(record) for record in gang.history[-HISTORY_SHOWN:]]
    earlier = len(gang.history) - len(lines)
    if earlier:
        lines.insert(0, f"  ({earlier} earlier ones are in the job's events)")
    return "\n".join(lines)


def _not_granted(gang: Gang) -> tuple[NodeId, ...]:
    """Nodes where the planner saw room and no grant came from, if some grants did not come."""
    if gang.rung is None or all(m.state is not MemberState.ASKED for m in gang.members):
        return ()
    came = {member.grant.node for member in gang.members if member.grant is not None}
    expected = (node for ask in gang.rung.asks for node in ask.expected_nodes)
    return tuple(dict.fromkeys(node for node in expected if node not in came))


def _record_text(record: AttemptRecord) -> str:
    by_level = ", ".join(f"{count} {name}" for name, count in record.granted_by_level)
    kept = f", {record.kept} kept" if record.kept else ""
    missing = f", {record.asked - record.granted} missing"
    if record.missing:
        missing += f" ({', '.join(record.missing)})"
    what = ", pre-run," if record.is_pre_run else ""
    return (
        f"  attempt {record.attempt}{what} at {record.level}: "
        f"{record.granted} of {record.asked} granted"
        + (f" ({by_level})" if by_level else "")
        + f"{kept}{missing}: {record.outcome or 'goes on'}"
    )


def _asked_where(target: Target) -> str:
    """``worker at RACK /rack1``."""
    places = [str(place) for place in (target.nodes or target.racks)]
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    where = " ".join((target.level.name, ", ".join(places[:3]) + more)).rstrip()
    return f"{target.role} at {where}"

"""How attempts and gangs end: failed attempts, back-off, the final verdict."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from yarnam.errors import ExitCode
from yarnam.gang.state import Gang, GangPolicy, MemberState
from yarnam.gang.turn import Turn
from yarnam.model.actions import DrawJitter, Finish
from yarnam.model.events import JitterDrawn, TimerKind
from yarnam.model.ids import NodeId
from yarnam.model.outcomes import Verdict, VerdictKind
from yarnam.model.placement import Target
from yarnam.model.status import AttemptRecord, Phase

FINAL_PHASE = {
    VerdictKind.SUCCEEDED: Phase.SUCCEEDED,
    VerdictKind.FAILED: Phase.FAILED,
    VerdictKind.CANCELLED: Phase.CANCELLED,
}

HISTORY_TOLD = 10
"""Attempts in a verdict: YARN's diagnostics should still have room for what to do next."""

OF_AN_ATTEMPT = (
    TimerKind.ASK,
    TimerKind.HOLD,
    TimerKind.STAGING,
    TimerKind.LAUNCH,
    TimerKind.STOP,
    TimerKind.BACKOFF,
    TimerKind.RECOVERY,
    TimerKind.PATIENCE,
    TimerKind.RESIZE,
    TimerKind.GROWTH,
)
"""Timers that end with the attempt. WAIT goes over all of them until the gang runs."""


def fail_attempt(turn: Turn, outcome: str, code: ExitCode = ExitCode.GANG_TIMEOUT) -> None:
    """One failed acquisition more: back off, or end when the last attempt is used up."""
    close_attempt(turn, outcome)
    # What an agent has seen of a node is learnt by the planner: out of bounds it is only within
    # the attempt, since the whole gang may well stand on the nodes that did not go with the rest.
    unfit = (one.node for one in turn.gang.refusals if one.is_unfit)
    avoid = tuple(dict.fromkeys((*_not_granted(turn.gang), *unfit)))
    turn.gang = replace(turn.gang, failures=turn.gang.failures + 1, avoid=avoid)
    if turn.gang.failures < turn.policy.attempts:
        back_off(turn, outcome)
        return
    count = turn.gang.failures
    message = f"the gang could not be started in {count} attempt{'s' if count != 1 else ''}"
    finish(
        turn,
        VerdictKind.FAILED,
        code,
        f"{message}:\n{history_text(turn.gang)}",
        "Submit it again when the cluster has more room, or allow more gang.attempts, a longer "
        "gang.hold_timeout or a looser placement.",
    )


def _not_granted(gang: Gang) -> tuple[NodeId, ...]:
    """Nodes where the planner saw room and no grant came from, if some grants did not come."""
    if gang.rung is None or all(m.state is not MemberState.ASKED for m in gang.members):
        return ()
    came = {member.grant.node for member in gang.members if member.grant is not None}
    expected = (node for ask in gang.rung.asks for node in ask.expected_nodes)
    return tuple(dict.fromkeys(node for node in expected if node not in came))


def back_off(turn: Turn, reason: str) -> None:
    """Hold nothing, wait a random while, then try again; unless all waiting is over."""
    close_attempt(turn, reason)
    deadline_s = turn.gang.deadline_s(TimerKind.WAIT)
    if deadline_s is not None and turn.at_s >= deadline_s:
        wait_over(turn, reason)
        return
    turn.release_all(reason)
    turn.disarm(*OF_AN_ATTEMPT)
    turn.enter(Phase.BACKING_OFF, reason)
    turn.gang = replace(turn.gang, members=(), rung=None, stopping=None, recovery=None)
    if deadline_s is None:
        turn.arm(TimerKind.WAIT, turn.policy.wait_timeout_s)
    turn.do(DrawJitter(turn.gang.attempt))


def count_preemption(turn: Turn, ran_s: float = 0.0) -> None:
    """YARN took a container back: free, but the back-off grows while it goes on like that."""
    gang = turn.gang
    is_steady = ran_s >= turn.policy.steady_run_s
    turn.gang = replace(
        gang,
        preemptions=gang.preemptions + 1,
        preempted_in_row=1 if is_steady else gang.preempted_in_row + 1,
    )


def wait_over(turn: Turn, reason: str) -> None:
    """The job has waited for its gang as long as it may."""
    past = history_text(turn.gang)
    finish(
        turn,
        VerdictKind.FAILED,
        ExitCode.GANG_TIMEOUT,
        f"waited {turn.policy.wait_timeout_s:.0f} s for room: {reason or 'no room'}"
        + (f"\n{past}" if past else ""),
        "Submit it again when the cluster has more room, or allow a longer gang.wait_timeout.",
    )


def jitter_drawn(turn: Turn, event: JitterDrawn) -> None:
    """Full jitter: the wait is uniform from nothing to the whole back-off, so that contenders
    that failed together do not come back together."""
    gang = turn.gang
    if gang.phase is not Phase.BACKING_OFF or event.attempt != gang.attempt:
        return
    if gang.timer(TimerKind.BACKOFF) is None:
        delay_s = backoff_delay_s(gang, turn.policy, event.u)
        patience_s = patience_left_s(gang, turn.policy, turn.at_s)
        if gang.looks and patience_s > 0:
            # When it is over, a smaller gang will do: that look must not come late.
            delay_s = min(delay_s, patience_s)
        turn.arm(TimerKind.BACKOFF, delay_s)


def backoff_delay_s(gang: Gang, policy: GangPolicy, u: float) -> float:
    """``u`` times min(cap, base * 2^(n-1)), n the failures (or preemptions, or refused looks) in a
    row."""
    cap_s = policy.backoff_cap_s
    n = max(gang.failures, gang.preempted_in_row)
    if gang.looks:
        cap_s = min(cap_s, policy.look_cap_s)
        n = gang.looks
    doublings = min(max(0, n - 1), 30)
    limit_s = min(cap_s, policy.backoff_base_s * 2.0**doublings)
    return max(min(policy.backoff_floor_s, limit_s), u * limit_s)


def patience_left_s(gang: Gang, policy: GangPolicy, at_s: float) -> float:
    """How long an elastic gang still waits for room for its largest size; 0: it takes what fits."""
    wait_ends_s = gang.deadline_s(TimerKind.WAIT)
    if policy.size is None or wait_ends_s is None:
        return 0.0
    waits_since_s = wait_ends_s - policy.wait_timeout_s
    return max(0.0, waits_since_s + policy.size.patience_s - at_s)


def close_attempt(turn: Turn, outcome: str) -> None:
    """Write the end of the current attempt into the history, if it has begun and not ended."""
    history = turn.gang.history
    if not history or history[-1].ended_at_s is not None:
        return
    record = history[-1]
    mine = [m for m in turn.gang.members if m.ask.attempt == record.attempt]
    granted = [m for m in mine if m.state is not MemberState.ASKED]
    levels = Counter(m.level.name for m in granted)
    waited = Counter(_asked_where(m.target) for m in mine if m.state is MemberState.ASKED)
    if turn.gang.recovery is not None:
        waited.update(_asked_where(target) for target in turn.gang.recovery.missing)
    ended = replace(
        record,
        ended_at_s=turn.at_s,
        granted=len(granted),
        outcome=outcome,
        granted_by_level=tuple(levels.items()),
        missing=tuple(f"{count} {where}" for where, count in waited.items()),
    )
    turn.gang = replace(turn.gang, history=(*history[:-1], ended))


def finish(turn: Turn, kind: VerdictKind, code: ExitCode, message: str, hint: str = "") -> None:
    """The end: release everything, cancel every timer, one verdict for ever."""
    close_attempt(turn, message.splitlines()[0])
    turn.release_all("the job has ended")
    turn.disarm(*TimerKind)
    turn.enter(FINAL_PHASE[kind])
    verdict = Verdict(kind, int(code), message, hint, turn.at_s)
    turn.gang = replace(turn.gang, verdict=verdict, stopping=None, recovery=None)
    turn.do(Finish(verdict))


def history_text(gang: Gang) -> str:
    """The last attempts, one line each: what was asked, what was granted, what was missing."""
    told = [_record_text(record) for record in gang.history[-HISTORY_TOLD:]]
    earlier = len(gang.history) - len(told)
    if earlier:
        told.insert(0, f"  ({earlier} earlier ones are in the job's events)")
    return "\n".join(told)


def _record_text(record: AttemptRecord) -> str:
    by_level = ", ".join(f"{count} {name}" for name, count in record.granted_by_level)
    kept = f", {record.kept} kept" if record.kept else ""
    missing = f", {record.asked - record.granted} missing"
    if record.missing:
        missing += f" ({', '.join(record.missing)})"
    return (
        f"  attempt {record.attempt} at {record.level}: {record.granted} of {record.asked} granted"
        + (f" ({by_level})" if by_level else "")
        + f"{kept}{missing}: {record.outcome or 'goes on'}"
    )


def _asked_where(target: Target) -> str:
    """``worker at RACK /rack1``."""
    places = [str(place) for place in (target.nodes or target.racks)]
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    where = " ".join((target.level.name, ", ".join(places[:3]) + more)).rstrip()
    return f"{target.role} at {where}"

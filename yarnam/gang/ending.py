"""How attempts and gangs end: failed attempts, back-off, the final verdict."""

from __future__ import annotations

from dataclasses import replace

from yarnam.errors import ExitCode
from yarnam.gang.state import Gang, GangPolicy, MemberState
from yarnam.gang.turn import Turn
from yarnam.model.actions import DrawJitter, Finish
from yarnam.model.events import JitterDrawn, TimerKind
from yarnam.model.outcomes import Verdict, VerdictKind
from yarnam.model.status import AttemptRecord, Phase

FINAL_PHASE = {
    VerdictKind.SUCCEEDED: Phase.SUCCEEDED,
    VerdictKind.FAILED: Phase.FAILED,
    VerdictKind.CANCELLED: Phase.CANCELLED,
}

OF_AN_ATTEMPT = (TimerKind.ASK, TimerKind.HOLD, TimerKind.LAUNCH, TimerKind.STOP, TimerKind.BACKOFF)
"""Timers that end with the attempt. WAIT goes over all of them until the gang runs."""


def fail_attempt(turn: Turn, outcome: str, code: ExitCode = ExitCode.GANG_TIMEOUT) -> None:
    """One failed acquisition more: back off, or end when the last attempt is used up."""
    close_attempt(turn, outcome)
    turn.gang = replace(turn.gang, failures=turn.gang.failures + 1)
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
    turn.gang = replace(turn.gang, members=(), rung=None, stopping=None)
    if deadline_s is None:
        turn.arm(TimerKind.WAIT, turn.policy.wait_timeout_s)
    turn.do(DrawJitter(turn.gang.attempt))


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
        turn.arm(TimerKind.BACKOFF, backoff_delay_s(gang, turn.policy, event.u))


def backoff_delay_s(gang: Gang, policy: GangPolicy, u: float) -> float:
    """``u`` times min(cap, base * 2^(n-1)), n the failures (or refused looks) in a row."""
    cap_s = policy.backoff_cap_s
    n = gang.failures
    if gang.looks:
        cap_s = min(cap_s, policy.look_cap_s)
        n = gang.looks
    doublings = min(max(0, n - 1), 30)
    limit_s = min(cap_s, policy.backoff_base_s * 2.0**doublings)
    return max(min(policy.backoff_floor_s, limit_s), u * limit_s)


def close_attempt(turn: Turn, outcome: str) -> None:
    """Write the end of the current attempt into the history, if it has begun and not ended."""
    history = turn.gang.history
    if not history or history[-1].ended_at_s is not None:
        return
    granted = sum(m.state is not MemberState.ASKED for m in turn.gang.members)
    ended = replace(history[-1], ended_at_s=turn.at_s, granted=granted, outcome=outcome)
    turn.gang = replace(turn.gang, history=(*history[:-1], ended))


def finish(turn: Turn, kind: VerdictKind, code: ExitCode, message: str, hint: str = "") -> None:
    """The end: release everything, cancel every timer, one verdict for ever."""
    close_attempt(turn, message.splitlines()[0])
    turn.release_all("the job has ended")
    turn.disarm(*TimerKind)
    turn.enter(FINAL_PHASE[kind])
    verdict = Verdict(kind, int(code), message, hint, turn.at_s)
    turn.gang = replace(turn.gang, verdict=verdict, stopping=None)
    turn.do(Finish(verdict))


def history_text(gang: Gang) -> str:
    """The attempts so far, one line each: what was asked, what was granted, what was missing."""
    return "\n".join(_record_text(record) for record in gang.history)


def _record_text(record: AttemptRecord) -> str:
    missing = record.asked - record.granted
    return (
        f"  attempt {record.attempt} at {record.level}: {record.granted} of {record.asked} "
        f"granted, {missing} missing: {record.outcome or 'goes on'}"
    )

"""A launched gang has lost tasks: made whole again in place, or given up as a whole.

When every process has ended (they were stopped with time to write a checkpoint), the containers
whose agents are well are kept, their agents parked as at the first barrier. The planner is asked
for the missing tasks alone, beside those that stand: by the same rung where there is room, else by
looser ones, as far as the job's wishes allow. What it finds is asked for and verified as in any
attempt. When the gang is whole, ranks are fixed anew and all processes start from their last
checkpoint.

It is a new attempt: launches are keyed by its number, so whatever an agent still says of the one
before changes nothing. The kept members keep the names of their asks.

All of it is limited by the RECOVERY timer, since what is held stands idle. It uses up one of
``retry.max_restarts``, or of ``gang.attempts`` where not every process had started, whether it
succeeds or the whole gang has to start anew.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from yarnam.gang import nodes, resizing
from yarnam.gang.asks import look, new_member
from yarnam.gang.barrier import launch
from yarnam.gang.ending import back_off, close_attempt, count_preemption, fail_attempt
from yarnam.gang.state import Gang, GangPolicy, Loss, Member, MemberState, Recovery
from yarnam.gang.turn import Turn
from yarnam.model.actions import DrawJitter
from yarnam.model.events import JitterDrawn, PlanReady, PlanRefused, TimerKind
from yarnam.model.outcomes import ExitKind
from yarnam.model.placement import Rung, Standing, Supplement, Target, TargetAsk
from yarnam.model.status import AttemptRecord, Phase


def can_begin(turn: Turn) -> bool:
    """Whether anything is left to keep, and the job wants it kept."""
    gang, policy = turn.gang, turn.policy
    if policy.recovery_timeout_s <= 0 or gang.rung is None:
        return False
    return any(is_keepable(gang, policy, member, turn.at_s) for member in gang.members)


def is_keepable(gang: Gang, policy: GangPolicy, member: Member, at_s: float) -> bool:
    """Its processes have ended, by the word of its agent, which is still there; and the node is
    not one that the job refuses."""
    return (
        member.state is MemberState.EXITED
        and not member.is_gone
        and member.grant is not None
        and member.agent is not None
        and all(process.kind is not ExitKind.NOT_STARTED for process in member.exits)
        and nodes.why_excluded(gang, policy, member.grant.node, at_s) is None
    )


def begin(turn: Turn, text: str) -> None:
    """Keep what can be kept, release the rest, and look for room for what is missing."""
    gang, rung = turn.gang, turn.gang.rung
    assert rung is not None
    kept = [m for m in gang.members if is_keepable(gang, turn.policy, m, turn.at_s)]
    lost = [m for m in gang.members if m not in kept]
    for member in lost:
        if member.loss is None or member.is_holding:
            turn.release(member, text)
    close_attempt(turn, f"{text}, in place")
    turn.disarm(TimerKind.STOP)
    turn.enter(Phase.ACQUIRING, text)
    record = AttemptRecord(
        attempt=len(gang.history) + 1,
        rung=rung.number,
        level=rung.level.name,
        started_at_s=turn.at_s,
        asked=len(lost),
        kept=len(kept),
    )
    turn.gang = replace(
        turn.gang,
        attempt=record.attempt,
        members=tuple(_parked(member) for member in kept),
        next_number=0,
        looks=0,
        misfits=0,
        refusals=(),
        reasks=0,
        stopping=None,
        recovery=Recovery(_lost_text(lost), tuple(member.target for member in lost)),
        history=(*turn.gang.history, record),
    )
    if not lost:
        launch(turn)
        return
    turn.arm(TimerKind.RECOVERY, turn.policy.recovery_timeout_s)
    _look(turn)


def look_elsewhere(turn: Turn, member: Member, why: str) -> None:
    """A gang that is being acquired has asked for this one where nothing can help: the others
    stand or are on their way, the planner is asked for another place for it."""
    known = turn.gang.recovery or Recovery(why, (), is_first=True)
    unfit = (one.node for one in turn.gang.refusals)
    turn.gang = replace(
        turn.gang,
        recovery=replace(
            known,
            text=why,
            missing=(*known.missing, member.target),
            avoid=tuple(dict.fromkeys((*known.avoid, *unfit))),
        ),
    )
    turn.disarm(TimerKind.BACKOFF)
    _look(turn)


def plan_ready(turn: Turn, event: PlanReady) -> None:
    """There is room for what is missing: ask for it."""
    gang, rung = turn.gang, event.plan.rungs[0]
    recovery = gang.recovery
    if recovery is None or not recovery.is_looking:
        return
    if _sizes(recovery.missing) != _sizes(_targets(rung)):
        return  # the answer to an older question; the newer one's is on its way
    turn.disarm(TimerKind.BACKOFF)
    expected = (node for ask in rung.asks for node in ask.expected_nodes)
    turn.gang = replace(
        gang,
        rung=rung,
        recovery=replace(
            recovery,
            missing=(),
            is_looking=False,
            avoid=tuple(dict.fromkeys((*recovery.avoid, *expected))),
        ),
    )
    asked = tuple(new_member(turn, target, rung.level) for target in _targets(rung))
    turn.gang = replace(turn.gang, members=(*turn.gang.members, *asked))
    if recovery.is_first:
        return  # HOLD bounds it, as it bounds the others that have been asked for
    patience_s = turn.policy.recovery_timeout_s * turn.policy.recovery_grant_share
    turn.arm(TimerKind.BACKOFF, patience_s)


def plan_refused(turn: Turn, event: PlanRefused) -> None:
    """No room now: look again soon. Never: the whole gang starts anew."""
    recovery = turn.gang.recovery
    if recovery is None or not recovery.is_looking:
        return
    no_fit = event.no_fit
    if no_fit.is_never or (resizing.rest_will_do(turn) and not recovery.is_first):
        # An elastic gang does not stand idle for what is not there: it grows when it comes.
        give_up(turn, no_fit.message)
        return
    turn.gang = replace(
        turn.gang,
        looks=turn.gang.looks + 1,
        reason=no_fit.message,
        recovery=replace(recovery, is_looking=False),
    )
    turn.do(DrawJitter(turn.gang.attempt))


def jitter_drawn(turn: Turn, event: JitterDrawn) -> None:
    """When to look again."""
    recovery = turn.gang.recovery
    if recovery is None or recovery.is_looking or not recovery.missing:
        return
    if event.attempt == turn.gang.attempt and turn.gang.timer(TimerKind.BACKOFF) is None:
        policy = turn.policy
        turn.arm(TimerKind.BACKOFF, max(policy.backoff_floor_s, event.u * policy.recovery_look_s))


def look_again(turn: Turn) -> None:
    """The wait between two looks is over, or no grant came: withdraw what is not granted."""
    recovery = turn.gang.recovery
    if recovery is None:
        return
    asked = [m for m in turn.gang.members if m.state is MemberState.ASKED]
    waiting = [] if recovery.is_first else asked
    for member in waiting:
        turn.release(member, "no grant came in time")
    turn.gang = replace(
        turn.gang,
        members=tuple(m for m in turn.gang.members if m not in waiting),
        recovery=replace(
            recovery, missing=(*recovery.missing, *(member.target for member in waiting))
        ),
    )
    if turn.gang.recovery is not None and turn.gang.recovery.missing:
        _look(turn)


def lose(turn: Turn, member: Member, why: str, *, is_gone: bool) -> None:
    """One more is missing, kept or new: look for room for it too, unless that was tried enough."""
    recovery = turn.gang.recovery
    assert recovery is not None
    if not is_gone:
        turn.release(member, why)
    others = tuple(m for m in turn.gang.members if m is not member)
    turn.gang = replace(turn.gang, members=others)
    if member.ask.attempt != turn.gang.attempt:
        *past, record = turn.gang.history
        record = replace(record, asked=record.asked + 1, kept=record.kept - 1)
        turn.gang = replace(turn.gang, history=(*past, record))
    limit = reask_limit(turn)
    if turn.gang.reasks >= limit:
        give_up(turn, f"gave up after {limit} replaced containers; the last one: {why}")
        return
    if not any(m.state is MemberState.READY for m in others):
        give_up(turn, f"nothing is left to keep; the last one: {member.name}: {why}")
        return
    turn.gang = replace(
        turn.gang,
        reasks=turn.gang.reasks + 1,
        reason=f"{member.name}: {why}",
        recovery=replace(recovery, missing=(*recovery.missing, member.target)),
    )
    turn.disarm(TimerKind.BACKOFF)
    _look(turn)


def reask_limit(turn: Turn) -> int:
    """Containers replaced within one attempt before it is given up."""
    return max(8, turn.policy.reasks_per_task * turn.gang.size)


def timed_out(turn: Turn) -> None:
    """The RECOVERY timer: what is held has stood idle for long enough."""
    have = sum(member.state is MemberState.READY for member in turn.gang.members)
    trouble = f"; last trouble: {turn.gang.reason}" if turn.gang.reason else ""
    give_up(
        turn,
        f"not whole again within {turn.policy.recovery_timeout_s:.0f} s: {have} of "
        f"{turn.gang.size} tasks stand{trouble}",
    )


def preempted(turn: Turn, member: Member, text: str) -> None:
    """YARN takes one of those that are held: it takes the gang, which starts anew for free."""
    others = tuple(m for m in turn.gang.members if m.ask != member.ask)
    turn.gang = replace(turn.gang, members=others)
    count_preemption(turn)
    give_up(turn, f"{member.name}: preempted: {text}")


def give_up(turn: Turn, why: str) -> None:
    """The whole gang is released and starts anew; or it goes on with the rest, where that is
    enough."""
    recovery = turn.gang.recovery
    lost = f"{recovery.text}: " if recovery is not None else ""
    if resizing.rest_will_do(turn):
        resizing.go_on_with_rest(turn, f"{lost}{why}")
    elif recovery is not None and recovery.is_first:
        fail_attempt(turn, f"{lost}{why}")
    else:
        back_off(turn, f"{lost}{why}")


def _look(turn: Turn) -> None:
    gang, recovery = turn.gang, turn.gang.recovery
    assert gang.rung is not None
    assert recovery is not None
    standing = tuple(
        Standing(m.target.role, m.grant.node, m.grant.rack, m.target.resources)
        for m in gang.members
        if m.grant is not None
    )
    wanted = tuple(TargetAsk(target, n) for target, n in Counter(recovery.missing).items())
    turn.gang = replace(gang, recovery=replace(recovery, is_looking=True))
    look(turn, Supplement(wanted, standing, gang.rung), recovery.avoid)


def _targets(rung: Rung) -> list[Target]:
    return [ask.target for ask in rung.asks for _ in range(ask.count)]


def _sizes(targets: list[Target] | tuple[Target, ...]) -> Counter[tuple[object, ...]]:
    """What must be the same of a task wherever it goes."""
    return Counter((t.role, t.resources, t.processes_per_task) for t in targets)


def _parked(member: Member) -> Member:
    return replace(member, state=MemberState.READY, exits=(), loss=None)


def _lost_text(lost: list[Member]) -> str:
    """``worker-3 on n5 (agent silent)``, and how many more."""
    shown: list[str] = []
    for member in lost[:3]:
        node = f" on {member.grant.node}" if member.grant else ""
        shown.append(f"{member.name}{node} ({_how(member.loss)})")
    more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
    return ", ".join(shown) + more


def _how(loss: Loss | None) -> str:
    return loss.kind.value if loss is not None else "not to be kept"

"""The gang machine: ``step(gang, event, policy) -> (gang, actions)``.

Theory of operation
===================

A gang is all or none: every task of it is held at the barrier before any process of it runs, and
when one is lost they all stop. ``step`` is the only place where that is decided. It is a pure
function; the AM's loop, the simulator, the recovery after a crash of the AM and the replay of a
bug report are the same fold over it.

The happy path::

    PENDING --plan--> ACQUIRING --all ready--> LAUNCHING --all started--> RUNNING --> SUCCEEDED

- **PENDING**: the planner is asked (``RequestPlan``) where the whole gang could go now.
- **ACQUIRING**: one ``AskContainer`` per task. Until the first grant the ASK timer runs; from the
  first grant on others' work is kept out, so the HOLD timer limits that. A grant is held only if it
  is where it was asked for; a misfit, a lost or a useless container is replaced by a new ask
  while the hold lasts, a bounded number of times. Members go ASKED, GRANTED, READY.
- **LAUNCHING**: all are READY. Ranks are fixed, ``LaunchGang`` opens the barrier, once.
- **RUNNING**: all processes have started. When all but parameter servers have ended well, it is
  done.
- **STOPPING**: one member failed, was lost, or the job was cancelled or is done but for its
  parameter servers. The others are stopped, and the machine waits (STOP timer) until every end
  is known *and explained*, since the first report is seldom the first cause: peers of a dead
  task fail too. Then it concludes: the user's failure, the platform's, or the end.
- **BACKING_OFF**: nothing is held. The wait is drawn uniformly from nothing to
  min(cap, base * 2^(n-1)) (full jitter), so that gangs that collided do not collide again.
- **SUCCEEDED, FAILED, CANCELLED**: one ``Finish``; afterwards only stragglers are released.

What counts. ``failures`` counts failed acquisitions in a row: it is what ``gang.attempts`` bounds,
what the back-off grows with and what moves the ladder's rung. A look at a full cluster ("not now")
costs no attempt; all waiting together is bounded by the WAIT timer. A gang that ran and was
lost to the platform uses up one of ``retry.max_restarts``; a preemption is free, since YARN chose;
a user's failure uses up ``retry.on_user_failure``. A new ApplicationMaster is free too: YARN itself
bounds those by ``am.attempts``.

Attempt numbers only grow and each is used for one set of asks, so a name (``AskId``, ``TimerId``)
is never used for two things, and whatever arrives late can be told from what is current:

- a grant or an agent of an unknown ask is released again, and never counted;
- a timer that is not among the gang's timers changes nothing; one that comes before its time
  (its predecessor's) is only started again with the time left;
- every other event about an unknown ask, or about one that has already got there, changes nothing.

A new AM attempt folds the journal and then steps ``AmRestarted``. YARN has killed all containers
of the last one by then. Recovery points (PENDING, BACKING_OFF, SUSPENDED and the final phases)
go on where they were; STOPPING concludes with what was known, so that a cancelled or failed job
is not run again; any other phase backs off with the same counts.

The transitions are in ``table``, from which ``docs/reference/gang-machine.md`` is generated; a
test holds ``step`` to that table.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Union

from yarnam.errors import ExitCode
from yarnam.gang import acquire, running
from yarnam.gang.ending import (
    OF_AN_ATTEMPT,
    back_off,
    close_attempt,
    fail_attempt,
    finish,
    jitter_drawn,
    wait_over,
)
from yarnam.gang.state import Gang, GangPolicy, LossKind, MemberState, StopKind, Stopping
from yarnam.gang.turn import Turn
from yarnam.model.actions import Action, DrawJitter, Finish, ReleaseContainer, StartTimer, StopTask
from yarnam.model.events import (
    AgentRegistered,
    AgentSilent,
    AgentUnable,
    AmRestarted,
    BrokerFailed,
    CancelRequested,
    ContainerEnded,
    ContainerGranted,
    Event,
    JitterDrawn,
    JobStarted,
    PlanReady,
    PlanRefused,
    TaskExited,
    TaskStarted,
    TimerFired,
    TimerKind,
)
from yarnam.model.exhaustive import assert_never
from yarnam.model.outcomes import VerdictKind
from yarnam.model.status import FINAL_PHASES, Phase

EARLY_S = 0.05
"""A timer this much before its deadline counts as on time: clocks and timers round."""

Trouble = Union[ContainerEnded, AgentUnable, AgentSilent]


def step(gang: Gang, event: Event, policy: GangPolicy) -> tuple[Gang, tuple[Action, ...]]:
    """Apply one event. Never raises for an event that comes late, twice or out of order."""
    turn = Turn(gang, policy, event.at_s)
    if gang.phase in FINAL_PHASES:
        _after_the_end(turn, event)
    else:
        _apply(turn, event)
    return turn.gang, tuple(turn.actions)


def _apply(turn: Turn, event: Event) -> None:
    match event:
        case JobStarted() | AmRestarted():
            _on_life(turn, event)
        case PlanReady() | PlanRefused() | JitterDrawn():
            _on_answer(turn, event)
        case ContainerGranted():
            acquire.granted(turn, event)
        case AgentRegistered():
            acquire.registered(turn, event)
        case ContainerEnded() | AgentUnable() | AgentSilent():
            _on_trouble(turn, event)
        case TaskStarted():
            running.task_started(turn, event)
        case TaskExited():
            running.task_exited(turn, event)
        case TimerFired():
            _on_timer(turn, event)
        case CancelRequested() | BrokerFailed():
            _on_end(turn, event)
        case _:
            assert_never(event)


def _after_the_end(turn: Turn, event: Event) -> None:
    """The verdict stands. Stragglers go; a new AM attempt is told the verdict again."""
    match event:
        case ContainerGranted() | AgentRegistered():
            turn.do(ReleaseContainer(event.ask, "the job has ended"))
        case AmRestarted():
            turn.gang = replace(turn.gang, am_attempt=event.am_attempt)
            if turn.gang.verdict is not None:
                turn.do(Finish(turn.gang.verdict))
        case _:
            pass


def _on_life(turn: Turn, event: JobStarted | AmRestarted) -> None:
    match event:
        case JobStarted():
            if not turn.gang.is_started:
                acquire.begin(turn)
        case AmRestarted():
            turn.gang = replace(turn.gang, am_attempt=event.am_attempt)
            if turn.gang.is_started:
                _recover(turn)
            else:
                acquire.begin(turn)
        case _:
            assert_never(event)


def _recover(turn: Turn) -> None:
    """Go on in a new ApplicationMaster: every container, timer and unanswered question is gone."""
    phase = turn.gang.phase
    if phase is Phase.PENDING:
        turn.rearm()
        acquire.request_plan(turn)
    elif phase is Phase.BACKING_OFF:
        turn.rearm()
        if turn.gang.timer(TimerKind.BACKOFF) is None:
            turn.do(DrawJitter(turn.gang.attempt))
    elif phase is Phase.SUSPENDED:
        turn.rearm()
    elif phase is Phase.STOPPING:
        turn.forget(*OF_AN_ATTEMPT)
        turn.rearm()
        running.conclude(turn)
    else:
        reason = f"the ApplicationMaster was started again (its attempt {turn.gang.am_attempt})"
        close_attempt(turn, reason)
        turn.forget(*OF_AN_ATTEMPT)
        turn.rearm()
        turn.gang = replace(turn.gang, members=())
        back_off(turn, reason)


def _on_answer(turn: Turn, event: PlanReady | PlanRefused | JitterDrawn) -> None:
    match event:
        case PlanReady():
            acquire.plan_ready(turn, event)
        case PlanRefused():
            acquire.plan_refused(turn, event)
        case JitterDrawn():
            jitter_drawn(turn, event)
        case _:
            assert_never(event)


def _on_trouble(turn: Turn, event: Trouble) -> None:
    """A member is in trouble: replaced while the gang is being acquired, fatal afterwards."""
    member = turn.gang.find(event.ask)
    if member is None:
        return
    is_acquiring = turn.gang.phase is Phase.ACQUIRING
    match event:
        case ContainerEnded():
            text = event.diagnostics or f"YARN says {event.end.value}"
            if not is_acquiring:
                kind = running.LOSS_OF_END[event.end]
                running.lose_launched(turn, member, kind, event.at_s, text)
            else:
                acquire.lose(turn, member, f"its container ended: {text}", is_gone=True)
        case AgentUnable():
            if is_acquiring:
                acquire.unable(turn, member, event)
            else:
                kind = LossKind.UNABLE_USER if event.is_user_fault else LossKind.UNABLE
                running.lose_launched(turn, member, kind, event.at_s, event.message)
        case AgentSilent():
            text = f"not heard of for {event.silent_s:.0f} s"
            if not is_acquiring:
                since_s = event.at_s - event.silent_s
                running.lose_launched(turn, member, LossKind.SILENT, since_s, text)
            elif member.state is not MemberState.ASKED:
                acquire.lose(turn, member, f"its agent was {text}", is_gone=False)
        case _:
            assert_never(event)


def _on_timer(turn: Turn, event: TimerFired) -> None:
    """A named limit is over, if it is still one of this gang's."""
    kind = event.timer.kind
    timer = turn.gang.timer(kind)
    if timer is None or timer.timer != event.timer:
        return
    if turn.at_s < timer.deadline_s - EARLY_S:
        turn.do(StartTimer(timer.timer, timer.deadline_s - turn.at_s))
        return
    if kind is TimerKind.WAIT:
        # A gang that stands is past waiting; if it falls back, back_off sees the deadline.
        if turn.gang.phase in {Phase.PENDING, Phase.BACKING_OFF, Phase.ACQUIRING}:
            close_attempt(turn, "the whole wait for room is over")
            wait_over(turn, turn.gang.reason)
        return
    turn.forget(kind)
    _on_attempt_timer(turn, kind)


def _on_attempt_timer(turn: Turn, kind: TimerKind) -> None:
    policy, gang = turn.policy, turn.gang
    if kind is TimerKind.ASK:
        fail_attempt(turn, f"no container was granted within {policy.ask_timeout_s:.0f} s")
    elif kind is TimerKind.HOLD:
        granted = sum(member.state is not MemberState.ASKED for member in gang.members)
        ready = sum(member.state is MemberState.READY for member in gang.members)
        last = f"; last trouble: {gang.reason}" if gang.reason else ""
        fail_attempt(
            turn,
            f"the hold of {policy.hold_timeout_s:.0f} s ended with {granted} of {gang.size} "
            f"granted, {ready} ready{last}",
        )
    elif kind is TimerKind.LAUNCH:
        late = [m.name for m in gang.members if m.state is MemberState.READY]
        names = ", ".join(late[:8]) + (" and more" if len(late) > 8 else "")
        text = f"{names} did not start within {policy.launch_timeout_s:.0f} s of the launch order"
        running.stop_gang(turn, StopKind.FAILED, text)
    elif kind is TimerKind.STOP:
        running.conclude(turn)
    elif kind is TimerKind.BACKOFF:
        turn.gang = replace(turn.gang, attempt=len(turn.gang.history) + 1)
        acquire.request_plan(turn)


def _on_end(turn: Turn, event: CancelRequested | BrokerFailed) -> None:
    gang = turn.gang
    match event:
        case CancelRequested():
            text = f"cancelled by {event.by}" + (f": {event.reason}" if event.reason else "")
            if gang.phase in running.LAUNCHED:
                running.stop_gang(turn, StopKind.CANCELLED, text)
            elif gang.phase is Phase.STOPPING and gang.stopping is not None:
                stopping = Stopping(StopKind.CANCELLED, text, gang.stopping.was_running)
                turn.gang = replace(gang, stopping=stopping, reason=text)
                running.settle(turn)
            else:
                finish(turn, VerdictKind.CANCELLED, ExitCode.CANCELLED, text)
        case BrokerFailed():
            for member in gang.members:
                if gang.phase in running.LAUNCHED and member.state in running.MAY_RUN:
                    text = "the way to YARN is broken"
                    turn.do(StopTask(member.ask, gang.attempt, turn.policy.stop_grace_s, text))
            message = f"the way to YARN is broken: {event.message}"
            hint = "See the ApplicationMaster's log; submit the job again when YARN is well."
            finish(turn, VerdictKind.FAILED, ExitCode.UNAVAILABLE, message, hint)
        case _:
            assert_never(event)

"""The gang machine: ``step(gang, event, policy) -> (gang, actions)``.

Theory of operation
===================

A gang is all or none: every task of it is held at the barrier before any process of it runs, and
when one is lost they all stop. ``step`` is the only place where that is decided. It is a pure
function; the AM's loop, the simulator, the recovery after a crash of the AM and the replay of a
bug report are the same fold over it.

The happy path::

    PENDING --plan--> ACQUIRING --all ready--> LAUNCHING --all started--> RUNNING --> SUCCEEDED
                                               (with outputs:) RUNNING --> STORING --> SUCCEEDED

- **PENDING**: the planner is asked (``RequestPlan``) where the whole gang could go now.
- **ACQUIRING**: one ``AskContainer`` per task. Until the first grant the ASK timer runs; from the
  first grant on others' work is kept out, so the HOLD timer limits that. A grant is held only if it
  is where it was asked for; a misfit, a lost or a useless container is replaced by a new ask
  while the hold lasts, a bounded number of times. Members go ASKED, GRANTED, READY.
- **LAUNCHING**: all are READY. Ranks are fixed, ``LaunchGang`` opens the barrier, once. Where
  inputs are brought to the nodes, ``PrepareGang`` comes before it, and the STAGING timer limits
  that; no process runs yet, so trouble then leads back to ACQUIRING.
- **RUNNING**: all processes have started. When all but parameter servers have ended well, it is
  done.
- **STOPPING**: one member failed, was lost, or the job was cancelled or is done but for its
  parameter servers. The others are stopped, and the machine waits (STOP timer) until every end
  is known *and explained*, since the first report is seldom the first cause: peers of a dead
  task fail too. Then it concludes: the user's failure, the platform's, or the end.
- **in place**: a launched gang that lost tasks to the platform goes from STOPPING back to ACQUIRING
  (as ``recovery``): containers whose agents are well are kept and parked, the planner is asked for
  the missing tasks beside them, and when all are READY again, everything starts under a new attempt
  number. The RECOVERY timer limits it; beyond it, all is released and the gang backs off. A gang of
  which YARN *preempted* a task keeps nothing: it goes as one.
- **elastic**: a gang may have fewer tasks than its most, never fewer than its least. While it RUNs
  it looks around now and then (RESIZE); to grow it gets further containers while it trains (GROWTH
  limits that); to change its size it goes through STOPPING straight to LAUNCHING, under a new
  attempt number, for free. It shrinks where another gang would back off: see ``elastic``,
  ``resizing`` and, for when, ``sizing``.
- **STORING**: of a job with outputs: the gang has succeeded and holds nothing any more; what its
  tasks wrote is being made the job's output. Limited by STORE. See ``storing``.
- **BACKING_OFF**: nothing is held. The wait is drawn uniformly from nothing to
  min(cap, base * 2^(n-1)) (full jitter), so that gangs that collided do not collide again.
- **SUCCEEDED, FAILED, CANCELLED**: one ``Finish``; afterwards only stragglers are released.

What counts. ``failures`` counts failed acquisitions in a row: it is what ``gang.attempts`` bounds,
what the back-off grows with and what moves the ladder's rung. A look at a full cluster ("not now")
costs no attempt; all waiting together is bounded by the WAIT timer. A gang that ran and was
lost to the platform uses up one of ``retry.max_restarts``; a preemption is free, since YARN chose;
a user's failure uses up ``retry.on_user_failure``. A new ApplicationMaster is free too: YARN itself
bounds those by ``am.attempts``. Replacing in place uses up one restart, whether it succeeds or not;
of a gang that had not all started, one attempt.

What speaks against a node (an agent that is unable or silent, a container that cannot be started,
a node that is lost, a program that crashes there and nowhere else) is a strike. Enough of them put
the node on the gang's blacklist for a cool-down, within a cap: no plan has it, no grant there is
held, nothing there is kept. Other jobs' hints only order nodes last, or add to a strike.

Attempt numbers only grow and each is used for one set of asks and one launch, so a name (``AskId``,
``TimerId``) is never used for two things, and whatever arrives late can be told from what is
current:

- a grant or an agent of an unknown ask is released again, and never counted;
- a timer that is not among the gang's timers changes nothing; one that comes before its time
  (its predecessor's) is only started again with the time left;
- every other event about an unknown ask, or about one that has already got there, changes nothing.

A new AM attempt folds the journal and then steps ``AmRestarted``. YARN has killed all containers
of the last one by then. Recovery points (PENDING, STORING, BACKING_OFF, SUSPENDED and the final
phases) go on where they were; STOPPING concludes with what was known, so that a cancelled or failed
job is not run again; any other phase backs off with the same counts. The blacklist lives on.

The transitions are in ``table``, from which ``docs/reference/gang-machine.md`` is generated; a
test holds ``step`` to that table.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Union

from yarnam.errors import ExitCode
from yarnam.gang import acquire, barrier, elastic, nodes, recovery, resizing, running, storing
from yarnam.gang.asks import look, on_excluded
from yarnam.gang.ending import (
    OF_AN_ATTEMPT,
    back_off,
    close_attempt,
    fail_attempt,
    finish,
    jitter_drawn,
    wait_over,
)
from yarnam.gang.state import Gang, GangPolicy, LossKind, MemberState, StopKind
from yarnam.gang.turn import Turn
from yarnam.model.actions import Action, DrawJitter, Finish, ReleaseContainer, StopTask
from yarnam.model.events import (
    AgentRegistered,
    AgentSilent,
    AgentUnable,
    AmRestarted,
    BrokerFailed,
    CancelRequested,
    ClusterSeen,
    ContainerEnded,
    ContainerGranted,
    Event,
    InputsRefused,
    JitterDrawn,
    JobStarted,
    NodesSuspected,
    OutputsStored,
    PlanReady,
    PlanRefused,
    ScaleRequested,
    StoringFailed,
    StoringTroubled,
    TaskExited,
    TaskStaged,
    TaskStarted,
    TimerFired,
    TimerKind,
)
from yarnam.model.exhaustive import assert_never
from yarnam.model.outcomes import VerdictKind
from yarnam.model.status import FINAL_PHASES, Phase

RESIZED = StopKind.RESIZED

Trouble = Union[ContainerEnded, AgentUnable, AgentSilent]


def step(gang: Gang, event: Event, policy: GangPolicy) -> tuple[Gang, tuple[Action, ...]]:
    """Apply one event. Never raises for an event that comes late, twice or out of order."""
    turn = Turn(gang, policy, event.at_s)
    if gang.phase in FINAL_PHASES:
        _after_the_end(turn, event)
    elif gang.phase is Phase.STORING:
        storing.apply(turn, event)
    elif not elastic.takes(turn, event):
        _apply(turn, event)
    if turn.gang.phase is Phase.RUNNING and gang.phase is not Phase.RUNNING:
        elastic.began_to_run(turn)
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
        case TaskStaged() | TaskStarted() | TaskExited():
            _on_task(turn, event)
        case TimerFired():
            _on_timer(turn, event)
        case CancelRequested() | InputsRefused() | BrokerFailed():
            _on_end(turn, event)
        case NodesSuspected() | ScaleRequested() | ClusterSeen():
            _on_word(turn, event)
        case OutputsStored() | StoringTroubled() | StoringFailed():
            pass  # nothing is being stored, not any more
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
    phase, stopping = turn.gang.phase, turn.gang.stopping
    turn.gang = replace(turn.gang, growth=None)
    if phase is Phase.PENDING:
        turn.rearm()
        acquire.request_plan(turn)
    elif phase is Phase.BACKING_OFF:
        turn.rearm()
        if turn.gang.timer(TimerKind.BACKOFF) is None:
            turn.do(DrawJitter(turn.gang.attempt))
    elif phase is Phase.SUSPENDED:
        turn.rearm()
    elif phase is Phase.STOPPING and stopping is not None and stopping.kind is not RESIZED:
        turn.forget(*OF_AN_ATTEMPT)
        turn.rearm()
        gone = tuple(replace(member, is_gone=True) for member in turn.gang.members)
        turn.gang = replace(turn.gang, members=gone)
        running.conclude(turn)
    else:
        reason = f"the ApplicationMaster was started again (its attempt {turn.gang.am_attempt})"
        close_attempt(turn, reason)
        turn.forget(*OF_AN_ATTEMPT)
        turn.rearm()
        turn.gang = replace(turn.gang, members=(), stopping=None)
        back_off(turn, reason)


def _on_answer(turn: Turn, event: PlanReady | PlanRefused | JitterDrawn) -> None:
    match event:
        case PlanReady():
            acquire.plan_ready(turn, event)
        case PlanRefused():
            acquire.plan_refused(turn, event)
        case JitterDrawn():
            recovery.jitter_drawn(turn, event)
            jitter_drawn(turn, event)
        case _:
            assert_never(event)


def _on_task(turn: Turn, event: TaskStaged | TaskStarted | TaskExited) -> None:
    """An agent's word on its task."""
    match event:
        case TaskStaged():
            barrier.task_staged(turn, event)
        case TaskStarted():
            running.task_started(turn, event)
        case TaskExited():
            running.task_exited(turn, event)
        case _:
            assert_never(event)


def _on_trouble(turn: Turn, event: Trouble) -> None:
    """A member is in trouble: replaced while the gang is being acquired, fatal afterwards."""
    member = turn.gang.find(event.ask)
    if member is None:
        return
    barrier.step_back(turn)
    is_acquiring = turn.gang.phase is Phase.ACQUIRING
    match event:
        case ContainerEnded():
            if is_acquiring:
                acquire.ended(turn, member, event)
            else:
                text = event.diagnostics or f"YARN says {event.end.value}"
                kind = running.LOSS_OF_END[event.end]
                running.lose_launched(turn, member, kind, event.at_s, text)
        case AgentUnable():
            if is_acquiring:
                acquire.unable(turn, member, event)
            else:
                kind = LossKind.UNABLE_USER if event.is_user_fault else LossKind.UNABLE
                running.lose_launched(turn, member, kind, event.at_s, event.message)
        case AgentSilent():
            if is_acquiring:
                acquire.silent(turn, member, event)
            else:
                text = f"not heard of for {event.silent_s:.0f} s"
                since_s = event.at_s - event.silent_s
                running.lose_launched(turn, member, LossKind.SILENT, since_s, text)
        case _:
            assert_never(event)


def _on_timer(turn: Turn, event: TimerFired) -> None:
    """A named limit is over, if it is still one of this gang's."""
    kind = turn.fired(event)
    if kind is None:
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
        text = (
            f"the hold of {policy.hold_timeout_s:.0f} s ended with {granted} of {gang.size} "
            f"granted, {ready} ready{last}"
        )
        if resizing.rest_will_do(turn):
            resizing.go_on_with_rest(turn, text)
        else:
            fail_attempt(turn, text)
    elif kind in {TimerKind.STAGING, TimerKind.LAUNCH}:
        _on_barrier_timer(turn, kind)
    elif kind is TimerKind.STOP:
        running.conclude(turn)
    elif kind is TimerKind.RECOVERY:
        recovery.timed_out(turn)
    elif kind is TimerKind.PATIENCE and gang.phase is Phase.PENDING:
        look(turn)
    elif kind is TimerKind.RESIZE:
        elastic.look_around(turn)
    elif kind is TimerKind.GROWTH:
        elastic.growth_over(turn)
    elif kind is TimerKind.BACKOFF and gang.recovery is not None:
        recovery.look_again(turn)
    elif kind is TimerKind.BACKOFF:
        turn.gang = replace(turn.gang, attempt=len(turn.gang.history) + 1)
        acquire.request_plan(turn)


def _on_barrier_timer(turn: Turn, kind: TimerKind) -> None:
    """The gang stands, and not all of it has its inputs, or starts."""
    if kind is TimerKind.STAGING:
        text = barrier.late_text(turn)
        turn.enter(Phase.ACQUIRING, text)
        fail_attempt(turn, text, ExitCode.ATTEMPTS_EXHAUSTED)
        return
    late = [m.name for m in turn.gang.members if m.state is MemberState.READY]
    names = ", ".join(late[:8]) + (" and more" if len(late) > 8 else "")
    limit_s = turn.policy.launch_timeout_s
    text = f"{names} did not start within {limit_s:.0f} s of the launch order"
    running.stop_gang(turn, StopKind.FAILED, text)


def _on_word(turn: Turn, event: NodesSuspected | ScaleRequested | ClusterSeen) -> None:
    """What others say: hints, wishes, the state of the cluster."""
    match event:
        case NodesSuspected():
            nodes.suspected(turn, event)
            if on_excluded(turn.gang, turn.policy, turn.at_s):
                barrier.step_back(turn)
            acquire.leave_excluded(turn)
        case ScaleRequested():
            elastic.scale_requested(turn, event)
        case ClusterSeen():
            elastic.cluster_seen(turn, event)
        case _:
            assert_never(event)


def _end(turn: Turn, kind: StopKind, text: str) -> None:
    """End the job, whatever it is at: its processes first, where there are any."""
    barrier.step_back(turn)
    gang = turn.gang
    if gang.phase in running.LAUNCHED:
        running.stop_gang(turn, kind, text)
    elif gang.phase is Phase.STOPPING and gang.stopping is not None:
        stopping = replace(gang.stopping, kind=kind, text=text, to=None)
        turn.gang = replace(gang, stopping=stopping, reason=text)
        running.settle(turn)
    else:
        running.end_as_asked(turn, kind, text)


def _on_end(turn: Turn, event: CancelRequested | InputsRefused | BrokerFailed) -> None:
    gang = turn.gang
    match event:
        case CancelRequested():
            text = f"cancelled by {event.by}" + (f": {event.reason}" if event.reason else "")
            _end(turn, StopKind.CANCELLED, text)
        case InputsRefused():
            # What has succeeded meanwhile, or is being cancelled, stays so.
            if gang.stopping is None or gang.stopping.kind in {StopKind.FAILED, RESIZED}:
                _end(turn, StopKind.REFUSED, event.message)
        case BrokerFailed():
            barrier.step_back(turn)
            for member in gang.members:
                if turn.gang.phase in running.LAUNCHED and member.state in running.MAY_RUN:
                    text = "the way to YARN is broken"
                    turn.do(StopTask(member.ask, gang.attempt, turn.policy.stop_grace_s, text))
            message = f"the way to YARN is broken: {event.message}"
            hint = "See the ApplicationMaster's log; submit the job again when YARN is well."
            finish(turn, VerdictKind.FAILED, ExitCode.UNAVAILABLE, message, hint)
        case _:
            assert_never(event)

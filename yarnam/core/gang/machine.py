"""The gang machine: ``step(gang, event, policy) -> (gang, actions)``.

Theory of operation
===================

A gang is all or none: every task is held at the barrier before any process runs, and when one is
lost they all stop, except in an *in-place elastic* gang. ``step`` alone decides that.
It is a pure function; the AM's loop, the simulator, the recovery after a crash of the AM and the
replay of a bug report are the same fold over it. It executes the table in ``transitions``, which
says what to do with each event in each phase.

The happy path::

    PENDING --plan--> ACQUIRING --all ready--> LAUNCHING --all started--> RUNNING --> SUCCEEDED
    (with nodes to check:)   ACQUIRING --> CHECKING --> LAUNCHING
    (with inputs to fetch:)  ACQUIRING --> STAGING --> LAUNCHING
    (with outputs to store:)   RUNNING --> STORING --> SUCCEEDED

- **PENDING**: the planner is asked (``RequestPlan``) where the whole gang could go now.
- **ACQUIRING**: one ``AskContainer`` per task. Until the first grant the ASK timer runs; from the
  first grant on others' work is kept out, so the HOLD timer limits that until the last grant, and
  the LOCALIZE timer from then on, while YARN brings the job's files to the nodes. A grant is held
  only if it is where it was asked for; a misfit, a lost or a useless container is replaced by a new
  ask while the hold lasts, a bounded number of times; if all had been granted, the hold starts
  again. Members go ASKED, GRANTED, READY. Where no node of a member's target can help, the planner
  is asked for another place for it alone (``search``).
- **CHECKING**: all are READY, and one agent of each new node measures it (``CheckNodes``), limited
  by the CHECK timer. The slow and broken nodes get a strike; their members are replaced in
  ACQUIRING, and nothing of the attempt goes there again.
- **STAGING**: all are READY, ranks are fixed, and the members bring their inputs to their nodes
  (``PrepareGang``), limited by the STAGING timer. No process runs yet, so trouble leads back to
  ACQUIRING. A gang without inputs to fetch goes straight to LAUNCHING.
- **LAUNCHING**: ``LaunchGang`` has opened the barrier. The LAUNCH timer limits the start. Roles
  that come after others wait for these to start, or to get ready (READY): ``LaunchGang`` comes
  again when it is their turn (``roles.start_order``).
- **RUNNING**: all processes have started. When every role that has to end is complete, it is done.
  What fails or is lost meanwhile is tolerated where the rules of its role allow it: see
  ``roles.completion``.
- **STOPPING**: one member failed, was lost, or the job was cancelled or is complete. Those that
  still run are stopped, and the machine waits (STOP timer) until every end
  is known *and explained*, since the first report is seldom the first cause: peers of a dead
  task fail too. Then it concludes: the user's failure, the platform's, or the end.
- **REPLACING**: a launched gang that lost tasks to the platform continues from STOPPING in place:
  containers whose agents are well are kept and parked, the planner is asked for the missing tasks
  beside them, and when all are READY again, everything starts under a new attempt number. The
  RECOVERY timer limits it until the last grant, then LOCALIZE; beyond that, all is released and the
  gang backs off. A gang of which YARN *preempted* a task keeps nothing: all of it is released.
- **leaving**: YARN announces a preemption seconds ahead, and the end of a node with a time-out. The
  gang is stopped before that (LEAVE waits for the latter), gives all back and backs off, for free.
- **stragglers**: ranks that slow a RUNNING gang are noted; if the job asks for it, the gang is
  stopped, and the tasks on their nodes are replaced in place.
- **idle GPUs** of a RUNNING gang are noted with the likely cause, but not acted on.
- **elastic**: a gang may have fewer tasks than its most, never fewer than its least. While RUNNING
  it probes the cluster periodically (RESIZE); to grow it gets more containers while it trains
  (GROWTH limits that); to change its size it goes through STOPPING straight to the barrier, under a
  new attempt number, for free. It shrinks where another gang would back off: see ``elastic.growth``
  and, for when, ``elastic.sizing``.
- **in place**: an elastic gang whose framework re-forms the group of processes on its own stays in
  RUNNING, and in its attempt, while tasks leave it or join it: see ``elastic.in_place``.
- **pre-run**: one process of the job may be tried before all that, as a gang of one with limits of
  its own (PRE_RUN is the time after which it has passed): see ``phases.pre_run``.
- **STORING**: the gang of a job with outputs has succeeded and holds nothing any more; the files
  that its tasks wrote become the job's output. Limited by STORE. See ``phases.storing``.
- **BACKING_OFF**: nothing is held. The wait is drawn uniformly from nothing to
  min(cap, base * 2^(n-1)) (full jitter), so that gangs that collided do not collide again.
- **SUCCEEDED, FAILED, CANCELLED**: one ``Finish``; afterwards only late containers are released.

What counts. ``failures`` counts failed acquisitions in a row: it is what ``gang.attempts`` bounds,
what the back-off grows with and what moves the ladder's rung. A refused plan ("not now") costs no
attempt; all waiting together is bounded by the WAIT timer. A gang that ran and was lost to the
platform uses up one of ``retry.max_restarts``; a preemption is free, since YARN chose; a user's
failure uses up ``retry.on_user_failure``. A new ApplicationMaster is free too: YARN itself bounds
those by ``am.attempts``. Replacing in place uses up one restart, whether it succeeds or not; of a
gang that had not all started, one attempt.

What speaks against a node (an agent that is unable or silent, a container that cannot be started,
a node that is lost, a program that crashes there and nowhere else) is a strike. Enough of them put
the node on the gang's blacklist for a cool-down, within a cap: no plan has it, no grant there is
held, nothing there is kept. Other jobs' hints only order nodes last, or add to a strike.

Attempt numbers only grow and each is used for one set of asks and one launch, so a name (``AskId``,
``TimerId``) is never used for two things, and whatever arrives late is distinguished from what is
current:

- a grant or an agent of an unknown ask is released again, and never counted;
- a timer that is not among the gang's timers changes nothing; one that comes before its time
  (its predecessor's) is only started again with the time left;
- an event of another attempt, or about another unknown ask, changes nothing; nor does one about an
  ask that has already got there.

A new AM attempt folds the journal and then steps ``AmRestarted``, which names the containers that
YARN has kept. A gang in LAUNCHING or RUNNING adopts them and continues where it is: see
``am_attempts``. Recovery points (PENDING, STORING, BACKING_OFF and the final phases) continue
where they were; STOPPING concludes with what was known, so that a cancelled or failed job is not
run again; any other phase, and a gang of which nothing was kept, backs off with the same counts.
What is not adopted is released. The blacklist lives on.

A transition that is not in the table is a bug: ``step`` refuses it with an INTERNAL error that
carries the events that led there.
"""

from __future__ import annotations

from collections.abc import Iterable

from yarnam.core.gang import am_attempts, node_blacklist
from yarnam.core.gang.context import AllEnded, StepContext
from yarnam.core.gang.elastic import in_place
from yarnam.core.gang.policy import GangPolicy
from yarnam.core.gang.state import Gang
from yarnam.core.gang.transitions import HANDLERS, ON_ENTRY, Key
from yarnam.core.model.actions import Action, ReleaseContainer
from yarnam.core.model.events import (
    AgentRegistered,
    AmRestarted,
    ContainerGranted,
    Event,
    PlanReady,
    PlanRefused,
    TimerFired,
)
from yarnam.core.model.job_status import FINAL_PHASES, Phase
from yarnam.errors import InternalError

ALL_ENDED = AllEnded()

RECENT_EVENTS = 20
"""Events before a step that its error shows; the caller that folds keeps them."""

RELEASED = {Phase.STORING: "the job only stores its outputs by now"} | dict.fromkeys(
    FINAL_PHASES, "the job has ended"
)
"""Phases without containers: why one that comes is released."""


def step(
    gang: Gang, event: Event, policy: GangPolicy, recent: Iterable[Event] = ()
) -> tuple[Gang, tuple[Action, ...]]:
    """Apply one event. ``recent`` are the last events before it, for the error.

    Never raises for an event that comes late, twice or out of order. Raises InternalError where
    what is done leads to a phase that the table does not name.
    """
    ctx = StepContext(gang, policy, event.at_s)
    key = _key(ctx, event)
    if key is not None:
        _take_row(ctx, key, event, recent)
        if isinstance(event, AmRestarted):
            am_attempts.release_others(ctx, event)
        if ctx.is_concluded:
            _take_row(ctx, AllEnded, ALL_ENDED, (*recent, event))
        in_place.publish(ctx, gang)
        if ctx.gang.phase is not gang.phase:
            for begin in ON_ENTRY.get(ctx.gang.phase, ()):
                begin(ctx)
    return ctx.gang, tuple(ctx.actions)


def _key(ctx: StepContext, event: Event) -> Key | None:
    """The key of its rows; ``None`` if the event is late, which changes nothing."""
    if isinstance(event, TimerFired):
        kind = ctx.fired(event)
        if kind is not None and kind in HANDLERS[ctx.gang.phase]:
            ctx.forget(kind)
        return kind
    if getattr(event, "attempt", ctx.gang.attempt) != ctx.gang.attempt:
        return None
    ask = getattr(event, "ask", None)
    if ask is not None:
        ctx.found = ctx.gang.find(ask) if ctx.gang.phase not in RELEASED else None
        if ctx.found is None:
            if isinstance(event, ContainerGranted | AgentRegistered):
                why = RELEASED.get(ctx.gang.phase, "it comes too late: not asked for any more")
                ctx.do(ReleaseContainer(ask, why))
            return None
    if isinstance(event, PlanReady | PlanRefused) and type(event) in HANDLERS[ctx.gang.phase]:
        node_blacklist.learn_size(ctx, event.nodes)
    return type(event)


def _take_row(ctx: StepContext, key: Key, event: Event | AllEnded, recent: Iterable[Event]) -> None:
    phase = ctx.gang.phase
    for row in HANDLERS[phase].get(key, ()):
        if row.when is None or row.when(ctx, event):
            row.do(ctx, event)
            if ctx.gang.phase not in (row.to or (phase,)):
                raise _not_in_table(phase, event, ctx.gang.phase, recent)
            return


def _not_in_table(
    phase: Phase, event: Event | AllEnded, to: Phase, recent: Iterable[Event]
) -> InternalError:
    before = "".join(f"\n  {one!r}" for one in recent)
    return InternalError(
        f"the gang machine has no transition from {phase.value} to {to.value} on "
        f"{type(event).__name__}: {event!r}"
        + (f"\nthe events before it:{before}" if before else ""),
        hint="This is a bug in yarnam: report it with this text and the job's events.",
    )

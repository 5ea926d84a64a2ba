"""Every transition of the gang machine, as *condition* and *operation*.

The chart and the table in ``docs/reference/gang-machine.md`` are generated from this; a test plays
worlds against ``step`` and fails on a transition that is not here, and on a row never taken. An
event that changes nothing has no row: it was late, doubled or stale.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    InputsRefused,
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
)
from yarnam.model.status import Phase

P = Phase


@dataclass(frozen=True, slots=True)
class Transition:
    """In ``phase``, one of ``events`` under ``condition`` does ``operation`` and leads to one of
    ``to`` (``phase`` itself: stays, with changed members)."""

    phase: Phase
    events: tuple[type, ...]
    condition: str
    operation: str
    to: tuple[Phase, ...]


TROUBLE = (ContainerEnded, AgentUnable, AgentSilent)
ENDS_IF_LAST = "with nobody left to stop, concludes at once"
CONCLUDED = {
    P.LAUNCHING: (P.BACKING_OFF, P.FAILED, P.ACQUIRING),
    P.RUNNING: (P.BACKING_OFF, P.FAILED, P.ACQUIRING, P.LAUNCHING),
}
"""Where a gang may go that has nobody left to stop."""

TRANSITIONS: tuple[Transition, ...] = (
    # -- PENDING ------------------------------------------------------------------------------
    Transition(
        P.PENDING,
        (JobStarted,),
        "for the first time",
        "start the WAIT timer; RequestPlan",
        (P.PENDING,),
    ),
    Transition(
        P.PENDING,
        (PlanReady,),
        "for this attempt",
        "AskContainer for every task of the tightest rung; start the ASK timer",
        (P.ACQUIRING,),
    ),
    Transition(
        P.PENDING,
        (PlanRefused,),
        "not now",
        "count the look, not an attempt; DrawJitter",
        (P.BACKING_OFF,),
    ),
    Transition(
        P.PENDING,
        (PlanReady,),
        "less or more than the gang (a bug of the planner)",
        "Finish with INTERNAL",
        (P.FAILED,),
    ),
    Transition(P.PENDING, (PlanRefused,), "never", "Finish with NEVER_FITS", (P.FAILED,)),
    Transition(
        P.PENDING,
        (PlanRefused,),
        "never, but nodes are on the blacklist",
        "lift all exclusions; RequestPlan again",
        (P.PENDING,),
    ),
    # -- ACQUIRING ----------------------------------------------------------------------------
    Transition(
        P.ACQUIRING,
        (ContainerGranted,),
        "where it was asked for",
        "hold it; the first one cancels ASK and starts HOLD",
        (P.ACQUIRING,),
    ),
    Transition(
        P.ACQUIRING,
        (ContainerGranted, AgentRegistered),
        "a misfit: wrong node, rack or GPU model, excluded, too many nodes, agent elsewhere",
        "ReleaseContainer; AskContainer under a new name",
        (P.ACQUIRING,),
    ),
    Transition(
        P.ACQUIRING,
        (AgentRegistered,),
        "others are not ready yet",
        "the member is READY",
        (P.ACQUIRING,),
    ),
    Transition(
        P.ACQUIRING,
        (AgentRegistered, ContainerGranted),
        "the whole gang is granted, verified and ready",
        "fix the ranks; LaunchGang; cancel HOLD, start LAUNCH. With inputs to bring to the nodes: "
        "PrepareGang; start STAGING",
        (P.LAUNCHING,),
    ),
    Transition(
        P.ACQUIRING,
        TROUBLE,
        "containers may still be replaced in this attempt",
        "ReleaseContainer unless it has ended; AskContainer under a new name",
        (P.ACQUIRING,),
    ),
    Transition(
        P.ACQUIRING,
        (*TROUBLE, ContainerGranted, AgentRegistered),
        "as many containers were replaced as an attempt may",
        "release all; the attempt has failed",
        (P.BACKING_OFF, P.FAILED),
    ),
    Transition(
        P.ACQUIRING,
        (*TROUBLE, ContainerGranted, AgentRegistered),
        "no node that it was asked for on can take it; others are held",
        "ReleaseContainer; RequestPlan for it alone; what is found is asked for, a refusal is "
        "followed by further looks while HOLD lasts",
        (P.ACQUIRING,),
    ),
    Transition(
        P.ACQUIRING,
        (*TROUBLE, ContainerGranted, AgentRegistered),
        "no node that it was asked for on can take it; nothing is held",
        "release all; the attempt has failed",
        (P.BACKING_OFF, P.FAILED),
    ),
    Transition(
        P.ACQUIRING,
        (AgentUnable,),
        "for the second time by the job's own fault",
        "release all; Finish with USER_FAILED",
        (P.FAILED,),
    ),
    Transition(
        P.ACQUIRING,
        (TimerFired,),
        "ASK or HOLD, attempts left",
        "release all, granted and outstanding; the attempt has failed; DrawJitter",
        (P.BACKING_OFF,),
    ),
    Transition(
        P.ACQUIRING,
        (TimerFired,),
        "ASK or HOLD on the last attempt",
        "release all; Finish with GANG_TIMEOUT and the history of attempts",
        (P.FAILED,),
    ),
    Transition(
        P.ACQUIRING,
        (NodesSuspected,),
        "with a strike of this job's own it excludes a node",
        "ReleaseContainer what is held there; ask for it again",
        (P.ACQUIRING,),
    ),
    # -- ACQUIRING, what a running gang has lost ----------------------------------------------
    Transition(
        P.ACQUIRING,
        (PlanReady,),
        "in place: for what is missing",
        "AskContainer for it",
        (P.ACQUIRING,),
    ),
    Transition(
        P.ACQUIRING,
        (PlanRefused,),
        "in place: not now",
        "DrawJitter for the next look",
        (P.ACQUIRING,),
    ),
    Transition(
        P.ACQUIRING,
        (TimerFired,),
        "in place: BACKOFF, so no room or no grant by now",
        "withdraw what is not granted; RequestPlan for what is missing",
        (P.ACQUIRING,),
    ),
    Transition(
        P.ACQUIRING,
        TROUBLE,
        "in place: containers may still be replaced in this attempt",
        "ReleaseContainer unless it has ended; RequestPlan for it too",
        (P.ACQUIRING,),
    ),
    Transition(
        P.ACQUIRING,
        (PlanRefused, TimerFired, ContainerEnded),
        "in place: never, or RECOVERY fired, or YARN preempted what is held",
        "release all; DrawJitter",
        (P.BACKING_OFF,),
    ),
    # -- LAUNCHING, inputs on their way -------------------------------------------------------
    Transition(
        P.LAUNCHING,
        (TaskStaged,),
        "a member has its inputs; with the last one:",
        "LaunchGang; cancel STAGING, start LAUNCH",
        (P.LAUNCHING,),
    ),
    Transition(
        P.LAUNCHING,
        (*TROUBLE, NodesSuspected),
        "inputs are on their way: as in ACQUIRING",
        "replace the member; start HOLD; the others keep what they have fetched",
        (P.ACQUIRING, P.BACKING_OFF, P.FAILED),
    ),
    Transition(
        P.LAUNCHING,
        (TimerFired,),
        "STAGING",
        "release all; the attempt has failed",
        (P.BACKING_OFF, P.FAILED),
    ),
    # -- LAUNCHING ----------------------------------------------------------------------------
    Transition(
        P.LAUNCHING,
        (TaskStarted,),
        "others have not started yet",
        "the member is STARTED",
        (P.LAUNCHING,),
    ),
    Transition(
        P.LAUNCHING,
        (TaskStarted, TaskExited),
        "all members have started, or ended well",
        "cancel LAUNCH and WAIT; failures in a row: 0",
        (P.RUNNING,),
    ),
    Transition(
        P.LAUNCHING,
        (TimerFired,),
        "LAUNCH",
        "StopTask for every member; start STOP",
        (P.STOPPING,),
    ),
    # -- LAUNCHING and RUNNING ----------------------------------------------------------------
    *(
        Transition(phase, events, condition, operation, to)
        for phase in (P.LAUNCHING, P.RUNNING)
        for events, condition, operation, to in (
            (
                (TaskExited,),
                "ended well, others have not ended",
                "the member is EXITED",
                (phase,),
            ),
            (
                (TaskExited,),
                "all but parameter servers have ended well",
                f"StopTask for the parameter servers; {ENDS_IF_LAST}: Finish with OK",
                (P.STOPPING, P.SUCCEEDED),
            ),
            (
                (TaskExited,),
                "a process failed",
                f"StopTask for the others; start STOP; {ENDS_IF_LAST}",
                (P.STOPPING, *CONCLUDED[phase]),
            ),
            (
                TROUBLE,
                "the member had not exited",
                f"the member is LOST; StopTask for the others; start STOP; {ENDS_IF_LAST}",
                (P.STOPPING, *CONCLUDED[phase]),
            ),
            (
                (CancelRequested,),
                "",
                f"StopTask for every member; start STOP; {ENDS_IF_LAST}",
                (P.STOPPING, P.CANCELLED),
            ),
            (
                (InputsRefused,),
                "",
                f"StopTask for every member; start STOP; {ENDS_IF_LAST}",
                (P.STOPPING, P.FAILED),
            ),
        )
    ),
    # -- STOPPING -----------------------------------------------------------------------------
    Transition(
        P.STOPPING,
        (TaskExited, *TROUBLE),
        "some member's end is not known or not explained yet",
        "note the end; an unexplained one shortens STOP to a grace",
        (P.STOPPING,),
    ),
    Transition(
        P.STOPPING,
        (CancelRequested,),
        "",
        "it ends as CANCELLED, at once if nobody is left",
        (P.STOPPING, P.CANCELLED),
    ),
    Transition(
        P.STOPPING,
        (InputsRefused,),
        "neither done nor cancelled",
        "it ends as FAILED, at once if nobody is left",
        (P.STOPPING, P.FAILED),
    ),
    Transition(
        P.STOPPING,
        (TaskExited, *TROUBLE, TimerFired, AmRestarted),
        "all is known, or STOP fired; its inputs were refused",
        "release all; Finish with BAD_SPEC",
        (P.FAILED,),
    ),
    Transition(
        P.STOPPING,
        (TaskExited, *TROUBLE, TimerFired, AmRestarted),
        "all is known, or STOP fired; cancelled",
        "release all; Finish with CANCELLED",
        (P.CANCELLED,),
    ),
    Transition(
        P.STOPPING,
        (TaskExited, *TROUBLE, TimerFired, AmRestarted),
        "all is known, or STOP fired; the job had succeeded",
        "release all; Finish with OK",
        (P.SUCCEEDED,),
    ),
    Transition(
        P.STOPPING,
        (TaskExited, *TROUBLE, TimerFired, AmRestarted),
        "all is known, or STOP fired; it failed and may try again (the first cause decides: user's "
        "retries, restarts, attempts; preemptions are free)",
        "release all; DrawJitter",
        (P.BACKING_OFF,),
    ),
    Transition(
        P.STOPPING,
        (TaskExited, *TROUBLE, TimerFired),
        "all is known, or STOP fired; a launched gang lost tasks to the platform, has restarts (if "
        "it ran) or attempts left, and some of its containers and agents are well",
        "keep those; release the others; start RECOVERY; RequestPlan for what is missing, or "
        "LaunchGang if nothing is",
        (P.ACQUIRING, P.LAUNCHING),
    ),
    Transition(
        P.STOPPING,
        (TaskExited, *TROUBLE, TimerFired, AmRestarted),
        "all is known, or STOP fired; it failed and may not try again",
        "release all; Finish with USER_FAILED or ATTEMPTS_EXHAUSTED and the first cause",
        (P.FAILED,),
    ),
    # -- an elastic gang ----------------------------------------------------------------------
    Transition(
        P.PENDING,
        (PlanReady,),
        "elastic: room for less than its largest size, within its patience",
        "count the look, not an attempt; DrawJitter",
        (P.BACKING_OFF,),
    ),
    Transition(
        P.PENDING,
        (TimerFired,),
        "elastic: PATIENCE",
        "RequestPlan again, for the largest size that fits",
        (P.PENDING,),
    ),
    Transition(
        P.ACQUIRING,
        (TimerFired, PlanRefused, *TROUBLE),
        "elastic: HOLD or RECOVERY fired, or what was lost cannot be replaced; enough stand",
        "release what has not come; fix the ranks; LaunchGang; start LAUNCH",
        (P.LAUNCHING,),
    ),
    Transition(
        P.RUNNING,
        (TimerFired,),
        "elastic: RESIZE",
        "LookAround; start RESIZE again",
        (P.RUNNING,),
    ),
    Transition(
        P.RUNNING,
        (ClusterSeen, PlanReady),
        "elastic: it grows",
        "RequestPlan for the further tasks; AskContainer for each; start GROWTH",
        (P.RUNNING,),
    ),
    Transition(
        P.RUNNING,
        (TimerFired, ContainerGranted, AgentRegistered, *TROUBLE),
        "elastic: GROWTH fired, or a container to grow by is no good",
        "release all containers to grow by",
        (P.RUNNING,),
    ),
    Transition(
        P.RUNNING,
        (AgentRegistered, ContainerGranted),
        "elastic: the last of the containers to grow by stands",
        "StopTask for every member, with time for a checkpoint; start STOP",
        (P.STOPPING,),
    ),
    Transition(
        P.RUNNING,
        (ClusterSeen, ScaleRequested),
        "elastic: it shrinks",
        "StopTask for every member, with time for a checkpoint; start STOP",
        (P.STOPPING,),
    ),
    Transition(
        P.STOPPING,
        (TaskExited,),
        "elastic: all have stopped for a change of size, or enough are left of a gang that lost "
        "some",
        "release those that do not stay; a new attempt; fix the ranks; LaunchGang; start LAUNCH",
        (P.LAUNCHING,),
    ),
    # -- outputs ------------------------------------------------------------------------------
    *(
        Transition(
            phase,
            events,
            "as above, where it ends with OK, of a job with outputs",
            "release all; StoreOutputs; start STORE",
            (P.STORING,),
        )
        for phase, events in (
            (P.LAUNCHING, (TaskExited,)),
            (P.RUNNING, (TaskExited,)),
            (P.STOPPING, (TaskExited, *TROUBLE, TimerFired, AmRestarted)),
        )
    ),
    Transition(P.STORING, (OutputsStored,), "", "Finish with OK", (P.SUCCEEDED,)),
    Transition(P.STORING, (StoringTroubled,), "", "remember why it takes so long", (P.STORING,)),
    Transition(
        P.STORING,
        (StoringFailed,),
        "it cannot succeed, or was stopped for its limit",
        "Finish with what is in the way",
        (P.FAILED,),
    ),
    Transition(
        P.STORING,
        (TimerFired, CancelRequested),
        "STORE, or a cancel",
        "StopStoring; start STOP",
        (P.STORING,),
    ),
    Transition(
        P.STORING,
        (StoringFailed, TimerFired),
        "it was stopped for a cancel; or STOP fired",
        "Finish with CANCELLED, or with UNAVAILABLE if it was stopped for its limit",
        (P.CANCELLED, P.FAILED),
    ),
    Transition(
        P.STORING,
        (ContainerGranted, AgentRegistered),
        "a straggler",
        "ReleaseContainer",
        (P.STORING,),
    ),
    Transition(
        P.STORING,
        (AmRestarted,),
        "",
        "start the timer again with the time left; StoreOutputs, or StopStoring, again",
        (P.STORING,),
    ),
    # -- BACKING_OFF --------------------------------------------------------------------------
    Transition(
        P.BACKING_OFF,
        (TimerFired,),
        "BACKOFF",
        "the next attempt number; RequestPlan from the rung that the failures lead to",
        (P.PENDING,),
    ),
    # -- any wait -----------------------------------------------------------------------------
    *(
        Transition(
            phase,
            (TimerFired,),
            "WAIT",
            "release all; Finish with GANG_TIMEOUT",
            (P.FAILED,),
        )
        for phase in (P.PENDING, P.ACQUIRING, P.BACKING_OFF)
    ),
    *(
        Transition(
            phase, (CancelRequested,), "", "release all; Finish with CANCELLED", (P.CANCELLED,)
        )
        for phase in (P.PENDING, P.ACQUIRING, P.BACKING_OFF)
    ),
    *(
        Transition(phase, (InputsRefused,), "", "release all; Finish with BAD_SPEC", (P.FAILED,))
        for phase in (P.PENDING, P.ACQUIRING, P.BACKING_OFF)
    ),
    # -- any phase ----------------------------------------------------------------------------
    *(
        Transition(
            phase,
            (BrokerFailed,),
            "",
            "StopTask where processes run; release all; Finish with UNAVAILABLE",
            (P.FAILED,),
        )
        for phase in (P.PENDING, P.ACQUIRING, P.LAUNCHING, P.RUNNING, P.STOPPING, P.BACKING_OFF)
    ),
    # -- a new ApplicationMaster --------------------------------------------------------------
    Transition(
        P.PENDING,
        (AmRestarted,),
        "",
        "start the timers again; RequestPlan again",
        (P.PENDING,),
    ),
    Transition(
        P.BACKING_OFF,
        (AmRestarted,),
        "",
        "start the timers again with the time left; DrawJitter if none was drawn",
        (P.BACKING_OFF,),
    ),
    *(
        Transition(
            phase,
            (AmRestarted,),
            "",
            "forget the members (YARN has killed them); same counts; DrawJitter",
            (P.BACKING_OFF,),
        )
        for phase in (P.ACQUIRING, P.LAUNCHING, P.RUNNING)
    ),
    *(
        Transition(phase, (AmRestarted,), "", "Finish with the same verdict again", (phase,))
        for phase in (P.SUCCEEDED, P.FAILED, P.CANCELLED)
    ),
    *(
        Transition(
            phase,
            (ContainerGranted, AgentRegistered),
            "a straggler",
            "ReleaseContainer",
            (phase,),
        )
        for phase in (P.SUCCEEDED, P.FAILED, P.CANCELLED)
    ),
)

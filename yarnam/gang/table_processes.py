"""The transitions of a gang with processes, and of what it leaves: LAUNCHING to STORING."""

from __future__ import annotations

from yarnam.gang.transition import CONCLUDED, ENDS_IF_LAST, TROUBLE, Transition
from yarnam.model.events import (
    AgentRegistered,
    AmRestarted,
    CancelRequested,
    ClusterSeen,
    ContainerGranted,
    InputsRefused,
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

PROCESS_ROWS: tuple[Transition, ...] = (
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
)

"""The transitions of a gang that is not whole: PENDING and ACQUIRING."""

from __future__ import annotations

from yarnam.gang.transition import TROUBLE, Transition
from yarnam.model.events import (
    AgentRegistered,
    AgentUnable,
    ContainerEnded,
    ContainerGranted,
    JobStarted,
    NodesSuspected,
    PlanReady,
    PlanRefused,
    TimerFired,
)
from yarnam.model.status import Phase

P = Phase

ACQUIRING_ROWS: tuple[Transition, ...] = (
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
)

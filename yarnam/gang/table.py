"""Every transition of the gang machine, as *condition* and *operation*.

The chart and the table in ``docs/reference/gang-machine.md`` are generated from this; a test plays
worlds against ``step`` and fails on a transition that is not here, and on a row never taken. An
event that changes nothing has no row: it was late, doubled or stale.
"""

from __future__ import annotations

from yarnam.gang.table_acquiring import ACQUIRING_ROWS
from yarnam.gang.table_processes import PROCESS_ROWS
from yarnam.gang.transition import Transition
from yarnam.model.events import (
    AgentRegistered,
    AmRestarted,
    BrokerFailed,
    CancelRequested,
    ContainerGranted,
    InputsRefused,
    TimerFired,
)
from yarnam.model.status import Phase

P = Phase

TRANSITIONS: tuple[Transition, ...] = (
    *ACQUIRING_ROWS,
    *PROCESS_ROWS,
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

"""``step``: an event, and the agent's actions. The shell folds it.

Theory of operation
===================

An agent prepares its task (PREPARING), reports that it is READY or UNABLE, and talks with the
ApplicationMaster from then on: reports in order, and one poll at a time, each of which is an action
(``Poll``) and comes back as a directive. It waits at the barrier (PARKED), where the AM may have
it measure its node or bring inputs. A launch is a chain of actions that answer each other
(LAUNCHING, ``task_launch``); then the processes run (RUNNING) and have all ended (EXITED), from
where another launch may follow. It ends when the AM dismisses it or is gone for too long (LEAVING
while it still has processes), when YARN kills its container, or by a fault of its own (LEFT).

Directives are desired states. A directive with the number of the last one brings nothing; an older
launch, stop or dump is known by its attempt. Whatever an action is answered with carries the
action's serial, and only the answer that is awaited counts.

What belongs to one ApplicationMaster is ``AgentState.am``, what belongs to the processes is
``AgentState.run``: neither refers to the other.
"""

from __future__ import annotations

from yarnam.agent.machine.agent_actions import AgentAction
from yarnam.agent.machine.agent_context import AgentStep
from yarnam.agent.machine.agent_events import (
    ActivityPolled,
    AgentEvent,
    DirectiveReceived,
    MirrorMoved,
    Moment,
    PortsChecked,
    ProcessesEnded,
    ProcessFailed,
    RunEnded,
    RunStarted,
    Signal,
    StacksDumped,
    StrangersFound,
    TimerFired,
)
from yarnam.agent.machine.agent_state import AgentPhase, AgentState
from yarnam.agent.machine.agent_transitions import HANDLERS, Key
from yarnam.agent.machine.task_errands import poll_again
from yarnam.errors import InternalError

_OF_RUN = (
    RunStarted, ProcessFailed, ProcessesEnded, RunEnded, StacksDumped, ActivityPolled,
    PortsChecked, StrangersFound, MirrorMoved,
)  # fmt: skip
"""Events of one launch."""

_TALKING = frozenset(AgentPhase) - {AgentPhase.PREPARING, AgentPhase.LEAVING, AgentPhase.LEFT}


def step(
    agent: AgentState, event: AgentEvent, moment: Moment
) -> tuple[AgentState, tuple[AgentAction, ...]]:
    """Pure: the same agent, event and moment give the same result. Raises InternalError where what
    is done leads to a phase that the table does not name."""
    ctx = AgentStep(agent, moment)
    if isinstance(event, DirectiveReceived):
        _follow(ctx, event)
    elif isinstance(event, TimerFired):
        if ctx.has_fired(event.timer, event.serial):
            _take_row(ctx, event.timer, event)
    elif not isinstance(event, _OF_RUN):
        _take_row(ctx, event if isinstance(event, Signal) else type(event), event)
    elif agent.run is not None and event.attempt == agent.run.attempt:
        _take_row(ctx, type(event), event)
    return ctx.agent, tuple(ctx.actions)


def _follow(ctx: AgentStep, event: DirectiveReceived) -> None:
    """Follow a directive, then ask for the next one."""
    am = ctx.agent.am
    if ctx.agent.phase not in _TALKING or event.serial != am.polling:
        return
    if event.number == am.seen:
        poll_again(ctx, event)
        return
    ctx.agent = ctx.agent._replace(am=am._replace(seen=event.number, polling=0))
    _take_row(ctx, type(event.order), event.order)
    if ctx.agent.phase in _TALKING:
        ctx.poll()


def _take_row(ctx: AgentStep, key: Key, event: object) -> None:
    phase = ctx.agent.phase
    for row in HANDLERS[phase].get(key, ()):
        if row.when is None or row.when(ctx, event):
            row.do(ctx, event)
            if ctx.agent.phase not in (row.to or (phase,)):
                raise InternalError(
                    f"the agent has no transition from {phase.value} to "
                    f"{ctx.agent.phase.value} on {event!r}"
                )
            return

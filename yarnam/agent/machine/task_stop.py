"""Ending the processes, and the agent."""

from __future__ import annotations

from yarnam.agent.machine.agent_actions import (
    AskForStep,
    Command,
    Exit,
    StopAfter,
    StopAndWait,
    StopProcesses,
    StopTalking,
    TaskState,
)
from yarnam.agent.machine.agent_context import AgentStep
from yarnam.agent.machine.agent_directives import Leave, Stop
from yarnam.agent.machine.agent_events import RunEnded, Signal
from yarnam.agent.machine.agent_state import AgentExit, AgentPhase

STOP_MARGIN_S = 3.0
"""Beyond the grace time, for the kill and the check that nothing is left."""


def is_for_run(ctx: AgentStep, order: Stop) -> bool:
    return order.attempt >= ctx.run.attempt


def stop(ctx: AgentStep, order: Stop) -> None:
    reason = order.reason or "stop directive"
    if order.at_step is not None:
        ctx.do(StopAfter(order.at_step, reason))
    elif order.agree:
        ctx.do(AskForStep(order.grace_s, reason))
        if ctx.agent.phase is AgentPhase.RUNNING:
            ctx.report(TaskState.STARTED)
    else:
        ctx.do(StopProcesses(order.grace_s, reason, order.idle_grace_s))


# ---- the agent's end -----------------------------------------------------------------------------


def leave(ctx: AgentStep, order: Leave) -> None:
    ctx.do(StopTalking(order.reason))
    _exit(ctx, AgentExit.DONE)


def has_no_processes(ctx: AgentStep, _: object) -> bool:
    """The launch has not come to them."""
    return not ctx.run.has_processes


def leave_with_run(ctx: AgentStep, order: Leave) -> None:
    ctx.do(StopTalking(order.reason))
    _stop_and_leave(ctx, AgentExit.DONE, "leave directive")


def be_orphaned(ctx: AgentStep, _: Signal) -> None:
    _exit(ctx, AgentExit.ORPHANED)


def be_orphaned_with_run(ctx: AgentStep, _: Signal) -> None:
    _stop_and_leave(ctx, AgentExit.ORPHANED, "the ApplicationMaster is gone")


def _stop_and_leave(ctx: AgentStep, code: AgentExit, reason: str) -> None:
    grace_s = ctx.facts.stop_grace_s
    ctx.agent = ctx.agent._replace(code=code)
    ctx.enter(AgentPhase.LEAVING)
    ctx.do(StopAndWait(grace_s, reason, grace_s + STOP_MARGIN_S))


def close_logs(ctx: AgentStep, _: RunEnded) -> None:
    ctx.do(Command.CLOSE_LOGS)


def leave_stopped(ctx: AgentStep, _: Signal) -> None:
    _exit(ctx, ctx.agent.code)


def _exit(ctx: AgentStep, code: AgentExit) -> None:
    ctx.agent = ctx.agent._replace(code=code)
    ctx.enter(AgentPhase.LEFT)
    ctx.do(Exit(code))


def be_terminated(ctx: AgentStep, _: Signal) -> None:
    """YARN gives a container 250 ms between SIGTERM and SIGKILL: no time for grace."""
    _exit_now(ctx, AgentExit.TERMINATED)


def be_faulty(ctx: AgentStep, _: Signal) -> None:
    """YARN reports the container's end to the AM: nobody waits for this agent."""
    _exit_now(ctx, AgentExit.FAULT)


def _exit_now(ctx: AgentStep, code: AgentExit) -> None:
    ctx.agent = ctx.agent._replace(code=code)
    ctx.enter(AgentPhase.LEFT)
    ctx.do(Command.KILL_ALL, Exit(code, is_hurried=True))

"""The agent's work apart from processes: getting ready, inputs, checks of the node, tokens, and
its talk with the ApplicationMaster."""

from __future__ import annotations

from yarnam.agent.machine.agent_actions import (
    Cancel,
    Command,
    MeasureNode,
    Prepare,
    StageInputs,
    TaskState,
    WriteTokens,
)
from yarnam.agent.machine.agent_context import AgentStep
from yarnam.agent.machine.agent_directives import Check, Park, Stage
from yarnam.agent.machine.agent_events import (
    Checked,
    DirectiveReceived,
    Signal,
    Staged,
    TimerFired,
    TokensReceived,
    TokensWritten,
    TroubleFound,
)
from yarnam.agent.machine.agent_state import (
    AgentPhase,
    AgentTimer,
    Errand,
    Preparation,
    Problem,
    TaskFacts,
)

POLL_PAUSE_S = 0.05
"""Before the next poll, if the last one was shorter and brought nothing: an AM that does not hold
polls must not make the agent spin."""

RETRY_TOKENS_S = 10.0
"""A disk may be full now. Tokens come hours before those in the file end."""


# ---- getting ready -------------------------------------------------------------------------------


def parts_of(facts: TaskFacts) -> tuple[Preparation, ...]:
    """The parts that this task needs, in the order in which the agent gets them."""
    needed = {
        Preparation.ADDRESS: True,
        Preparation.WAKING: facts.is_large,
        Preparation.LOGS: True,
        Preparation.INPUTS: facts.has_inputs,
        Preparation.PORTS: True,
        Preparation.GPUS: facts.has_gpus,
        Preparation.STAGING: facts.is_staged,
    }
    return tuple(part for part, is_needed in needed.items() if is_needed)


def prepare(ctx: AgentStep, _: Signal) -> None:
    ctx.do(Prepare(parts_of(ctx.facts)))


def park(ctx: AgentStep, _: Signal) -> None:
    ctx.enter(AgentPhase.PARKED)
    ctx.report(TaskState.READY)
    ctx.do(Command.TALK)


def give_up_preparing(ctx: AgentStep, event: TroubleFound) -> None:
    ctx.enter(AgentPhase.UNABLE)
    ctx.report_unable(event.problem)
    ctx.do(Command.TALK)


def report_trouble(ctx: AgentStep, event: TroubleFound) -> None:
    ctx.report_unable(event.problem)


# ---- directives ----------------------------------------------------------------------------------


def poll_first(ctx: AgentStep, _: Signal) -> None:
    ctx.poll()


def poll_again(ctx: AgentStep, event: DirectiveReceived) -> None:
    """The poll was held in vain."""
    is_early = event.took_s < POLL_PAUSE_S
    ctx.poll(POLL_PAUSE_S if is_early else 0.0)


def stay(_ctx: AgentStep, _order: Park) -> None:
    """The agent is parked."""


# ---- another ApplicationMaster ------------------------------------------------------------------


def introduce(ctx: AgentStep, _: Signal) -> None:
    ctx.report(TaskState.READY)


def report_run(ctx: AgentStep, _: Signal) -> None:
    """The AM before may have taken a report to its grave."""
    is_over = ctx.agent.phase is AgentPhase.EXITED
    ctx.report(TaskState.EXITED if is_over else TaskState.STARTED)


def has_given_up(ctx: AgentStep, _: Signal) -> bool:
    return ctx.run.is_abandoned


def report_given_up(ctx: AgentStep, _: Signal) -> None:
    ctx.report_unable(Problem("its processes have been given up"))


# ---- inputs --------------------------------------------------------------------------------------


def stage(ctx: AgentStep, order: Stage) -> None:
    if ctx.agent.staging.serial:
        ctx.do(Cancel(ctx.agent.staging.serial))
    serial = ctx.next_serial()
    ctx.agent = ctx.agent._replace(staging=Errand(serial, order.launch.attempt))
    ctx.do(StageInputs(serial, order.launch))


def has_nothing_to_stage(ctx: AgentStep, _: Stage) -> bool:
    return not ctx.facts.is_staged


def report_staged(ctx: AgentStep, order: Stage) -> None:
    ctx.do(ctx.report_of(TaskState.STAGED)._replace(attempt=order.launch.attempt))


def is_of_directive(ctx: AgentStep, event: Staged) -> bool:
    return 0 < event.serial == ctx.agent.staging.serial


def end_staging(ctx: AgentStep, event: Staged) -> None:
    attempt = ctx.agent.staging.attempt
    ctx.agent = ctx.agent._replace(staging=Errand())
    if event.problem is not None:
        ctx.report_unable(event.problem)
    else:
        ctx.do(ctx.report_of(TaskState.STAGED)._replace(attempt=attempt))


def has_nothing_unsent(ctx: AgentStep, _: Signal) -> bool:
    """A report that waits to be sent says how far the inputs are, too."""
    return not ctx.moment.has_unsent


def report_parked(ctx: AgentStep, _: Signal) -> None:
    ctx.report(TaskState.READY)


def report_exited(ctx: AgentStep, _: Signal) -> None:
    ctx.report(TaskState.EXITED)


# ---- checks of the node --------------------------------------------------------------------------


def check(ctx: AgentStep, order: Check) -> None:
    ctx.end_check()
    serial = ctx.next_serial()
    ctx.agent = ctx.agent._replace(checking=Errand(serial, order.attempt))
    ctx.do(MeasureNode(serial, order))


def end_check(ctx: AgentStep, _: object) -> None:
    """A node is not measured while processes use it."""
    ctx.end_check()


def is_awaited(ctx: AgentStep, event: Checked) -> bool:
    return 0 < event.serial == ctx.agent.checking.serial


def report_checked(ctx: AgentStep, event: Checked) -> None:
    attempt = ctx.agent.checking.attempt
    ctx.agent = ctx.agent._replace(checking=Errand())
    report = ctx.report_of(TaskState.CHECKED)
    ctx.do(report._replace(attempt=attempt, measures=event.measures, check=event.check))


# ---- tokens --------------------------------------------------------------------------------------


def write_tokens(ctx: AgentStep, event: TokensReceived) -> None:
    """Before anything else: a directive that came along may start processes that need them."""
    ctx.do(WriteTokens(event.tokens))


def has_failed(_ctx: AgentStep, event: TokensWritten) -> bool:
    return not event.is_written


def retry_tokens(ctx: AgentStep, _: TokensWritten) -> None:
    ctx.start_timer(AgentTimer.TOKENS, RETRY_TOKENS_S)


def write_tokens_again(ctx: AgentStep, _: TimerFired) -> None:
    ctx.do(WriteTokens(()))

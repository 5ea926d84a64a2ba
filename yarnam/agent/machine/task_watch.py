"""Processes that run: what the agent looks at, what it reports, and when they have ended."""

from __future__ import annotations

from yarnam.agent.machine.agent_actions import (
    CheckPorts,
    Command,
    DumpStacks,
    FindStrangers,
    PollActivity,
    SendMetrics,
    TaskState,
)
from yarnam.agent.machine.agent_context import AgentStep
from yarnam.agent.machine.agent_directives import Dump
from yarnam.agent.machine.agent_events import (
    ActivityPolled,
    MirrorMoved,
    PortsChecked,
    ProcessesEnded,
    ProcessFailed,
    RunEnded,
    RunStarted,
    SampleTaken,
    Signal,
    StacksDumped,
    StrangersFound,
    TimerFired,
)
from yarnam.agent.machine.agent_state import AgentPhase, AgentTimer, Problem, Run
from yarnam.agent.machine.task_launch import ACTIVITY_PERIOD_S
from yarnam.core.frameworks.task_ports import port_key

LATE_S = 0.5
"""A poll of the AM that comes later than this is not waited for to see what the processes do."""

USAGE_POLLS = 5
"""Without other news, the AM gets what the processes use at each fifth late poll."""

PORT_CHECK_GROWTH = 1.5
PORT_CHECK_CAP_S = 30.0
"""The agent looks seldom at the ports after some minutes, since on a node with thousands of
listeners that takes milliseconds."""

READY_PORT_CAP_S = 1.0
"""The same where other roles wait for one of these ports."""


# ---- their beginning and end ---------------------------------------------------------------------


def is_abandoned(ctx: AgentStep, _: object) -> bool:
    return ctx.run.is_abandoned


def is_accountable(ctx: AgentStep, _: object) -> bool:
    return not ctx.run.is_abandoned


def note_start(ctx: AgentStep, _: RunStarted) -> None:
    ctx.enter(AgentPhase.RUNNING)


def report_start(ctx: AgentStep, _: RunStarted) -> None:
    ctx.enter(AgentPhase.RUNNING)
    ctx.report(TaskState.STARTED)


def report_failure(ctx: AgentStep, _: ProcessFailed) -> None:
    """The other tasks need not wait for the rest of this one."""
    ctx.report(TaskState.STARTED)


def end_watch(ctx: AgentStep, _: RunEnded) -> None:
    ctx.enter(AgentPhase.EXITED)
    ctx.stop_timer(AgentTimer.PORTS)
    ctx.stop_timer(AgentTimer.ACTIVITY)


def report_end(ctx: AgentStep, event: RunEnded) -> None:
    end_watch(ctx, event)
    ctx.do(Command.CLOSE_LOGS)
    ctx.report(TaskState.EXITED)


def abandon(ctx: AgentStep, _: Signal) -> None:
    """The kernel has killed all processes with the keeper. How they would have ended is unknown:
    the job's program would be blamed for a SIGKILL."""
    _abandon(ctx)
    report_keeper(ctx, Signal.KEEPER_LOST)


def _abandon(ctx: AgentStep) -> None:
    ctx.set_run(ctx.run._replace(is_abandoned=True))
    ctx.do(Command.ABANDON)


def report_keeper(ctx: AgentStep, _: Signal) -> None:
    """Without a keeper nothing can be started or ended here."""
    ctx.report_unable(Problem("the keeper of the task's processes was killed"))


# ---- their metrics -------------------------------------------------------------------------------


def take_sample(ctx: AgentStep, event: SampleTaken) -> None:
    run = ctx.run
    ctx.set_run(
        run._replace(
            has_said_ready=run.has_said_ready or event.all_ready,
            has_newer=run.has_newer or not event.is_news,
        )
    )
    _report_if_ready(ctx, run)
    if event.is_news:
        ctx.do(Command.SEND_METRICS_SOON)


def _report_if_ready(ctx: AgentStep, before: Run) -> None:
    """Others wait for it: it does not wait for the next report."""
    is_news = ctx.run.is_ready and not before.is_ready
    if is_news and ctx.agent.phase is AgentPhase.RUNNING:
        ctx.report(TaskState.STARTED)


def report_metrics(ctx: AgentStep, _: Signal) -> None:
    ctx.set_run(ctx.run._replace(has_newer=False))
    ctx.do(Command.READ_STEPS, SendMetrics(ctx.report_of(TaskState.STARTED)))


def has_nothing_unsent(ctx: AgentStep, _: Signal) -> bool:
    return not ctx.moment.has_unsent


def add_progress(ctx: AgentStep, _: Signal) -> None:
    """An agent that is woken finds its caches cold, which takes more than what it does then: so all
    that is done again and again is done when it polls."""
    if ctx.moment.now_s - ctx.run.polled_at_s >= ACTIVITY_PERIOD_S / 2:
        _poll_activity(ctx, is_late=False)
    else:
        ctx.do(Command.READ_STEPS)
    ctx.set_run(ctx.run._replace(has_newer=False))
    ctx.do(Command.ADD_PROGRESS)


def _poll_activity(ctx: AgentStep, *, is_late: bool) -> None:
    """See what the processes do, and look again without a poll where none comes: in a large gang,
    and while the AM is away."""
    ctx.set_run(ctx.run._replace(polled_at_s=ctx.moment.now_s))
    ctx.start_timer(AgentTimer.ACTIVITY, ACTIVITY_PERIOD_S + LATE_S)
    ctx.do(PollActivity(ctx.run.attempt, is_late))


def poll_late(ctx: AgentStep, _: TimerFired) -> None:
    ctx.set_run(ctx.run._replace(late_polls=ctx.run.late_polls + 1))
    _poll_activity(ctx, is_late=True)


def is_late_news(ctx: AgentStep, event: ActivityPolled) -> bool:
    """The AM has to know that nothing happens, although there is nothing else to report."""
    run = ctx.run
    is_news = event.has_changed or run.has_newer or run.late_polls % USAGE_POLLS == 0
    return event.is_late and is_news


def is_new_group(ctx: AgentStep, event: ActivityPolled) -> bool:
    return event.group is not None and event.group != ctx.run.group


def report_group(ctx: AgentStep, event: ActivityPolled) -> None:
    """The AM waits for it after each change of the gang's members."""
    ctx.set_run(ctx.run._replace(group=event.group))
    ctx.report(TaskState.STARTED)


def send_metrics(ctx: AgentStep, _: ActivityPolled | MirrorMoved) -> None:
    ctx.do(Command.SEND_METRICS_SOON)


# ---- their ports ---------------------------------------------------------------------------------


def check_ports(ctx: AgentStep, _: TimerFired) -> None:
    ctx.do(CheckPorts(ctx.run.attempt))


def ports_checked(ctx: AgentStep, event: PortsChecked) -> None:
    run, name = ctx.run, ctx.facts.ready_port
    keys = {port_key(name, rank) for rank in event.local_ranks}
    if name and keys and not keys & event.held:
        ctx.set_run(run._replace(is_listening=True))
        _report_if_ready(ctx, run)
    if event.taken:
        _give_up_ports(ctx, event.taken)
    elif event.held:
        cap_s = READY_PORT_CAP_S if name else PORT_CHECK_CAP_S
        after_s = min(cap_s, run.port_check_after_s * PORT_CHECK_GROWTH)
        ctx.set_run(ctx.run._replace(port_check_after_s=after_s))
        ctx.start_timer(AgentTimer.PORTS, after_s)


def find_strangers(ctx: AgentStep, event: ProcessesEnded) -> None:
    """A stranger on a port may be why a process has failed."""
    if event.has_failed:
        ctx.do(FindStrangers(event.attempt))


def strangers_found(ctx: AgentStep, event: StrangersFound) -> None:
    if event.taken:
        _give_up_ports(ctx, event.taken)


def _give_up_ports(ctx: AgentStep, taken: tuple[tuple[str, int], ...]) -> None:
    """The other members of the gang would talk to the stranger, or the process that cannot listen
    would be blamed: the run is ended, and the node is the reason."""
    _abandon(ctx)
    text = ", ".join(f"{name} (user {uid})" for name, uid in sorted(taken))
    ctx.report_unable(Problem(f"another user of the node listens on ports of this task: {text}"))


# ---- their stacks --------------------------------------------------------------------------------


def is_of_run(ctx: AgentStep, order: Dump) -> bool:
    return order.attempt == ctx.run.attempt


def dump(ctx: AgentStep, order: Dump) -> None:
    ctx.do(DumpStacks(order.attempt))


def report_stacks(ctx: AgentStep, _: StacksDumped) -> None:
    ctx.report(TaskState.STARTED)

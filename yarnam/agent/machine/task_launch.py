"""A launch, from its directive until the processes are started. Each part waits for the one before:
inputs, checkpoints of the attempt before, ports, the plan, a trial of the checkpoints, the files of
``checkpoint.mirror``."""

from __future__ import annotations

from yarnam.agent.machine.agent_actions import (
    AwaitFreePorts,
    BeginRun,
    PlanProcesses,
    ReleasePorts,
    RestoreMirror,
    RetakePorts,
    StageInputs,
    StartProcesses,
    TryCheckpoint,
    UploadSpools,
    WriteMembers,
)
from yarnam.agent.machine.agent_context import AgentStep
from yarnam.agent.machine.agent_directives import Launch
from yarnam.agent.machine.agent_events import (
    CheckpointTried,
    MembersWritten,
    MirrorRestored,
    PortsFreed,
    PortsRetaken,
    ProcessesPlanned,
    SpoolsUploaded,
    Staged,
)
from yarnam.agent.machine.agent_state import AgentPhase, AgentTimer, Run
from yarnam.core.frameworks.task_ports import COORDINATOR_PORT, in_turn, port_key
from yarnam.core.model.ids import PRE_RUN_ROLE
from yarnam.core.model.outcomes import ExitKind

ACTIVITY_PERIOD_S = 2.0
"""Between two looks at what the processes do; the polls of the AM take them along."""

FIRST_PORT_CHECK_S = 0.25
"""From the start of the processes to the first look at the ports on which they listen."""

BEFORE_LAUNCH_S = 15.0
"""The longest that the next attempt's processes are held back: a quarter of the usual launch
timeout."""

TIME_WAIT_S = 50.0
"""For the connections of processes before on a port whose server sets no flags: the kernel keeps
them for 60 s (TCP_TIMEWAIT_LEN), as long as `gang.launch_timeout` is unless the job says otherwise.
The task is not started then, and the attempt after that finds the port free."""


# ---- the directive -------------------------------------------------------------------------------


def names_members(ctx: AgentStep, launch: Launch) -> bool:
    run = ctx.agent.run
    return bool(launch.members) and (run is None or launch.attempt >= run.attempt)


def write_members(ctx: AgentStep, launch: Launch) -> None:
    ctx.end_check()
    ctx.do(WriteMembers(launch))


def is_new(ctx: AgentStep, launch: Launch) -> bool:
    run = ctx.agent.run
    return run is None or launch.attempt > run.attempt


def begin(ctx: AgentStep, launch: Launch) -> None:
    ctx.end_check()
    ctx.set_run(Run(launch, is_again=ctx.agent.run is not None))
    ctx.enter(AgentPhase.LAUNCHING)
    ctx.do(BeginRun(launch))
    if ctx.facts.is_staged:
        # Mostly staged by now; if the AM took an earlier report for this one, this waits.
        ctx.do(StageInputs(ctx.await_next(), launch))
    else:
        _upload_spools(ctx)


def has_problem(_ctx: AgentStep, event: MembersWritten | Staged) -> bool:
    return event.problem is not None


def report_problem(ctx: AgentStep, event: MembersWritten) -> None:
    assert event.problem is not None
    ctx.report_unable(event.problem)


def is_new_with_members(ctx: AgentStep, event: MembersWritten) -> bool:
    return is_new(ctx, event.launch)


def begin_with_members(ctx: AgentStep, event: MembersWritten) -> None:
    begin(ctx, event.launch)


# ---- its parts -----------------------------------------------------------------------------------


def is_awaited(
    ctx: AgentStep,
    event: Staged
    | SpoolsUploaded
    | PortsRetaken
    | PortsFreed
    | ProcessesPlanned
    | CheckpointTried
    | MirrorRestored,
) -> bool:
    return 0 < event.serial == ctx.run.serial


def inputs_staged(ctx: AgentStep, event: Staged) -> None:
    if event.problem is not None:
        ctx.set_run(ctx.run._replace(serial=0))
        ctx.report_unable(event.problem)
    else:
        _upload_spools(ctx)


def _upload_spools(ctx: AgentStep) -> None:
    """The processes choose a checkpoint when they start."""
    ctx.do(UploadSpools(ctx.await_next(), BEFORE_LAUNCH_S))


def retake_ports(ctx: AgentStep, _: SpoolsUploaded) -> None:
    ctx.do(RetakePorts(ctx.await_next()))


def ports_retaken(ctx: AgentStep, event: PortsRetaken) -> None:
    """Ports of this attempt that their servers cannot bind while the agent holds them are
    released, and have to be free."""
    ctx.set_run(ctx.run._replace(taken=event.taken))
    bare, launch = ctx.facts.bare_ports, ctx.run.launch
    if not bare:
        _plan(ctx)
        return
    name = in_turn(bare, launch.attempt)
    mine = frozenset(port_key(name, process.local_rank) for process in launch.processes)
    ctx.do(ReleasePorts(mine), AwaitFreePorts(ctx.await_next(), mine, TIME_WAIT_S))


def ports_freed(ctx: AgentStep, event: PortsFreed) -> None:
    """Ports of other attempts are taken back when what was left there is gone."""
    ranks = [process.local_rank for process in ctx.run.launch.processes]
    bare = {port_key(name, rank) for name in ctx.facts.bare_ports for rank in ranks}
    ctx.set_run(ctx.run._replace(taken=(ctx.run.taken - bare) | event.used))
    _plan(ctx)


def _plan(ctx: AgentStep) -> None:
    launch = ctx.run.launch
    if all(process.rank for process in launch.processes):
        coordinator = frozenset({COORDINATOR_PORT})
        ctx.set_run(ctx.run._replace(taken=ctx.run.taken - coordinator))
        ctx.do(ReleasePorts(coordinator))
    ctx.do(PlanProcesses(ctx.await_next(), launch))


def planned(ctx: AgentStep, event: ProcessesPlanned) -> None:
    """A pre-run finds out before its process runs what a gang would at its first save."""
    run = ctx.run._replace(is_mirrored=event.is_mirrored)
    ctx.set_run(run)
    if run.taken:
        # Else the user's process would fail to bind it, and be blamed.
        taken = ", ".join(sorted(run.taken))
        _start(ctx, f"ports taken by others since the last launch: {taken}", ExitKind.NOT_STARTED)
    elif run.launch.role == PRE_RUN_ROLE and event.checkpoint_dir:
        ctx.do(TryCheckpoint(ctx.await_next(), event.checkpoint_dir))
    else:
        _restore(ctx)


def checkpoint_tried(ctx: AgentStep, event: CheckpointTried) -> None:
    if event.problem:
        _start(ctx, event.problem, ExitKind.NON_ZERO)
    else:
        _restore(ctx)


def _restore(ctx: AgentStep) -> None:
    if ctx.run.is_mirrored:
        ctx.do(RestoreMirror(ctx.await_next()))
    else:
        _start(ctx)


def mirror_restored(ctx: AgentStep, event: MirrorRestored) -> None:
    """Without what was kept the training would begin from zero: its program fails instead."""
    _start(ctx, event.problem, ExitKind.NON_ZERO)


def _start(ctx: AgentStep, problem: str = "", kind: ExitKind = ExitKind.NOT_STARTED) -> None:
    ctx.set_run(
        ctx.run._replace(serial=0, has_processes=True, port_check_after_s=FIRST_PORT_CHECK_S)
    )
    ctx.do(StartProcesses(problem, kind, ctx.run.is_again))
    ctx.start_timer(AgentTimer.PORTS, FIRST_PORT_CHECK_S)
    ctx.start_timer(AgentTimer.ACTIVITY, ACTIVITY_PERIOD_S)

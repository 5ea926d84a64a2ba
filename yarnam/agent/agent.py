"""The agent's shell: it folds ``agent_machine.step`` and carries out what that decides."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from yarnam._light_imports import on_first_use
from yarnam.agent.checks.node_checks import NodeChecks
from yarnam.agent.data.spool_uploader import SpoolUploader
from yarnam.agent.keeper.keeper_client import KeeperClient
from yarnam.agent.launch.formed_group import GroupFile, LaunchedGroup
from yarnam.agent.launch.launch_plan import plan_processes, stop_file, write_members
from yarnam.agent.launch.log_files import append_note
from yarnam.agent.launch.task_run import Graces, ProcessPlan, TaskRun
from yarnam.agent.machine import agent_actions as aa
from yarnam.agent.machine import agent_events as ae
from yarnam.agent.machine.agent_directives import Check, Launch
from yarnam.agent.machine.agent_machine import step
from yarnam.agent.machine.agent_state import (
    AgentExit,
    AgentState,
    AgentTimer,
    Preparation,
    Problem,
)
from yarnam.agent.mailbox.agent_reports import (
    Outbox,
    ProgressMessage,
    ReportIdentity,
    ReportMessage,
    build_progress,
    build_report,
)
from yarnam.agent.mailbox.agent_server import open_server
from yarnam.agent.mailbox.am_search import AmSighting
from yarnam.agent.mailbox.log_service import LogFile, LogService
from yarnam.agent.mailbox.mailbox_client import AmLimits, AmVanished, MailboxClient
from yarnam.agent.mailbox.session_service import SessionService
from yarnam.agent.mailbox.token_file import TokenFile
from yarnam.agent.mailbox.wake_listener import WakeListener
from yarnam.agent.metrics_inbox import MetricsInbox, Sample
from yarnam.agent.resources.gpu_devices import find_gpu_devices, model_of
from yarnam.agent.resources.gpu_leases import (
    DevicesTaken,
    GpuLease,
    LeaseHolder,
    acquire_leases,
)
from yarnam.agent.resources.held_ports import HeldPorts
from yarnam.agent.resources.node_address import node_address
from yarnam.agent.sessions.session_task import SessionTask
from yarnam.agent.task_config import (
    ContainerSettings,
    TaskJob,
    environment_of_container,
    facts_of,
)
from yarnam.core.frameworks.registry import framework_named
from yarnam.core.model.metrics import MirrorReport
from yarnam.errors import Blame, InternalError, YarnamError
from yarnam.errors.exhaustive import assert_never
from yarnam.errors.full_disks import disk_full, in_words
from yarnam.wire.protocol import ENV_JOB_DIR, PORT_OF_COPIES

if TYPE_CHECKING:
    import grpc

    from yarnam.agent.data.checkpoint_holder import CheckpointHolder
    from yarnam.agent.data.checkpoint_mirror import CheckpointMirror
    from yarnam.agent.data.input_gateway import InputGateway
    from yarnam.agent.data.input_staging import InputStaging

with on_first_use():
    from yarnam.agent.data import (
        am_lookup,
        checkpoint_holder,
        checkpoint_mirror,
        checkpoint_trial,
        input_gateway,
        input_staging,
    )

_LOG = logging.getLogger("yarnam.agent")

DRAIN_LIMIT_S = 3.0
"""How long the agent stays for readers of its logs once it may leave."""

CLOSE_LIMIT_S = 2.0
"""For gRPC to close its connections; after that they are cut."""

LAST_SET_S = 3600.0
"""For the last files of ``checkpoint.mirror`` after success: as long as a checkpoint waits for HDFS
unless the spec says otherwise (``checkpoint.spool.limit``)."""

FREE_PORT_POLL_S = 1.0
"""Between two looks whether a port is free."""


class Agent:
    """The agent of one container. ``run`` returns the exit code. Whatever happens, none of the
    user's processes is left running."""

    def __init__(
        self,
        settings: ContainerSettings,
        job: TaskJob,
        keeper: KeeperClient,
        pem: bytes,
        agent_log: Path,
    ) -> None:
        self._settings = settings
        self._job = job
        self._keeper = keeper
        self._pem = pem
        self._agent = AgentState(facts_of(job))
        self._events: deque[ae.AgentEvent] = deque()
        self._is_folding = False
        self._tasks: dict[asyncio.Task[None], int] = {}
        """With the serial of the action, or 0."""
        self._talks: set[asyncio.Task[None]] = set()
        self._timers: dict[AgentTimer, asyncio.TimerHandle] = {}
        self._exit: asyncio.Future[aa.Exit] | None = None
        # Everything that the agent holds in its container.
        self._logs = LogService(agent_log, job.processes)
        self._sessions = SessionService(keeper, self._session_task)
        self._checks = NodeChecks(pem)
        self._metrics = MetricsInbox(self._take_sample)
        self._tokens = TokenFile(os.environ)
        self._spools = SpoolUploader(os.environ, job.spool_limit_s)
        self._wake = WakeListener()
        self._identity = ReportIdentity(settings)
        self._outbox = Outbox(self._metrics_report)
        self._ports = HeldPorts("")
        self._leases: tuple[GpuLease, ...] = ()
        self._copies: CheckpointHolder | None = None
        self._inputs: InputGateway | None = None
        self._staging: InputStaging | None = None
        self._server: grpc.aio.Server | None = None
        self._mailbox: MailboxClient | None = None
        # The newest launch.
        self._run: TaskRun | None = None
        self._plans: tuple[ProcessPlan, ...] = ()
        self._work = Path()
        self._python = ""
        self._mirror: CheckpointMirror | None = None
        # A step fills these in for a call that waits.
        self._progress_message: ProgressMessage | None = None
        self._metrics_message: ReportMessage | None = None

    async def run(self) -> AgentExit:
        loop = asyncio.get_running_loop()
        self._exit = loop.create_future()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._terminate)
        self._keeper.on_lost = partial(self._take, ae.Signal.KEEPER_LOST)
        self._keeper.open()
        self._metrics.open()
        self._take(ae.Signal.OPENED)
        is_hurried = False
        try:
            end = await self._exit
            is_hurried = end.is_hurried
            return end.code
        finally:
            await self._close(is_hurried=is_hurried)

    def _terminate(self) -> None:
        self._take(ae.Signal.TERMINATED)
        _LOG.warning("terminated: all processes are killed")

    # ---- folding -------------------------------------------------------------------------

    def _take(self, event: ae.AgentEvent) -> None:
        """What actions answer without waiting is folded after the actions of its step."""
        self._events.append(event)
        if self._is_folding:
            return
        self._is_folding = True
        try:
            while self._events:
                self._fold(self._events.popleft())
        finally:
            self._is_folding = False

    def _fold(self, event: ae.AgentEvent) -> None:
        before = self._agent
        moment = ae.Moment(asyncio.get_running_loop().time(), not self._outbox.is_empty)
        self._agent, actions = step(before, event, moment)
        self._note(before)
        for action in actions:
            self._perform(action)

    def _note(self, before: AgentState) -> None:
        run, old = self._agent.run, before.run
        if run is not None and run.is_ready and old is not None and not old.is_ready:
            _LOG.info("the processes are ready for the roles that start after them")

    def _perform(self, action: aa.AgentAction) -> None:
        match action:
            case aa.Report():
                self._outbox.put(self._report(action))
            case aa.SendMetrics(report=report):
                self._metrics_message = self._report(report)
            case aa.Poll():
                self._talk(self._poll(action))
            case aa.StartTimer(timer=timer, serial=serial, after_s=after_s):
                self._start_timer(timer, after_s, ae.TimerFired(timer, serial))
            case aa.StopTimer(timer=timer):
                self._stop_timer(timer)
            case aa.StopTalking(reason=reason):
                _LOG.info("leaving: %s", reason)
                for task in tuple(self._talks):
                    task.cancel()
            case aa.Exit():
                self._end(action)
            case aa.Command():
                self._obey(action)
            case _:
                self._perform_errand(action)

    def _obey(self, command: aa.Command) -> None:
        match command:
            case aa.Command.TALK:
                self._talk(self._send_reports())
            case aa.Command.READ_STEPS:
                self._task_run.take_written_steps()
            case aa.Command.ADD_PROGRESS:
                self._outbox.metrics_are_sent()
                self._progress_message = build_progress(self._task_run)
            case aa.Command.SEND_METRICS_SOON:
                self._outbox.metrics_are_due()
            case aa.Command.CLOSE_LOGS:
                for log in self._logs.files.values():
                    log.ended = True
            case aa.Command.ABANDON:
                self._task_run.abandon()
            case aa.Command.KILL_ALL:
                self._keeper.kill_now()
            case _:
                assert_never(command)

    def _perform_errand(self, action: aa.Errand | aa.LaunchPart | aa.RunAction) -> None:
        match action:
            case aa.Prepare(parts=parts):
                self._start(self._prepare(parts))
            case aa.StageInputs(serial=serial, launch=launch):
                self._start(self._stage_inputs(serial, launch), serial)
            case aa.MeasureNode(serial=serial, check=check):
                self._start(self._measure_node(serial, check), serial)
            case aa.Cancel(serial=serial):
                for task in [task for task, one in self._tasks.items() if one == serial]:
                    task.cancel()
            case aa.WriteTokens(tokens=tokens):
                is_written = self._tokens.take(tokens) if tokens else self._tokens.write()
                self._take(ae.TokensWritten(is_written))
            case _:
                self._perform_launch(action)

    def _perform_launch(self, action: aa.LaunchPart | aa.RunAction) -> None:
        match action:
            case aa.WriteMembers(launch=launch):
                self._write_members(launch)
            case aa.BeginRun(launch=launch):
                self._begin_run(launch)
            case aa.UploadSpools(serial=serial, limit_s=limit_s):
                self._start(self._upload_spools(serial, limit_s))
            case aa.RetakePorts(serial=serial):
                self._take(ae.PortsRetaken(serial, frozenset(self._ports.hold_again())))
            case aa.ReleasePorts(names=names):
                self._ports.release(names)
            case aa.AwaitFreePorts(serial=serial, names=names, limit_s=limit_s):
                self._start(self._await_free_ports(serial, names, limit_s))
            case aa.PlanProcesses(serial=serial, launch=launch):
                self._start(self._plan_processes(serial, launch))
            case aa.TryCheckpoint(serial=serial, directory=directory):
                self._start(self._try_checkpoint(serial, directory))
            case aa.RestoreMirror(serial=serial):
                self._start(self._restore_mirror(serial))
            case aa.StartProcesses():
                self._start_processes(action)
            case _:
                self._act_on_run(action)

    def _act_on_run(self, action: aa.RunAction) -> None:
        match action:
            case aa.StopProcesses(grace_s=grace_s, reason=reason, idle_grace_s=idle_grace_s):
                self._start(self._task_run.stop(grace_s, reason, idle_grace_s))
                if self._mirror is not None:
                    self._mirror.stop_restoring()
            case aa.AskForStep(grace_s=grace_s, reason=reason):
                self._task_run.ask_for_step(grace_s, reason)
            case aa.StopAfter(step=number, reason=reason):
                self._start(self._task_run.stop_after(number, reason))
            case aa.StopAndWait():
                self._start(self._stop_and_wait(action))
            case aa.DumpStacks(attempt=attempt):
                self._start(self._dump_stacks(attempt))
            case aa.PollActivity(attempt=attempt, is_late=is_late):
                run = self._task_run
                self._take(ae.ActivityPolled(attempt, run.poll(), is_late, run.group))
            case aa.CheckPorts(attempt=attempt):
                self._check_ports(attempt)
            case aa.FindStrangers(attempt=attempt):
                taken = tuple(self._ports.taken_by_others().items())
                self._take(ae.StrangersFound(attempt, taken))
            case _:
                assert_never(action)

    @property
    def _task_run(self) -> TaskRun:
        assert self._run is not None
        return self._run

    # ---- tasks and timers ----------------------------------------------------------------

    def _start(self, work: Coroutine[object, object, None], serial: int = 0) -> None:
        task = asyncio.create_task(work)
        self._tasks[task] = serial
        task.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if not task.cancelled() and task.exception() is not None:
            _LOG.error("a fault of the agent", exc_info=task.exception())
            self._take(ae.Signal.FAULTED)

    def _start_timer(self, timer: AgentTimer, after_s: float, event: ae.TimerFired) -> None:
        self._stop_timer(timer)
        loop = asyncio.get_running_loop()
        self._timers[timer] = loop.call_later(after_s, self._take, event)

    def _stop_timer(self, timer: AgentTimer) -> None:
        handle = self._timers.pop(timer, None)
        if handle is not None:
            handle.cancel()

    # ---- getting ready -------------------------------------------------------------------

    async def _prepare(self, parts: Sequence[Preparation]) -> None:
        ways: dict[Preparation, Callable[[], Awaitable[None]]] = {
            Preparation.ADDRESS: self._find_address,
            Preparation.WAKING: self._open_wake,
            Preparation.LOGS: self._serve_logs,
            Preparation.INPUTS: self._open_inputs,
            Preparation.PORTS: self._hold_ports,
            Preparation.GPUS: self._lease_gpus,
            Preparation.STAGING: self._begin_staging,
        }
        try:
            for part in parts:
                await ways[part]()
        except YarnamError as error:
            self._take(ae.TroubleFound(_problem(error)))
        except Exception as error:  # noqa: BLE001 - whatever it is, the AM has to know
            full = disk_full(error, *self._places)
            if full is None:
                _LOG.error("a fault of the agent", exc_info=error)
            fault = full or InternalError(f"the agent cannot prepare: {error!r}")
            self._take(ae.TroubleFound(_problem(fault)))
        else:
            gpus = ",".join(self._identity.gpu_ids) or "none"
            _LOG.info("ready: GPUs %s, ports %s", gpus, self._ports.numbers)
            self._take(ae.Signal.PREPARED)

    async def _find_address(self) -> None:
        self._identity.address = node_address(self._settings.node, self._settings.am_address)

    async def _open_wake(self) -> None:
        self._wake.open(self._identity.address)
        self._identity.wake_port = lambda: self._wake.port

    async def _serve_logs(self) -> None:
        self._server, self._identity.log_address = await open_server(
            self._identity.address, self._pem, self._logs, self._checks.service, self._sessions
        )

    async def _open_inputs(self) -> None:
        self._inputs = input_gateway.InputGateway(self._settings, self._pem, lambda: self._python)
        await self._inputs.open()
        self._start(self._inputs.run())

    async def _hold_ports(self) -> None:
        job = self._job
        self._ports.address = self._identity.address
        self._ports.hold(framework_named(job.framework).port_names(job.port_labels, job.processes))
        self._identity.ports = self._ports.numbers
        if job.keeps_copies:
            self._copies = checkpoint_holder.CheckpointHolder(
                self._identity.address, job.memory_bytes, self._pem, environment_of_container()
            )
            self._identity.ports[PORT_OF_COPIES] = self._copies.port

    async def _lease_gpus(self) -> None:
        settings = self._settings
        devices = await asyncio.to_thread(
            find_gpu_devices, settings.node_gpus, settings.node_key, settings.node_gpu_model
        )
        holder = LeaseHolder(settings.application, self._job.name, self._job.user)
        self._leases = await acquire_leases(devices, self._job.gpus, holder)
        # The keeper holds the leases as well: they end with the processes, not with the agent.
        await self._keeper.hold([each.sock.fileno() for each in self._leases])
        self._identity.gpu_ids = tuple(each.device.ident for each in self._leases)
        self._identity.gpu_model = model_of(each.device for each in self._leases)

    async def _begin_staging(self) -> None:
        staging = input_staging.InputStaging(
            self._settings,
            self._job,
            partial(self._take, ae.Signal.STAGING_MOVED),
            lambda error: self._take(ae.TroubleFound(_problem(error))),
        )
        self._staging = staging
        await staging.begin()
        self._identity.staging = staging.report
        self._start(staging.run())

    # ---- the AM --------------------------------------------------------------------------

    def _talk(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._talks.add(task)
        task.add_done_callback(self._note_silence)

    def _note_silence(self, task: asyncio.Task[None]) -> None:
        self._talks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, AmVanished):
            _LOG.error("%s: stopping the processes and leaving", error)
            self._take(ae.Signal.AM_LOST)
        elif error is not None and self._exit is not None and not self._exit.done():
            self._exit.set_exception(error)

    async def _send_reports(self) -> None:
        settings = self._settings
        self._mailbox = MailboxClient(
            settings.am_address,
            self._pem,
            str(settings.ask),
            settings.container,
            AmLimits(self._job.orphan_timeout_s, self._job.absence_s),
            self._wake,
            lambda tokens: self._take(ae.TokensReceived(tuple(tokens))),
            am_attempt=settings.am_attempt,
            find_am=self._search_am,
            found=self._am_found,
        )
        await self._outbox.send_first(self._mailbox)
        self._take(ae.Signal.INTRODUCED)
        await self._outbox.send_all(self._mailbox)

    async def _search_am(self) -> AmSighting | None:
        env = environment_of_container()
        return await am_lookup.find_am(env.get(ENV_JOB_DIR, ""), self._settings.application, env)

    def _am_found(self, address: str) -> None:
        if self._inputs is not None:
            self._inputs.connect(address)
        self._take(ae.Signal.AM_FOUND)

    async def _poll(self, poll: aa.Poll) -> None:
        assert self._mailbox is not None
        await asyncio.sleep(poll.after_s)
        loop = asyncio.get_running_loop()
        asked_at_s = loop.time()
        directive = await self._mailbox.await_directive(poll.seen, self._progress)
        took_s = loop.time() - asked_at_s
        self._take(ae.DirectiveReceived(poll.serial, *directive, took_s))

    def _progress(self) -> ProgressMessage | None:
        """The processes' newest metrics, for the poll that begins."""
        self._progress_message = None
        self._take(ae.Signal.POLL_BEGUN)
        return self._progress_message

    def _metrics_report(self) -> ReportMessage | None:
        self._metrics_message = None
        self._take(ae.Signal.METRICS_DUE)
        return self._metrics_message

    def _report(self, report: aa.Report) -> ReportMessage:
        if report.problem is not None:
            _LOG.error("cannot make the task ready: %s", report.problem.message)
            return build_report(self._identity, report, None)
        return build_report(self._identity, report, self._run)

    # ---- before a launch -----------------------------------------------------------------

    async def _stage_inputs(self, serial: int, launch: Launch) -> None:
        assert self._staging is not None
        try:
            await self._staging.prepare(launch)
        except YarnamError as error:
            self._take(ae.Staged(serial, _problem(error)))
        else:
            self._take(ae.Staged(serial))

    async def _measure_node(self, serial: int, check: Check) -> None:
        _LOG.info("check %d of this node", check.check)
        found = await self._checks.run(check, self._settings.directory, self._gpu_ids)
        self._take(ae.Checked(serial, check.check, found))

    @property
    def _places(self) -> tuple[Path, ...]:
        """Where this container writes."""
        return (self._settings.directory, self._settings.log_directory)

    @property
    def _gpu_ids(self) -> tuple[str, ...]:
        return tuple(each.device.ident for each in self._leases)

    # ---- a launch ------------------------------------------------------------------------

    def _write_members(self, launch: Launch) -> None:
        try:
            write_members(self._settings.directory, launch.members)
        except OSError as error:
            why = in_words(error, *self._places)
            text = f"cannot write down who belongs to the gang: {why}"
            self._take(ae.MembersWritten(launch, Problem(text)))
        else:
            self._take(ae.MembersWritten(launch))

    def _begin_run(self, launch: Launch) -> None:
        job = self._job
        self._outbox.metrics_period_s = launch.metrics_period_s or self._outbox.metrics_period_s
        self._run = TaskRun(
            self._keeper,
            launch.attempt,
            stop_file(self._settings.directory),
            Graces(job.stop_grace_s, job.failure_grace_s),
            self._take,
            self._at_end_of_run,
            job.secrets,
            job.rules,
            group_source=self._group_source(launch),
        )

    def _group_source(self, launch: Launch) -> GroupFile | LaunchedGroup | None:
        if not launch.members:
            return None
        is_launcher = framework_named(self._job.runs_as).is_launcher
        return LaunchedGroup() if is_launcher else GroupFile(self._settings.directory)

    async def _upload_spools(self, serial: int, limit_s: float) -> None:
        await self._spools.upload(limit_s, "before the processes choose a checkpoint")
        self._take(ae.SpoolsUploaded(serial))

    async def _await_free_ports(self, serial: int, names: frozenset[str], limit_s: float) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + limit_s
        while used := frozenset(name for name in names if not self._ports.is_free(name)):
            if loop.time() > end:
                break
            await asyncio.sleep(FREE_PORT_POLL_S)
        self._take(ae.PortsFreed(serial, used))

    async def _plan_processes(self, serial: int, launch: Launch) -> None:
        if self._copies is not None and launch.processes:
            await self._copies.begin_launch(launch.processes[0].env)
        self._plans, self._work = await asyncio.to_thread(
            plan_processes,
            self._settings,
            self._job,
            launch,
            environment_of_container(),
            self._gpu_ids,
            self._metrics.address,
            self._inputs.address if self._inputs is not None else "",
            self._identity.address,
            self._copies.address if self._copies is not None else "",
        )
        env = self._plans[0].env if self._plans else {}
        self._python = env.get("YARNAM_PYTHON", "")
        self._mirror = None
        plan = checkpoint_mirror.mirror_plan(self._job, launch, env, self._work)
        if plan is not None:
            self._mirror = checkpoint_mirror.CheckpointMirror(
                plan, environment_of_container(), self._note_mirror
            )
        directory = env.get("YARNAM_CHECKPOINT_DIR", "")
        self._take(ae.ProcessesPlanned(serial, directory, is_mirrored=plan is not None))

    async def _try_checkpoint(self, serial: int, directory: str) -> None:
        env = environment_of_container()
        problem = await checkpoint_trial.checkpoint_problem(directory, env)
        self._take(ae.CheckpointTried(serial, problem))

    async def _restore_mirror(self, serial: int) -> None:
        assert self._mirror is not None
        self._take(ae.MirrorRestored(serial, await self._mirror.restore()))

    def _start_processes(self, action: aa.StartProcesses) -> None:
        run, plans = self._task_run, self._plans
        if action.problem:
            plans = tuple(
                plan._replace(problem=action.problem, problem_kind=action.kind) for plan in plans
            )
        for plan in plans if action.is_again else ():
            append_note(plan.log, f"yarnam: attempt {run.attempt} starts in the same container")
        self._logs.files = {plan.local_rank: LogFile(plan.log) for plan in plans}
        self._ports.let_servers_in(framework_named(self._job.framework).grpc_ports)
        self._start(run.run(plans, self._work))
        if self._mirror is not None:
            self._note_mirror()
            self._start(self._mirror.run(self._keeper.pid, lambda: run.has_failed))

    # ---- processes -----------------------------------------------------------------------

    def _take_sample(self, local_rank: int, sample: Sample) -> None:
        run = self._run
        if run is not None:
            is_news = run.take_sample(local_rank, sample)
            self._take(ae.SampleTaken(is_news, run.all_ready))

    def _check_ports(self, attempt: int) -> None:
        served, taken = self._ports.release_listening()
        if served:
            _LOG.info("ports taken over by the processes: %s", ", ".join(served))
        ranks = tuple(process.plan.local_rank for process in self._task_run.processes)
        held = frozenset(self._ports.held)
        self._take(ae.PortsChecked(attempt, held, tuple(taken.items()), ranks))

    async def _dump_stacks(self, attempt: int) -> None:
        _LOG.info("dumping the stacks of the processes: the gang seems to hang")
        await self._task_run.dump_stacks()
        self._take(ae.StacksDumped(attempt))

    async def _stop_and_wait(self, action: aa.StopAndWait) -> None:
        await self._task_run.stop(action.grace_s, action.reason)
        await self._task_run.wait(action.limit_s)
        self._take(ae.Signal.STOPPED)

    async def _at_end_of_run(self, limit_s: float) -> None:
        run = self._task_run
        self._take(ae.ProcessesEnded(run.attempt, run.has_failed))
        await self._finish_mirror(run, limit_s)
        await self._spools.upload(
            min(limit_s, self._spools.limit_s), "before the task's end is reported"
        )

    async def _finish_mirror(self, run: TaskRun, limit_s: float) -> None:
        mirror = self._mirror
        if mirror is None:
            return
        if not run.is_stopped:
            # The ApplicationMaster waits for a task that has failed as long as for one that stops.
            limit_s = LAST_SET_S if run.has_succeeded else self._job.stop_grace_s
        try:
            await mirror.finish(limit_s, has_succeeded=run.has_ended_well)
        finally:
            await mirror.close()

    def _note_mirror(self) -> None:
        """For the reports of the task's first process."""
        mirror, run = self._mirror, self._run
        if mirror is None or run is None or not run.processes:
            return
        kept, trouble = mirror.state.kept, mirror.state.trouble
        report = MirrorReport(*kept, trouble) if kept is not None else MirrorReport(trouble=trouble)
        run.processes[0].mirror = report
        self._take(ae.MirrorMoved(run.attempt))

    def _session_task(self) -> SessionTask:
        run, job = self._run, self._job
        alive = run is not None and any(one.pid and not one.ended for one in run.processes)
        environments = tuple(plan.env for plan in self._plans) if alive else ()
        processes = () if run is None else run.processes
        return SessionTask(
            job.is_interactive,
            environments,
            self._work,
            self._settings.log_directory,
            tuple((0 if one.ended else one.pid, one.plan.log) for one in processes),
        )

    # ---- the end -------------------------------------------------------------------------

    def _end(self, action: aa.Exit) -> None:
        if self._exit is not None and not self._exit.done():
            self._exit.set_result(action)

    async def _close(self, *, is_hurried: bool) -> None:
        for task in (*self._talks, *self._tasks):
            task.cancel()
        if not is_hurried:
            if self._mailbox is not None:
                await _within(self._mailbox.close(), CLOSE_LIMIT_S)
            await self._sessions.close("the job has no more use for the task")
            await self._logs.close(DRAIN_LIMIT_S)
            if self._staging is not None:
                await _within(self._staging.close(), CLOSE_LIMIT_S)
        await self._spools.close()
        if self._copies is not None:
            await self._copies.close()
        if self._mirror is not None:
            await self._mirror.close()
        if not await self._keeper.close():
            _LOG.error("the keeper did not end in time")
        self._ports.release_all()
        for each in self._leases:
            each.release()
        self._metrics.close()
        self._wake.close()
        if self._inputs is not None and not is_hurried:
            await _within(self._inputs.close(), CLOSE_LIMIT_S)
        if self._server is not None and not is_hurried:
            await _within(self._server.stop(grace=0.5), CLOSE_LIMIT_S)


def _problem(error: YarnamError) -> Problem:
    is_node_busy = isinstance(error, DevicesTaken)
    return Problem(str(error), error.blame is Blame.USER, is_node_busy)


async def _within(work: Coroutine[object, object, object], limit_s: float) -> None:
    try:
        await asyncio.wait_for(work, limit_s)
    except asyncio.TimeoutError:
        _LOG.warning("a connection did not close within %.0f s", limit_s)

"""The agent's run: prepare, wait at the barrier, launch, watch, report, leave."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from yarnam._light_imports import on_first_use
from yarnam.agent.checks.node_checks import NodeChecks
from yarnam.agent.data.input_gateway import InputGateway
from yarnam.agent.data.spool_uploader import BEFORE_LAUNCH_S, SpoolUploader
from yarnam.agent.keeper.keeper_client import KeeperClient
from yarnam.agent.launch.launch_plan import plan_processes, stop_file, write_members
from yarnam.agent.launch.log_files import append_note
from yarnam.agent.launch.process_activity import PERIOD_S, USAGE_POLLS
from yarnam.agent.launch.task_run import Graces, ProcessPlan, RunState, TaskRun
from yarnam.agent.log_service import LogFile, LogService
from yarnam.agent.mailbox.agent_reports import (
    Outbox,
    ReportIdentity,
    build_progress,
    build_report,
)
from yarnam.agent.mailbox.mailbox_client import AmVanished, MailboxClient
from yarnam.agent.mailbox.token_file import RETRY_S, TokenFile
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
from yarnam.agent.task_config import ContainerSettings, TaskJob, environment_of_container
from yarnam.core.frameworks.registry import framework_named
from yarnam.core.frameworks.task_ports import COORDINATOR_PORT, in_turn, port_key
from yarnam.core.model.ids import PRE_RUN_ROLE
from yarnam.core.model.outcomes import ExitKind
from yarnam.errors import Blame, InternalError, Unavailable, YarnamError
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.pb import yarnam_pb2_grpc
from yarnam.wire.protocol import HELD_CALLS
from yarnam.wire.tls import SERVER_OPTIONS, server_credentials

if TYPE_CHECKING:
    from yarnam.agent.data.input_staging import InputStaging

with on_first_use():
    from yarnam.agent.data import checkpoint_trial, input_staging

_LOG = logging.getLogger("yarnam.agent")

DRAIN_LIMIT_S = 3.0
"""How long the agent stays for readers of its logs once it may leave."""

CLOSE_LIMIT_S = 2.0
"""For gRPC to close its connections; after that they are cut."""

LATE_S = 0.5
"""A poll of the AM that comes later than this is not waited for to see what the processes do."""

POLL_PAUSE_S = 0.05
"""Between two long polls that bring nothing new."""

STOP_MARGIN_S = 3.0
"""Beyond the grace time, for the kill and the check that nothing is left."""

PORT_POLL_FIRST_S, PORT_POLL_CAP_S = 0.25, 30.0
"""How often the agent checks whether the user's processes listen on their ports: seldom after some
minutes, since on a node with thousands of listeners it takes milliseconds."""

READY_POLL_CAP_S = 1.0
"""The same where other roles wait for one of these ports."""

TIME_WAIT_S = 50.0
"""For the connections of processes before on a port whose server sets no flags: the kernel keeps
them for 60 s (TCP_TIMEWAIT_LEN), as long as `gang.launch_timeout` is unless the job says otherwise.
The task is not started then, and the attempt after that finds the port free."""


class AgentExit(IntEnum):
    """Exit codes of the agent's process; seen in YARN's logs only."""

    DONE = 0
    FAULT = 70
    REFUSED = 76
    ORPHANED = 80
    TERMINATED = 81


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
        self._logs = LogService(agent_log, job.processes)
        self._checks = NodeChecks(pem)
        self._metrics = MetricsInbox(self._take_sample)
        self._inputs: InputGateway | None = None
        self._staging: InputStaging | None = None
        self._preparing: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None
        self._server: grpc.aio.Server | None = None
        self._identity = ReportIdentity(settings)
        self._wake = WakeListener()
        self._python = ""
        self._ports: HeldPorts | None = None
        self._leases: tuple[GpuLease, ...] = ()
        self._tokens = TokenFile(os.environ)
        self._spools = SpoolUploader(os.environ, job.spool_limit_s)
        self._task_run: TaskRun | None = None
        self._outbox = Outbox(self._metrics_report)
        self._polled_at_s = 0.0
        self._late_polls = 0
        self._has_newer = False
        """Numbers that the AM has not been told."""
        self._activity_timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._terminated: asyncio.Future[AgentExit] | None = None

    async def run(self) -> AgentExit:
        loop = asyncio.get_running_loop()
        terminated: asyncio.Future[AgentExit] = loop.create_future()
        self._terminated = terminated

        def terminate() -> None:
            # YARN gives a container 250 ms between SIGTERM and SIGKILL: no time for grace.
            self._keeper.kill_now()
            if not terminated.done():
                terminated.set_result(AgentExit.TERMINATED)

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, terminate)
        self._keeper.on_lost = self._lose_keeper
        self._keeper.open()
        self._metrics.open()
        serving = asyncio.create_task(self._serve_job(), name="job")
        try:
            await asyncio.wait({serving, terminated}, return_when=asyncio.FIRST_COMPLETED)
            if terminated.done():
                _LOG.warning("terminated: all processes are killed")
                return terminated.result()
            return serving.result()
        finally:
            serving.cancel()
            await self._close(is_hurried=terminated.done())

    # ---- prepare and serve ---------------------------------------------------------------

    async def _serve_job(self) -> AgentExit:
        mailbox = MailboxClient(
            self._settings.am_address,
            self._pem,
            str(self._settings.ask),
            self._settings.container,
            self._job.orphan_timeout_s,
            self._wake,
            self._take_tokens,
        )
        try:
            try:
                await self._prepare()
            except YarnamError as error:
                self._report_unable(error)
            except Exception as error:  # noqa: BLE001 - whatever it is, the AM has to know
                _LOG.error("a fault of the agent", exc_info=error)
                self._report_unable(InternalError(f"the agent cannot prepare: {error!r}"))
            else:
                self._report(pb.READY)
            return await self._serve(mailbox)
        finally:
            await _within(mailbox.close(), CLOSE_LIMIT_S)

    async def _prepare(self) -> None:
        settings, job = self._settings, self._job
        address = node_address(settings.node, settings.am_address)
        self._identity.address = address
        if job.tasks > HELD_CALLS:
            self._wake.open(address)
            self._identity.wake_port = lambda: self._wake.port
        self._identity.log_address = await self._serve_logs(address)
        if job.has_inputs:
            self._inputs = InputGateway(settings, self._pem, lambda: self._python)
            await self._inputs.open()
            self._spawn(self._inputs.run())
        ports = HeldPorts(address)
        self._ports = ports
        ports.hold(framework_named(job.framework).port_names(job.port_labels, job.processes))
        self._identity.ports = ports.numbers
        if job.gpus:
            await self._lease_gpus()
        if job.is_staged:
            await self._begin_staging()
        _LOG.info(
            "ready: GPUs %s, ports %s", ",".join(self._identity.gpu_ids) or "none", ports.numbers
        )

    async def _serve_logs(self, address: str) -> str:
        server = grpc.aio.server(options=SERVER_OPTIONS)
        yarnam_pb2_grpc.add_AgentLogsServicer_to_server(  # type: ignore[no-untyped-call]
            self._logs, server
        )
        yarnam_pb2_grpc.add_NodeCheckServicer_to_server(  # type: ignore[no-untyped-call]
            self._checks, server
        )
        host = f"[{address}]" if ":" in address else address
        try:
            port = server.add_secure_port(f"{host}:0", server_credentials(self._pem))
        except RuntimeError as error:
            raise Unavailable(f"cannot listen on {address}: {error}") from error
        await server.start()
        self._server = server
        return f"{host}:{port}"

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

    async def _serve(self, mailbox: MailboxClient) -> AgentExit:
        """Report and follow directives until one says to leave, or until the AM is given up."""
        reporting = asyncio.create_task(self._outbox.send_all(mailbox), name="reports")
        following = asyncio.create_task(self._follow_directives(mailbox), name="directives")
        try:
            await asyncio.wait({reporting, following}, return_when=asyncio.FIRST_COMPLETED)
            done = following if following.done() else reporting
            done.result()
        except AmVanished as error:
            _LOG.error("%s: stopping the processes and leaving", error)
            await self._stop_run("the ApplicationMaster is gone", self._job.stop_grace_s)
            return AgentExit.ORPHANED
        finally:
            for task in (reporting, following):
                task.cancel()
        await self._stop_run("leave directive", self._job.stop_grace_s)
        return AgentExit.DONE

    # ---- directives ----------------------------------------------------------------------

    async def _follow_directives(self, mailbox: MailboxClient) -> None:
        loop = asyncio.get_running_loop()
        await self._outbox.send_first(mailbox)
        seen = 0
        while True:
            asked_at_s = loop.time()
            directive = await mailbox.await_directive(seen, self._progress)
            if directive.number == seen:
                # Nothing new. An AM that does not hold the poll must not make this loop spin.
                if loop.time() - asked_at_s < POLL_PAUSE_S:
                    await asyncio.sleep(POLL_PAUSE_S)
                continue
            seen = directive.number
            order = directive.WhichOneof("order")
            if order == "prepare":
                if self._preparing is not None:
                    self._preparing.cancel()
                self._preparing = self._spawn(self._stage_inputs(directive.prepare))
            elif order == "check":
                self._end_check()
                self._checking = self._spawn(self._check_node(directive.check))
            elif order == "launch":
                self._end_check()
                self._launch(directive.launch)
            elif order == "stop":
                await self._stop_by_order(directive.stop)
            elif order == "dump":
                self._spawn(self._dump_stacks(directive.dump.attempt))
            elif order == "leave":
                _LOG.info("leaving: %s", directive.leave.reason)
                return

    def _take_tokens(self, tokens: Sequence[str]) -> None:
        """At once: an order that came along may start processes that need them."""
        if not self._tokens.take(tokens):
            self._spawn(self._write_tokens())

    async def _write_tokens(self) -> None:
        while True:
            await asyncio.sleep(RETRY_S)
            if self._tokens.write():
                return

    async def _stop_by_order(self, stop: Any) -> None:
        run = self._task_run
        if run is None or stop.attempt < run.attempt:
            return
        reason = stop.reason or "stop directive"
        if stop.HasField("at_step"):
            self._spawn(run.stop_after(stop.at_step, reason))
        elif stop.agree:
            run.ask_for_step(stop.grace_s, reason)
            if run.state is RunState.STARTED:
                self._report(pb.STARTED)
        else:
            idle_grace_s = stop.idle_grace_s if stop.HasField("idle_grace_s") else None
            await run.stop(stop.grace_s, reason, idle_grace_s)

    async def _dump_stacks(self, attempt: int) -> None:
        run = self._task_run
        if run is None or run.attempt != attempt or run.state is not RunState.STARTED:
            return
        _LOG.info("dumping the stacks of the processes: the gang seems to hang")
        await run.dump_stacks()
        if run.state is RunState.STARTED:
            self._report(pb.STARTED)

    def _end_check(self) -> None:
        """One that is late must not disturb the next one, nor the processes."""
        if self._checking is not None:
            self._checking.cancel()

    async def _check_node(self, order: Any) -> None:
        if self._task_run is not None and self._task_run.state is not RunState.EXITED:
            return
        _LOG.info("check %d of this node", order.check)
        report = build_report(self._identity, pb.CHECKED, self._task_run)
        gpus = tuple(each.device.ident for each in self._leases)
        check = await self._checks.run(order, self._settings.directory, gpus)
        report.attempt = order.attempt
        report.check.CopyFrom(check)
        self._outbox.put(report)

    def _progress(self) -> Any:
        """What a poll takes along. An agent that is woken finds its caches cold, which takes more
        than what it does then: so all that is done again and again is done at one time."""
        run = self._task_run
        if run is None or run.state is not RunState.STARTED or not self._outbox.is_empty:
            return None
        if asyncio.get_running_loop().time() - self._polled_at_s >= PERIOD_S / 2:
            self._poll_activity(run)
        else:
            run.take_written_steps()
        self._has_newer = False
        self._outbox.metrics_are_sent()
        return build_progress(run)

    def _poll_activity(self, run: TaskRun) -> bool:
        """See what the processes do, and look again by itself where no poll comes: in a large gang,
        and while the AM is away."""
        loop = asyncio.get_running_loop()
        self._polled_at_s = loop.time()
        self._end_activity_polls()
        self._activity_timer = loop.call_later(PERIOD_S + LATE_S, self._poll_activity_late, run)
        return run.poll()

    def _poll_activity_late(self, run: TaskRun) -> None:
        """The AM has to know that nothing happens, although there is nothing else to report."""
        self._late_polls += 1
        is_news = self._poll_activity(run) or self._has_newer or self._late_polls % USAGE_POLLS == 0
        if is_news and run.state is RunState.STARTED:
            self._outbox.metrics_are_due()

    def _end_activity_polls(self) -> None:
        if self._activity_timer is not None:
            self._activity_timer.cancel()

    async def _begin_staging(self) -> None:
        staging = input_staging.InputStaging(
            self._settings, self._job, self._report_staging, self._report_unable
        )
        self._staging = staging
        await staging.begin()
        self._identity.staging = staging.report
        self._spawn(staging.run())

    async def _stage_inputs(self, order: Any) -> None:
        try:
            if self._staging is not None:
                await self._staging.prepare(order)
        except YarnamError as error:
            self._report_unable(error)
            return
        report = build_report(self._identity, pb.STAGED, self._task_run)
        report.attempt = order.attempt
        self._outbox.put(report)

    def _report_staging(self) -> None:
        """How far it is; a report that waits to be sent has that too."""
        if self._outbox.is_empty and (
            self._task_run is None or self._task_run.state is RunState.EXITED
        ):
            self._report(pb.READY if self._task_run is None else pb.EXITED)

    def _launch(self, launch: Any) -> None:
        running = self._task_run
        if launch.members and (running is None or launch.attempt >= running.attempt):
            try:
                write_members(self._settings.directory, launch.members)
            except OSError as error:
                text = f"cannot write down who belongs to the gang: {error}"
                self._report_unable(Unavailable(text))
                return
        if running is not None and (
            launch.attempt <= running.attempt or running.state is not RunState.EXITED
        ):
            return
        if launch.metrics_period_ms:
            self._outbox.metrics_period_s = launch.metrics_period_ms / 1000
        self._task_run = TaskRun(
            self._keeper,
            launch.attempt,
            stop_file(self._settings.directory),
            Graces(self._job.stop_grace_s, self._job.failure_grace_s),
            self._on_change,
            self._at_end_of_run,
            self._job.secrets,
            self._job.rules,
        )
        self._spawn(self._run_task(self._task_run, launch, is_again=running is not None))

    async def _run_task(self, run: TaskRun, launch: Any, *, is_again: bool) -> None:
        assert self._ports is not None
        if self._staging is not None:
            # Mostly staged by now; if the AM took an earlier report for this one, this waits.
            try:
                await self._staging.prepare(launch)
            except YarnamError as error:
                self._report_unable(error)
                return
        await self._spools.upload(BEFORE_LAUNCH_S, "before the processes choose a checkpoint")
        taken = await self._let_go_of_bare_ports(launch, set(self._ports.hold_again()))
        if all(process.rank for process in launch.processes):
            self._ports.release([COORDINATOR_PORT])
            taken.discard(COORDINATOR_PORT)
        plans, work = await asyncio.to_thread(
            plan_processes,
            self._settings,
            self._job,
            launch,
            environment_of_container(),
            tuple(each.device.ident for each in self._leases),
            self._metrics.address,
            self._inputs.address if self._inputs is not None else "",
            self._identity.address,
        )
        self._python = plans[0].env.get("YARNAM_PYTHON", "") if plans else ""
        if taken:
            # Else the user's process would fail to bind it, and be blamed.
            text = f"ports taken by others since the last launch: {', '.join(sorted(taken))}"
            plans = _with_problem(plans, text, ExitKind.NOT_STARTED)
        elif launch.role == PRE_RUN_ROLE and plans:
            plans = await self._try_checkpoints(plans)
        for plan in plans if is_again else ():
            append_note(plan.log, f"yarnam: attempt {run.attempt} starts in the same container")
        self._logs.files = {plan.local_rank: LogFile(plan.log) for plan in plans}
        self._ports.let_servers_in(framework_named(self._job.framework).grpc_ports)
        watching = asyncio.create_task(self._hand_over_ports(), name="ports")
        self._activity_timer = asyncio.get_running_loop().call_later(
            PERIOD_S, self._poll_activity_late, run
        )
        try:
            await run.run(plans, work)
        finally:
            watching.cancel()
            self._end_activity_polls()

    async def _let_go_of_bare_ports(self, launch: Any, taken: set[str]) -> set[str]:
        """Those of this attempt that their servers could not bind while the agent holds them.
        ``taken``: those that it could not take back; returns the ones that others have."""
        assert self._ports is not None
        bare = framework_named(self._job.framework).bare_ports
        if not bare:
            return taken
        ranks = [process.local_rank for process in launch.processes]
        names = {port_key(in_turn(bare, launch.attempt), rank) for rank in ranks}
        self._ports.release(names)
        end = asyncio.get_running_loop().time() + TIME_WAIT_S
        while used := {name for name in names if not self._ports.is_free(name)}:
            if asyncio.get_running_loop().time() > end:
                break
            await asyncio.sleep(1.0)
        # Those of other attempts are taken back when what was left there is gone.
        return taken - {port_key(name, rank) for name in bare for rank in ranks} | used

    async def _try_checkpoints(self, plans: tuple[ProcessPlan, ...]) -> tuple[ProcessPlan, ...]:
        """A pre-run finds out at once what a gang would at its first save."""
        directory = plans[0].env.get("YARNAM_CHECKPOINT_DIR", "")
        if not directory:
            return plans
        env = environment_of_container()
        problem = await checkpoint_trial.checkpoint_problem(directory, env)
        return _with_problem(plans, problem, ExitKind.NON_ZERO) if problem else plans

    async def _send_spooled(self, limit_s: float) -> None:
        """Send the checkpoints that the ended processes left on this node."""
        await self._spools.upload(
            min(limit_s, self._spools.limit_s), "before the task's end is reported"
        )

    async def _at_end_of_run(self, limit_s: float) -> None:
        run = self._task_run
        if run is not None and run.has_failed:
            self._give_up_taken_ports()
        await self._send_spooled(limit_s)

    async def _hand_over_ports(self) -> None:
        wait_s = PORT_POLL_FIRST_S
        cap_s = READY_POLL_CAP_S if self._job.ready_port else PORT_POLL_CAP_S
        while self._ports is not None and self._ports.held:
            await asyncio.sleep(wait_s)
            served, taken = self._ports.release_listening()
            if served:
                _LOG.info("ports taken over by the processes: %s", ", ".join(served))
            self._note_listening()
            if self._give_up_ports(taken):
                return
            wait_s = min(cap_s, wait_s * 1.5)

    def _note_listening(self) -> None:
        run, name = self._task_run, self._job.ready_port
        if run is None or self._ports is None or not name or run.is_listening:
            return
        keys = {port_key(name, process.plan.local_rank) for process in run.processes}
        if keys and not keys & set(self._ports.held):
            was_ready, run.is_listening = run.is_ready, True
            self._report_if_ready(was_ready=was_ready)

    def _give_up_taken_ports(self) -> bool:
        """The other members of the gang would talk to the stranger, or the process that cannot
        listen would be blamed: the run is ended, and the node is the reason."""
        return self._give_up_ports(self._ports.taken_by_others() if self._ports else {})

    def _give_up_ports(self, taken: Mapping[str, int]) -> bool:
        if not taken or self._task_run is None:
            return False
        self._task_run.abandon()
        text = ", ".join(f"{name} (user {uid})" for name, uid in sorted(taken.items()))
        self._report_unable(
            Unavailable(f"another user of the node listens on ports of this task: {text}")
        )
        return True

    async def _stop_run(self, reason: str, grace_s: float) -> None:
        run = self._task_run
        if run is None or run.state is RunState.EXITED:
            return
        await run.stop(grace_s, reason)
        await run.wait(grace_s + STOP_MARGIN_S)

    # ---- reports -------------------------------------------------------------------------

    def _report(self, state: Any) -> None:
        self._outbox.put(build_report(self._identity, state, self._task_run))

    def _report_unable(self, error: YarnamError) -> None:
        _LOG.error("cannot make the task ready: %s", error)
        report = build_report(self._identity, pb.UNABLE, None)
        report.message = str(error)
        report.user_fault = error.blame is Blame.USER
        report.node_busy = isinstance(error, DevicesTaken)
        self._outbox.put(report)

    def _lose_keeper(self) -> None:
        """Without a keeper nothing can be started or ended here. This is reported as the agent's
        problem: the job's program would otherwise be blamed for a SIGKILL."""
        if self._task_run is not None and self._task_run.state is not RunState.EXITED:
            self._task_run.abandon()
        self._report_unable(InternalError("the keeper of the task's processes was killed"))

    def _on_change(self) -> None:
        assert self._task_run is not None
        if self._task_run.state is RunState.EXITED:
            for log in self._logs.files.values():
                log.ended = True
        self._report(pb.EXITED if self._task_run.state is RunState.EXITED else pb.STARTED)

    def _metrics_report(self) -> Any:
        run = self._task_run
        if run is None or run.state is not RunState.STARTED:
            return None
        run.take_written_steps()
        self._has_newer = False
        return build_report(self._identity, pb.STARTED, run)

    def _take_sample(self, local_rank: int, sample: Sample) -> None:
        run = self._task_run
        if run is not None:
            was_ready = run.is_ready
            is_news = run.take_sample(local_rank, sample)
            self._report_if_ready(was_ready=was_ready)
            if is_news:
                self._outbox.metrics_are_due()
            else:
                self._has_newer = True

    def _report_if_ready(self, *, was_ready: bool) -> None:
        """Others wait for it: it does not wait for the next report."""
        run = self._task_run
        if run is not None and run.state is RunState.STARTED and run.is_ready and not was_ready:
            _LOG.info("the processes are ready for the roles that start after them")
            self._report(pb.STARTED)

    # ---- the end -------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._note_end)
        return task

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _LOG.error("a fault of the agent", exc_info=task.exception())
            self._keeper.kill_now()
            if self._terminated is not None and not self._terminated.done():
                # YARN reports the container's end to the AM: nobody waits for this agent.
                self._terminated.set_result(AgentExit.FAULT)

    async def _close(self, *, is_hurried: bool) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        if not is_hurried:
            await self._logs.close(DRAIN_LIMIT_S)
            if self._staging is not None:
                await _within(self._staging.close(), CLOSE_LIMIT_S)
        await self._spools.close()
        if not await self._keeper.close():
            _LOG.error("the keeper did not end in time")
        if self._ports is not None:
            self._ports.release_all()
        for each in self._leases:
            each.release()
        self._metrics.close()
        self._wake.close()
        if self._inputs is not None and not is_hurried:
            await _within(self._inputs.close(), CLOSE_LIMIT_S)
        if self._server is not None and not is_hurried:
            await _within(self._server.stop(grace=0.5), CLOSE_LIMIT_S)


def _with_problem(
    plans: Iterable[ProcessPlan], problem: str, kind: ExitKind
) -> tuple[ProcessPlan, ...]:
    """None of them is started."""
    return tuple(replace(plan, problem=problem, problem_kind=kind) for plan in plans)


async def _within(work: Coroutine[Any, Any, Any], limit_s: float) -> None:
    try:
        await asyncio.wait_for(work, limit_s)
    except asyncio.TimeoutError:
        _LOG.warning("a connection did not close within %.0f s", limit_s)

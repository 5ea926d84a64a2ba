"""The reports of an agent to the AM. Each is the agent's whole state, sent in order and again until
it is acknowledged."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from yarnam.agent.launch.task_run import Process, TaskRun
from yarnam.agent.machine.agent_actions import Report
from yarnam.agent.task_config import ContainerSettings
from yarnam.core.model.metrics import MirrorReport
from yarnam.core.model.outcomes import Finding, NodeMeasures
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.protocol import METRICS_PERIOD_S, PROTOCOL

if TYPE_CHECKING:
    from hdfs_utils.node_cache import FetchSnapshot


ReportMessage = pb.AgentReport
ProgressMessage = pb.Progress
"""The shell passes these on as they are."""


class ReportIdentity:
    """What every report contains. Filled in while the agent prepares."""

    def __init__(self, settings: ContainerSettings) -> None:
        self.settings = settings
        self.address = ""
        self.log_address = ""
        self.gpu_ids: tuple[str, ...] = ()
        self.gpu_model = ""
        self.ports: dict[str, int] = {}
        self.wake_port: Callable[[], pb.WakePort | None] = lambda: None
        """Where the AM may wake the agent; ``None``: nowhere."""
        self.staging: Callable[[], FetchSnapshot | None] = lambda: None
        """How far the inputs are staged; ``None``: none are, or nothing is known yet."""


def build_report(identity: ReportIdentity, report: Report, run: TaskRun | None) -> pb.AgentReport:
    """``run``: the processes that it speaks of."""
    settings, staging = identity.settings, identity.staging()
    asked = run.stop_step if run else None
    message = pb.AgentReport(
        stop_step=None if asked is None else pb.StopStep(step=asked.least),
        protocol=PROTOCOL,
        ask=str(settings.ask),
        container=settings.container,
        node=settings.node,
        nm_http_address=settings.nm_http_address,
        address=identity.address,
        log_address=identity.log_address,
        gpu_ids=identity.gpu_ids,
        gpu_model=identity.gpu_model,
        ports=[pb.NamedPort(name=name, port=port) for name, port in identity.ports.items()],
        state=report.state.value,
        staging=_staging(staging) if staging is not None else None,
        wake=identity.wake_port(),
        attempt=report.attempt,
        ready=report.is_ready,
        processes=[process_report(process) for process in run.processes] if run else [],
    )
    if report.problem is not None:
        message.message = report.problem.message
        message.user_fault = report.problem.is_user_fault
        message.node_busy = report.problem.is_node_busy
    if run is not None and run.group is not None:
        message.group.CopyFrom(pb.FormedGroup(number=run.group.number, tasks=run.group.tasks))
    if report.measures is not None:
        message.check.CopyFrom(_measures(report.check, report.measures))
    return message


def _staging(now: FetchSnapshot) -> pb.StagingReport:
    return pb.StagingReport(
        files=now.files,
        files_done=now.files_done,
        size=now.size,
        done=max(0, now.done),
        cached=now.cached,
        trouble=now.trouble,
        left_s=now.left_s,
    )


def _measures(check: int, found: NodeMeasures) -> pb.CheckReport:
    links = [
        pb.LinkReport(node=one.node, mib_s=one.mib_s, rtt_ms=one.rtt_ms, failure=one.failure)
        for one in found.links
    ]
    return pb.CheckReport(
        check=check,
        cpu_mib_s=found.cpu_mib_s,
        memory_mib_s=found.memory_mib_s,
        disk_mib_s=found.disk_mib_s,
        gpu_tflops=found.gpu_tflops,
        links=links,
        trouble=found.trouble,
        not_run=found.not_run,
        nccl_gib_s=found.nccl_gib_s,
    )


def build_progress(run: TaskRun) -> pb.Progress:
    """What its processes do."""
    processes = [process_report(process) for process in run.processes]
    return pb.Progress(attempt=run.attempt, processes=processes)


def process_report(process: Process) -> pb.ProcessReport:
    """One process in a report."""
    report = pb.ProcessReport(
        local_rank=process.plan.local_rank,
        rank=process.plan.rank,
        pid=process.pid,
        ended=process.ended,
        kind=process.kind.value if process.ended else "",
        code=process.code,
        signal=process.signal,
        ended_at_s=process.ended_at_s,
        last_lines=process.last_lines,
        step_s=process.step_s if process.ended else None,
        peak_memory_mib=process.peak_memory_mib,
    )
    if process.probe is not None and not process.ended:
        report.stopped, report.idle_s = process.probe.is_stopped, process.probe.idle_s
    if process.stack is not None:
        report.dumped = True
        report.stack.extend(process.stack)
    if process.collective is not None:
        one = process.collective
        report.collective.CopyFrom(
            pb.Collective(
                group=one.group, operation=one.operation, state=one.state, number=one.number
            )
        )
    if process.raised is not None and not process.ended:
        report.finding.CopyFrom(_finding(process.raised.finding))
        report.raised_age_s = max(0.0, time.time() - process.raised.at_s)
    if process.finding is not None:
        report.finding.CopyFrom(_finding(process.finding))
    sample = process.sample
    usage = process.probe.usage if process.probe is not None and not process.ended else {}
    if usage:
        report.metrics.at_s = time.time()
    if sample is not None:
        report.metrics.at_s = sample.at_s
        report.metrics.age_s = max(0.0, time.time() - sample.at_s)
        report.metrics.pause = sample.pause
        if sample.step is not None:
            report.metrics.step = sample.step
        if sample.total_steps is not None:
            report.metrics.total_steps = sample.total_steps
        for name, value in sample.values:
            report.metrics.values[name] = value
    for name, value in usage.items():
        report.metrics.values[name] = value
    _add_mirror(report, process.mirror)
    return report


def _add_mirror(report: pb.ProcessReport, kept: MirrorReport | None) -> None:
    if kept is not None:
        message = pb.MirrorReport(
            number=kept.number,
            files=kept.files,
            size=kept.size,
            saved_at_s=kept.saved_at_s,
            trouble=kept.trouble,
        )
        report.metrics.mirror.CopyFrom(message)


def _finding(finding: Finding) -> pb.Finding:
    origin = finding.origin
    return pb.Finding(
        rule=finding.rule,
        failure=finding.failure.value,
        role=finding.role.value,
        action=finding.action.value,
        blame=finding.blame.value,
        line=finding.line,
        explanation=finding.explanation,
        hint=finding.hint,
        weak=finding.is_weak,
        at_s=finding.at_s,
        ruled_out=finding.ruled_out,
        written_at_s=origin.at_s if origin else None,
        stream=origin.stream.value if origin and origin.stream else "",
    )


class Mailbox(Protocol):
    """As ``yarnam.agent.mailbox.mailbox_client.MailboxClient``."""

    async def report(self, report: pb.AgentReport) -> None: ...


class Outbox:
    """No state is skipped, not even a short one; of metrics only the newest are sent.

    Args:
        metrics: makes the report with the newest metrics; ``None`` if there are none.
    """

    def __init__(self, metrics: Callable[[], pb.AgentReport | None]) -> None:
        self._metrics = metrics
        self._pending: deque[pb.AgentReport] = deque()
        self._wake = asyncio.Event()
        self._is_metrics_due = False
        self._sent_at_s = 0.0
        self.metrics_period_s = METRICS_PERIOD_S
        """Between two reports that bring nothing but newer metrics, at least."""

    @property
    def is_empty(self) -> bool:
        return not self._pending

    def put(self, report: pb.AgentReport) -> None:
        self._pending.append(report)
        self._wake.set()

    def metrics_are_due(self) -> None:
        """Newer ones have come in, which do not wait for the next poll."""
        if not self._is_metrics_due:
            self._is_metrics_due = True
            self._wake.set()

    def metrics_are_sent(self) -> None:
        """A poll takes the newest ones along."""
        self._is_metrics_due = False
        self._sent_at_s = asyncio.get_running_loop().time()

    async def send_first(self, mailbox: Mailbox) -> None:
        """The AM knows an agent by its first report: it goes before the first directive."""
        await mailbox.report(self._pending[0])
        self._pending.popleft()

    async def send_all(self, mailbox: Mailbox) -> None:
        """All that follow the first one, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            while self._pending:
                await mailbox.report(self._pending[0])
                self._pending.popleft()
            late_s = self._sent_at_s + self.metrics_period_s - loop.time()
            if self._is_metrics_due and late_s > 0:
                await self._wake_within(late_s)
                continue
            report = self._metrics() if self._is_metrics_due else None
            if report is None:
                await self._wake.wait()
                continue
            self.metrics_are_sent()
            await mailbox.report(report)

    async def _wake_within(self, wait_s: float) -> None:
        try:
            await asyncio.wait_for(self._wake.wait(), wait_s)
        except asyncio.TimeoutError:
            pass

"""The agent's whole state as one message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from yarnam.agent.settings import Settings
from yarnam.agent.task_run import Process, TaskRun
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.protocol import PROTOCOL


class Identity:
    """What every report says. Filled in while the agent prepares."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.address = ""
        self.log_address = ""
        self.gpu_ids: tuple[str, ...] = ()
        self.gpu_model = ""
        self.ports: dict[str, int] = {}
        self.staging: Callable[[], Any] = lambda: None
        """How far inputs are on their way, a ``pb.StagingReport``; None: none are brought."""


def build_report(identity: Identity, state: Any, run: TaskRun | None) -> Any:
    """``state`` is a ``pb.TaskState``."""
    settings = identity.settings
    return pb.AgentReport(
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
        state=state,
        staging=identity.staging(),
        attempt=run.attempt if run else 0,
        processes=[_process(process) for process in run.processes] if run else [],
    )


def _process(process: Process) -> Any:
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
    )
    sample = process.sample
    if sample is not None:
        report.metrics.at_s = sample.at_s
        if sample.step is not None:
            report.metrics.step = sample.step
        if sample.total_steps is not None:
            report.metrics.total_steps = sample.total_steps
        for name, value in sample.values:
            report.metrics.values[name] = value
    return report

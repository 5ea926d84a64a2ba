"""What the agents measure of GPUs becomes an event."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tests.fakes.clock import FakeClock
from tests.fakes.task_mailbox import FakeMailbox
from tests.unit.gang.play import Play, job
from yarnam.adapters.grpc.agent_session import AgentSession
from yarnam.agent.launch.process_activity import ActivityProbe
from yarnam.agent.launch.task_run import Graces, Process, ProcessPlan, TaskRun
from yarnam.agent.mailbox.agent_reports import process_report
from yarnam.agent.resources.gpu_devices import ENV_GPU_IDS
from yarnam.agent.resources.gpu_usage import GpuUsage
from yarnam.am.probes.gang_observers import view_of
from yarnam.core.failures.idle_gpus import UNREPORTED_WINDOW_S, WINDOW_S
from yarnam.core.failures.rank_activity import RankActivity
from yarnam.core.gang.gang_status import describe
from yarnam.core.model.events import Event, IdleGpusFound
from yarnam.core.model.ids import AskId
from yarnam.core.model.metrics import (
    COMPUTE_S,
    CPU_CORES,
    GPU_PERCENT,
    MEASURED_STEPS,
    READ_RATE,
    STEP_S,
    AgentMetrics,
    Measured,
)
from yarnam.core.model.outcomes import IdleCause
from yarnam.core.observers.idle_gpu_observer import IDLE_GPUS, use_of
from yarnam.wire.pb import yarnam_pb2 as pb


def metrics(ask: AskId, rank: int, **values: float) -> AgentMetrics:
    found = {MEASURED_STEPS: 20.0, CPU_CORES: 2.0, **values}
    told = tuple((name, Measured(value)) for name, value in found.items())
    return AgentMetrics(ask, rank, 1.0, 9, None, told, 1)


class World:
    """Two workers of one process each."""

    def __init__(self) -> None:
        self.play = Play(job(processes=1)).to_running()
        self.clock = FakeClock()
        self.mailbox = FakeMailbox()
        self.events: list[Event] = []
        self.state = IDLE_GPUS.initial

    def train(self, percent: float, seconds: float = WINDOW_S + 2) -> None:
        for _ in range(int(seconds)):
            self.mailbox.measured = [
                metrics(ask, rank, **{GPU_PERCENT: percent})
                for rank, ask in enumerate(self.play.asks())
            ]
            self.look()

    def look(self) -> None:
        gang, now_s = self.play.gang, self.clock.now_s()
        view = view_of(gang, job(), now_s, self.mailbox.measured, self.mailbox.activity())
        self.state, found = IDLE_GPUS.observe(self.state, view)
        self.events += found.events
        self.clock.advance(1.0)


def test_idle_gpus_are_reported_once_and_again_when_they_idle_no_longer() -> None:
    world = World()
    world.train(4.0, 2 * WINDOW_S + 2)
    (event,) = world.events
    assert isinstance(event, IdleGpusFound)
    assert event.idle is not None
    assert event.idle.cause is IdleCause.INPUT
    world.play.send(event)
    status = describe(world.play.gang, world.play.now_s)
    assert status.idle_gpus == status.history[-1].idle_gpus == event.idle
    world.train(90.0)
    after = world.events[1]
    assert isinstance(after, IdleGpusFound)
    assert after.idle is None
    world.play.send(after)
    assert describe(world.play.gang, world.play.now_s).idle_gpus is None


def test_not_in_a_pause_nor_without_nvml_nor_of_a_part_of_the_gang() -> None:
    world = World()
    one, two = world.play.asks()
    world.mailbox.active = [RankActivity(one, 0, pause="evaluation"), RankActivity(two, 1)]
    world.train(4.0, 3 * WINDOW_S)
    world.mailbox.active = []
    world.train(math.nan, 3 * WINDOW_S)
    world.play.ok(one)
    world.train(4.0, 3 * WINDOW_S)
    assert world.events == []


def test_what_a_process_uses() -> None:
    ask = AskId(1, "worker", 0)
    found = use_of(
        metrics(ask, 0, **{GPU_PERCENT: 250.0, STEP_S: 0.5, COMPUTE_S: 0.1}), is_paused=True
    )
    assert found is not None
    assert (found.gpu_percent, found.own_share, found.is_paused) == (100.0, 0.2, True)
    assert use_of(replace(metrics(ask, 0), values=()), is_paused=False) is None
    hostile = {GPU_PERCENT: 1.0, STEP_S: 0.0, COMPUTE_S: math.inf, CPU_CORES: -1.0}
    shown = use_of(metrics(ask, 0, **hostile), is_paused=False)
    assert shown is not None
    assert (shown.own_share, shown.cpu_cores) == (None, 0.0)


class IdleNvml:
    """As ``pynvml``, on a node whose GPUs do next to nothing."""

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetUtilizationRates(self, _: int) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=3)

    def nvmlDeviceGetMemoryInfo(self, _: int) -> Any:  # noqa: N802
        return SimpleNamespace(used=2**30)


def test_a_real_process_whose_gpus_idle_while_it_prepares_input(tmp_path: Path) -> None:
    """From /proc and NVML over the agent's report to the event; only the window's time is made."""
    world = World()
    ask, _ = world.play.asks()
    log = tmp_path / "log"
    log.touch()
    plan = ProcessPlan(0, 0, "", (), {ENV_GPU_IDS: "0,1"}, log)
    run = TaskRun(
        cast("Any", None), 1, tmp_path / "stop", Graces(1.0, 1.0), lambda _: None,
        _gpus=GpuUsage(IdleNvml),
    )  # fmt: skip
    loader = subprocess.Popen(
        [sys.executable, "-c", "while True: open('/dev/zero','rb').read(2**24)"]
    )
    try:
        run.processes = [Process(plan, pid=loader.pid, probe=ActivityProbe(loader.pid, log))]
        session, deadline_s = AgentSession(ask), time.monotonic() + 60.0
        while not _reads(world) and time.monotonic() < deadline_s:
            time.sleep(0.2)
            run.poll()
            report = pb.AgentReport(ask=str(ask), container="c", state=pb.STARTED, attempt=1)
            report.processes.append(process_report(run.processes[0]))
            list(session.report(report, 1.0))
            world.mailbox.measured = list(session.metrics.values())
    finally:
        loader.kill()
        loader.wait()
    for _ in range(int(UNREPORTED_WINDOW_S) + 2):
        world.look()
    (event,) = world.events
    assert isinstance(event, IdleGpusFound)
    assert event.idle is not None
    assert event.idle.cause is IdleCause.INPUT
    assert event.idle.percent == 3.0


def _reads(world: World) -> bool:
    return any(dict(one.values).get(READ_RATE, 0.0) > 2**24 for one in world.mailbox.measured)

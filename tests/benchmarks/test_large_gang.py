"""One gang of many tasks: what its ApplicationMaster takes while it runs, and how soon clients are
answered. The AM is a process of its own (``large_gang_am``); the agents are in this one: they are
the product's own client with a connection each, and tell what an agent with one training process
does. ``YARNAM_BENCH_TASKS`` (1000) and ``YARNAM_BENCH_WINDOW_S`` (30) choose the load,
``YARNAM_BENCH_WAKE=no`` a network without UDP: then the agents' calls wait at the AM.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest
import yaml

from tests.benchmarks.test_footprint import peak_mb, resident_mb, show
from yarnam.adapters.grpc.job_client import GrpcJobClient
from yarnam.agent.machine.agent_directives import Launch, Stage, Stop
from yarnam.agent.mailbox.log_service import LogFile, LogService
from yarnam.agent.mailbox.mailbox_client import AmLimits, MailboxClient
from yarnam.agent.mailbox.wake_listener import WakeListener
from yarnam.client.monitor.logs.job_logs import LogRequest, read_logs
from yarnam.core.model.job_status import JobState, JobStatus
from yarnam.ports.job_access import StatusVersion
from yarnam.wire.codec import decode
from yarnam.wire.credentials import new_credentials
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.pb import yarnam_pb2_grpc
from yarnam.wire.protocol import PROTOCOL
from yarnam.wire.tls import CHANNEL_OPTIONS, channel_credentials, server_credentials

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

TASKS = int(os.environ.get("YARNAM_BENCH_TASKS", "1000"))
HAS_WAKE = os.environ.get("YARNAM_BENCH_WAKE", "yes") == "yes"
WINDOW_S = float(os.environ.get("YARNAM_BENCH_WINDOW_S", "30"))
AM_LIMIT_MB = 150.0
"""Of 10^6 bytes."""
MB_OF_MIB = 1.048576
AM_LIMIT_CORES = 0.3
ANSWER_LIMIT_S = 1.0
STOP_LIMIT_S = 2.0
START_LIMIT_S = 300.0
ROOT = Path(__file__).resolve().parents[2]


class Agent:
    """As ``yarnam.agent`` talks: polls that are its heartbeats and take its metrics along, and
    reports of its state."""

    def __init__(self, address: str, pem: bytes, number: int, log_address: str) -> None:
        # One on each node, which the AM grants in this order.
        self.ask = f"a1.worker.{number}"
        self.container = f"container_{self.ask}"
        self.number = number
        self.step = 0
        self.is_started = False
        self.stopped_at = 0.0
        self.log_address = log_address
        self.wake = WakeListener()
        self.client = MailboxClient(
            address, pem, self.ask, self.container, AmLimits(600.0), self.wake
        )

    def report(self, state: int, **fields: object) -> pb.AgentReport:
        return pb.AgentReport(
            protocol=PROTOCOL, ask=self.ask, container=self.container, node=f"n{self.number + 1}",
            address="127.0.0.1", log_address=self.log_address, gpu_ids=["0"], state=state,
            ports=[pb.NamedPort(name="coordinator", port=4000)], wake=self.wake.port, **fields,
        )  # fmt: skip

    async def run(self, connecting: asyncio.Semaphore) -> None:
        if HAS_WAKE:
            self.wake.open("127.0.0.1")
        async with connecting:
            await self.client.report(self.report(pb.READY))
        seen = 0
        while True:
            order = await self.client.await_directive(seen, self.progress)
            if order.number == seen:
                continue
            seen = order.number
            if isinstance(order.order, Stage):
                await self.client.report(self.report(pb.STAGED, attempt=1))
            if isinstance(order.order, Stop) and not self.stopped_at:
                self.stopped_at = time.monotonic()
            if isinstance(order.order, Launch):
                self.is_started = True
                await self.client.report(
                    self.report(pb.STARTED, attempt=1, processes=[self.process()])
                )

    def progress(self) -> pb.Progress | None:
        return pb.Progress(attempt=1, processes=[self.process()]) if self.is_started else None

    def process(self) -> pb.ProcessReport:
        self.step += 1
        metrics = pb.Metrics(at_s=time.time(), step=self.step, total_steps=10**6,
                             values={"loss": 1 / self.step, "lr": 0.1})  # fmt: skip
        return pb.ProcessReport(local_rank=0, rank=self.number, pid=5, metrics=metrics)


class Logs:
    """What agents serve, each at an address of its own; and the job as ``yarnam logs`` sees it."""

    def __init__(self, folder: Path, address: str, pem: bytes) -> None:
        log = folder / "log"
        log.write_text("".join(f"step {step} loss {1 / step:.4f}\n" for step in range(1, 1000)))
        self._service = LogService(log, 1)
        self._service.files[0] = LogFile(log)
        self._client = GrpcJobClient(address, pem)
        self._pem = pem
        self.application = "application_1_0001"
        timing = SimpleNamespace(process_poll_s=0.5)
        self.site = SimpleNamespace(timing=timing, must_reach=lambda what: None)

    async def serve(self) -> list[str]:
        server = grpc.aio.server()
        yarnam_pb2_grpc.add_AgentLogsServicer_to_server(self._service, server)  # type: ignore[no-untyped-call]
        credentials = server_credentials(self._pem)
        ports = [server.add_secure_port("127.0.0.1:0", credentials) for _ in range(TASKS)]
        await server.start()
        self._server = server
        return [f"127.0.0.1:{port}" for port in ports]

    def status(self) -> StatusVersion:
        return self._client.status()

    def job_client(self) -> GrpcJobClient:
        return self._client

    def close(self) -> None:
        self._client.close()

    def read(self, request: LogRequest) -> tuple[float, float, int]:
        """As a client that has just come: seconds to the first piece and to all; pieces."""
        began, first, pieces = time.perf_counter(), 0.0, 0
        for piece in read_logs(self, request):  # type: ignore[arg-type]
            assert not piece.is_note, piece.data
            first = first or time.perf_counter() - began
            pieces += 1
        return first, time.perf_counter() - began, pieces


def malloc_environment() -> dict[str, str]:
    """Of the AM's Python in its container."""
    folder = ROOT / "skein_specs"
    arenas = yaml.safe_load((folder / "application.yaml").read_text())["master"]["env"]
    exported = re.findall(r"(MALLOC_\w+)=(\w+)", (folder / "launch_am.sh").read_text())
    assert exported
    return {"MALLOC_ARENA_MAX": arenas["MALLOC_ARENA_MAX"], **dict(exported)}


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_status(address: str, pem: bytes) -> tuple[float, JobStatus, int]:
    """As a client that has just come: connect, ask, decode. Seconds, the status, its bytes."""
    began = time.perf_counter()
    with grpc.secure_channel(address, channel_credentials(pem), CHANNEL_OPTIONS) as channel:
        stub = yarnam_pb2_grpc.JobControlStub(channel)  # type: ignore[no-untyped-call]
        reply = stub.GetStatus(pb.StatusRequest(), timeout=60.0)
    status = decode(reply.status_json, JobStatus)
    return time.perf_counter() - began, status, len(reply.status_json)


async def stop_all(address: str, pem: bytes, agents: list[Agent]) -> float:
    """Seconds from a client's cancel until the last agent has its order to stop."""
    began_s = time.monotonic()
    with grpc.secure_channel(address, channel_credentials(pem), CHANNEL_OPTIONS) as channel:
        stub = yarnam_pb2_grpc.JobControlStub(channel)  # type: ignore[no-untyped-call]
        stub.Cancel(pb.CancelRequest(by="the benchmark"), timeout=60.0)
    while not all(agent.stopped_at for agent in agents):
        assert time.monotonic() - began_s < START_LIMIT_S
        await asyncio.sleep(0.02)
    return max(agent.stopped_at for agent in agents) - began_s


async def drive(address: str, pem: bytes, pid: int, folder: Path) -> None:
    logs = Logs(folder, address, pem)
    addresses = await logs.serve()
    agents = [Agent(address, pem, n, addresses[n]) for n in range(TASKS)]
    began_s = time.monotonic()
    connecting = asyncio.Semaphore(20)  # the handshakes of both sides share this machine
    tasks = [asyncio.create_task(agent.run(connecting)) for agent in agents]
    while not all(agent.is_started for agent in agents):
        assert time.monotonic() - began_s < START_LIMIT_S
        for task in tasks:
            if task.done():
                task.result()
        await asyncio.sleep(0.1)
    print(f"\n{TASKS} tasks: registered and launched after {time.monotonic() - began_s:.1f} s, "
          f"AM {cpu_s(pid):.1f} s of CPU by then")  # fmt: skip
    await asyncio.sleep(5.0)
    cpu, began_s = cpu_s(pid), time.monotonic()
    steps = sum(agent.step for agent in agents)
    await asyncio.sleep(WINDOW_S)
    passed_s = time.monotonic() - began_s
    cores = (cpu_s(pid) - cpu) / passed_s
    polls = (sum(agent.step for agent in agents) - steps) / passed_s
    print(f"  {polls:.0f} polls with metrics a second")
    show("AM, resident memory while it runs", MB_OF_MIB * resident_mb(pid), AM_LIMIT_MB, "MB")
    show("AM, resident memory (peak)", MB_OF_MIB * peak_mb(pid), AM_LIMIT_MB, "MB")
    show("AM, CPU while it runs", cores, AM_LIMIT_CORES, "cores")
    answers = [await asyncio.to_thread(read_status, address, pem) for _ in range(5)]
    took_s, status, size = sorted(answers, key=lambda answer: answer[0])[2]
    print(f"  the status has {size / 1e3:.0f} kB")
    assert status.state is JobState.RUNNING, status.reason
    assert len(status.tasks) == TASKS
    show("a client's status: connect, fetch, decode", took_s, ANSWER_LIMIT_S, "s")
    one = LogRequest(rank=TASKS - 1, tail=10)
    took_s = [(await asyncio.to_thread(Logs(folder, address, pem).read, one))[1] for _ in range(5)]
    show("a client's logs of one rank: connect, find, read", sorted(took_s)[2], ANSWER_LIMIT_S, "s")
    every = LogRequest(tail=10)
    first_s, all_s, pieces = await asyncio.to_thread(Logs(folder, address, pem).read, every)
    assert pieces == TASKS
    show("a client's logs of all ranks: the first", first_s, ANSWER_LIMIT_S, "s")
    print(f"  of all {TASKS} ranks: {all_s:.1f} s")
    show("until the last agent is told to stop", await stop_all(address, pem, agents),
         STOP_LIMIT_S, "s")  # fmt: skip
    for agent, task in zip(agents, tasks, strict=True):
        task.cancel()
        agent.wake.close()


def test_what_a_large_gang_takes(tmp_path: Path) -> None:
    pem = new_credentials()
    secret = tmp_path / "credentials.pem"
    secret.write_bytes(pem)
    am = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.large_gang_am", str(TASKS), str(secret)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, **malloc_environment()},
    )  # fmt: skip
    assert am.stdin is not None
    assert am.stdout is not None
    try:
        word, _, address = am.stdout.readline().strip().partition(" ")
        assert word == "address"
        asyncio.run(drive(address, pem, am.pid, tmp_path))
    finally:
        am.stdin.close()
        am.stdout.close()
        am.kill()
        am.wait()

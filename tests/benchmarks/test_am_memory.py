"""What the AM's Python process takes with gangs of 1, 100 and 1,000 tasks: the real AM and its gRPC
server, with YARN and HDFS as fakes and agents that are only their protocol. Resident memory is the
kernel's VmHWM (peak), a share of a core the kernel's account over ten seconds of a running gang.
Printed as ratios to what ``core.model.resources`` counts with.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import grpc
import grpc.aio
import pytest

from tests.benchmarks.test_footprint import peak_mb, show
from tests.benchmarks.test_large_gang import malloc_environment
from yarnam.core.model.resources import PYTHON_MIB, PYTHON_TASKS_PER_MIB
from yarnam.wire.credentials import new_credentials
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.pb import yarnam_pb2_grpc as pb_grpc
from yarnam.wire.protocol import PROTOCOL
from yarnam.wire.tls import CHANNEL_OPTIONS, channel_credentials

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

WORLD = Path(__file__).with_name("am_with_fakes.py")
CORE_SHARE_LIMIT = 0.3


class LightAgent:
    """An agent without processes: it registers, and starts whatever it is told to launch."""

    def __init__(self, address: str, credentials: bytes, ask: str) -> None:
        options = [*CHANNEL_OPTIONS, ("grpc.use_local_subchannel_pool", 1)]
        secure = channel_credentials(credentials)
        self._channel = grpc.aio.secure_channel(address, secure, options=options)
        self._stub = pb_grpc.TaskMailboxStub(self._channel)
        self._ask = ask
        self._container = f"container_{self._ask}"
        self.is_started = asyncio.Event()

    async def run(self, connecting: asyncio.Semaphore) -> None:
        async with connecting:
            await self._report(pb.READY, 0)
        seen = 0
        while True:
            request = pb.DirectiveRequest(
                protocol=PROTOCOL, ask=self._ask, container=self._container, seen=seen, hold_ms=2000
            )
            directive = await self._stub.AwaitDirective(request, timeout=300, wait_for_ready=True)
            if directive.number != seen and directive.WhichOneof("order") == "launch":
                await self._report(pb.STARTED, directive.launch.attempt)
                self.is_started.set()
            seen = directive.number

    async def close(self) -> None:
        await self._channel.close()

    async def _report(self, state: pb.TaskState, attempt: int) -> None:
        await self._stub.Report(
            pb.AgentReport(
                protocol=PROTOCOL, ask=self._ask, container=self._container, node="n1",
                address="127.0.0.1", gpu_ids=["0"], state=state, attempt=attempt,
                ports=[pb.NamedPort(name="coordinator", port=40000)],
                processes=[pb.ProcessReport(local_rank=0)] if state == pb.STARTED else [],
            ),
            timeout=300, wait_for_ready=True,
        )  # fmt: skip


async def all_run(address: str, credentials: bytes, tasks: int, pid: int) -> float:
    """Returns the AM's share of a core while the gang runs."""
    asks = [f"a1.worker.{number}" for number in range(tasks)]
    agents = [LightAgent(address, credentials, ask) for ask in asks]
    connecting = asyncio.Semaphore(20)  # the handshakes of both sides share this machine
    running = [asyncio.create_task(agent.run(connecting)) for agent in agents]
    started = asyncio.gather(*(agent.is_started.wait() for agent in agents))
    failed = asyncio.gather(*running)
    await asyncio.wait([started, failed], return_when=asyncio.FIRST_COMPLETED, timeout=300)
    if failed.done():
        failed.result()
    assert started.done(), "not all started"
    await asyncio.sleep(3)
    before = cpu_s(pid)
    await asyncio.sleep(10)
    used = cpu_s(pid) - before
    failed.cancel()
    return used / 10


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("tasks", [1, 100, 1000])
def test_memory_of_the_am(tasks: int, tmp_path: Path) -> None:
    credentials = tmp_path / "credentials.pem"
    credentials.write_bytes(new_credentials())
    command = [sys.executable, str(WORLD), str(tasks), str(credentials)]
    env = {**os.environ, **malloc_environment(), "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as am:
        try:
            assert am.stdout is not None
            address = am.stdout.readline().strip()
            share = asyncio.run(all_run(address, credentials.read_bytes(), tasks, am.pid))
            print(f"\nthe AM with {tasks} tasks")
            show("its Python process, peak resident", peak_mb(am.pid),
                 PYTHON_MIB + tasks / PYTHON_TASKS_PER_MIB, "MB")  # fmt: skip
            show("share of a core while the gang runs", share, CORE_SHARE_LIMIT, "")
        finally:
            am.kill()

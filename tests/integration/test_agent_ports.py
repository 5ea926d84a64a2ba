"""Ports held from the barrier until a real server of the user's binds them."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.agent_world import World, small_job, world
from tests.integration.framework_venvs import framework_python
from yarnam.core.model.job_spec import JobSpec
from yarnam.wire.pb import yarnam_pb2 as pb

pytestmark = [pytest.mark.grpc, pytest.mark.asyncio]

STOCK = """
import os, socketserver, threading, socket
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b'stock')
socketserver.ThreadingTCPServer.allow_reuse_address = True
host, port = os.environ['YARNAM_ADDRESS'], int(os.environ['YARNAM_PORT_WEB'])
socketserver.ThreadingTCPServer((host, port), Echo).serve_forever()
"""

ANY_ADDRESS = STOCK.replace("os.environ['YARNAM_ADDRESS']", "''")

GRPC = """
import os, grpc, time
from concurrent.futures import ThreadPoolExecutor
server = grpc.server(ThreadPoolExecutor(1), options=(('grpc.so_reuseport', {reuse}),))
address = os.environ['YARNAM_ADDRESS'] + ':' + os.environ['YARNAM_PORT_WEB']
assert server.add_insecure_port(address) == int(os.environ['YARNAM_PORT_WEB'])
server.start()
time.sleep(600)
"""

ASYNCIO = """
import asyncio, os
async def serve():
    async def answer(reader, writer):
        writer.write(b'stock')
        writer.close()
    server = await asyncio.start_server(answer, None, int(os.environ['YARNAM_PORT_WEB']))
    await server.serve_forever()
asyncio.run(serve())
"""


def is_listening(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=0.5).close()
    except OSError:
        return False
    return True


async def ready_with_port(here: World, job: JobSpec) -> tuple[Any, int]:
    container = here.container(job).start()
    ready = await here.am.until(container.ask, pb.READY)
    (port,) = (port.port for port in ready.ports if port.name == "web.0")
    return container, port


@pytest.mark.parametrize(
    "server",
    [STOCK, ANY_ADDRESS, GRPC.format(reuse=0), GRPC.format(reuse=1), ASYNCIO],
    ids=["stock", "any-address", "grpc", "grpc-reuseport", "asyncio"],
)
async def test_held_port_is_handed_to_the_users_server(tmp_path: Path, server: str) -> None:
    job = small_job([sys.executable, "-c", server], ports=("web",))
    async with world(tmp_path) as here:
        container, port = await ready_with_port(here, job)
        low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
        assert not low <= port <= high
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(("127.0.0.1", port))
        assert not is_listening(("127.0.0.1", port)), "nobody may connect to a mere holder"
        await here.am.launch(job, [container.ask])
        await here.am.until(container.ask, pb.STARTED)
        end = time.monotonic() + 15
        while not is_listening(("127.0.0.1", port)):
            assert container.user_processes(), container.log()
            assert time.monotonic() < end
            await asyncio.sleep(0.05)
        end = time.monotonic() + 10
        while "ports taken over by the processes: web.0" not in container.agent_log():
            assert time.monotonic() < end, container.agent_log()
            await asyncio.sleep(0.05)
        assert is_listening(("127.0.0.1", port))


async def test_two_agents_never_hold_one_port(tmp_path: Path) -> None:
    labels = tuple(f"p{number}" for number in range(200))
    job = small_job(["sleep", "600"], ports=labels)
    async with world(tmp_path) as here:
        containers = [here.container(job).start() for _ in range(3)]
        reports = [await here.am.until(container.ask, pb.READY) for container in containers]
        ports = [port.port for report in reports for port in report.ports]
        assert len(ports) == 3 * 201
        assert len(set(ports)) == len(ports)


async def test_only_rank_zeros_task_keeps_its_coordinator_port(tmp_path: Path) -> None:
    job = small_job(["sleep", "600"], tasks=2)
    async with world(tmp_path) as here:
        containers = [here.container(job).start() for _ in range(2)]
        asks = [container.ask for container in containers]
        ports = [(await here.am.until(ask, pb.READY)).ports[0].port for ask in asks]
        await here.am.launch(job, asks)
        for ask in asks:
            await here.am.until(ask, pb.STARTED)
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(("127.0.0.1", ports[0]))
        with socket.socket() as stranger:
            stranger.bind(("127.0.0.1", ports[1]))


async def test_a_task_that_starts_again_as_rank_zero_has_its_coordinator_port_back(
    tmp_path: Path,
) -> None:
    """After a change of the gang's size another task may be the first one."""
    job = small_job(["sleep", "600"], tasks=2)
    async with world(tmp_path) as here:
        containers = [here.container(job).start() for _ in range(2)]
        first, second = (container.ask for container in containers)
        port = (await here.am.until(second, pb.READY)).ports[0].port
        await here.am.until(first, pb.READY)
        await here.am.launch(job, [first, second])
        await here.am.until(second, pb.STARTED)
        with socket.socket() as stranger:
            stranger.bind(("127.0.0.1", port))
        await here.am.mailbox.order(second, stop=pb.Stop(attempt=1, grace_s=1, reason="resize"))
        await here.am.until(second, pb.EXITED)
        await here.am.launch(job, [second], attempt=2)
        await here.am.mailbox.until(
            second, lambda report: report.state == pb.STARTED and report.attempt == 2
        )
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(("127.0.0.1", port))


# As LightGBM's and XGBoost's servers: bound without flags, and the first to close.
BARE = """
import os, socket
server = socket.socket()
server.bind(('127.0.0.1', int(os.environ['LIGHTGBM_LOCAL_LISTEN_PORT'])))
server.listen()
client = socket.create_connection(server.getsockname())
server.accept()[0].close()
client.close()
print('port', server.getsockname()[1])
"""


async def test_connections_of_the_attempt_before_are_not_in_the_way_of_a_bare_server(
    tmp_path: Path,
) -> None:
    """The kernel keeps them for a minute, and such a server cannot bind the port meanwhile."""
    job = small_job([sys.executable, "-c", BARE], framework="lightgbm")
    async with world(tmp_path) as here:
        container = here.container(job).start()
        await here.am.until(container.ask, pb.READY)
        for attempt in (1, 2, 3):
            await here.am.launch(job, [container.ask], attempt=attempt)
            report = await here.am.mailbox.until(
                container.ask,
                lambda report, n=attempt: report.state == pb.EXITED and report.attempt == n,
            )
            assert report.processes[0].kind == "ok", container.log()
        ports = [line for line in container.log().splitlines() if line.startswith(b"port ")]
        assert len(set(ports)) == 3


STRANGER = """
import os, socket, sys, time
os.setuid(65534)
with socket.create_server(('127.0.0.1', int(sys.argv[1]))):
    print('listening', flush=True)
    time.sleep(60)
"""


@contextmanager
def stranger_listens(port: int) -> Iterator[None]:
    """Another user of the node, with the flag that lets anybody in. A process of its own: a fork of
    this one has half of gRPC in it. It changes its user late, who may not read this Python's files.
    """
    command = [sys.executable, "-I", "-S", "-c", STRANGER, str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as stranger:
        try:
            assert stranger.stdout
            assert stranger.stdout.readline() == b"listening\n", "the stranger could not listen"
            yield
        finally:
            stranger.kill()


FAILS_WHEN_TAKEN = """
import os, socket, sys, time
while True:
    try:
        socket.create_connection(('127.0.0.1', int(os.environ['YARNAM_PORT_WEB']))).close()
        sys.exit('address already in use')
    except OSError:
        time.sleep(0.01)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="acts as another user")
@pytest.mark.parametrize(
    "command", [["sleep", "600"], [sys.executable, "-c", FAILS_WHEN_TAKEN]], ids=["runs", "fails"]
)
async def test_a_stranger_on_a_held_port_is_the_nodes_fault_not_the_programs(
    tmp_path: Path, command: list[str]
) -> None:
    job = small_job(command, ports=("web",))
    async with world(tmp_path) as here:
        container, port = await ready_with_port(here, job)
        await here.am.launch(job, [container.ask])
        await here.am.until(container.ask, pb.STARTED)
        await asyncio.sleep(1)
        with stranger_listens(port):
            report = await here.am.until(container.ask, pb.UNABLE)
            assert "another user of the node" in report.message
            assert "web.0 (user 65534)" in report.message
            assert not report.user_fault
            end = time.monotonic() + 10
            while container.user_processes():
                assert time.monotonic() < end
                await asyncio.sleep(0.05)


async def test_tensorflow_processes_each_hold_their_own_port(tmp_path: Path) -> None:
    program = "echo $TF_CONFIG"
    job = small_job(["sh", "-c", program], processes=2, framework="tensorflow")
    async with world(tmp_path) as here:
        container = here.container(job).start()
        ready = await here.am.until(container.ask, pb.READY)
        numbers = {port.name: port.port for port in ready.ports}
        assert list(numbers) == ["coordinator", "task.0", "task.1"]
        await here.am.launch(job, [container.ask])
        await here.am.until(container.ask, pb.EXITED)
        addresses = f'["127.0.0.1:{numbers["task.0"]}","127.0.0.1:{numbers["task.1"]}"]'
        assert addresses in container.log(1).decode()
        assert '"task":{"type":"worker","index":1}' in container.log(1).decode()


JAX = """
import jax
from yarnam import train
assert train.initialize_jax()
import jax.numpy as jnp
from jax.experimental import multihost_utils
total = multihost_utils.process_allgather(jnp.array([train.rank() + 1.0])).sum()
print('processes', jax.process_count(), 'sum', float(total))
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")
async def test_jax_meets_at_the_held_coordinator_port(tmp_path: Path) -> None:
    job = small_job(
        [sys.executable, "-c", JAX],
        tasks=2,
        framework="jax",
        env=(("JAX_PLATFORMS", "cpu"), ("JAX_CPU_COLLECTIVES_IMPLEMENTATION", "gloo")),
    )
    async with world(tmp_path) as here:
        containers = [here.container(job, sdk=True).start() for _ in range(2)]
        asks = [container.ask for container in containers]
        for ask in asks:
            await here.am.until(ask, pb.READY)
        await here.am.launch(job, asks)
        for index, container in enumerate(containers):
            report = await here.am.until(container.ask, pb.EXITED, 90)
            lines = list(report.processes[0].last_lines)
            assert report.processes[0].kind == "ok", lines
            assert lines[-1] == "processes 2 sum 3.0", container.log(0, index)


TORCH = """
import torch, torch.distributed as dist
dist.init_process_group('gloo')
value = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(value)
print('processes', dist.get_world_size(), 'sum', float(value))
dist.destroy_process_group()
"""


@pytest.mark.frameworks
@pytest.mark.timeout(1800)
async def test_torch_meets_at_the_held_master_port(tmp_path: Path) -> None:
    job = small_job([str(framework_python("torch")), "-c", TORCH], processes=2, framework="pytorch")
    async with world(tmp_path) as here:
        container = here.container(job).start()
        await here.am.until(container.ask, pb.READY)
        await here.am.launch(job, [container.ask])
        report = await here.am.until(container.ask, pb.EXITED, 90)
        for process in report.processes:
            assert list(process.last_lines)[-1] == "processes 2 sum 3.0"

"""One AM through 100 preemptions of 200 stand-in agents: the real AM and its gRPC server in a
process of their own, with YARN and HDFS as fakes. What the process holds must not grow with the
number of attempts: resident memory, descriptors (sockets among them) and threads, all printed.

``YARNAM_PREEMPTIONS`` and ``YARNAM_PREEMPTED_TASKS`` change the numbers.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.benchmarks.test_am_memory import LightAgent
from tests.benchmarks.test_large_gang import malloc_environment
from yarnam.wire.credentials import new_credentials

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

WORLD = Path(__file__).with_name("preempted_gang_am.py")
PREEMPTIONS = int(os.environ.get("YARNAM_PREEMPTIONS", "100"))
TASKS = int(os.environ.get("YARNAM_PREEMPTED_TASKS", "200"))
WARM = 10
"""Attempts before the first one that is compared: allocators and gRPC have their buffers then."""
GROWTH_LIMIT_MB = 8.0
"""Sessions that were kept took 6 kB an agent and attempt: 100 MB."""


class Holdings(NamedTuple):
    memory_mb: float
    files: int
    sockets: int
    threads: int


def holdings(pid: int) -> Holdings:
    status = Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    targets = []
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            targets.append(str(each.readlink()))
        except FileNotFoundError:
            continue
    sockets = sum(target.startswith("socket:") for target in targets)
    memory_mb = int(fields["VmRSS"].split()[0]) / 1024
    return Holdings(memory_mb, len(targets) - sockets, sockets, int(fields["Threads"]))


async def attempt(
    am: asyncio.subprocess.Process, address: str, credentials: bytes, asks: list[str]
) -> Holdings:
    """A whole gang starts, runs, and is killed as YARN kills: no agent says goodbye."""
    assert am.stdout is not None
    while len(asks) < TASKS:
        asks.append((await am.stdout.readline()).decode().strip())
    agents = [LightAgent(address, credentials, ask) for ask in asks]
    connecting = asyncio.Semaphore(20)
    running = [asyncio.create_task(agent.run(connecting)) for agent in agents]
    await asyncio.wait_for(asyncio.gather(*(agent.is_started.wait() for agent in agents)), 120)
    found = holdings(am.pid)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    await asyncio.gather(*(agent.close() for agent in agents))
    return found


async def attempts(credentials: Path) -> list[Holdings]:
    env = {**os.environ, **malloc_environment(), "PYTHONPATH": str(Path(__file__).parents[2])}
    am = await asyncio.create_subprocess_exec(
        *(sys.executable, str(WORLD), str(TASKS), str(credentials)),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=env,
    )  # fmt: skip
    assert am.stdin is not None
    assert am.stdout is not None
    found = []
    try:
        first: list[str] = []
        while not first or ":" not in first[-1]:  # the asks of the first attempt come before it
            first.append((await am.stdout.readline()).decode().strip())
        address = first.pop()
        rest = asyncio.StreamReader()
        rest.feed_data("".join(f"{ask}\n" for ask in first).encode())
        for number in range(PREEMPTIONS + 1):
            found.append(await attempt(am, address, credentials.read_bytes(), first))
            first = []
            if number % 10 == 0:
                print(f"after {number:4} preemptions: {found[-1]}", flush=True)
            am.stdin.write(b"preempt\n")
            await am.stdin.drain()
    finally:
        am.kill()
        await am.wait()
    return found


def test_nothing_grows_with_the_number_of_preemptions(tmp_path: Path) -> None:
    credentials = tmp_path / "credentials.pem"
    credentials.write_bytes(new_credentials())
    print(f"\nan AM of {TASKS} tasks through {PREEMPTIONS} preemptions")
    found = asyncio.run(attempts(credentials))
    early, late = found[min(WARM, PREEMPTIONS // 2)], found[-1]
    print(f"from {early} to {late}")
    assert late.memory_mb - early.memory_mb < GROWTH_LIMIT_MB
    assert late.files <= early.files + 1
    assert late.sockets <= early.sockets + TASKS // 10  # those of the last attempt close late
    assert late.threads <= early.threads + 2

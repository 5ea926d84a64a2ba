"""Agent and keeper on a disk that is full from their n-th write on, each n in turn.

The gang loses nothing: the task runs, or the AM hears that it cannot and that the disk is full, or
the agent has ended with a code of its own and said why. The user's process never runs half set up.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.integration.agent_world import ROOT, Container, World, shipped, small_job, world
from yarnam.agent.machine.agent_state import AgentExit
from yarnam.wire.pb import yarnam_pb2 as pb

pytestmark = [pytest.mark.grpc, pytest.mark.long, pytest.mark.asyncio]

LIMIT_S = 30.0
FULL = "No space left on device"

SHIM = """
import os, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from tests.fakes.full_disk import FullDisk

class Written(list):
    log = os.open({log!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    write = os.write
    def append(self, operation):
        super().append(operation)
        Written.write(self.log, (" ".join(operation) + chr(10)).encode())

disk = FullDisk(Path({place!r}), {number})
disk.operations = Written()
installed = disk.installed()
installed.__enter__()
"""


async def play(root: Path, number: int) -> tuple[str, list[str]]:
    """How it ended (``ran``, or what the AM or the agent's log says), and what was written."""
    node, shim = root / "node", root / "shim"
    node.mkdir(parents=True)
    shim.mkdir()
    log = shim / "written"
    (shim / "sitecustomize.py").write_text(
        SHIM.format(root=str(ROOT), log=str(log), place=str(node), number=number)
    )
    async with world(node) as here:
        job = small_job(["sh", "-c", "cat data.txt"])
        container = here.container(job, env={"PYTHONPATH": f"{shim}:{ROOT}"})
        container.job = small_job(
            ["sh", "-c", "cat data.txt"], files=(shipped(container, "data.txt", "the data\n"),)
        )
        container.write_job()
        found = await outcome_of(here, container.start())
    return found, log.read_text().splitlines()


async def outcome_of(here: World, container: Container) -> str:
    assert container.process is not None
    first = asyncio.create_task(until(here, container, pb.READY, pb.UNABLE))
    while not first.done() and container.process.poll() is None:
        await asyncio.sleep(0.02)
    if not first.done():
        first.cancel()
        assert container.process.returncode in {int(code) for code in AgentExit}
        return container.agent_log()
    report = await first
    if report.state == pb.UNABLE:
        return str(report.message)
    await here.am.launch(container.job, [container.ask])
    end = await until(here, container, pb.EXITED, pb.UNABLE)
    await here.am.leave(container.ask)
    assert await container.exit_code() == AgentExit.DONE, container.agent_log()
    (process,) = end.processes
    if process.kind == "ok":
        assert container.log() == b"the data\n"
        return "ran"
    assert process.kind == "not-started"
    return " ".join(process.last_lines)


async def until(here: World, container: Container, *states: int) -> pb.AgentReport:
    return await here.am.mailbox.until(
        container.ask, lambda report: report.state in states, LIMIT_S
    )


async def test_at_each_write_of_agent_and_keeper(tmp_path: Path) -> None:
    found, written = await play(tmp_path / "0", 0)
    assert found == "ran"
    assert len(written) >= 8, written
    seen = set()
    for number in range(1, len(written) + 1):
        found, operations = await play(tmp_path / f"{number}", number)
        is_named = FULL in found and str(tmp_path) in found
        assert found == "ran" or is_named, (operations[number - 1 :], found)
        seen.add(found == "ran")
    # It does without its own log; not without a working directory.
    assert seen == {True, False}

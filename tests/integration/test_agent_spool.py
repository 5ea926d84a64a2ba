"""Checkpoints that the task's processes leave on the node's disk are sent by the agent."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from hdfs_utils import connect
from hdfs_utils.checkpoints import catalog
from tests.integration.agent_world import ROOT, Container, World, small_job, world
from yarnam.core.model.job_spec import CheckpointSpec, JobSpec
from yarnam.wire.pb import yarnam_pb2 as pb

pytestmark = [pytest.mark.grpc, pytest.mark.asyncio]

# Saves step 1; then nothing can be written to the storage, and step 2 waits in the spool while the
# process goes, in one way or another.
SPOOLS = """
import os, signal, sys, time
from pathlib import Path
from hdfs_utils import connect
from hdfs_utils.checkpoints import Checkpointer, Limits, Spool, Token
from hdfs_utils.errors import Unavailable

home, end = sys.argv[1:]

class Troubled:
    is_away = False
    def __init__(self, fs):
        self._fs = fs
    def __getattr__(self, name):
        if self.is_away and name in {"write_atomic", "open_writer", "write_bytes"}:
            raise Unavailable("no route to the NameNode", operation=name)
        return getattr(self._fs, name)

fs = Troubled(connect(home))
attempt = int(os.environ["YARNAM_ATTEMPT"])
if end == "look":
    found = Checkpointer(home, token=Token("job", (attempt,))).load()
    print("found", found[0].step, flush=True)
    os._exit(0)
spool = Spool(Path(os.environ["LOCAL_DIRS"]) / f"checkpoints-{os.getpid()}")
one = Checkpointer(home, token=Token("job", (attempt,)), fs=fs, spool=spool,
                   limits=Limits(patience_s=0.05))
one.save(1, {"w": b"1"})
fs.is_away = True
one.save(2, {"w": b"2"})
assert one.spooled
print("spooled", flush=True)
if end == "sleep":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    time.sleep(60)
os._exit(int(end))
"""


@pytest.fixture
def home(tmp_path: Path) -> str:
    return f"file://{tmp_path}/ckpt"


def job(home: str, end: str, spool_limit_s: float = 60.0) -> JobSpec:
    return small_job(
        [sys.executable, "-c", SPOOLS, home, end],
        checkpoint=CheckpointSpec(home, spool_limit_s=spool_limit_s),
        role_env=(("PYTHONPATH", str(ROOT)),),
        grace_s=10.0,
    )


def steps(home: str) -> list[int]:
    fs = connect(home)
    found = catalog.list_checkpoints(fs, fs.own_path(home))
    return sorted(one.name.step for one in found if one.checkpoint)


def spools(here: World) -> list[Path]:
    return list(here.root.glob("checkpoints-*"))


async def launched(here: World, container: Container) -> None:
    container.start()
    await here.am.until(container.ask, pb.READY)
    await here.am.launch(container.job, [container.ask])


@pytest.mark.parametrize("end", ["0", "1"])
async def test_sent_before_the_end_is_told(tmp_path: Path, home: str, end: str) -> None:
    async with world(tmp_path) as here:
        container = here.container(job(home, end))
        await launched(here, container)
        report = await here.am.until(container.ask, pb.EXITED, limit_s=40.0)
        assert report.processes[0].kind == ("ok" if end == "0" else "non-zero")
        assert b"spooled" in container.log()
        assert steps(home) == [1, 2]
        assert spools(here) == []


async def test_sent_within_the_grace_of_a_stop(tmp_path: Path, home: str) -> None:
    async with world(tmp_path) as here:
        container = here.container(job(home, "sleep"))
        await launched(here, container)
        await here.am.until(container.ask, pb.STARTED)
        for _ in range(400):
            if b"spooled" in container.log():
                break
            await asyncio.sleep(0.05)
        stop = pb.Stop(attempt=1, grace_s=20.0, reason="the gang is stopped")
        await here.am.mailbox.order(container.ask, stop=stop)
        report = await here.am.until(container.ask, pb.EXITED, limit_s=40.0)
        assert report.processes[0].kind == "stopped"
        assert steps(home) == [1, 2]


async def test_what_a_killed_container_left_is_sent_before_the_next_attempt_starts(
    tmp_path: Path, home: str
) -> None:
    async with world(tmp_path) as here:
        first = here.container(job(home, "sleep"))
        await launched(here, first)
        await here.am.until(first.ask, pb.STARTED)
        for _ in range(400):
            if b"spooled" in first.log():
                break
            await asyncio.sleep(0.05)
        # As YARN ends a container: nobody there has time for anything.
        first.clear()
        assert steps(home) == [1]
        assert spools(here)
        second = here.container(job(home, "look"))
        second.start()
        await here.am.until(second.ask, pb.READY)
        await here.am.launch(second.job, [second.ask], attempt=2)
        await here.am.until(second.ask, pb.EXITED, limit_s=40.0)
        assert b"found 2" in second.log(index=0)
        assert spools(here) == []


async def test_without_a_spool_in_the_spec_nothing_is_sent(tmp_path: Path, home: str) -> None:
    async with world(tmp_path) as here:
        container = here.container(job(home, "0", spool_limit_s=0.0))
        await launched(here, container)
        await here.am.until(container.ask, pb.EXITED)
        assert steps(home) == [1]

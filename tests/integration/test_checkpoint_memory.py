"""Checkpoints stay in the memory of their nodes: what is lost decides where the next attempt reads
them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.integration.agent_world import ROOT, Container, World, small_job, world
from yarnam.core.model.job_spec import CheckpointSpec, JobSpec
from yarnam.core.model.resources import Resources
from yarnam.wire.pb import yarnam_pb2 as pb

pytestmark = [pytest.mark.grpc, pytest.mark.asyncio]

ROWS = 1 << 20
"""Of the table of two ranks: each has 4 MiB of it."""

# Restores, says from where, saves the next step, and waits to be killed.
TRAINS = """
import json, os, sys, time
import numpy as np
from hdfs_utils.checkpoints import Part, Region
from yarnam import train

rows = int(sys.argv[1])
rank, size = train.rank(), train.world_size()
mine, start = rows // size, rows // size * rank
with train.checkpoint.open(sharded=True) as saved:
    found = saved.restore(lambda opened: opened.array("t", Region((start,), (mine,))))
    step = found[0].step if found else 0
    if found:
        assert (found[1] == np.arange(start, start + mine) * step).all()
    print("restored", step, json.dumps(saved.inner.read_from), flush=True)
    table = np.arange(start, start + mine) * (step + 1)
    saved.save(step + 1, {"t": Part(table, (rows,), (start,))})
    saved.wait()
print("saved", step + 1, flush=True)
time.sleep(60)
"""


@pytest.fixture
def home(tmp_path: Path) -> str:
    return f"file://{tmp_path}/ckpt"


def job(home: str, tasks: int = 2, memory_mib: int = 512, **changes: Any) -> JobSpec:
    made = small_job(
        [sys.executable, "-c", TRAINS, str(ROWS)],
        tasks=tasks,
        checkpoint=CheckpointSpec(home, in_memory=True, in_background=True, **changes),
        role_env=(("PYTHONPATH", str(ROOT)),),
    )
    role = replace(made.roles[0], resources=Resources(memory_mib=memory_mib, vcores=1))
    return replace(made, roles=(role,))


def containers(here: World, spec: JobSpec, nodes: list[str]) -> list[Container]:
    return [
        here.container(spec, ask=f"a1.worker.{number}", node=node).start()
        for number, node in enumerate(nodes)
    ]


async def launched(
    here: World, gang: list[Container], attempt: int = 1, said: str = "saved"
) -> list[dict[str, int]]:
    """Where each rank has read its checkpoint."""
    for container in gang:
        await here.am.until(container.ask, pb.READY)
    await here.am.launch(gang[0].job, [container.ask for container in gang], attempt)
    for index, container in enumerate(gang):
        await until(lambda c=container, i=index: f"{said} {attempt}" in text(c, i))
    return [restored(container, index) for index, container in enumerate(gang)]


def text(container: Container, index: int) -> str:
    path = container.logs / f"worker-{index}.0.log"
    return path.read_text() if path.exists() else ""


def restored(container: Container, index: int) -> dict[str, int]:
    lines = [line for line in text(container, index).splitlines() if "restored" in line]
    return json.loads(lines[-1].split(maxsplit=2)[2])


async def until(is_so: Any, limit_s: float = 30.0) -> None:
    for _ in range(int(limit_s / 0.05)):
        if is_so():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it did not come to that")


async def until_copied(gang: list[Container], step: int) -> None:
    for container in gang:
        await until(lambda c=container: f"step-{step:010d}" in holder_log(c, " on the wire"))


def holder_log(container: Container, words: str) -> str:
    lines = (container.logs / "stderr").read_text().splitlines()
    return "\n".join(line for line in lines if words in line)


async def stop(here: World, gang: list[Container], attempt: int) -> None:
    """As the AM stops a gang that has lost a process: its agents stay."""
    for container in gang:
        order = pb.Stop(attempt=attempt, grace_s=1.0, reason="a process is lost")
        await here.am.mailbox.order(container.ask, stop=order)
    for container in gang:
        await here.am.mailbox.until(
            container.ask, lambda r: r.state == pb.EXITED and r.attempt == attempt
        )


async def test_a_lost_process_finds_its_checkpoint_in_its_node_s_memory(
    tmp_path: Path, home: str
) -> None:
    async with world(tmp_path) as here:
        gang = containers(here, job(home), ["127.0.0.1", "127.0.0.2"])
        assert await launched(here, gang) == [{}, {}]
        for attempt in (2, 3):
            [victim] = gang[0].user_processes()
            os.kill(victim, signal.SIGKILL)
            await stop(here, gang, attempt - 1)
            assert [list(one) for one in await launched(here, gang, attempt)] == [["memory"]] * 2


async def test_a_lost_node_s_checkpoint_is_found_at_its_peer(tmp_path: Path, home: str) -> None:
    async with world(tmp_path) as here:
        spec = job(home)
        gang = containers(here, spec, ["127.0.0.1", "127.0.0.2"])
        await launched(here, gang)
        await until_copied(gang, 1)
        gang[1].clear()
        await stop(here, gang[:1], 1)
        other = here.container(spec, ask="a2.worker.1", node="127.0.0.3").start()
        sources = await launched(here, [gang[0], other], 2)
        assert [list(one) for one in sources] == [["memory"], ["peer"]]


async def test_two_lost_nodes_or_a_resume_read_hdfs(tmp_path: Path, home: str) -> None:
    """After a suspension all containers are new: the memory is gone with the old ones."""
    async with world(tmp_path) as here:
        spec = job(home)
        gang = containers(here, spec, ["127.0.0.1", "127.0.0.2"])
        await launched(here, gang)
        await until_copied(gang, 1)
        for container in gang:
            container.clear()
            assert not holders_of(container)
        new = [
            here.container(spec, ask=f"a2.worker.{number}", node=f"127.0.0.{number + 3}").start()
            for number in range(2)
        ]
        assert [list(one) for one in await launched(here, new, 2)] == [["storage"]] * 2


async def test_a_killed_agent_takes_its_memory_along(tmp_path: Path, home: str) -> None:
    async with world(tmp_path) as here:
        [one] = gang = containers(here, job(home, tasks=1), ["127.0.0.1"])
        await launched(here, gang)
        assert holders_of(one)
        assert one.process is not None
        one.process.kill()
        await until(lambda: not holders_of(one))


async def test_a_smaller_gang_reads_all_shards_from_memory(tmp_path: Path, home: str) -> None:
    async with world(tmp_path) as here:
        gang = containers(here, job(home), ["127.0.0.1", "127.0.0.2"])
        await launched(here, gang)
        await until_copied(gang, 1)
        gang[1].clear()
        await stop(here, gang[:1], 1)
        [sources] = await launched(here, gang[:1], 2)
        assert sources == {"memory": 8 * ROWS}


async def test_a_gang_on_one_node_has_no_peer_and_says_so(tmp_path: Path, home: str) -> None:
    async with world(tmp_path) as here:
        gang = containers(here, job(home), ["127.0.0.1", "127.0.0.1"])
        await launched(here, gang)
        for container in gang:
            assert "no copies of checkpoints: all tasks of the gang are on" in container.agent_log()
            assert not holder_log(container, " on the wire")
        await stop(here, gang, 1)
        assert [list(one) for one in await launched(here, gang, 2)] == [["memory"]] * 2


async def test_damaged_memory_is_read_from_the_peer_and_then_from_hdfs(
    tmp_path: Path, home: str
) -> None:
    async with world(tmp_path) as here:
        gang = containers(here, job(home), ["127.0.0.1", "127.0.0.2"])
        await launched(here, gang)
        await until_copied(gang, 1)
        await stop(here, gang, 1)
        damage(gang[0])
        assert [list(one) for one in await launched(here, gang, 2)] == [["peer"], ["memory"]]
        await until_copied(gang, 2)
        await stop(here, gang, 2)
        for container in gang:
            damage(container)
        assert [list(one) for one in await launched(here, gang, 3)] == [["storage"]] * 2


async def test_a_container_without_memory_for_copies_saves_and_says_so(
    tmp_path: Path, home: str
) -> None:
    async with world(tmp_path) as here:
        gang = containers(here, job(home, memory_mib=8), ["127.0.0.1", "127.0.0.2"])
        await launched(here, gang)
        for index, container in enumerate(gang):
            assert "step 1 is not kept in memory: a copy of" in text(container, index)
        await stop(here, gang, 1)
        assert [list(one) for one in await launched(here, gang, 2)] == [["storage"]] * 2


async def test_the_copies_count_once_against_the_container(tmp_path: Path, home: str) -> None:
    """By YARN's own count, with the process that saves and the one that holds."""
    async with world(tmp_path) as here:
        [one] = gang = containers(here, job(home, tasks=1), ["127.0.0.1"])
        await launched(here, gang)
        [holder] = holders_of(one)
        size = 8 * ROWS
        await until(lambda: shared_bytes(holder) >= size)
        [saves] = one.user_processes()
        assert shared_bytes(saves) < size / 4


def holders_of(container: Container) -> set[int]:
    return {
        pid
        for pid in container.all_processes()
        if b"memory_holder" in Path(f"/proc/{pid}/cmdline").read_bytes()
    }


def shared_bytes(pid: int) -> int:
    """Shared memory that YARN counts for this process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("RssShmem:")[2].split()[0]) << 10


def damage(container: Container) -> None:
    """Change bytes in all of its copies."""
    for holder in holders_of(container):
        for fd in Path(f"/proc/{holder}/fd").iterdir():
            if "memfd:checkpoint" in str(fd.readlink()):
                with fd.open("r+b") as file:
                    file.seek(1000)
                    file.write(b"DAMAGED")

"""Jobs whose checkpoints stay in memory, on a cluster that kills containers which use too much."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.fault_world import MARKS, FaultWorld
from yarnam.cluster import EmbeddedCluster
from yarnam.cluster.shape import ClusterShape
from yarnam.core.model.outcomes import VerdictKind

if TYPE_CHECKING:
    from yarnam.client import Job

pytestmark = [*MARKS, pytest.mark.long, pytest.mark.timeout(900)]

CHECKED = {
    "yarn-site": {
        "yarn.nodemanager.pmem-check-enabled": "true",
        "yarn.nodemanager.container-monitor.interval-ms": "500",
    }
}

# Each rank has `mib` MiB of a table, and reserves `more` MiB besides.
PROGRAM = """
import json, sys, time
import numpy as np
from hdfs_utils.checkpoints import Part, Region
from yarnam import train

result, steps, mib, more = sys.argv[1], *map(int, sys.argv[2:])
rank, size = train.rank(), train.world_size()
rows = mib << 17
hungry = bytearray(b"1") * (more << 20)
start = rank * rows
with train.checkpoint.open(sharded=True) as saved:
    found = saved.restore(lambda opened: opened.array("t", Region((start,), (rows,))))
    step = found[0].step if found else 0
    table = np.full(rows, float(step)) if found is None else found[1]
    assert (table == step).all()
    with open(f"{result}.{rank}.{train.attempt()}", "w") as file:
        json.dump({"step": step, **saved.inner.read_from}, file)
    while step < steps:
        time.sleep(0.5)
        step += 1
        table += 1
        if step % 16 == 0 or step == steps:
            saved.save(step, {"t": Part(table, (rows * size,), (start,))})
            with open(f"{result}.{rank}.saves", "a") as file:
                print(step, file=file)
        train.report(step=step)
print("done", flush=True)
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultWorld]:
    folder = tmp_path_factory.mktemp("memory")
    cluster = EmbeddedCluster(
        ClusterShape(nodes=3, racks=2, gpus="simulated", gpus_per_node=1, overrides=CHECKED),
        name=f"memory-{os.getpid()}",
        state_root=folder / "clusters",
        shared_machine=True,
    )
    try:
        cluster.up()
        found = FaultWorld(cluster, folder)
        yield found
        found.end_all()
        found.close()
    finally:
        cluster.down()
    assert cluster.processes() == []


def submitted(
    world: FaultWorld, name: str, *, memory: str, steps: int, mib: int, more: int = 0
) -> tuple[Job, Path]:
    code = world.folder / name
    code.mkdir()
    (code / "memory_job.py").write_text(PROGRAM)
    result = world.folder / f"{name}-result"
    job = world.submit(
        name,
        ["python3", "code/memory_job.py", str(result), str(steps), str(mib), str(more)],
        code=str(code),
        worker={"memory": memory},
        checkpoint={"directory": f"/tmp/{name}", "keep": 2, "async": True, "memory": True},
        retry={"max_restarts": 9, "on_user_failure": 9},
        am={"agent_silence": "5s"},
    )
    return job, result


def until_saved(result: Path, count: int) -> None:
    """Until rank 0 has saved so often, and the save has had the time to reach its peer: the next
    one comes 8 s later."""
    path, end = Path(f"{result}.0.saves"), time.monotonic() + 120.0
    while not path.exists() or len(path.read_text().splitlines()) < count:
        assert time.monotonic() < end, f"save {count} was not made"
        time.sleep(0.1)
    time.sleep(5.0)


def restores(result: Path, attempt: int) -> list[dict[str, int]]:
    end = time.monotonic() + 120.0
    paths = [Path(f"{result}.{rank}.{attempt}") for rank in range(2)]
    while not all(path.exists() and path.read_text().endswith("}") for path in paths):
        assert time.monotonic() < end, f"attempt {attempt} did not begin"
        time.sleep(0.1)
    return [json.loads(path.read_text()) for path in paths]


def sources(found: list[dict[str, int]]) -> list[set[str]]:
    assert all(one["step"] for one in found), found
    return [set(one) - {"step"} for one in found]


def test_a_killed_process_and_a_killed_agent_read_no_byte_of_hdfs(world: FaultWorld) -> None:
    job, result = submitted(world, "memory-kills", memory="1GiB", steps=120, mib=32)
    until_saved(result, 1)
    ranks = world.pids(job, "memory_job.py")
    os.kill(ranks[0], signal.SIGKILL)
    assert sources(restores(result, 2)) == [{"memory"}] * 2
    until_saved(result, 2)
    [victim] = [pid for pid in world.pids(job, "memory_job.py") if is_rank(world, pid, "1")][:1]
    world.signal_agent(job, world.container_of(victim), signal.SIGKILL)
    assert sorted(map(sorted, sources(restores(result, 3)))) == [["memory"], ["peer"]]
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED
    assert len(job.status().history) == 3, "YARN has killed no container for its memory"


def is_rank(world: FaultWorld, pid: int, rank: str) -> bool:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return f"YARNAM_RANK={rank}".encode() in variables


def test_a_container_that_is_full_keeps_no_copies_and_is_not_killed(world: FaultWorld) -> None:
    job, _ = submitted(world, "memory-full", memory="1GiB", steps=8, mib=32, more=820)
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED
    assert len(job.status().history) == 1, "no restart"
    done = world.yarnam("logs", job.id, "--rank", "0").wait()
    assert "is not kept in memory: a copy of 32 MiB does not fit" in done.out, done

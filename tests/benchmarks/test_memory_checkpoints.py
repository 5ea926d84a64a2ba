"""What checkpoints in memory gain and cost, against HDFS alone in the same run.

Four data-parallel processes of one thread on two nodes have a model of ``YARNAM_BENCH_MIB`` MiB of
state each (128); rank 0 saves it and all restore it. A process is killed, and then the agent of
rank 0. ``YARNAM_BENCH_SAVES`` (4) saves are measured before. The bars are for 1024 MiB on a quiet
machine; on a busy one take the ratios.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.fault_world import MARKS, FaultWorld
from yarnam.cluster import EmbeddedCluster
from yarnam.cluster.shape import ClusterShape
from yarnam.core.model.outcomes import VerdictKind

if TYPE_CHECKING:
    from yarnam.client import Job

pytestmark = [*MARKS, pytest.mark.benchmark, pytest.mark.slow, pytest.mark.timeout(1800)]

MIB = int(os.environ.get("YARNAM_BENCH_MIB", "128"))
SAVES = int(os.environ.get("YARNAM_BENCH_SAVES", "4"))
EVERY_S = 2.0 + MIB / 40
"""Between two saves: a copy has to reach its peer on a busy machine, too."""
LIMIT_S = 300.0

PROGRAM = """
import json, sys, time
from pathlib import Path
import numpy as np
from yarnam import train

events, mib, every_s = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
rank, attempt = train.rank(), train.attempt()
out = open(f"{events}.{rank}", "a", buffering=1)

def note(kind, **values):
    print(json.dumps({"kind": kind, "at": time.time(), "attempt": attempt, **values}), file=out)

with train.checkpoint.open(sharded=True) as saved:
    began = time.time()
    found = saved.restore(lambda opened: opened.arrays())
    note("restored", took=time.time() - began, **saved.inner.read_from)
    if found:
        step, state = found[0].step, found[1]
    else:
        step, noise = 0, np.random.default_rng(0)
        state = {f"w{n}": noise.random(mib << 14) for n in range(8)}
    end = time.time() + every_s
    while True:
        time.sleep(0.05)
        step += 1
        train.report(step=step)
        note("step", step=step)
        if step % int(every_s / 0.05) == 0 and events.exists():
            state["w0"][0] = step
            began = time.time()
            saved.save(step, state)
            note("saved", took=time.time() - began, step=step)
        if step % 20 == 0 and train.should_stop(step):
            break
"""


@dataclass
class Figures:
    """Of one way to keep checkpoints, in seconds. ``storage``: bytes of HDFS that restores read."""

    process_s: float
    agent_s: float
    storage: int
    blocked_s: float
    cpu_s: float


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultWorld]:
    folder = tmp_path_factory.mktemp("memory")
    cluster = EmbeddedCluster(
        ClusterShape(nodes=3, racks=1, gpus="simulated", gpus_per_node=2),
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


def test_a_restart_from_memory_against_one_from_hdfs(world: FaultWorld) -> None:
    hdfs, memory = measure(world, in_memory=False), measure(world, in_memory=True)
    rows = [
        ("kill of a process to the next step", hdfs.process_s, memory.process_s, "s"),
        ("kill of an agent to the next step", hdfs.agent_s, memory.agent_s, "s"),
        ("read from HDFS", hdfs.storage / 2**20, memory.storage / 2**20, "MiB"),
        ("training blocked by a save", hdfs.blocked_s, memory.blocked_s, "s"),
        ("CPU of a save on all sides", hdfs.cpu_s, memory.cpu_s, "s"),
    ]
    print(f"\n{MIB} MiB of state; HDFS alone, in memory, ratio")
    for what, one, other, unit in rows:
        ratio = f"{other / one:.2f}" if one else "-"
        print(f"{what:>40}: {one:9.2f} {other:9.2f} {unit:3} {ratio}")
    assert memory.storage == 0


def measure(world: FaultWorld, *, in_memory: bool) -> Figures:
    name = f"memory-{in_memory}".lower()
    code = world.folder / name
    code.mkdir()
    (code / "state.py").write_text(PROGRAM)
    events = code / "events"
    job = world.submit(
        name,
        ["python3", "code/state.py", str(events), str(MIB), str(EVERY_S)],
        code=str(code),
        worker={"tasks": 2, "gpus": 2, "memory": f"{1024 + 9 * MIB}MiB", "vcores": 2},
        env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        placement={"strategy": "spread"},
        checkpoint={"directory": f"/tmp/{name}", "keep": 2, "async": True, "memory": in_memory},
        retry={"max_restarts": 9, "on_user_failure": 9},
    )
    until(events, lambda: len(seen(events, "step", 0)) > 20)
    began_s, before_s = time.monotonic(), cpu(world)
    time.sleep(max(10.0, EVERY_S))
    idle = (cpu(world) - before_s) / (time.monotonic() - began_s)
    events.touch()
    until(events, lambda: saves(events) >= 2)  # the memory is there from now on
    began_s, before_s, count = time.monotonic(), cpu(world), saves(events)
    until(events, lambda: saves(events) >= count + SAVES)
    spent_s = cpu(world) - before_s - idle * (time.monotonic() - began_s)
    cpu_s = spent_s / (saves(events) - count)
    blocked_s = median([one["took"] for one in seen(events, "saved", 0)][2:])
    process_s = killed(world, job, events, 2)
    agent_s = killed(world, job, events, 3)
    storage = sum(
        one.get("storage", 0) for rank in range(4) for one in seen(events, "restored", rank)
    )
    job.kill("measured")
    assert world.end_of(job).kind is VerdictKind.CANCELLED
    return Figures(process_s, agent_s, storage, blocked_s, cpu_s)


def killed(world: FaultWorld, job: Job, events: Path, attempt: int) -> float:
    """Seconds from a kill to the first step of all ranks in the next attempt."""
    before = saves(events)
    until(events, lambda: saves(events) >= before + 1)
    time.sleep(EVERY_S * 0.8)  # the copy has come to its peer
    ranks = [
        pid for pid in world.pids(job, "state.py") if is_rank(pid, "0" if attempt > 2 else "3")
    ]
    began_s = time.time()
    if attempt == 2:
        os.kill(ranks[-1], signal.SIGKILL)
    else:
        world.signal_agent(job, world.container_of(ranks[-1]), signal.SIGKILL)

    def first_steps() -> list[float]:
        found = []
        for rank in range(4):
            steps = [one["at"] for one in seen(events, "step", rank) if one["attempt"] == attempt]
            found += steps[:1]
        return found

    until(events, lambda: len(first_steps()) == 4)
    return max(first_steps()) - began_s


def is_rank(pid: int, rank: str) -> bool:
    try:
        return f"YARNAM_RANK={rank}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(
            b"\0"
        )
    except OSError:
        return False


def seen(events: Path, kind: str, rank: int) -> list[dict[str, Any]]:
    path = Path(f"{events}.{rank}")
    lines = path.read_text().splitlines() if path.exists() else []
    found = [json.loads(line) for line in lines if line.endswith("}")]
    return [one for one in found if one["kind"] == kind]


def saves(events: Path) -> int:
    return len(seen(events, "saved", 0))


def until(events: Path, is_so: Any) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < end_s, f"see {events}.*"
        time.sleep(0.2)


def cpu(world: FaultWorld) -> float:
    """CPU-seconds of the job's processes and of the cluster's daemons until now."""
    ticks = 0
    for process in world.cluster.processes():
        try:
            fields = Path(f"/proc/{process.pid}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")

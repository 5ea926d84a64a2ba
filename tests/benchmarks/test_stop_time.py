"""From a process's death to the whole gang stopped, and to the gang running again; and from the
notice of a lost node (by YARN, or its agent's silence) to the gang running again.

Two tasks of two processes, of which three hang as in a broken collective: they ignore SIGTERM. Each
pair is one job with the usual ``am.failure_grace`` and one that gives the whole ``am.stop_grace``
(10 s) to those that are left, as it was before there was a failure grace; the order alternates.
``make bench ARGS="tests/benchmarks/test_stop_time.py -s"``; YARNAM_BENCH_PAIRS says how many (2).
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.fault_world import MARKS, FaultWorld, kill_now
from yarnam.core.model.events import (
    AgentSilent,
    ContainerEnded,
    TaskExited,
    TaskFailing,
    TaskStarted,
)
from yarnam.core.model.job_status import Phase

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

pytestmark = [*MARKS, pytest.mark.benchmark, pytest.mark.timeout(1200)]

PAIRS = int(os.environ.get("YARNAM_BENCH_PAIRS", "2"))
AIM_S = 8.0
HANGS = "trap '' TERM; echo $$ > pid.$YARNAM_LOCAL_RANK; while :; do sleep 1; done # hangs"


def timed(world: FaultWorld, name: str, grace: str) -> tuple[float, float]:
    """Seconds from the death of one process to the end of all, and until all run again."""
    job = world.submit(
        name, HANGS, worker={"tasks": 2, "gpus": 2, "processes_per_task": 2},
        am={"stop_grace": "10s", "failure_grace": grace},
    )  # fmt: skip
    world.until_phase(job, Phase.RUNNING)
    shells = world.pids(job, "# hangs")
    kill_now(shells[0])
    world.until(job, lambda s: s.attempt > 1 and s.phase == Phase.RUNNING.value, "running again")
    (failing,) = world.events(job, TaskFailing)
    died_s = failing.exits[0].ended_at_s
    ended_s = max(event.at_s for event in world.events(job, TaskExited) if event.attempt == 1)
    again_s = max(event.at_s for event in world.events(job, TaskStarted) if event.attempt > 1)
    job.kill("measured")
    job.wait(60)
    return ended_s - died_s, again_s - died_s


def test_a_failure_stops_the_gang_at_once(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    world = FaultWorld(cluster, tmp_path)
    try:
        found: dict[str, list[tuple[float, float]]] = {"2s": [], "10s": []}
        for pair in range(PAIRS):
            order = ("2s", "10s") if pair % 2 else ("10s", "2s")
            for grace in order:
                found[grace].append(timed(world, f"stop-{pair}-{grace}", grace))
    finally:
        world.end_all()
        world.close()
    for grace, times in found.items():
        stopped, again = (statistics.median(one) for one in zip(*times, strict=True))
        print(f"\nfailure_grace {grace}: stopped {stopped:.1f} s, running again {again:.1f} s")
    ratios = [slow[0] / quick[0] for quick, slow in zip(found["2s"], found["10s"], strict=True)]
    print(f"stopped {statistics.median(ratios):.1f} times as fast")
    assert statistics.median(ratios) > 2.0


def test_a_lost_node_is_replaced_at_once(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """The survivors hang; 8 s are the aim."""
    world = FaultWorld(cluster, tmp_path)
    daemon = None
    try:
        job = world.submit(
            "loses-a-node", HANGS, worker={"tasks": 3, "gpus": 1, "processes_per_task": 1},
            placement={"strategy": "spread"},
        )  # fmt: skip
        running = world.until_phase(job, Phase.RUNNING)
        of_am = world.node_of_container(job, world.container_of(world.am_pid(job)))
        lost = next(t for t in running.tasks if world.node_named(t.node) != of_am)
        daemon = world.cluster.daemon(world.node_named(lost.node))
        daemon.kill()
        died_s = time.time()
        for pid in world.pids(job):
            if world.container_of(pid) == lost.container:
                kill_now(pid)
        world.until(job, lambda s: s.attempt > 1 and s.phase == Phase.RUNNING.value, "its return")
        noticed_s = min(
            event.at_s
            for event in job.events()
            if isinstance(event, (AgentSilent, ContainerEnded)) and event.at_s > died_s
        )
        again_s = max(event.at_s for event in world.events(job, TaskStarted) if event.attempt > 1)
        print(f"\nthe loss was noticed after {noticed_s - died_s:.1f} s")
        took_s = again_s - noticed_s
        print(f"all ran again {took_s:.1f} s later: {took_s / AIM_S:.2f} of the aim")
        job.kill("measured")
        job.wait(60)
    finally:
        if daemon is not None:
            daemon.start()
            world.until_nodes_are_back()
        world.end_all()
        world.close()

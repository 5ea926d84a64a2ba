"""A NodeManager that dies: YARN loses its containers and can kill nothing there any more."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.fault_world import JAVA_AM, LIMIT_S, MARKS, STUBBORN, kill_now, long_until
from yarnam.core.model.events import ContainerGranted
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import VerdictKind
from yarnam.errors import ExitCode

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

pytestmark = [*MARKS, pytest.mark.timeout(900)]

ORPHAN_S, GRACE_S = 5.0, 2.0
LEAVES_S = ORPHAN_S + GRACE_S + 10.0
"""Until an agent without ApplicationMaster has left: its named limits, and the call that was under
way, and two busy cores."""

JOBS: dict[str, dict[str, Any]] = {
    # Two tasks of one job never fit on one node: for their GPUs here, for their memory there.
    "recovers": {
        "worker": {"tasks": 3, "gpus": 5, "processes_per_task": 1},
        "gang": {"backoff": {"base": "200ms", "cap": "1s"}},
        "retry": {"max_restarts": 1},
    },
    "orphaned": {
        "worker": {"tasks": 4, "gpus": 0, "memory": "33GiB"},
        "am": {"attempts": 1, "orphan_timeout": f"{ORPHAN_S:.0f}s"},
    },
}


@pytest.mark.long
def test_a_lost_node(world: FaultWorld, tmp_path: Path) -> None:
    """One job goes on elsewhere. The other loses its ApplicationMaster at the same time, so that
    nobody can tell its agent on the lost node to end: it leaves by itself. In the end the node
    comes back."""
    flag = tmp_path / "end"
    commands = {"recovers": long_until(flag), "orphaned": STUBBORN}
    with ThreadPoolExecutor(2) as pool:
        recovers, orphaned = pool.map(
            lambda name: world.submit(f"node-{name}", commands[name], **JOBS[name]), JOBS
        )
    running = world.until_phase(recovers, Phase.RUNNING)
    world.until_phase(orphaned, Phase.RUNNING)
    am_nodes = {
        world.node_of_container(job, world.container_of(world.am_pid(job)))
        for job in (recovers, orphaned)
    }
    lost = next(task for task in running.tasks if world.node_named(task.node) not in am_nodes)
    name = world.node_named(lost.node)
    stranded = next(task for task in orphaned.status().tasks if task.node == lost.node)
    daemon = world.cluster.daemon(name)
    daemon.kill()
    flag.touch()
    try:
        _lose_the_am(world, orphaned, stranded.container)
        _goes_on_elsewhere(world, recovers, lost.task, lost.node)
    finally:
        daemon.start()
    world.until_nodes_are_back()
    world.assert_cleared(recovers)
    world.assert_cleared(orphaned)


def _lose_the_am(world: FaultWorld, job: Job, container: str) -> None:
    def still_there() -> list[int]:
        return [pid for pid in world.pids(job) if world.container_of(pid) == container]

    assert still_there(), "a NodeManager's end is not the end of its containers"
    kill_now(world.am_pid(job, JAVA_AM))
    killed_at = time.monotonic()
    while left := still_there():
        assert time.monotonic() - killed_at < LEAVES_S, f"orphans: {left}"
        time.sleep(0.2)
    done = world.yarnam("watch", job.id).wait(LIMIT_S)
    assert done.code == ExitCode.ATTEMPTS_EXHAUSTED, done
    assert "the ApplicationMaster failed" in done.out, done


def _goes_on_elsewhere(world: FaultWorld, job: Job, task: str, node: str) -> None:
    verdict = world.end_of(job)
    assert verdict.kind is VerdictKind.SUCCEEDED, verdict
    *_, first, last = job.status().history
    assert task in first.outcome, first
    assert node in first.outcome, first
    assert "restart 1 of 1, in place" in first.outcome, first
    assert (last.asked, last.granted, last.kept) == (1, 1, 2), last
    again = [e for e in world.events(job, ContainerGranted) if e.ask.attempt == last.attempt]
    assert again
    assert node not in {event.node for event in again}, "a lost node is on the blacklist"

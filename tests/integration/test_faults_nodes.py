"""A NodeManager that dies: YARN loses its containers and can kill nothing there any more."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.fault_world import JAVA_AM, LIMIT_S, MARKS, kill_now
from yarnam.errors import ExitCode
from yarnam.model.events import ContainerGranted
from yarnam.model.outcomes import VerdictKind
from yarnam.model.status import Phase

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

pytestmark = [*MARKS, pytest.mark.timeout(900)]

ORPHAN_S, GRACE_S = 5.0, 2.0
LEAVES_S = ORPHAN_S + GRACE_S + 10.0
"""Until an agent without ApplicationMaster has left: its named limits, and the call that was under
way, and two busy cores."""

SPREAD = {"placement": {"strategy": "spread"}, "retry": {"max_restarts": 1}}
JOBS: dict[str, tuple[str, dict[str, Any]]] = {
    "recovers": (
        'if [ "$YARNAM_ATTEMPT" = 1 ]; then sleep 600; fi',
        {"worker": {"tasks": 3}, "gang": {"backoff": {"base": "200ms", "cap": "1s"}}},
    ),
    "orphaned": (
        "trap '' TERM; while true; do sleep 1; done",
        {"worker": {"tasks": 4}, "am": {"attempts": 1, "orphan_timeout": "5s"}},
    ),
}


def test_a_lost_node(world: FaultWorld) -> None:
    """One job goes on elsewhere. The other loses its ApplicationMaster at the same time, so that
    nobody can tell its agent on the lost node to end: it leaves by itself. In the end the node
    comes back."""
    with ThreadPoolExecutor(2) as pool:
        pair = pool.map(
            lambda name: world.submit(f"node-{name}", JOBS[name][0], **JOBS[name][1], **SPREAD),
            ("recovers", "orphaned"),
        )
        recovers, orphaned = pair
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
    first, *_, last = job.status().history
    assert task in first.outcome, first
    assert node in first.outcome, first
    assert "restart 1 of 1" in first.outcome, first
    again = [e for e in world.events(job, ContainerGranted) if e.ask.attempt == last.attempt]
    assert len(again) >= 3
    assert node not in {event.node for event in again}

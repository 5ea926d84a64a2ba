"""An administrator closes nodes and queues to gangs: on a real cluster, with its ZooKeeper."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.fault_world import MARKS, waiting_for
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import VerdictKind

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld

pytestmark = [*MARKS, pytest.mark.zookeeper, pytest.mark.timeout(600)]


def test_a_drained_node_is_left_and_nobody_goes_there(world: FaultWorld, tmp_path: Path) -> None:
    job = world.submit("stays", waiting_for(tmp_path / "go"), worker={"tasks": 1, "gpus": 1})
    before = world.until_phase(job, Phase.RUNNING)
    (node,) = {task.node for task in before.tasks}
    refused = world.yarnam("nodes", "cordon", node, HADOOP_USER_NAME="stranger").wait()
    assert refused.code == 77, refused
    began = time.monotonic()
    try:
        done = world.yarnam("nodes", "drain", node, "--deadline", "20s", "--reason", "disk").wait()
        assert done.code == 0, done
        shown = {
            one["node_id"]: one for one in json.loads(world.yarnam("nodes", "--json").wait().out)
        }
        assert shown[node]["state"] == "cordoned"
        assert "disk" in shown[node]["health"]
        after = world.until(
            job, lambda s: s.attempt > 1 and s.phase == Phase.RUNNING.value, "another node"
        )
        print(f"runs elsewhere {time.monotonic() - began:.1f} s after the drain (deadline 20 s)")
        assert node not in {task.node for task in after.tasks}
        assert (after.restarts, world.gpus_of(job)) == (0, 1)
        others = [name for name in shown if name != node]
        for other in others:
            assert world.yarnam("nodes", "cordon", other).wait().code == 0
        second = world.submit("waits", "true", worker={"tasks": 1, "gpus": 1})
        world.until(second, lambda s: "it would fit, were it not for" in s.reason, "its reason")
        why = json.loads(world.yarnam("queues", "why", second.id, "--json").wait().out)
        assert why[0]["cause"] == "cordoned-nodes", why
        for other in others:
            assert world.yarnam("nodes", "uncordon", other).wait().code == 0
        assert world.end_of(second).kind is VerdictKind.SUCCEEDED
    finally:
        for name in [one.node_id for one in world.client.nodes().nodes]:
            world.yarnam("nodes", "uncordon", name).wait()
    (tmp_path / "go").touch()
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED


def test_a_stopped_queue_lets_no_gang_begin(world: FaultWorld) -> None:
    try:
        assert world.yarnam("queues", "stop", "root.dl", "--reason", "upgrade").wait().code == 0
        job = world.submit("held", "true", worker={"tasks": 1, "gpus": 1})
        world.until(job, lambda s: "queue root.dl is stopped by" in s.reason, "its reason")
        why = json.loads(world.yarnam("queues", "why", job.id, "--json").wait().out)
        assert why[0]["cause"] == "queue-stopped", why
        assert "root.dl is stopped by" in world.yarnam("queues", "show").wait().out
        assert world.gpus_of(job) == 0
    finally:
        assert world.yarnam("queues", "resume", "root.dl").wait().code == 0
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED

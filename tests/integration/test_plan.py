"""``yarnam plan`` and ``yarnam nodes`` on a real cluster; how YARN rounds, from its own records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.submit_world import SubmitWorld
from yarnam.core.model.resources import Resources

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs]


@pytest.fixture
def world(submit_world: SubmitWorld) -> SubmitWorld:
    return submit_world


def test_nodes_plan_and_a_saved_snapshot(
    world: SubmitWorld, unique_name: Any, tmp_path: Path
) -> None:
    spec = world.spec(unique_name("p"), "true", gpus=8)
    nodes = world.run("nodes", "--json")
    assert nodes.code == 0
    assert {node["total"]["gpus"] for node in nodes.json} == {8}
    saved = str(tmp_path / "cluster.json")
    assert world.run("nodes", "--save", saved).code == 0
    for options in ((), ("--snapshot", saved)):
        found = world.run("plan", spec, "--json", *options)
        assert found.code == 0, found.err
        assert found.json["plan"]["rungs"]
        assert sum(seat["gpus"] for seat in found.json["ranks"]) == 8
    shown = world.run("plan", spec)
    assert "Placements, tightest first" in shown.out
    huge = world.spec(unique_name("h"), "true", gpus=4000)
    assert world.run("plan", huge).code == 91


@pytest.mark.long
def test_yarn_rounds_as_the_planner_does(world: SubmitWorld, unique_name: Any) -> None:
    """The scheduler's records say what the AM's 512 MiB became."""
    steps = world.rm.snapshot("root.default").steps
    expected = steps.rounded(Resources(512, 1, 0))
    application = world.submit(world.spec(unique_name("r"), "sleep 60", memory_per_gpu="300MiB"))
    world.await_state(application, "RUNNING")
    reply = world.rm._call("GET", f"/ws/v1/cluster/apps/{application}", {})["app"]
    task = steps.rounded(Resources(300, 1, 1))
    assert reply["allocatedMB"] == expected.memory_mib + task.memory_mib
    assert reply["allocatedVCores"] == expected.vcores + task.vcores
    world.run("kill", application)

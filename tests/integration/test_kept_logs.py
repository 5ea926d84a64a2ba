"""Logs of an ended job on a cluster that aggregates none: they stay on the nodes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.fault_world import MARKS, FaultWorld
from yarnam.cluster import EmbeddedCluster
from yarnam.cluster.shape import ClusterShape
from yarnam.core.model.outcomes import VerdictKind

pytestmark = [*MARKS, pytest.mark.long, pytest.mark.timeout(400)]

OFF = {"yarn-site": {"yarn.log-aggregation-enable": "false"}}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[FaultWorld]:
    cluster = EmbeddedCluster(
        ClusterShape(nodes=1, racks=1, gpus="simulated", gpus_per_node=2, overrides=OFF),
        name=f"kept-logs-{os.getpid()}",
        state_root=tmp_path / "clusters",
        shared_machine=True,
    )
    try:
        cluster.up()
        found = FaultWorld(cluster, tmp_path)
        yield found
        found.end_all()
        found.close()
    finally:
        cluster.down()
    assert cluster.processes() == []


def test_logs_of_an_ended_job_are_read_from_its_nodes(world: FaultWorld) -> None:
    job = world.submit("kept", "echo hello from $YARNAM_RANK")
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED

    def logs(*chosen: str) -> str:
        done = world.yarnam("logs", job.id, *chosen).wait()
        assert done.code == 0, done
        return done.out

    everything = logs()
    assert all(f"hello from {rank}" in everything for rank in (0, 1))
    assert logs("--rank", "1") == "hello from 1\n"
    assert "ApplicationMaster of" in logs("--am")
    assert logs("--agent")

"""Two ResourceManagers: the active one is killed in each phase of a gang, and the other goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.fault_world import MARKS, FaultWorld, active
from yarnam.cluster import EmbeddedCluster
from yarnam.cluster.shape import ClusterShape
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import VerdictKind

pytestmark = [*MARKS, pytest.mark.zookeeper, pytest.mark.long, pytest.mark.timeout(900)]

GPUS = 4
PARTS = 60
PATIENT = {"look_before_ask": False, "hold_timeout": "300s"}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    cluster = EmbeddedCluster(
        ClusterShape(
            nodes=2,
            racks=1,
            gpus="simulated",
            gpus_per_node=GPUS // 2,
            resourcemanagers=2,
            # A busy machine may take a minute to start the Java of an ApplicationMaster.
            overrides={"yarn-site": {"yarn.am.liveness-monitor.expiry-interval-ms": "300000"}},
        ),
        name=f"pair-{os.getpid()}",
        state_root=tmp_path_factory.mktemp("clusters"),
        shared_machine=True,
    )
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()
    assert cluster.processes() == []


@pytest.fixture
def world(pair: EmbeddedCluster, tmp_path: Path) -> Iterator[FaultWorld]:
    found = FaultWorld(pair, tmp_path)
    yield found
    found.end_all()
    found.close()


def fail_over(cluster: EmbeddedCluster) -> None:
    """Kill the active one, wait for the other, and bring the first back to stand by."""
    first = active(cluster)
    cluster.daemon(first).kill()
    assert active(cluster) != first
    cluster.daemon(first).start()
    assert active(cluster) != first


def test_it_fails_over_while_a_gang_is_acquired(world: FaultWorld, tmp_path: Path) -> None:
    """What it holds is not lost, and what it has asked for comes."""
    flag = tmp_path / "end"
    blocker = world.submit(
        "blocker", f"until [ -e {flag} ]; do sleep 0.2; done", worker={"tasks": 1}
    )
    world.until_phase(blocker, Phase.RUNNING)
    gang = world.submit("whole", "true", worker={"tasks": GPUS}, gang=PATIENT)
    held = world.until(gang, lambda s: s.granted == GPUS - 1, "part of the gang")
    fail_over(world.cluster)
    flag.touch()
    assert world.end_of(blocker).kind is VerdictKind.SUCCEEDED
    assert world.end_of(gang).kind is VerdictKind.SUCCEEDED
    done = gang.status()
    assert len(done.history) == 1, "the attempt went on"
    before = {task.container for task in held.tasks if task.container}
    assert before
    assert before < {task.container for task in done.tasks}


def test_it_fails_over_while_inputs_are_staged(world: FaultWorld) -> None:
    """Which needs nothing of YARN."""
    part = os.urandom(1 << 20)
    for number in range(PARTS):
        world.site.files.write_bytes(f"/tmp/staged/part-{number}", part, overwrite=True)
    data = {"inputs": [{"path": "/tmp/staged", "name": "part", "mode": "localize"}]}
    job = world.submit(
        "stages", f"test $(cat $YARNAM_LOCAL_INPUTS/part/* | wc -c) = {PARTS << 20}", data=data,
        worker={"tasks": GPUS},
    )  # fmt: skip
    world.until_phase(job, Phase.STAGING)
    fail_over(world.cluster)
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED


def test_it_fails_over_while_a_gang_runs(world: FaultWorld, tmp_path: Path) -> None:
    """Twice, there and back. Clients find the other; a job can be submitted at once."""
    flag = tmp_path / "end"
    job = world.submit("runs", f"until [ -e {flag} ]; do sleep 0.2; done")
    before = world.until_phase(job, Phase.RUNNING)
    for _ in range(2):
        fail_over(world.cluster)
        shown = world.yarnam("status", job.id).wait()
        assert shown.code == 0, shown
        assert "RUNNING" in shown.out, shown
    spec = world.write(world.document("next", "true"))
    done = world.yarnam("submit", str(spec), "--watch").wait()
    assert done.code == 0, done
    flag.touch()
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED
    after = job.status()
    assert after.attempt == 1
    assert {t.container for t in after.tasks} == {t.container for t in before.tasks}


def test_a_submit_waits_for_the_other(world: FaultWorld) -> None:
    """Which takes some seconds to notice that it is the active one now."""
    first = active(world.cluster)
    world.cluster.daemon(first).kill()
    spec = world.write(world.document("late", "true"))
    done = world.yarnam("submit", str(spec), "--watch").wait()
    assert done.code == 0, done
    world.cluster.daemon(first).start()

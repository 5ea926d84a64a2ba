"""A gang that YARN kills for its memory is started again in larger containers, and finishes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.fault_world import MARKS, FaultWorld
from tests.integration.storm_world import own_cluster
from yarnam.core.model.outcomes import FailureClass, VerdictKind
from yarnam.errors import ExitCode

pytestmark = [*MARKS, pytest.mark.long]

CHECKED = """\
    yarn.nodemanager.pmem-check-enabled: "true"
    yarn.nodemanager.container-monitor.interval-ms: 1000
"""

NEEDS_MIB = 1500
HUNGRY = f"""
import time
held = bytearray({NEEDS_MIB} << 20)
held[::4096] = b"x" * len(held[::4096])
time.sleep(8)  # the NodeManager kills what it has seen twice
print("fits", flush=True)
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultWorld]:
    """With a NodeManager that kills what takes more memory than its container has, as real ones
    do; the shared cluster's does not."""
    folder = tmp_path_factory.mktemp("memory")
    with own_cluster("memory", folder, CHECKED) as cluster:
        world = FaultWorld(cluster, folder)
        yield world
        world.end_all()
        world.close()


def test_it_finishes_after_it_has_grown(world: FaultWorld) -> None:
    more = {"factor": 2, "max": "2GiB"}
    job = world.submit(
        "hungry", ["python3", "-c", HUNGRY], worker={"memory": "1GiB"},
        retry={"max_restarts": 0, "more_memory": more},
        gang={"backoff": {"base": "200ms", "cap": "1s"}},
    )  # fmt: skip
    verdict = world.end_of(job)
    assert verdict.kind is VerdictKind.SUCCEEDED, verdict
    first, second = job.status().history
    assert first.cause is not None
    assert first.cause.finding.failure is FailureClass.CPU_OUT_OF_MEMORY, first
    assert first.outcome.endswith("larger containers (retry.more_memory, 1 of 1 times)")
    assert not second.cause
    world.assert_cleared(job)


def test_what_no_node_can_hold_ends_the_job(world: FaultWorld) -> None:
    largest = max(node["totalResource"]["memory"] for node in world.rm("nodes")["nodes"]["node"])
    job = world.submit(
        "too-hungry", ["python3", "-c", "raise MemoryError"],
        worker={"tasks": 1, "memory": f"{largest // 2}MiB"},
        retry={"max_restarts": 0, "more_memory": {"factor": 4}},
        gang={"backoff": {"base": "200ms", "cap": "1s"}},
    )  # fmt: skip
    verdict = world.end_of(job)
    assert verdict.exit_code == ExitCode.NEVER_FITS, verdict
    assert "larger containers were asked for after: worker-0 (rank 0)" in verdict.message


def test_the_plan_shows_the_sizes(world: FaultWorld, tmp_path: Path) -> None:
    retry = {"more_memory": {"factor": 4}}
    document = world.document("planned", "true", worker={"memory": "4GiB"}, retry=retry)
    done = world.yarnam("plan", str(world.write(document))).wait()
    assert done.code == 0, done
    assert "After running out of memory: 16384 MiB (worker)" in done.out
    assert "which no node could hold" in done.out

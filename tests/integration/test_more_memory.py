"""A gang that ran out of memory is started again in larger containers, and finishes."""

from __future__ import annotations

import pytest

from tests.integration.fault_world import MARKS, FaultWorld
from yarnam.core.model.events import PlanReady
from yarnam.core.model.outcomes import FailureClass, VerdictKind
from yarnam.errors import ExitCode

pytestmark = [*MARKS, pytest.mark.long]

HUNGRY = """
import os, resource
if os.environ["YARNAM_ATTEMPT"] == "1":
    resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))
bytearray(1 << 30)
"""
"""Its container's memory is not limited on the shared cluster: the first attempt limits itself."""


def test_it_finishes_after_it_has_grown(world: FaultWorld) -> None:
    more = {"factor": 2, "max": "2GiB"}
    job = world.submit(
        "hungry", ["python3", "-c", HUNGRY], worker={"memory": "1GiB"},
        retry={"max_restarts": 0, "more_memory": more},
        gang={"backoff": {"base": "200ms", "cap": "1s"}},
    )  # fmt: skip
    verdict = world.end_of(job)
    assert verdict.kind is VerdictKind.SUCCEEDED, verdict
    status = job.status()
    first, second = status.history
    assert first.cause is not None
    assert first.cause.finding.failure is FailureClass.CPU_OUT_OF_MEMORY, first
    assert first.outcome.endswith("larger containers (retry.more_memory, 1 of 1 times)")
    assert not second.cause
    (plan,) = [event.plan for event in world.events(job, PlanReady) if event.attempt == 2]
    assert {ask.target.resources.memory_mib for ask in plan.rungs[0].asks} == {2048}
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


def test_the_plan_shows_the_sizes(world: FaultWorld) -> None:
    retry = {"more_memory": {"factor": 4}}
    document = world.document("planned", "true", worker={"memory": "4GiB"}, retry=retry)
    done = world.yarnam("plan", str(world.write(document))).wait()
    assert done.code == 0, done
    assert "After running out of memory: 16384 MiB (worker)" in done.out
    assert "which no node could hold" in done.out

"""All ranks of a gang that is stopped save the same step, and none does a step that is lost."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.fault_world import MARKS, waiting_for
from tests.integration.ring_program import SAVING_RING, steps
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import VerdictKind

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

pytestmark = MARKS

PREEMPTIONS = int(os.environ.get("YARNAM_CHAOS_PREEMPTIONS", "5"))
QUICK: dict[str, Any] = {"backoff": {"base": "200ms", "cap": "1s"}}


def submitted(world: FaultWorld, name: str, folder: Path, base: int, tasks: int, gpus: int) -> Job:
    return world.submit(
        name, ["python3", "-c", SAVING_RING, str(folder), str(base)],
        worker={"tasks": tasks, "gpus": gpus, "processes_per_task": 1}, framework="command",
        gang=QUICK, retry={"max_restarts": 0},
    )  # fmt: skip


@pytest.mark.long
def test_a_cancelled_gang_saves_one_step(world: FaultWorld, tmp_path: Path) -> None:
    job = submitted(world, "stops-together", tmp_path, 27400, 4, 1)
    world.until(job, lambda s: (s.step or 0) >= 10, "some steps")
    job.kill("its test is over")
    assert job.wait(60)
    saved = steps(tmp_path, "saved", 1)
    assert len(saved) == 4
    assert len(set(saved)) == 1, saved
    assert steps(tmp_path, "done", 1) == saved
    world.assert_cleared(job)


@pytest.mark.chaos
@pytest.mark.timeout(60 * PREEMPTIONS + 120)
def test_a_preempted_gang_loses_no_step(world: FaultWorld, tmp_path: Path) -> None:
    """As often as YARNAM_CHAOS_PREEMPTIONS says, on the real Fair Scheduler."""
    nodes, gpus = len(world.cluster.nodes), world.cluster.nodes[0].gpus
    job = submitted(world, "gives-way", tmp_path, 27500, nodes, gpus)
    lost = []
    for number in range(1, PREEMPTIONS + 1):
        world.until(
            job,
            lambda s, n=number: s.attempt >= n and len(steps(tmp_path, "done", s.attempt)) == nodes,  # type: ignore[misc]
            "steps",
        )
        attempt = job.status().attempt
        marker = tmp_path / f"prod-ends-{number}"
        urgent = {"tasks": 1, "gpus": gpus, "processes_per_task": 1}
        prod = world.submit(
            f"urgent-{number}", waiting_for(marker), queue="root.prod", worker=urgent, gang=QUICK
        )
        world.until_phase(prod, Phase.RUNNING)
        marker.touch()
        assert world.end_of(prod).kind is VerdictKind.SUCCEEDED
        done, saved = steps(tmp_path, "done", attempt), steps(tmp_path, "saved", attempt)
        # Ranks that have saved different steps can go on from the least one alone.
        begun = min(steps(tmp_path, "from", attempt))
        lost.append(max(done) - (min(saved) if len(saved) == nodes else begun))
        print(f"preemption {number}: done {done}, saved {saved}, lost {lost[-1]}", flush=True)
    few = sum(one <= 1 for one in lost)
    print(f"at most one step lost in {few} of {len(lost)} preemptions")
    assert few >= 0.95 * len(lost), lost
    (tmp_path / "finish").touch()
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED

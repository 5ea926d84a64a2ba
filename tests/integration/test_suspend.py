"""A job is suspended, holds nothing, and goes on at the next step: on a real cluster."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.fault_world import MARKS, kill_now
from tests.integration.ring_program import SAVING_RING, steps
from yarnam.core.model.job_status import JobState, Phase, Use
from yarnam.core.model.outcomes import VerdictKind

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld

pytestmark = [*MARKS, pytest.mark.long]

TASKS = 4


def test_a_suspended_job_holds_nothing_and_goes_on_at_the_next_step(
    world: FaultWorld, tmp_path: Path
) -> None:
    """Its ApplicationMaster is killed meanwhile, and the next one leaves it suspended."""
    job = world.submit(
        "suspended", ["python3", "-c", SAVING_RING, str(tmp_path), "27600"],
        worker={"tasks": TASKS, "gpus": 1, "processes_per_task": 1}, framework="command",
        retry={"max_restarts": 0},
    )  # fmt: skip
    world.until(job, lambda s: (s.step or 0) >= 10, "some steps")
    refused = world.yarnam("suspend", job.id).wait()
    assert refused.code == 64
    assert "would start from the beginning" in refused.err
    began = time.monotonic()
    done = world.yarnam("suspend", job.id, "--force", "--reason", "a demo", "--json").wait()
    took_s = time.monotonic() - began
    assert done.code == 0, done.err
    assert json.loads(done.out)["reason"].endswith(": a demo")
    saved = steps(tmp_path, "saved", 1)
    assert len(saved) == TASKS
    assert len(set(saved)) == 1, saved
    assert steps(tmp_path, "done", 1) == saved, "a step was done and not saved"
    world.until(job, lambda _: world.gpus_of(job) == 0, "end of its containers")
    print(f"suspended within {took_s:.1f} s, the command's own start included")

    kill_now(world.am_pid(job))
    world.until(job, lambda s: s.am_attempt == 2, "second ApplicationMaster")
    status = job.status()
    assert status.state is JobState.SUSPENDED
    assert world.gpus_of(job) == 0

    done = world.yarnam("resume", job.id).wait()
    assert done.code == 0, done.err
    world.until(
        job,
        lambda s: (
            s.phase == Phase.RUNNING.value and len(steps(tmp_path, "done", s.attempt)) == TASKS
        ),
        "steps after it was resumed",
    )
    attempt = job.status().attempt
    assert steps(tmp_path, "from", attempt) == saved
    (tmp_path / "finish").touch()
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED
    status = job.status()
    assert status.restarts == status.preemptions == 0
    assert status.ledger is not None
    assert status.ledger.of(Use.SUSPENDED).wall_s > 0
    world.assert_cleared(job)


def test_a_job_resumes_by_itself(world: FaultWorld, tmp_path: Path) -> None:
    job = world.submit("for-a-moment", f"while [ ! -e {tmp_path}/finish ]; do sleep 0.2; done")
    world.until_phase(job, Phase.RUNNING)
    assert job.suspend(limit_s=3.0, force=True).state is JobState.SUSPENDED
    world.until(job, lambda s: s.phase == Phase.RUNNING.value and s.attempt == 2, "second run")
    (tmp_path / "finish").touch()
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED

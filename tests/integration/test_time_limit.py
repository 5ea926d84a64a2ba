"""A job is stopped at a checkpoint by its ``time_limit``: on a real cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.integration.fault_world import MARKS
from tests.integration.ring_program import SAVING_RING, steps
from yarnam.core.model.events import ConditionChanged
from yarnam.errors import ExitCode

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld

pytestmark = MARKS

TASKS, LIMIT_S = 4, 30.0


def test_all_ranks_save_the_same_step_before_the_limit(world: FaultWorld, tmp_path: Path) -> None:
    job = world.submit(
        "limited", ["python3", "-c", SAVING_RING, str(tmp_path), "27800"],
        worker={"tasks": TASKS, "gpus": 1, "processes_per_task": 1}, framework="command",
        retry={"on_user_failure": 3}, time_limit=f"{LIMIT_S:.0f}s", am={"stop_grace": "8s"},
    )  # fmt: skip
    status = world.until(job, lambda s: (s.step or 0) >= 5, "some steps")
    assert status.time_limit is not None
    assert status.time_limit.stops_at_s is not None
    assert "time limit 30s, stops in" in world.yarnam("status", job.id).wait().out
    world.until(job, lambda s: bool(s.conditions), "its warning")
    verdict = world.end_of(job)
    assert verdict.exit_code == ExitCode.TIME_LIMIT
    saved = steps(tmp_path, "saved", 1)
    assert len(saved) == TASKS
    assert len(set(saved)) == 1, saved
    (warning,) = world.events(job, ConditionChanged)
    assert "time_limit of 30s" in warning.message
    status = job.status()
    assert status.attempt == 1, "it is not retried"
    assert status.time_limit is not None
    assert LIMIT_S - 14.0 < status.time_limit.ran_s < LIMIT_S
    print(f"ran {status.time_limit.ran_s:.1f} of {LIMIT_S:.0f} s before its stop")
    world.assert_cleared(job)

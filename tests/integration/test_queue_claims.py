"""A gang in a queue below its minimum share gets that share from gangs in queues above theirs, on
the real Fair Scheduler: as few of them leave as make room, each as a whole, and nobody takes it
back."""

from __future__ import annotations

import os
import time
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

pytestmark = [*MARKS, pytest.mark.long]

PEACE_S = float(os.environ.get("YARNAM_CLAIM_PEACE_S", "30"))
"""For so long it is watched that nobody takes the share back."""

QUICK: dict[str, Any] = {"backoff": {"base": "200ms", "cap": "1s"}}


class Holder:
    """A gang in ``root.dl``, which has no minimum share, and what it has saved."""

    def __init__(self, world: FaultWorld, folder: Path, number: int, tasks: int, gpus: int) -> None:
        self.folder = folder / f"holder-{number}"
        self.folder.mkdir()
        self.tasks, self.gpus = tasks, tasks * gpus
        command = ["python3", "-c", SAVING_RING, str(self.folder), str(27700 + 10 * number)]
        worker = {"tasks": tasks, "gpus": gpus, "processes_per_task": 1, "memory": "256MiB"}
        self.job: Job = world.submit(
            f"holds-{number}", command, worker=worker, framework="command", gang=QUICK,
            retry={"max_restarts": 0},
        )  # fmt: skip

    def begins(self, attempt: int) -> bool:
        return len(steps(self.folder, "done", attempt)) == self.tasks


@pytest.mark.parametrize(
    ("holders", "tasks", "gpus", "leaving"),
    [(2, 4, 4, 1), (4, 2, 4, 1), (2, 8, 2, 1), (8, 4, 1, 4)],
)
def test_a_queue_gets_its_share(
    world: FaultWorld, tmp_path: Path, holders: int, tasks: int, gpus: int, leaving: int
) -> None:
    """32 GPUs, all held; ``root.prod`` is entitled to 8. YARN leaves each job its own fair share,
    so of eight small gangs it takes one GPU each, of two of them for each container of two."""
    gangs = [Holder(world, tmp_path, number, tasks, gpus) for number in range(holders)]
    for gang in gangs:
        world.until(gang.job, lambda _, gang=gang: gang.begins(1), "steps")  # type: ignore[misc]
    assert sum(world.gpus_of(gang.job) for gang in gangs) == 32
    marker = tmp_path / "prod-ends"
    prod = world.submit(
        "entitled", waiting_for(marker), queue="root.prod", gang=QUICK,
        worker={"tasks": 4, "gpus": 2, "processes_per_task": 1, "memory": "256MiB"},
    )  # fmt: skip
    world.until(prod, lambda s: s.phase in {"PENDING", "ACQUIRING", "LAUNCHING", "RUNNING"}, "AM")
    asked_s = time.monotonic()
    world.until_phase(prod, Phase.RUNNING)
    print(f"\n{holders} gangs: {time.monotonic() - asked_s:.1f} s from its AM to RUNNING")
    lost = [gang for gang in gangs if world.gpus_of(gang.job) < gang.gpus]
    assert 1 <= len(lost) <= leaving, [gang.job.status() for gang in lost]

    until_s = time.monotonic() + PEACE_S
    while time.monotonic() < until_s:
        assert prod.status().attempt == 1
        assert world.gpus_of(prod) == 8
        assert all(gang.job.status().attempt == 1 for gang in gangs if gang not in lost)
        time.sleep(1.0)
    marker.touch()
    assert world.end_of(prod).kind is VerdictKind.SUCCEEDED

    for gang in lost:
        world.until(gang.job, lambda _, gang=gang: gang.begins(2), "steps again")  # type: ignore[misc]
        saved, done = steps(gang.folder, "saved", 1), steps(gang.folder, "done", 1)
        assert len(saved) == gang.tasks
        assert max(done) - min(saved) <= 1
        assert set(steps(gang.folder, "from", 2)) == {min(saved)}
    for gang in gangs:
        (gang.folder / "finish").touch()
    for gang in gangs:
        assert world.end_of(gang.job).kind is VerdictKind.SUCCEEDED
        assert gang.job.status().attempt == (2 if gang in lost else 1)

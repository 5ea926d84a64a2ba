"""A gang in a queue below its minimum share gets that share from gangs in queues above theirs, on
the real Fair Scheduler: as few of them leave as make room, each as a whole and once, and nobody
takes it back."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.fault_world import MARKS, waiting_for
from tests.integration.ring_program import SAVING_RING, steps
from yarnam.core.model.events import ContainerEnded
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import ContainerEnd, VerdictKind

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

PEACE_S = float(os.environ.get("YARNAM_CLAIM_PEACE_S", "10"))
"""For so long it is watched that nobody takes the share back."""

CASES = [(4, 2, 4, 1), (2, 8, 2, 1)]
if os.environ.get("YARNAM_CLAIM_MANY"):
    CASES.append((8, 4, 1, 4))  # eight AMs and 32 agents: for a quiet machine

pytestmark = [*MARKS, pytest.mark.long, pytest.mark.timeout(900 + PEACE_S)]

PATIENT: dict[str, Any] = {
    "gang": {"backoff": {"base": "200ms", "cap": "1s"}, "hold_timeout": "10min"},
    "am": {"stop_grace": "9s", "agent_silence": "60s"},
}
"""Nothing but a preemption ends these gangs, however busy the machine is. YARN kills 15 s after it
has announced that: so long they may take to stop and save."""


class Holder:
    """A gang in ``root.dl``, which has no minimum share, and what it has saved."""

    def __init__(self, world: FaultWorld, folder: Path, number: int, tasks: int, gpus: int) -> None:
        self.world, self.folder = world, folder / f"holder-{number}"
        self.folder.mkdir()
        self.tasks, self.gpus = tasks, tasks * gpus
        command = ["python3", "-c", SAVING_RING, str(self.folder), str(27700 + 10 * number)]
        worker = {"tasks": tasks, "gpus": gpus, "processes_per_task": 1, "memory": "256MiB"}
        self.job: Job = world.submit(
            f"holds-{number}", command, worker=worker, framework="command",
            retry={"max_restarts": 0}, **PATIENT,
        )  # fmt: skip

    def until_it_steps(self, attempt: int) -> None:
        self.world.until(
            self.job, lambda _: len(steps(self.folder, "done", attempt)) == self.tasks, "steps"
        )

    def was_preempted(self) -> int:
        """How often."""
        return sum("preempted" in attempt.outcome for attempt in self.job.status().history)

    def assert_resumed(self) -> None:
        """All its ranks have saved, lost one step at most, and gone on from there."""
        self.until_it_steps(2)
        ends = [event.end for event in self.world.events(self.job, ContainerEnded)]
        if ContainerEnd.PREEMPTED in ends:
            print(f"{self.job.id} was killed: it took more than YARN's 15 s to stop")
            return
        saved, done = steps(self.folder, "saved", 1), steps(self.folder, "done", 1)
        assert len(saved) == self.tasks
        assert max(done) - min(saved) <= 1
        assert set(steps(self.folder, "from", 2)) == {min(saved)}


@pytest.fixture(autouse=True)
def _end_jobs(world: FaultWorld) -> Iterator[None]:
    """Also where a test has failed: its gangs would hold all GPUs."""
    yield
    world.end_all()


@pytest.mark.parametrize(("holders", "tasks", "gpus", "leaving"), CASES)
def test_a_queue_gets_its_share(
    world: FaultWorld, tmp_path: Path, holders: int, tasks: int, gpus: int, leaving: int
) -> None:
    """32 GPUs, all held; ``root.prod`` is entitled to 8. YARN leaves each job its own fair share,
    so of eight small gangs it takes one GPU each, of two of them for each container of two."""
    gangs: list[Holder] = []
    for number in range(holders):  # all at once are too much for a busy machine
        gangs.append(Holder(world, tmp_path, number, tasks, gpus))
        gangs[-1].until_it_steps(1)
    assert sum(world.gpus_of(gang.job) for gang in gangs) == 32
    marker = tmp_path / "prod-ends"
    prod = world.submit(
        "entitled", waiting_for(marker), queue="root.prod",
        worker={"tasks": 4, "gpus": 2, "processes_per_task": 1, "memory": "256MiB"}, **PATIENT,
    )  # fmt: skip
    world.until(prod, lambda s: s.phase in {"PENDING", "ACQUIRING", "LAUNCHING", "RUNNING"}, "AM")
    asked_s = time.monotonic()
    world.until_phase(prod, Phase.RUNNING)
    took_s, load = time.monotonic() - asked_s, os.getloadavg()[0]
    lost = [gang for gang in gangs if world.gpus_of(gang.job) < gang.gpus]
    print(
        f"\n{holders} gangs: {took_s:.1f} s from its AM to RUNNING, {len(lost)} left, "
        f"load of the machine {load:.0f}"
    )
    assert 1 <= len(lost) <= leaving, [gang.job.status() for gang in lost]

    until_s = time.monotonic() + PEACE_S
    while time.monotonic() < until_s:
        assert prod.status().attempt == 1
        assert world.gpus_of(prod) == 8
        time.sleep(1.0)
    assert [gang.was_preempted() for gang in gangs] == [int(gang in lost) for gang in gangs]
    marker.touch()
    assert world.end_of(prod).kind is VerdictKind.SUCCEEDED

    for gang in lost:
        gang.assert_resumed()
    for gang in gangs:
        (gang.folder / "finish").touch()
    for gang in gangs:
        assert world.end_of(gang.job).kind is VerdictKind.SUCCEEDED
        assert gang.was_preempted() == int(gang in lost)

"""A running gang that loses a task is made whole in place and trains on from its checkpoint; one
that YARN preempts goes as a whole and comes back for free."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.fault_world import AGENT, MARKS, kill_now, waiting_for
from yarnam.core.model.events import ContainerEnded, ContainerGranted, ContainersMarked
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import ContainerEnd, VerdictKind

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job
    from yarnam.core.model.job_status import JobStatus

pytestmark = [*MARKS, pytest.mark.timeout(600)]

TRAIN = '''\
"""Counts steps; all of its state is its checkpoint, which each rank that is asked to stop writes:
whichever node YARN takes back, its processes are gone at once and write nothing."""
import json, pathlib, sys, time
from yarnam import train

folder = pathlib.Path(sys.argv[1])
saved = folder / "checkpoint.json"
step = json.loads(saved.read_text())["step"] if saved.exists() else 0
(folder / f"start-{train.attempt()}-{train.rank()}").write_text(str(step))
while not (folder / "finish").exists():
    if train.should_stop():
        draft = folder / f"draft-{train.rank()}"
        draft.write_text(json.dumps({"step": step}))
        draft.replace(saved)
        sys.exit(3)
    step += 1
    train.report(step=step)
    time.sleep(0.05)
'''

QUICK: dict[str, Any] = {"backoff": {"base": "200ms", "cap": "1s"}}
WORKERS = 3
BLOWS = 8
NO_GRUDGE = {"strikes": 0}
"""All nodes are this machine: nothing that is done to its agents speaks against a node."""


def starts(folder: Path, attempt: int) -> list[int]:
    """The steps from which the processes of an attempt went on, by rank."""
    found = sorted(folder.glob(f"start-{attempt}-*"))
    return [int(path.read_text()) for path in found if path.read_text()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def submit_training(world: FaultWorld, name: str, folder: Path, **changes: Any) -> Job:
    # Every node is this machine: nothing need be shipped.
    command = ["python3", str(folder / "train.py"), str(folder)]
    return world.submit(name, command, gang=QUICK, **changes)


def until_steps(world: FaultWorld, job: Job, at_least: int) -> JobStatus:
    return world.until(job, lambda s: (s.step or 0) >= at_least, f"step {at_least}")


@pytest.mark.shapes
def test_a_killed_agent_s_task_is_replaced_in_place(world: FaultWorld, folder: Path) -> None:
    """The others keep their containers; all go on from the checkpoint that was written when the
    task was lost."""
    worker = {"tasks": WORKERS, "gpus": 2, "processes_per_task": 1}
    job = submit_training(world, "made-whole", folder, worker=worker)
    before = until_steps(world, job, 10)
    victim = before.tasks[1]
    world.signal_agent(job, victim.container, signal.SIGKILL)
    harmed = time.monotonic()
    shown = world.until(job, lambda s: "replacing in place" in s.reason, "a replacement")
    assert f"lost {victim.task} on {victim.node}" in shown.reason
    assert shown.state.value == "REPLACING", "nothing runs"
    again = world.until(
        job, lambda s: s.attempt == 2 and s.phase == Phase.RUNNING.value, "the second run"
    )
    took_s = time.monotonic() - harmed
    assert {t.container for t in again.tasks} > {
        t.container for t in before.tasks if t.container != victim.container
    }, "the others were kept"
    world.until(job, lambda _: len(starts(folder, 2)) == WORKERS, "every process")
    saved = json.loads((folder / "checkpoint.json").read_text())["step"]
    assert saved >= 10
    assert starts(folder, 2) == [saved] * WORKERS
    until_steps(world, job, saved + 5)
    (folder / "finish").touch()
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED
    first, second = job.status().history
    assert "restart 1 of 2, in place" in first.outcome
    assert (second.asked, second.granted, second.kept) == (1, 1, WORKERS - 1)
    assert len(world.events(job, ContainerGranted)) == WORKERS + 1
    world.assert_cleared(job)
    print(f"whole again {took_s:.1f} s after the kill")


@pytest.mark.chaos
def test_losses_at_random_moments_cost_no_more_than_time(world: FaultWorld, folder: Path) -> None:
    """Agents are killed and frozen while the gang runs, stops and is made whole, and once the
    ApplicationMaster too: training goes on from each checkpoint, and in the end nothing is held."""
    dice = random.Random(time.time_ns())
    worker = {"tasks": WORKERS, "gpus": 1, "processes_per_task": 1}
    job = submit_training(
        world, "harassed", folder, worker=worker, retry={"max_restarts": 99, "blacklist": NO_GRUDGE}
    )
    until_steps(world, job, 3)
    for blow in range(BLOWS):
        world.until(job, lambda s: any(task.container for task in s.tasks), "something to harm")
        if dice.random() < 0.5:
            world.until_phase(job, Phase.RUNNING)
        time.sleep(dice.uniform(0.0, 3.0))
        if blow == BLOWS // 2:
            kill_now(world.am_pid(job))
        else:
            harm_an_agent(world, job, dice.choice((signal.SIGKILL, signal.SIGSTOP)), dice)
    status = world.until_phase(job, Phase.RUNNING)
    world.until(job, lambda s: len(starts(folder, s.attempt)) == WORKERS, "every process")
    (folder / "finish").touch()
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED
    begun = [starts(folder, attempt) for attempt in range(1, status.attempt + 2)]
    first_steps = [steps[0] for steps in begun if steps]
    assert first_steps == sorted(first_steps), "never behind a checkpoint"
    assert all(len(set(steps)) == 1 for steps in begun if steps), "all from the same one"
    for pid in world.pids(job):
        os.kill(pid, signal.SIGCONT)
    world.assert_cleared(job)


def harm_an_agent(world: FaultWorld, job: Job, number: signal.Signals, dice: random.Random) -> None:
    """One that is there now; it may be gone when the signal comes."""
    containers = [task.container for task in job.status().tasks if task.container]
    if containers:
        chosen = dice.choice(containers)
        agents = [pid for pid in world.pids(job, AGENT) if world.container_of(pid) == chosen]
        for pid in agents[:1]:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


@pytest.mark.long
def test_a_preempted_gang_goes_as_one_and_comes_back(world: FaultWorld, folder: Path) -> None:
    """``root.prod`` has a quarter of the cluster for certain: a gang that waits there asks for it,
    and the Fair Scheduler announces that it takes containers of the gang that has it all. All are
    stopped in time for a checkpoint and given back before the kill; when prod is done, the gang
    runs again, and has paid nothing."""
    nodes = len(world.cluster.nodes)
    gpus = world.cluster.nodes[0].gpus
    whole = {"tasks": nodes, "gpus": gpus, "processes_per_task": 1}
    urgent = {"tasks": 1, "gpus": gpus, "processes_per_task": 1}
    job = submit_training(world, "gives-way", folder, worker=whole, retry={"max_restarts": 0})
    until_steps(world, job, 5)
    prod = world.submit(
        "urgent", waiting_for(folder / "prod-ends"), queue="root.prod", worker=urgent, gang=QUICK
    )
    lost = world.until(
        job, lambda s: s.phase == Phase.BACKING_OFF.value or s.attempt > 1, "a preemption"
    )
    world.until_phase(prod, Phase.RUNNING)
    # In YARN's own books, about a second after the release.
    world.until(job, lambda _: world.gpus_of(job) == 0, "the whole gang being given back")
    (folder / "prod-ends").touch()
    assert world.end_of(prod).kind is VerdictKind.SUCCEEDED
    world.until(job, lambda s: len(starts(folder, s.attempt)) == nodes, "the gang's return")
    status = job.status()
    first = status.history[0]
    assert "preempted" in first.outcome, first
    assert "for free" in first.outcome, first
    assert world.events(job, ContainersMarked)
    ends = [event.end for event in world.events(job, ContainerEnded)]
    assert ContainerEnd.PREEMPTED not in ends, "it left before the kill"
    saved = json.loads((folder / "checkpoint.json").read_text())["step"]
    assert starts(folder, status.attempt) == [saved] * nodes
    (folder / "finish").touch()
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED
    world.assert_cleared(job)
    world.assert_cleared(prod)
    assert lost.reason

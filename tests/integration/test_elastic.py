"""Elastic gangs on a real cluster: they start small, grow, shrink, and go on where they were."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from hdfs_utils import connect
from tests.integration.fault_world import LIMIT_S, MARKS
from tests.integration.test_examples import EXAMPLES, digits_spec
from yarnam.core.model.events import PlanReady
from yarnam.core.model.job_status import JobStatus, Phase
from yarnam.core.model.outcomes import VerdictKind
from yarnam.errors import UsageError

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

pytestmark = [*MARKS, pytest.mark.timeout(600)]

COUNTER = textwrap.dedent(
    """\
    import json, os, pathlib, sys, time
    from yarnam import train

    place = pathlib.Path(sys.argv[1])
    saved = place / "checkpoint"
    step = int(saved.read_text()) if saved.exists() else 0
    life = {"rank": train.rank(), "of": train.world_size(), "from": step,
            "tasks": int(os.environ["YARNAM_GROUP_WORLD_SIZE"]),
            "hosts": len(os.environ["YARNAM_HOSTS"].split(",")), "why": ""}
    mine = place / f"life-{train.attempt()}-{train.rank()}"
    def note(**more):
        draft = place / f"draft-{train.rank()}"
        draft.write_text(json.dumps({**life, **more}))
        draft.replace(mine)

    train.should_stop()
    note()

    def save():
        if train.is_chief():
            draft = place / "draft"
            draft.write_text(str(step))
            draft.replace(saved)

    while not (place / "enough").exists():
        time.sleep(0.05)
        step += 1
        train.report(step=step)
        if step % 100 == 0:
            save()
        asked = train.stop_request()
        if asked:
            save()
            note(why=asked.reason, left_s=asked.left_s(), to=step)
            sys.exit(0)
    """
)
"""Counts; each life of a process leaves a note of where it began, and why it was stopped."""

ON_ONE_NODE = {"locality": {"node": "unconstrained", "rack": "unconstrained"}}
QUICK = {
    "patience": "1s", "grow_interval": "1s", "min_run": "4s", "checkpoint_grace": "15s",
}  # fmt: skip


def lives(place: Path, attempt: int, count: int, *, ended: bool = False) -> list[dict[str, Any]]:
    """The notes of so many processes, by rank; ``ended``: with why they were stopped."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        notes = sorted(place.glob(f"life-{attempt}-*"), key=lambda note: int(note.name[-1]))
        found = [json.loads(note.read_text()) for note in notes]
        if len(found) == count and (not ended or all(life["why"] for life in found)):
            return found
        assert time.monotonic() < deadline, f"attempt {attempt}: {found}"
        time.sleep(0.1)


def running(tasks: int, attempt: int = 0) -> Callable[[JobStatus], bool]:
    """Accepts a job that trains with so many tasks, in a later attempt than this one."""

    def accept(status: JobStatus) -> bool:
        is_up = status.phase == Phase.RUNNING.value and len(status.tasks) == tasks
        return (
            is_up and status.attempt > attempt and all(t.state == "started" for t in status.tasks)
        )

    return accept


def agent_of(world: FaultWorld, job: Job, task: str) -> int:
    [container] = [t.container for t in job.status().tasks if t.task == task]
    return world.agent_pid(job, container)


@pytest.mark.long
def test_a_gang_grows_shrinks_and_goes_on_where_it_was(
    world: FaultWorld, tmp_path: Path, unique_name: Callable[[str], str]
) -> None:
    """One node of eight GPUs: first somebody else has five of them."""
    (node, *_) = world.cluster.nodes
    program = tmp_path / "counter.py"
    program.write_text(COUNTER)
    place = tmp_path / "place"
    place.mkdir()
    other = world.submit(
        unique_name("other"), "sleep 600", nodes=[node.name],
        worker={"tasks": 1, "gpus": 5}, placement=dict(ON_ONE_NODE),
    )  # fmt: skip
    world.until(other, running(1), "the other job to run")
    job = world.submit(
        unique_name("elastic"), [sys.executable, str(program), str(place)], nodes=[node.name],
        worker={"tasks": {"min": 2, "max": 5}}, placement=dict(ON_ONE_NODE),
        elastic={**QUICK, "grow": True}, gang={"recovery_timeout": "0s"},
        retry={"max_restarts": 0},
    )  # fmt: skip

    # It starts with what fits.
    first = world.until(job, running(3), "a start with three tasks")
    assert [life["from"] for life in lives(place, first.attempt, 3)] == [0] * 3
    assert world.gpus_of(job) == 3
    with pytest.raises(UsageError, match="can have 2 to 5 worker tasks, not 6"):
        job.scale(6)

    # A user wants it smaller: the others get the GPU back, nothing of the work is lost.
    assert job.scale(2).gpus == 2
    second = world.until(job, running(2, first.attempt), "two tasks")
    before, after = lives(place, first.attempt, 3, ended=True), lives(place, second.attempt, 2)
    assert [life["why"] for life in before] == ["3 -> 2 tasks: as a user asked"] * 3
    assert all(0 < life["left_s"] <= 15 for life in before)
    assert [life["from"] for life in after] == [before[0]["to"]] * 2
    assert [(life["rank"], life["of"], life["tasks"], life["hosts"]) for life in after] == [
        (0, 2, 2, 2), (1, 2, 2, 2),
    ]  # fmt: skip

    # It may choose again, and GPUs become idle: it takes them while it trains on.
    other.kill("no longer needed")
    other.wait(120)
    # By the node's own report, which the AM plans by: else it may take the one GPU that is free
    # already, and the rest later.
    while any(
        each.gpus_used > 2 for each in world.cluster.status().nodes if each.name == node.name
    ):
        time.sleep(0.2)
    job.scale(None)
    third = world.until(job, running(5, second.attempt), "five tasks")
    before, after = lives(place, second.attempt, 2, ended=True), lives(place, third.attempt, 5)
    assert before[0]["why"] == "2 -> 5 tasks: GPUs are idle"
    assert [life["from"] for life in after] == [before[0]["to"]] * 5
    assert [life["rank"] for life in after] == list(range(5))
    assert {life["of"] for life in after} == {5}
    assert world.gpus_of(job) == 5

    # A task is lost: the others go on without it, from the last checkpoint.
    os.kill(agent_of(world, job, "worker-0"), signal.SIGKILL)
    fourth = world.until(job, running(4, third.attempt), "four tasks")
    saved = int((place / "checkpoint").read_text())
    again = lives(place, fourth.attempt, 4)
    assert all(after[0]["from"] <= life["from"] <= saved for life in again)
    # And it grows again when it can.
    fifth = world.until(job, running(5, fourth.attempt), "five tasks again")
    assert {life["of"] for life in lives(place, fifth.attempt, 5)} == {5}

    (place / "enough").touch()
    verdict = world.end_of(job)
    assert verdict.kind is VerdictKind.SUCCEEDED
    assert "5 tasks" in verdict.message
    world.assert_cleared(job)


def test_gpus_of_a_range_are_cut_to_the_cluster(
    world: FaultWorld, tmp_path: Path, unique_name: Callable[[str], str]
) -> None:
    """Written as GPUs: one role of tasks with as many as divide both ends."""
    document = {
        "version": 1,
        "name": unique_name("range"),
        "queue": "root.dl",
        "command": "test $YARNAM_WORLD_SIZE = 6",
        "gpus": {"min": 2, "max": 6},
        "memory_per_gpu": "256MiB",
        "vcores_per_gpu": 1,
    }
    job = world.client.submit(world.write(document))
    world.jobs.append(job)
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED
    [worker] = job.record().job.roles
    assert (worker.min_tasks, worker.tasks, worker.resources.gpus) == (1, 3, 2)
    [plan] = world.events(job, PlanReady)
    assert plan.plan.rungs[0].tasks == 3


# ---- second tier -------------------------------------------------------------------------------


@pytest.mark.chaos
@pytest.mark.slow
def test_jax_learns_the_digits_through_every_change_of_size(
    world: FaultWorld, tmp_path: Path, unique_name: Callable[[str], str]
) -> None:
    """Two tasks, four by idle GPUs, two and four by ``scale``, three when an agent is killed."""
    (node, *_) = world.cluster.nodes
    name = unique_name("digits")
    root = f"/test/{name}"
    prepare = [sys.executable, str(EXAMPLES / "digits" / "prepare.py"), f"hdfs://{root}/data"]
    subprocess.run(prepare, env=world.environ, check=True, timeout=120)
    other = world.submit(
        unique_name("other"), "sleep 600", nodes=[node.name],
        worker={"tasks": 1, "gpus": 6}, placement=dict(ON_ONE_NODE),
    )  # fmt: skip
    world.until(other, running(1), "the other job to run")
    others = [each.address for each in world.cluster.nodes if each.name != node.name]
    plain = yaml.safe_load(digits_spec(tmp_path, root).read_text())
    plain |= {
        "name": name,
        "command": ["python3", "code/train.py", "--epochs", "400", "--checkpoint-every", "10"],
        "roles": {
            "worker": {"tasks": {"min": 2, "max": 4}, "gpus": 1, "memory": "1GiB", "vcores": 1}
        },
        "placement": {**ON_ONE_NODE, "exclude_nodes": others},
        "elastic": {**QUICK, "min_run": "5s"},
        "gang": {"recovery_timeout": "0s"},
        "retry": {"max_restarts": 0},
        "am": {"stop_grace": "3s"},
    }
    job = world.client.submit(world.write(plain))
    world.jobs.append(job)

    def trains(tasks: int, attempt: int) -> JobStatus:
        def accept(status: JobStatus) -> bool:
            return running(tasks, attempt)(status) and (status.step or 0) > steps[-1]

        status = world.until(job, accept, f"{tasks} tasks to train")
        steps.append(status.step or 0)
        return status

    steps = [0]
    status = trains(2, 0)
    other.kill("no longer needed")
    status = trains(4, status.attempt)
    job.scale(2)
    status = trains(2, status.attempt)
    job.scale(4)
    status = trains(4, status.attempt)
    job.scale(None)
    os.kill(agent_of(world, job, "worker-3"), signal.SIGKILL)
    status = world.until(job, running(3, status.attempt), "three tasks")
    world.until(job, running(4, status.attempt), "four tasks again")
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED
    storage = connect(world.cluster.namenode_uri, conf_dir=str(world.cluster.conf_dir))
    result = json.loads(storage.read_bytes(f"{root}/output/result.json"))
    assert result["test_accuracy"] >= 0.95
    assert len(result["losses"]) == 400, "an epoch was lost, or trained twice"
    assert result["processes"] == 4, "it has grown again after the loss"


@pytest.mark.chaos
def test_a_killed_nodemanager_costs_its_tasks_alone(
    world: FaultWorld, tmp_path: Path, unique_name: Callable[[str], str]
) -> None:
    """Spread over three nodes, no fourth one allowed: two go on."""
    *three, _ = world.cluster.nodes
    program = tmp_path / "counter.py"
    program.write_text(COUNTER)
    place = tmp_path / "place"
    place.mkdir()
    job = world.submit(
        unique_name("spread"), [sys.executable, str(program), str(place)],
        nodes=[node.name for node in three],
        worker={"tasks": {"min": 2, "max": 3}}, placement={"strategy": "spread"},
        elastic={**QUICK, "grow": True}, gang={"recovery_timeout": "10s"},
    )  # fmt: skip
    first = world.until(job, running(3), "three tasks")
    victim = next(task for task in first.tasks if task.task == "worker-2")
    name = world.node_named(victim.node)
    world.cluster.daemon(name).kill()
    try:
        second = world.until(job, running(2, first.attempt), "two tasks")
        assert victim.node not in {task.node for task in second.tasks}
        assert {life["of"] for life in lives(place, second.attempt, 2)} == {2}
    finally:
        world.cluster.daemon(name).start()
        world.until_nodes_are_back()
    time.sleep(1)
    (place / "enough").touch()
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED
    world.assert_cleared(job)

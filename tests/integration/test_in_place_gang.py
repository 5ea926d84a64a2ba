"""An in-place elastic gang on a real cluster: tasks come and go, and torchrun
continues in the others."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.fault_world import MARKS
from tests.integration.framework_venvs import framework_python
from tests.integration.test_elastic import ON_ONE_NODE, agent_of
from yarnam.core.model.events import GroupFormed, TaskStarted
from yarnam.core.model.job_status import JobStatus, Phase
from yarnam.core.model.outcomes import VerdictKind

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "torchrun-elastic"
BEGIN_S = 600.0
"""To import torch in three tasks at once on a busy machine."""

pytestmark = [*MARKS, pytest.mark.frameworks, pytest.mark.long, pytest.mark.timeout(2500)]


def running(tasks: int) -> Callable[[JobStatus], bool]:
    """Accepts a job that has run with so many tasks since its first attempt."""

    def accept(status: JobStatus) -> bool:
        assert status.attempt <= 1, status.reason
        is_up = status.phase == Phase.RUNNING.value and len(status.tasks) == tasks
        return is_up and all(task.state == "started" for task in status.tasks)

    return accept


def torchruns(world: FaultWorld, job: Job) -> dict[str, int]:
    """The torchrun of each container, without the processes that it has started."""
    pids = world.pids(job, "torch.distributed.run")
    return {world.container_of(pid): pid for pid in sorted(pids, reverse=True)}


def until_all_print(world: FaultWorld, job: Job, what: str, count: int) -> str:
    """What the job prints, once this has been printed by so many processes."""
    deadline = time.monotonic() + BEGIN_S
    while True:
        out = world.yarnam("logs", job.id).wait().out
        if len(set(re.findall(what, out))) >= count:
            return out
        assert time.monotonic() < deadline, f"not {what} {count} times:\n{out}\n{job.status()}"
        time.sleep(1)


def test_the_torchruns_of_the_others_go_on_when_tasks_come_and_go(
    world: FaultWorld, unique_name: Callable[[str], str]
) -> None:
    (node, *_) = world.cluster.nodes
    command = ["python3", "-m", "torch.distributed.run", "code/train.py"]
    enough = world.folder / unique_name("enough")
    job = world.submit(
        unique_name("in-place"),
        [*command, "--epochs", "40", "--pause", "1", "--until", str(enough)],
        framework="torchrun", nodes=[node.name], code=str(EXAMPLE),
        worker={"tasks": {"min": 2, "max": 3}, "memory": "2GiB"}, placement=dict(ON_ONE_NODE),
        elastic={
            "restart": False, "patience": "5m", "grow_interval": "10s", "min_run": "0s",
            "checkpoint_grace": "5s",
        },
        environment={"python": str(framework_python("torch"))}, retry={"max_restarts": 0},
    )  # fmt: skip
    first = world.until(job, running(3), "three tasks")
    until_all_print(world, job, r"rank \d of 3 begins with epoch 0", 3)
    before = torchruns(world, job)
    containers = {task.task: task.container for task in first.tasks}
    assert set(before) == set(containers.values())

    # A task is lost: the others go on, and another one joins them.
    os.kill(agent_of(world, job, "worker-1"), signal.SIGKILL)
    lost = containers.pop("worker-1")
    world.until(
        job,
        lambda s: running(3)(s) and lost not in {t.container for t in s.tasks},
        "a new task",
        BEGIN_S,
    )
    until_all_print(world, job, r"rank \d of 3 begins with epoch [1-9]\d*", 3)
    after = torchruns(world, job)
    kept = set(containers.values())
    assert {one: after[one] for one in kept} == {one: before[one] for one in kept}
    assert len(after) == 3

    # A user wants it smaller: one goes, the others go on.
    job.scale(2)
    world.until(job, running(2), "two tasks")
    out = until_all_print(world, job, r"rank \d of 2 begins with epoch [1-9]\d*", 2)
    left = torchruns(world, job)
    assert len(left) == 2
    assert left.items() <= after.items()
    assert left[containers["worker-0"]] == before[containers["worker-0"]]

    enough.touch()
    verdict = world.end_of(job, BEGIN_S)
    assert verdict.kind is VerdictKind.SUCCEEDED, f"{verdict}\n{out}"
    out = world.yarnam("logs", job.id).wait().out
    [accuracy] = re.findall(r"test accuracy (\d\.\d+)", out)
    assert float(accuracy) > 0.9
    started = [event.ask for event in world.events(job, TaskStarted)]
    assert len(started) == len(set(started)) == 4, "a task was started again"
    groups = [event.tasks for event in world.events(job, GroupFormed)]
    assert 3 in groups, f"the agent has not seen torchrun's groups: {groups}"
    assert groups[-1] == 2
    world.assert_cleared(job)

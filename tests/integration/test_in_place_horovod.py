"""Horovod's elastic mode on a real cluster: its processes continue when tasks leave and join."""

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
from yarnam.core.model.events import GroupFormed, TaskStarted, TimerFired, TimerKind
from yarnam.core.model.job_status import JobStatus, Phase
from yarnam.core.model.outcomes import VerdictKind

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "horovod-elastic"
LIMIT_S = 600.0
"""To import torch in four tasks at the same time on a busy machine, and to re-form a group."""
REFORM_S = 180
"""Four processes import torch within half of it: so long an operation of gloo waits."""

pytestmark = [*MARKS, pytest.mark.frameworks, pytest.mark.long, pytest.mark.timeout(2500)]


def submit(world: FaultWorld, name: str, enough: Path, *, reform_s: float = REFORM_S) -> Job:
    (node, *_) = world.cluster.nodes
    return world.submit(
        name,
        ["python3", "code/train.py", "--steps", "300", "--pause", "0.05", "--until", str(enough)],
        framework="horovod", nodes=[node.name], code=str(EXAMPLE),
        worker={"tasks": {"min": 2, "max": 4}, "memory": "1GiB"}, placement=dict(ON_ONE_NODE),
        elastic={
            "restart": False, "patience": "5m", "grow_interval": "5s", "grow": False,
            "checkpoint_grace": "5s", "reform_timeout": f"{reform_s:g}s",
        },
        environment={"python": str(framework_python("horovod"))},
        retry={"max_restarts": 2, "on_user_failure": 2},
    )  # fmt: skip


def running(tasks: int, attempt: int = 1) -> Callable[[JobStatus], bool]:
    def accept(status: JobStatus) -> bool:
        assert status.attempt <= attempt, status.reason
        is_up = status.phase == Phase.RUNNING.value and len(status.tasks) == tasks
        return (
            is_up
            and status.attempt == attempt
            and all(task.state == "started" for task in status.tasks)
        )

    return accept


def trainers(world: FaultWorld, job: Job) -> dict[str, int]:
    """The process of each container that trains."""
    pids = world.pids(job, "code/train.py")
    found: dict[str, int] = {}
    for pid in pids:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
        if b"head_launch" not in line:
            found[world.container_of(pid)] = pid
    return found


def until_group(world: FaultWorld, job: Job, size: int, after: int) -> int:
    """The step from which all of a group of this size have begun, beyond ``after``."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        out = world.yarnam("logs", job.id).wait().out
        begun: dict[int, set[int]] = {}
        for rank, of, step in re.findall(r"rank (\d) of (\d) begins with step (\d+)", out):
            if int(of) == size and int(step) > after:
                begun.setdefault(int(step), set()).add(int(rank))
        whole = [step for step, ranks in begun.items() if ranks == set(range(size))]
        if whole:
            return max(whole)
        assert time.monotonic() < deadline, f"no group of {size}:\n{out}\n{job.status()}"
        time.sleep(1)


def test_horovods_processes_continue_while_tasks_leave_and_join(
    world: FaultWorld, unique_name: Callable[[str], str]
) -> None:
    enough = world.folder / unique_name("enough")
    job = submit(world, unique_name("horovod"), enough)
    world.until(job, running(4), "four tasks", LIMIT_S)
    assert until_group(world, job, 4, -1) == 0
    before = trainers(world, job)
    assert len(before) == 4

    # Two tasks leave. Nobody gets a signal; the other two continue.
    job.scale(2)
    world.until(job, running(2), "two tasks", LIMIT_S)
    step = until_group(world, job, 2, 0)
    left = trainers(world, job)
    assert len(left) == 2
    assert left.items() <= before.items()
    fired = {event.timer.kind for event in world.events(job, TimerFired)}
    assert not fired & {TimerKind.NOTICE, TimerKind.STOP, TimerKind.REFORM}

    # Two others join them.
    job.scale(4)
    status = world.until(job, running(4), "four tasks again", LIMIT_S)
    step = until_group(world, job, 4, step)
    grown = trainers(world, job)
    assert left.items() <= grown.items()
    assert len(grown) == 4

    # An agent is lost, with its processes: the others continue, and one joins in its place.
    lost = next(task.container for task in status.tasks if task.task == "worker-2")
    os.kill(agent_of(world, job, "worker-2"), signal.SIGKILL)
    world.until(
        job,
        lambda s: running(4)(s) and lost not in {task.container for task in s.tasks},
        "a task in its place",
        LIMIT_S,
    )
    step = until_group(world, job, 4, step)
    after = trainers(world, job)
    kept = {container: pid for container, pid in grown.items() if container != lost}
    assert kept.items() <= after.items()
    assert job.status().restarts == 0
    groups = [event.tasks for event in world.events(job, GroupFormed)]
    assert groups[:3] == [4, 2, 4]
    assert groups[-1] == 4

    # A process is killed: that is a failure, and the gang starts again.
    os.kill(max(after.values()), signal.SIGKILL)
    world.until(job, lambda s: s.attempt == 2 and running(4, 2)(s), "the second attempt", LIMIT_S)
    enough.touch()
    verdict = world.end_of(job, LIMIT_S)
    assert verdict.kind is VerdictKind.SUCCEEDED, verdict
    out = world.yarnam("logs", job.id).wait().out
    steps, weight, bias = re.findall(r"4 ranks, (\d+) steps: y = (\S+) x (\S+)", out)[-1]
    assert int(steps) >= 300
    assert float(weight) == pytest.approx(3, abs=0.01)
    assert float(bias) == pytest.approx(-1, abs=0.01)
    started = {event.ask for event in world.events(job, TaskStarted) if event.attempt == 1}
    assert len(started) == 4 + 2 + 1
    world.assert_cleared(job)


def test_a_gang_that_does_not_re_form_is_restarted(
    world: FaultWorld, unique_name: Callable[[str], str]
) -> None:
    """One of those that stay is frozen: it never comes to its next commit."""
    enough = world.folder / unique_name("enough")
    job = submit(world, unique_name("frozen"), enough, reform_s=20)
    status = world.until(job, running(4), "four tasks", LIMIT_S)
    until_group(world, job, 4, -1)
    by_container = {task.container: task.task for task in status.tasks}
    frozen = next(
        pid
        for container, pid in trainers(world, job).items()
        if by_container[container] == "worker-1"
    )
    os.kill(frozen, signal.SIGSTOP)
    job.scale(2)
    seen = world.until(job, lambda s: "re-forming" in s.reason, "a group is awaited", LIMIT_S)
    assert "2 tasks run, re-forming their group, 2 more leave" in seen.reason
    world.until(
        job, lambda s: s.attempt == 2 and s.phase == Phase.RUNNING.value, "a restart", LIMIT_S
    )
    status = job.status()
    assert status.restarts == 1
    assert "did not re-form their group within 20 s" in str(status.history[0])
    enough.touch()
    assert world.end_of(job, LIMIT_S).kind is VerdictKind.SUCCEEDED
    world.assert_cleared(job)

"""A program that asks for its size, and a job that makes way for a more important one, on a real
cluster."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.fault_world import LIMIT_S, MARKS
from yarnam.core.model.events import ClusterSeen, ScaleRequested
from yarnam.core.model.job_status import JobStatus, Phase
from yarnam.core.model.outcomes import VerdictKind

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld

pytestmark = [*MARKS, pytest.mark.zookeeper, pytest.mark.long, pytest.mark.timeout(900)]

ON_ONE_NODE = {"locality": {"node": "unconstrained", "rack": "unconstrained"}}

PROGRAM = textwrap.dedent(
    """\
    import pathlib, sys, time
    from hdfs_utils.checkpoints import PerRank
    from yarnam import train

    place, asks, epochs = pathlib.Path(sys.argv[1]), sys.argv[2] == "asks", int(sys.argv[3])
    begin = 0
    with train.checkpoint.open(sharded=True) as saved:
        found = saved.restore(lambda opened: None)
        if found is not None:
            begin = found[0].step
        for step in range(begin, 1 << 30):
            epoch = step // 10
            if epoch >= epochs and (place / "enough").exists():
                break
            if asks and step % 10 == 0:
                train.request_size(2 if epoch < 2 else 4)
            with open(place / f"sizes-{train.rank()}", "a") as file:
                file.write(f"{step} {epoch} {train.world_size()}\\n")
            time.sleep(0.2)
            train.report(step=step + 1, epoch=epoch)
            if train.should_stop(step + 1) or (step + 1) % 10 == 0:
                saved.save(step + 1, {"rank": PerRank(str(train.rank()).encode())})
                saved.wait()
            if train.should_stop(step + 1):
                break
    """
)
"""Epochs of ten steps. It notes at which size each step ran, and ends when it may."""


def written(place: Path) -> list[tuple[int, int, int]]:
    """Of each step of rank 0: the step, its epoch, and the size of the gang."""
    lines = (place / "sizes-0").read_text().splitlines()
    return [tuple(map(int, line.split())) for line in lines]  # type: ignore[misc]


def sizes(place: Path) -> list[int]:
    return [size for _, _, size in written(place)]


def runs_with(tasks: int) -> Callable[[JobStatus], bool]:
    return lambda status: (
        status.phase == Phase.RUNNING.value
        and len(status.tasks) == tasks
        and all(task.state == "started" for task in status.tasks)
    )


@pytest.mark.parametrize("who", ["the program", "elastic.schedule"])
def test_later_epochs_run_on_more_gpus(
    world: FaultWorld, tmp_path: Path, unique_name: Callable[[str], str], who: str
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    asks = "asks" if who == "the program" else "silent"
    schedule = {"schedule": [{"epoch": 0, "size": 2}, {"epoch": 2, "size": 4}]}
    name = unique_name("sizes")
    job = world.submit(
        name, [sys.executable, str(tmp_path / "program.py"), str(tmp_path), asks, "3"],
        nodes=[world.cluster.nodes[0].name], worker={"tasks": {"min": 2, "max": 4}},
        placement=dict(ON_ONE_NODE), checkpoint={"directory": f"/tmp/{name}", "keep": 2},
        elastic={
            "patience": "1s", "grow": False, "checkpoint_grace": "20s",
            **(schedule if who != "the program" else {}),
        },
        retry={"max_restarts": 0},
    )  # fmt: skip

    def has_grown(status: JobStatus) -> bool:
        """Not as it began: a program asks only once it runs."""
        wanted = status.size is not None and status.size.requested == 4
        return wanted and runs_with(4)(status) and sizes(tmp_path)[-1] == 4

    grown = world.until(job, has_grown, "a step on the four tasks that were asked for")
    assert grown.size is not None
    assert grown.size.requested_by == "the program"
    (tmp_path / "enough").touch()
    assert job.wait(2 * LIMIT_S).kind is VerdictKind.SUCCEEDED
    events = [one for one in world.events(job, ScaleRequested) if one.is_program]
    print([(one.by, one.tasks) for one in events])
    assert all(one.by.startswith(who) for one in events)
    assert [one.tasks for one in events][-1] == 4
    steps = written(tmp_path)
    if who == "elastic.schedule":
        assert {size for _, epoch, size in steps if epoch < 2} == {2}, "the size of the start"
        assert sizes(tmp_path) == sorted(sizes(tmp_path))
    numbers = [step for step, _, _ in steps]
    assert numbers == sorted(numbers), "nothing that was saved is done again"
    world.assert_cleared(job)


def test_an_elastic_job_makes_way_for_one_of_higher_priority(
    world: FaultWorld, tmp_path: Path, unique_name: Callable[[str], str]
) -> None:
    """Nothing is suspended, and nothing of the elastic job is lost: it grows again afterwards."""
    (node, *_) = world.cluster.nodes
    most = node.gpus
    (tmp_path / "program.py").write_text(PROGRAM)
    name = unique_name("elastic")
    elastic = world.submit(
        name, [sys.executable, str(tmp_path / "program.py"), str(tmp_path), "silent", "0"],
        nodes=[node.name], worker={"tasks": {"min": 2, "max": most}},
        placement=dict(ON_ONE_NODE), checkpoint={"directory": f"/tmp/{name}", "keep": 2},
        elastic={
            "patience": "1s", "grow_interval": "2s", "min_run": "4s", "shrink_after": "4s",
            "checkpoint_grace": "20s",
        },
        retry={"max_restarts": 0},
    )  # fmt: skip
    world.until(elastic, runs_with(most), "the whole node")
    urgent = world.submit(
        unique_name("urgent"), "sleep 5", nodes=[node.name], placement=dict(ON_ONE_NODE),
        worker={"tasks": 2}, gang={"priority": 5},
    )  # fmt: skip
    assert urgent.wait(2 * LIMIT_S).kind is VerdictKind.SUCCEEDED
    seen = [one for one in world.events(elastic, ClusterSeen) if one.outranked]
    assert seen, "no probe has seen the job of higher priority"
    assert 2 in sizes(tmp_path), "it has not gone to its least"
    world.until(elastic, runs_with(most), "the whole node again")
    (tmp_path / "enough").touch()
    assert elastic.wait(2 * LIMIT_S).kind is VerdictKind.SUCCEEDED
    numbers = [step for step, _, _ in written(tmp_path)]
    assert numbers == sorted(numbers)
    for job in (elastic, urgent):
        world.assert_cleared(job)

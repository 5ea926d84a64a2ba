"""Policies of a queue on a real cluster: more gangs than GPUs, without anybody who orders them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.fault_world import LIMIT_S, MARKS
from tests.integration.row_training import ROWS, SCRIPT, losses_of, references
from yarnam.core.model.events import ResumeRequested, ScaleRequested, SuspendRequested
from yarnam.core.model.job_status import Phase, Use
from yarnam.core.model.outcomes import VerdictKind

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

pytestmark = [*MARKS, pytest.mark.zookeeper, pytest.mark.long, pytest.mark.timeout(1200)]

QUEUE = "root.dl"
TASKS = 2


@contextmanager
def policy(world: FaultWorld, name: str, *settings: str) -> Iterator[None]:
    """In force for the queue. No job outlives it: one would keep its GPUs from the next test."""
    done = world.yarnam("policy", "set", QUEUE, name, *settings).wait()
    assert done.code == 0, done
    assert "may change this" in done.err, "the tests' ZooKeeper protects nothing"
    try:
        yield
    finally:
        world.end_all()
        done = world.yarnam("policy", "set", QUEUE, "smallest-first").wait()
        assert done.code == 0, done


@dataclass
class Trainings:
    """Gangs that fill one node, so that one at a time runs."""

    world: FaultWorld
    folder: Path
    unique_name: Callable[[str], str]

    def __post_init__(self) -> None:
        self.node = self.world.cluster.nodes[0]
        code = self.folder / "code"
        code.mkdir()
        (code / "go_on.py").write_text(SCRIPT)

    def submit(self, stem: str, steps: int, **changes: Any) -> Job:
        name = self.unique_name(stem)
        worker = {"tasks": TASKS, "gpus": self.node.gpus // TASKS, "processes_per_task": 1}
        return self.world.submit(
            name,
            ["python3", "code/go_on.py", str(ROWS), str(steps), str(self.folder / stem)],
            worker={**worker, **changes.pop("worker", {})},
            nodes={self.node.name},
            code=str(self.folder / "code"),
            checkpoint={"directory": f"/tmp/{name}", "keep": 2},
            retry={"max_restarts": 0},
            **changes,
        )

    def assert_undisturbed(self, stem: str, steps: int) -> None:
        assert losses_of(self.folder / stem, TASKS) == references(steps, TASKS)


def completion_s(job: Job) -> float:
    assert job.wait(2 * LIMIT_S).kind is VerdictKind.SUCCEEDED
    status = job.status()
    return status.at_s - status.submitted_at_s


def pauses(world: FaultWorld, job: Job) -> int:
    """How often the policy has suspended it; every time it went on by the policy."""
    suspended = [one for one in world.events(job, SuspendRequested) if one.is_policy]
    resumed = [one for one in world.events(job, ResumeRequested) if one.is_policy]
    assert len(resumed) == len(suspended), (suspended, resumed)
    return len(suspended)


def test_short_gangs_finish_first_under_tiresias_though_they_came_later(
    world: FaultWorld, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    """Against fifo, in the same run: three gangs for the GPUs of one."""
    means: dict[str, float] = {}
    for name, settings in (
        ("tiresias", ("limits=200", "least_run=0", "least_pause=0", "promote=0")),
        ("fifo", ()),
    ):
        folder = tmp_path / name
        folder.mkdir()
        trainings = Trainings(world, folder, unique_name)
        with policy(world, name, *settings):
            long = trainings.submit("long", 150)
            world.until(long, lambda s: (s.step or 0) >= 2, "some steps")
            short = [trainings.submit(f"short-{at}", 10) for at in range(2)]
            world.until(short[0], lambda s: s.policy is not None, "its policy")
            explained = world.yarnam("policy", "explain", short[0].id).wait()
            assert explained.code == 0, explained
            times = [completion_s(job) for job in short]
            is_long_over = long.status().verdict is not None
            long_s = completion_s(long)
        means[name] = sum(times) / len(times)
        print(f"{name}: short {', '.join(f'{one:.1f}' for one in times)} s, long {long_s:.1f} s")
        print(explained.out)
        assert f"policy: {name}" in explained.out
        assert is_long_over is (name == "fifo")
        assert pauses(world, long) == (1 if name == "tiresias" else 0)
        trainings.assert_undisturbed("long", 150)
        ledger = long.status().ledger
        assert ledger is not None
        assert (ledger.of(Use.SUSPENDED).wall_s > 0) is (name == "tiresias")
        for job in (long, *short):
            world.assert_cleared(job)
    print(f"tiresias {means['tiresias']:.1f} s, fifo {means['fifo']:.1f} s")
    assert means["tiresias"] < means["fifo"]


def test_two_gangs_take_turns_on_the_gpus_of_one(
    world: FaultWorld, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    """Both progress, and their losses are those of runs that nobody disturbs."""
    trainings, steps = Trainings(world, tmp_path, unique_name), 60
    with policy(world, "gandiva", "slice=12", "cost_share=0.5"):
        jobs = [trainings.submit(f"turn-{at}", steps) for at in range(2)]
        for job in jobs:
            world.until(job, lambda s: (s.step or 0) >= 2, "some steps of its own")
        assert all(job.status().verdict is None for job in jobs), "the first has had its turn"
        for job in jobs:
            completion_s(job)
    for at, job in enumerate(jobs):
        trainings.assert_undisturbed(f"turn-{at}", steps)
        print(f"{job.id}: suspended {pauses(world, job)} times")
        world.assert_cleared(job)
    assert sum(pauses(world, job) for job in jobs) >= 2


def test_optimus_moves_gpus_between_two_elastic_jobs(
    world: FaultWorld, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    """The first grows into what is idle, and shrinks when the second comes."""
    trainings = Trainings(world, tmp_path, unique_name)
    worker = {"tasks": {"min": 1, "max": 4}, "gpus": 2}
    elastic = {"patience": "1s", "grow_interval": "5s", "checkpoint_grace": "10s"}
    with policy(world, "optimus", "interval=5", "worth=0"):
        first = trainings.submit("first", 400, worker=worker, elastic=elastic)
        grown = world.until(first, lambda s: s.size is not None and s.size.tasks == 4, "4 tasks")
        assert grown.size is not None
        second = trainings.submit("second", 60, worker=worker, elastic=elastic)
        world.until_phase(second, Phase.RUNNING)
        status = first.status()
        assert status.size is not None
        asked = [one.tasks for one in world.events(first, ScaleRequested) if one.is_policy]
        print(f"the policy asked the first for {asked} tasks")
        assert min(one for one in asked if one is not None) < 4
        completion_s(second)
        first.kill("it has grown and shrunk")
        first.wait(LIMIT_S)
    for job in (first, second):
        world.assert_cleared(job)


def test_a_choice_is_kept_shown_and_guarded(world: FaultWorld) -> None:
    """Two administrators at once: the later one is refused. A slip changes nothing."""
    with policy(world, "tiresias", "limits=3600,36000"):
        shown = world.yarnam("policy", "show", QUEUE).wait()
        assert "limits=3600,36000" in shown.out
        version = next(
            line.split()[1] for line in shown.out.splitlines() if line.startswith("version ")
        )
        assert world.yarnam("policy", "set", QUEUE, "fifo", "--version", version).wait().code == 0
        late = world.yarnam("policy", "set", QUEUE, "srtf", "--version", version).wait()
        assert late.code == 64, late
        assert "changed by" in late.err
        for slip in (("no-such",), ("fifo", "skip=7"), ("fifo", "colour=red"), ("fifo", "skip")):
            assert world.yarnam("policy", "set", QUEUE, *slip).wait().code == 64
        assert world.yarnam("policy", "set", "root.no-such", "fifo").wait().code == 64
        assert f"{QUEUE}" in world.yarnam("policy", "ls").wait().out
        assert "fifo" in world.yarnam("policy", "show", QUEUE).wait().out

"""``yarnam kill`` at every phase of a job: CANCELLED with 93, and nothing is left."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.fault_world import LIMIT_S, MARKS, waiting_for
from yarnam.errors import ExitCode
from yarnam.model.outcomes import VerdictKind
from yarnam.model.status import JobState, Phase

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

pytestmark = [*MARKS, pytest.mark.timeout(900)]

AT_ONCE = 3
STUBBORN = "trap '' TERM; while true; do sleep 1; done"
ONE = {"tasks": 1}

JOBS: dict[str, dict[str, Any]] = {
    # 40 GiB are more than the half of its queue's share that ApplicationMasters may use.
    "queued": {"queue": "root.small", "am": {"memory": "60GiB"}, "worker": ONE, "nodes": ["nm4"]},
    "looking": {
        "worker": {"tasks": 2, "gpus": 8, "processes_per_task": 1},
        "gang": {"backoff": {"base": "1min", "cap": "5min"}},
        "nodes": ["nm1", "nm2"],
    },
    "acquiring": {
        "worker": {"tasks": 5},
        "gang": {"look_before_ask": False, "hold_timeout": "1h"},
        "nodes": ["nm1", "nm2"],
    },
    "launching": {
        "gang": {"look_before_ask": False, "hold_timeout": "1h", "launch_timeout": "1h"},
        "am": {"agent_silence": "1h"},
        "nodes": ["nm3"],
    },
    "running": {"nodes": ["nm4"]},
    "stopping": {"worker": ONE, "am": {"stop_grace": "8s"}, "nodes": ["nm4"]},
    "silent": {"worker": ONE, "nodes": ["nm4"]},
    "through-yarn": {"worker": ONE, "nodes": ["nm4"]},
}


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("flags")


@pytest.fixture(scope="module")
def holders(world: FaultWorld, flags: Path) -> Iterator[Mapping[str, Job]]:
    """Two jobs that hold most of rack 1 and nearly all of nm3; each ends when its flag is there."""
    shapes = {
        "rack1": ({"tasks": 2, "gpus": 6, "processes_per_task": 1}, ["nm1", "nm2"]),
        "nm3": ({"tasks": 1, "gpus": 7, "processes_per_task": 1}, ["nm3"]),
    }
    held = {}
    for name, (worker, nodes) in shapes.items():
        held[name] = world.submit(
            f"holds-{name}", waiting_for(flags / name), worker=worker, nodes=nodes
        )
    for job in held.values():
        world.until_phase(job, Phase.RUNNING)
    yield held
    for name, job in held.items():
        (flags / name).touch()
        assert world.end_of(job).kind is VerdictKind.SUCCEEDED
        world.assert_cleared(job)


@pytest.fixture(scope="module")
def jobs(world: FaultWorld, holders: Mapping[str, Job]) -> Mapping[str, Job]:
    """All victims together on the cluster: each goes as far as it can and stays there."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        submitted = {
            name: pool.submit(world.submit, f"kill-{name}", STUBBORN, **changes)
            for name, changes in JOBS.items()
        }
        return {name: future.result() for name, future in submitted.items()}


@pytest.fixture
def kill(world: FaultWorld) -> Callable[[Job], None]:
    """``yarnam kill`` and all that must hold afterwards."""

    def call(job: Job) -> None:
        done = world.yarnam("kill", job.id, "--reason", "a test").wait()
        assert done.code == 0, done
        assert f"{job.id} is over: CANCELLED" in done.out, done
        watched = world.yarnam("watch", job.id).wait()
        assert watched.code == ExitCode.CANCELLED, watched
        assert "a test" in watched.out, watched
        world.assert_cleared(job)

    return call


def test_queued(world: FaultWorld, jobs: Mapping[str, Job], kill: Callable[[Job], None]) -> None:
    job = jobs["queued"]
    assert job.status().state is JobState.QUEUED
    assert world.rm(f"apps/{job.id}")["app"]["state"] == "ACCEPTED"
    kill(job)


def test_backing_off(
    world: FaultWorld, jobs: Mapping[str, Job], kill: Callable[[Job], None]
) -> None:
    job = jobs["looking"]
    status = world.until_phase(job, Phase.BACKING_OFF)
    assert not status.history, "a look is no attempt"
    kill(job)


def test_acquiring(world: FaultWorld, jobs: Mapping[str, Job], kill: Callable[[Job], None]) -> None:
    job = jobs["acquiring"]
    status = world.until(job, lambda s: s.ready > 0, "agent that is ready")
    assert status.phase == Phase.ACQUIRING.value
    assert 0 < status.granted < status.asked == 5
    assert world.gpus_of(job) >= status.ready
    kill(job)


def test_launching(
    world: FaultWorld, jobs: Mapping[str, Job], holders: Mapping[str, Job], flags: Path,
    kill: Callable[[Job], None],
) -> None:  # fmt: skip
    """An agent that hangs at the barrier keeps the gang in this phase."""
    job = jobs["launching"]
    status = world.until(job, lambda s: s.ready == 1, "agent that is ready")
    ready = next(task for task in status.tasks if task.state == "ready")
    world.signal_agent(job, ready.container, signal.SIGSTOP)
    (flags / "nm3").touch()
    world.until_phase(job, Phase.LAUNCHING)
    kill(job)


def test_running(world: FaultWorld, jobs: Mapping[str, Job], kill: Callable[[Job], None]) -> None:
    """Processes that ignore SIGTERM are killed after the grace time."""
    world.until_phase(jobs["running"], Phase.RUNNING)
    kill(jobs["running"])


def test_stopping(world: FaultWorld, jobs: Mapping[str, Job], kill: Callable[[Job], None]) -> None:
    """A second kill while the first one waits for the grace time."""
    job = jobs["stopping"]
    world.until_phase(job, Phase.RUNNING)
    first = world.yarnam("kill", job.id, "--reason", "a test")
    try:
        world.until_phase(job, Phase.STOPPING)
        kill(job)
    finally:
        done = first.wait()
    assert done.code == 0, done


def test_an_am_that_hangs(
    world: FaultWorld, jobs: Mapping[str, Job], kill: Callable[[Job], None]
) -> None:
    """It cannot cancel the job, so YARN does."""
    job = jobs["silent"]
    world.until_phase(job, Phase.RUNNING)
    os.kill(world.am_pid(job), signal.SIGSTOP)
    kill(job)


def test_killed_through_yarn(world: FaultWorld, jobs: Mapping[str, Job]) -> None:
    """With YARN's own tools: the same verdict, from YARN's words."""
    job = jobs["through-yarn"]
    world.until_phase(job, Phase.RUNNING)
    world.site.rm.kill(job.id)
    done = world.yarnam("watch", job.id).wait(LIMIT_S)
    assert done.code == ExitCode.CANCELLED, done
    assert "killed through YARN" in done.out, done
    world.assert_cleared(job)


def test_after_the_end(world: FaultWorld) -> None:
    """Changes nothing."""
    job = world.submit("kill-ended", ["true"], worker=ONE)
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED
    done = world.yarnam("kill", job.id).wait()
    assert (done.code, done.out) == (0, f"{job.id} was over already: SUCCEEDED\n"), done
    assert world.yarnam("watch", job.id).wait().code == 0
    world.assert_cleared(job)

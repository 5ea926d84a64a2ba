"""``yarnam kill`` at the phases that are hard to meet: CANCELLED with 93, and nothing is left.

While a gang backs off: test_faults_gang.py; at the other phases: test_submit_jobs.py."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.fault_world import MARKS, STUBBORN, waiting_for
from yarnam.core.model.job_status import JobState, Phase
from yarnam.core.model.outcomes import VerdictKind
from yarnam.errors import ExitCode

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

pytestmark = [*MARKS, pytest.mark.timeout(900)]

AT_ONCE = 3
ONE = {"tasks": 1}

JOBS: dict[str, dict[str, Any]] = {
    # 60 GiB are more than the half of its queue's share that ApplicationMasters may use.
    "queued": {"queue": "root.small", "am": {"memory": "60GiB"}, "worker": ONE, "nodes": ["nm4"]},
    "launching": {
        "gang": {"look_before_ask": False, "hold_timeout": "1h", "launch_timeout": "1h"},
        "am": {"agent_silence": "1h"},
        "nodes": ["nm3"],
    },
    "stopping": {"worker": ONE, "am": {"stop_grace": "8s"}, "nodes": ["nm4"]},
    "silent": {"worker": ONE, "nodes": ["nm4"]},
}


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("flags")


@pytest.fixture(scope="module")
def holder(world: FaultWorld, flags: Path) -> Iterator[Job]:
    """Leaves one GPU of nm3 free until its flag is there."""
    worker = {"tasks": 1, "gpus": 7, "processes_per_task": 1}
    job = world.submit("holds-nm3", waiting_for(flags / "nm3"), worker=worker, nodes=["nm3"])
    world.until_phase(job, Phase.RUNNING)
    yield job
    (flags / "nm3").touch()
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED
    world.assert_cleared(job)


@pytest.fixture(scope="module")
def jobs(world: FaultWorld, holder: Job) -> Mapping[str, Job]:
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
        assert f"{job.id} is finished: CANCELLED" in done.out, done
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


@pytest.mark.long
def test_launching(
    world: FaultWorld, jobs: Mapping[str, Job], flags: Path,
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
    """It cannot cancel the job, so YARN does. Until then the job is what it last was."""
    job = jobs["silent"]
    world.until(job, lambda s: s.state is JobState.RUNNING and not s.is_last_known, "AM that runs")
    os.kill(world.am_pid(job), signal.SIGSTOP)
    shown = world.yarnam("status", job.id).wait()
    assert "RUNNING as of " in shown.out, shown
    assert "its ApplicationMaster does not answer" in shown.out
    assert "DEADLINE" not in shown.out
    kill(job)

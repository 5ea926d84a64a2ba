"""All or none where the room is too small: what is held is given back, tried again, and given up
with the history; and as soon as there is room the job runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.fault_world import LIMIT_S, MARKS, waiting_for
from yarnam.core.model.events import ContainerGranted, TaskStarted, TimerFired, TimerKind
from yarnam.core.model.job_status import JobState, Phase
from yarnam.core.model.outcomes import VerdictKind
from yarnam.errors import ExitCode

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

pytestmark = [*MARKS, pytest.mark.timeout(900)]

RACK1 = ["nm1", "nm2"]
FREE = 4
"""GPUs that the holder leaves on the two nodes of rack 1."""

GREEDY = {"look_before_ask": False, "hold_timeout": "3s", "attempts": 2}
JOBS: dict[str, dict[str, Any]] = {
    "gives-up": {"gang": {**GREEDY, "backoff": {"base": "1s", "cap": "2s"}}},
    # Its wait is drawn from a day, so that there is time to look at the books meanwhile.
    "backs-off": {"gang": {**GREEDY, "backoff": {"base": "24h", "cap": "24h"}}},
    "waits": {"gang": {"backoff": {"base": "500ms", "cap": "1s"}}},
}


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("flags")


@pytest.fixture(scope="module")
def holder(world: FaultWorld, flags: Path) -> Iterator[Job]:
    """Holds 12 of the 16 GPUs of rack 1 until it is told to end."""
    worker = {"tasks": 2, "gpus": 6, "processes_per_task": 1}
    job = world.submit("holder", waiting_for(flags / "end"), worker=worker, nodes=RACK1)
    world.until_phase(job, Phase.RUNNING)
    assert world.gpus_of(job) == 12
    yield job
    (flags / "end").touch()
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED
    world.assert_cleared(job)


@pytest.fixture(scope="module")
def jobs(world: FaultWorld, holder: Job, flags: Path) -> Mapping[str, Job]:
    """Three jobs of six GPUs while four are free. Each process leaves a trace when it starts."""
    with ThreadPoolExecutor(3) as pool:
        submitted = {
            name: pool.submit(
                world.submit,
                f"gang-{name}",
                f"touch {flags}/{name}-$YARNAM_RANK",
                worker={"tasks": 6},
                nodes=RACK1,
                **changes,
            )
            for name, changes in JOBS.items()
        }
        found = {name: future.result() for name, future in submitted.items()}
    # The tests come in any order, and one of them makes room.
    found["gives-up"].wait(LIMIT_S)
    world.until(
        found["backs-off"],
        lambda s: bool(s.history) and s.phase == Phase.BACKING_OFF.value,
        "failed attempt",
    )
    return found


def test_a_gang_that_cannot_be_had_is_given_up_with_its_history(
    world: FaultWorld, jobs: Mapping[str, Job], flags: Path
) -> None:
    job = jobs["gives-up"]
    done = world.yarnam("watch", job.id).wait(LIMIT_S)
    assert done.code == ExitCode.GANG_TIMEOUT, done
    assert "could not be started in 2 attempts" in done.out, done
    assert "attempt 1 at" in done.out, done
    assert "attempt 2 at" in done.out, done
    assert "the hold of 3 s ended with" in done.out, done
    assert "gang.hold_timeout" in done.out, done
    first, second = job.status().history
    for record in (first, second):
        assert record.asked == 6
        assert 0 < record.granted <= FREE
    assert not world.events(job, TaskStarted)
    assert not list(flags.glob("gives-up-*")), "a process ran without the whole gang"
    world.assert_cleared(job)


def test_a_gang_that_backs_off_holds_nothing(
    world: FaultWorld, jobs: Mapping[str, Job], flags: Path
) -> None:
    """By the ResourceManager's records, not by our own; and it can be killed there."""
    job = jobs["backs-off"]
    status = job.status()
    assert status.phase == Phase.BACKING_OFF.value
    assert "hold of 3 s ended" in status.reason
    assert world.events(job, ContainerGranted)
    assert [e.timer.kind for e in world.events(job, TimerFired)][-1] is TimerKind.HOLD
    released_at = time.monotonic()
    while held := world.gpus_of(job):
        assert time.monotonic() - released_at < 30, f"{held} GPUs are still held"
        time.sleep(0.2)
    assert world.rm(f"apps/{job.id}")["app"]["runningContainers"] == 1, "more than the AM's own"
    assert job.status().phase == Phase.BACKING_OFF.value
    killed = world.yarnam("kill", job.id).wait()
    assert "is finished: CANCELLED" in killed.out, killed
    assert job.wait(LIMIT_S).exit_code == ExitCode.CANCELLED
    assert not list(flags.glob("backs-off-*"))
    world.assert_cleared(job)


def test_a_waiting_gang_starts_when_there_is_room(
    world: FaultWorld, jobs: Mapping[str, Job], flags: Path
) -> None:
    """It looks before it asks: until then it has asked for nothing and used up no attempt."""
    job = jobs["waits"]
    status = world.until(job, lambda s: s.wait_queue is not None, "place in the wait queue")
    assert status.state is JobState.QUEUED
    assert not status.history
    assert "6" in status.reason, status.reason
    assert not list(flags.glob("waits-*"))
    (flags / "end").touch()
    verdict = world.end_of(job)
    assert verdict.kind is VerdictKind.SUCCEEDED, verdict
    assert len(list(flags.glob("waits-*"))) == 6
    assert len(job.status().history) == 1
    world.assert_cleared(job)


@pytest.mark.shapes
def test_two_gangs_that_do_not_fit_together_both_finish(world: FaultWorld) -> None:
    """Five and five on eight GPUs, both asking blindly: each could hold what the other lacks.

    YARN grants one container per node and heartbeat (1 s), so eight take eight seconds, and a
    head start of two is enough. On a busy machine five agents need more than a quarter of a minute
    to start."""
    gang = {
        "look_before_ask": False,
        "hold_timeout": "30s",
        "attempts": 30,
        "backoff": {"base": "8s", "cap": "16s"},
    }

    def submit(name: str) -> Job:
        return world.submit(name, "sleep 3", worker={"tasks": 5}, nodes=["nm3"], gang=gang)

    with ThreadPoolExecutor(2) as pool:
        pair = list(pool.map(submit, ["five-a", "five-b"]))
    for job in pair:
        verdict = world.end_of(job, 2 * LIMIT_S)
        assert verdict.kind is VerdictKind.SUCCEEDED, verdict
    for job in pair:
        world.assert_cleared(job)

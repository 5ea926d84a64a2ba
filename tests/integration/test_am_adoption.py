"""An ApplicationMaster that dies while its gang runs: the next attempt adopts the containers,
agents and processes, and nothing restarts."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.fault_world import AM, JAVA_AM, MARKS, kill_now
from yarnam.core.model.events import AmRestarted, SuspendRequested
from yarnam.core.model.job_status import JobState, Phase
from yarnam.core.model.outcomes import VerdictKind
from yarnam.errors import ExitCode

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job
    from yarnam.core.model.job_status import JobStatus

pytestmark = [*MARKS, pytest.mark.timeout(900)]

TRAINS = """
import os, sys, time
from pathlib import Path
from yarnam import train
place = Path(sys.argv[1])
step = 0
while not (place / "finish").exists():
    step += 1
    train.report(step=step, total_steps=1_000_000)
    time.sleep(0.05)
rank = os.environ["YARNAM_RANK"]
(place / f"steps-{rank}-{os.getpid()}").write_text(str(step))
"""

OFTEN = {"attempts": 2, "attempts_interval": "2s"}
"""YARN forgets each death before the next one."""


def submit(world: FaultWorld, name: str, place: Path, **changes: Any) -> Job:
    place.mkdir(exist_ok=True)
    changes.setdefault("retry", {"max_restarts": 0})
    return world.submit(name, ["python3", "-c", TRAINS, str(place)], **changes)


def processes(world: FaultWorld, job: Job) -> Mapping[int, int]:
    """The training processes: pid and start time."""
    found = {}
    for pid in world.pids(job, "place = Path(sys.argv[1])"):
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            found[pid] = int(fields[19])
    return found


def until_adopted(world: FaultWorld, job: Job, attempt: int) -> JobStatus:
    """The AM attempt shows steps that it has from the agents itself."""

    def is_heard(status: JobStatus) -> bool:
        is_news = status.am_attempt == attempt and not status.is_last_known
        is_running = status.phase == Phase.RUNNING.value and bool(status.tasks)
        return is_news and is_running and all(task.step for task in status.tasks)

    return world.until(job, is_heard, f"steps by AM attempt {attempt}")


@pytest.mark.shapes
@pytest.mark.parametrize(
    "part",
    [pytest.param(AM, id="python"), pytest.param(JAVA_AM, id="java", marks=pytest.mark.long)],
)
def test_no_process_restarts_and_no_step_is_lost(
    world: FaultWorld, tmp_path: Path, part: str
) -> None:
    place = tmp_path / "place"
    job = submit(world, "adopted" if part == AM else "adopted-java", place)
    before = until_adopted(world, job, 1)
    same = processes(world, job)
    assert len(same) == len(before.tasks)
    killed_at = time.monotonic()
    kill_now(world.am_pid(job, part))
    after = until_adopted(world, job, 2)
    print(f"without an AM for {time.monotonic() - killed_at:.1f} s")
    assert (after.phase, after.attempt) == (Phase.RUNNING.value, before.attempt)
    assert after.state is JobState.RUNNING
    assert (after.step or 0) > (before.step or 0)
    assert processes(world, job) == same
    (place / "finish").touch()
    verdict = world.end_of(job)
    assert verdict.kind is VerdictKind.SUCCEEDED, verdict
    ends = list(place.glob("steps-*"))
    assert {int(end.name.rpartition("-")[2]) for end in ends} == set(same)
    (restarted,) = world.events(job, AmRestarted)
    assert len(restarted.kept) == len(before.tasks)
    world.assert_cleared(job)


@pytest.mark.long
def test_a_task_that_ends_while_there_is_no_am_is_a_lost_one(
    world: FaultWorld, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    job = submit(
        world, "ends-unseen", place, retry={"max_restarts": 1, "blacklist": {"strikes": 0}}
    )
    before = until_adopted(world, job, 1)
    victim = before.tasks[-1]
    kept = {pid for pid in processes(world, job) if world.container_of(pid) != victim.container}
    java = world.am_pid(job, JAVA_AM)
    kill_now(world.am_pid(job, AM))
    kill_now(java)
    world.signal_agent(job, victim.container, signal.SIGKILL)
    world.until(job, lambda s: s.am_attempt == 2 and s.restarts == 1, "a restart")
    status = until_adopted(world, job, 2)
    *_, first, second = status.history
    assert "in place" in first.outcome, first
    assert (second.asked, second.granted, second.kept) == (1, 1, len(before.tasks) - 1)
    assert not kept & set(processes(world, job)), "all start again, in the containers that are left"
    (place / "finish").touch()
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED
    world.assert_cleared(job)


@pytest.mark.long
def test_a_process_that_ends_well_while_there_is_no_am(world: FaultWorld, tmp_path: Path) -> None:
    """Its agent tells the next AM how it ended."""
    place = tmp_path / "place"
    job = submit(world, "succeeds-unseen", place)
    until_adopted(world, job, 1)
    kill_now(world.am_pid(job, JAVA_AM))
    (place / "finish").touch()
    verdict = world.end_of(job)
    assert verdict.kind is VerdictKind.SUCCEEDED, verdict
    status = job.status()
    assert (status.am_attempt, status.attempt, status.restarts) == (2, 1, 0)
    world.assert_cleared(job)


@pytest.mark.long
def test_a_suspend_while_there_is_no_am(world: FaultWorld, tmp_path: Path) -> None:
    """The next one obeys it, once."""
    place = tmp_path / "place"
    job = submit(world, "suspended-unseen", place)
    until_adopted(world, job, 1)
    java = world.am_pid(job, JAVA_AM)
    kill_now(world.am_pid(job, AM))
    kill_now(java)
    done = world.yarnam("suspend", job.id, "--force", "--reason", "a demo").wait()
    assert done.code == ExitCode.UNAVAILABLE, done
    assert "the next ApplicationMaster finds the request and obeys it" in done.err, done
    status = world.until(job, lambda s: s.state is JobState.SUSPENDED, "a suspended job")
    assert status.am_attempt == 2
    assert status.reason.endswith(": a demo")
    assert len(world.events(job, SuspendRequested)) == 1
    assert world.yarnam("resume", job.id).wait().code == 0
    (place / "finish").touch()
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED
    world.assert_cleared(job)


@pytest.mark.long
def test_an_am_that_dies_again_and_again(world: FaultWorld, tmp_path: Path) -> None:
    place, dice = tmp_path / "place", random.Random(time.time_ns())
    job = submit(world, "adopted-often", place, am=OFTEN)
    before = until_adopted(world, job, 1)
    same = processes(world, job)
    deaths = int(os.environ.get("YARNAM_AM_DEATHS", "8"))
    for number in range(1, deaths + 1):
        time.sleep(dice.uniform(0.0, 2.0))
        kill_now(world.am_pid(job, dice.choice((AM, JAVA_AM))))
        until_adopted(world, job, number + 1)
        assert processes(world, job) == same
    (place / "finish").touch()
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED
    status = job.status()
    assert (status.am_attempt, status.attempt) == (deaths + 1, before.attempt)
    world.assert_cleared(job)


@pytest.mark.long
def test_an_am_that_dies_at_any_moment(world: FaultWorld, tmp_path: Path) -> None:
    """From the submit on: whatever the gang does, it ends well and nothing is left behind."""
    dice = random.Random(time.time_ns())
    for number in range(6):
        place = tmp_path / f"place-{number}"
        job = submit(world, f"adopted-early-{number}", place, am=OFTEN)
        time.sleep(dice.uniform(0.0, 5.0))
        with suppress(AssertionError):
            kill_now(world.am_pid(job, dice.choice((AM, JAVA_AM))))
        world.until(job, lambda s: s.am_attempt == 2, "second AM")
        until_adopted(world, job, 2)
        (place / "finish").touch()
        assert world.end_of(job).kind is VerdictKind.SUCCEEDED
        world.assert_cleared(job)

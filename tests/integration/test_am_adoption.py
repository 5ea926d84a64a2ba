"""An ApplicationMaster that dies while its gang runs: the next attempt adopts the containers,
agents and processes, and nothing restarts."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.fault_world import AM, JAVA_AM, MARKS, kill_now
from yarnam.core.model.events import AmRestarted
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import VerdictKind

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

pytestmark = [*MARKS, pytest.mark.timeout(600)]

COMMAND = "while [ ! -e FLAG ]; do sleep 0.2; done"


def submit(world: FaultWorld, name: str, flag: Path, **changes: Any) -> Job:
    return world.submit(
        name,
        ["bash", "-c", COMMAND.replace("FLAG", str(flag))],
        retry={"max_restarts": 1},
        **changes,
    )


def processes(world: FaultWorld, job: Job) -> Mapping[int, int]:
    """The training processes: pid and start time."""
    found = {}
    for pid in world.pids(job, "while [ ! -e"):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        found[pid] = int(fields[19])
    return found


@pytest.mark.parametrize("part", [AM, JAVA_AM])
def test_no_process_restarts(world: FaultWorld, tmp_path: Path, part: str) -> None:
    flag = tmp_path / "flag"
    job = submit(world, "adopted" if part == AM else "adopted-java", flag)
    before = world.until_phase(job, Phase.RUNNING)
    pids = processes(world, job)
    assert pids
    killed_at_s = time.time()
    kill_now(world.am_pid(job, part))
    after = world.until(job, lambda status: status.am_attempt == 2, "second AM")
    print(f"without an AM for {time.time() - killed_at_s:.1f} s")
    if after.phase != Phase.RUNNING.value:
        for event in job.events()[-12:]:
            print(event)
        print(job.status())
    assert after.phase == Phase.RUNNING.value
    assert after.attempt == before.attempt
    time.sleep(12.0)
    assert processes(world, job) == pids, "the same processes"
    assert job.status().phase == Phase.RUNNING.value
    flag.touch()
    verdict = world.end_of(job)
    assert verdict.kind is VerdictKind.SUCCEEDED, verdict
    (restarted,) = world.events(job, AmRestarted)
    assert len(restarted.kept) == len(before.tasks)
    world.assert_cleared(job)

"""A job waits for others, and holds nothing but its ApplicationMaster: on a real cluster."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.fault_world import MARKS, kill_now, waiting_for
from yarnam.core.model.job_status import JobState
from yarnam.core.model.outcomes import VerdictKind
from yarnam.errors import DependencyFailed, ExitCode

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

pytestmark = MARKS

WRITE = """
import os, sys, time
from hdfs_utils import connect
from yarnam import train

while not os.path.exists(sys.argv[1]):
    time.sleep(0.1)
place = train.output_directory()
connect(place).write_bytes(f"{place}/rows", b"rows")
"""

READ = """
import os
from hdfs_utils import connect

place = os.environ["YARNAM_INPUT_ROWS"]
assert connect(place).read_bytes(f"{place}/rows", max_bytes=10) == b"rows"
"""

ONE = {"tasks": 1}


def containers_of(world: FaultWorld, job: Job) -> int:
    found = world.site.rm.application(job.id)
    assert found is not None
    return found.running_containers


def test_a_job_begins_when_the_one_before_has_succeeded(world: FaultWorld, tmp_path: Path) -> None:
    """It reads what the other one writes; its first ApplicationMaster dies meanwhile."""
    output = f"/tmp/{tmp_path.name}-rows"
    go = tmp_path / "go"
    first = world.submit(
        "prep", ["python3", "-c", WRITE, str(go)], worker=ONE, data={"outputs": {"path": output}}
    )
    spec = world.document(
        "train", ["python3", "-c", READ], worker=ONE,
        data={"inputs": [{"path": output, "name": "rows"}]}, depends_on=["prep"],
    )  # fmt: skip
    second = world.client.submit(world.write(spec))
    world.jobs.append(second)
    reason = f"waiting for prep ({first.id}, RUNNING) to succeed"
    status = world.until(second, lambda s: s.reason == reason, "its reason to wait")
    assert status.state is JobState.QUEUED
    assert (containers_of(world, second), world.gpus_of(second)) == (1, 0)
    shown = world.yarnam("queues", "why", second.id, "--json").wait()
    assert json.loads(shown.out)[0]["cause"] == "earlier-jobs", shown.out
    assert f"waits for prep ({first.id}" in world.yarnam("ps").wait().out

    kill_now(world.am_pid(second))
    world.until(
        second, lambda s: s.am_attempt == 2 and s.reason == reason, "second AM, which waits"
    )
    go.touch()
    assert world.end_of(first).kind is VerdictKind.SUCCEEDED
    ended = time.monotonic()
    world.until(second, lambda s: not s.awaited, "the end of its wait")
    print(f"requests its gang {time.monotonic() - ended:.1f} s after the end of the first job")
    assert world.end_of(second).kind is VerdictKind.SUCCEEDED
    world.assert_cleared(second)
    world.site.files.delete(output, recursive=True)


def test_a_job_ends_when_success_cannot_come_any_more(world: FaultWorld, tmp_path: Path) -> None:
    first = world.submit("fails", f"{waiting_for(tmp_path / 'go')}; exit 3")
    strict = world.submit("strict", "true", depends_on=[{"job": first.id}])
    other = world.submit("any-end", "true", depends_on=[{"job": "fails", "when": "ended"}])
    for job in (strict, other):
        world.until(job, lambda s: bool(s.awaited), "its reason to wait")
    (tmp_path / "go").touch()
    verdict = world.end_of(strict)
    assert verdict.exit_code == ExitCode.DEPENDENCY_FAILED
    assert first.id in verdict.message
    assert world.end_of(other).kind is VerdictKind.SUCCEEDED
    with pytest.raises(DependencyFailed):
        world.submit("too-late", "true", depends_on=["fails"])

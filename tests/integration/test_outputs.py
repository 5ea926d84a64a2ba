"""Outputs on a real cluster: there whole when the job has succeeded, and not at all before."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hdfs_utils import FileSystem, connect
from hdfs_utils.outputs.committer import MANIFEST, SUCCESS
from tests.integration.fault_world import LIMIT_S, MARKS
from yarnam.core.model.events import StoringTroubled, TaskStarted
from yarnam.core.model.job_status import JobState, Phase
from yarnam.core.model.outcomes import VerdictKind
from yarnam.errors import BadSpec, ExitCode

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

pytestmark = [*MARKS, pytest.mark.timeout(600)]

# Every rank writes a name of its own, one that all have, and one that all have in a directory.
WRITE = """
import os, sys, time
from hdfs_utils import connect
from yarnam import train

rank, place = train.rank(), train.output_directory()
fs = connect(place)
fs.write_bytes(f"{place}/rank-{rank}", b"x" * (rank + 1))
fs.write_bytes(f"{place}/log", b"rank %d" % rank)
for number in range(int(sys.argv[2])):
    fs.write_bytes(f"{place}/many/{rank}-{number}", b"1")
left_open = fs.open_writer(f"{place}/left-open-{rank}")
left_open.write(b"open")
left_open.sync()
train.report(step=1, total_steps=2)
flag = sys.argv[3]
while flag and not os.path.exists(flag):
    time.sleep(0.1)
os._exit(int(sys.argv[1]))
"""

Submit = Callable[..., "Job"]


@pytest.fixture(scope="module")
def fs(world: FaultWorld) -> FileSystem:
    return connect(conf_dir=str(world.cluster.conf_dir))


@pytest.fixture(scope="module")
def home(fs: FileSystem) -> Iterator[str]:
    directory = f"/tmp/outputs-{uuid.uuid4().hex[:8]}"
    fs.mkdirs(directory)
    yield directory
    fs.delete(directory, recursive=True)


@pytest.fixture(scope="module")
def submit(world: FaultWorld, home: str, tmp_path_factory: pytest.TempPathFactory) -> Submit:
    code = tmp_path_factory.mktemp("outputs") / "code"
    code.mkdir()
    (code / "write.py").write_text(WRITE)

    def call(name: str, code_: int = 0, many: int = 3, flag: str = "", **outputs: Any) -> Job:
        return world.submit(
            f"writes-{name}",
            ["python3", "code/write.py", str(code_), str(many), flag],
            code=str(code),
            data={"outputs": {"path": f"{home}/{name}/result", **outputs}},
            am={"attempts": 6},
        )

    return call


@pytest.fixture(scope="module")
def jobs(world: FaultWorld, fs: FileSystem, home: str, submit: Submit) -> dict[str, Job]:
    """Side by side, and over."""
    fs.write_bytes(f"{home}/replaces/result/theirs", b"theirs")
    asked: dict[str, dict[str, Any]] = {
        "succeeds": {},
        "replaces": {"replace": True},
        "discards": {"code_": 3},
        "keeps": {"code_": 3, "on_failure": "keep"},
    }
    with ThreadPoolExecutor(len(asked)) as pool:
        futures = {name: pool.submit(submit, name, **how) for name, how in asked.items()}
        found = {name: future.result() for name, future in futures.items()}
    for job in found.values():
        world.end_of(job)
    return found


def names(fs: FileSystem, path: str) -> set[str]:
    return {status.path[len(path) + 1 :] for status in fs.walk(path) if not status.is_dir}


def whole(many: int = 3) -> set[str]:
    each = {f"many/{rank}-{number}" for rank in range(2) for number in range(many)}
    own = {"rank-0", "rank-1", "left-open-0", "left-open-1", "log", "log.worker-1"}
    return each | own | {MANIFEST, SUCCESS}


def assert_whole(fs: FileSystem, home: str, job: Job, many: int = 3) -> None:
    assert names(fs, f"{home}/result") == whole(many)
    assert {status.path for status in fs.list(home)} == {f"{home}/result"}
    manifest = json.loads(fs.read_bytes(f"{home}/result/{MANIFEST}"))
    assert manifest["owner"] == job.id
    lengths = {one["path"]: one["length"] for one in manifest["listed"]}
    assert {name: fs.stat(f"{home}/result/{name}").length for name in lengths} == lengths
    assert set(lengths) == whole(many) - {MANIFEST, SUCCESS}
    assert fs.read_bytes(f"{home}/result/log") == b"rank 0"
    assert fs.read_bytes(f"{home}/result/log.worker-1") == b"rank 1"
    assert fs.read_bytes(f"{home}/result/left-open-1") == b"open"


def test_there_when_all_have_succeeded(
    world: FaultWorld, fs: FileSystem, home: str, jobs: dict[str, Job]
) -> None:
    job, home = jobs["succeeds"], f"{home}/succeeds"
    verdict = world.end_of(job)
    assert verdict.kind is VerdictKind.SUCCEEDED
    assert "12 files of output (29 B) stored, 1 under another name" in verdict.message
    assert_whole(fs, home, job)
    output = job.status().output
    assert output is not None
    assert (output.files, output.size_bytes, output.is_stored) == (12, 29, True)
    shown = world.yarnam("status", job.id).wait()
    assert f"output: 12 files of 29 B (1 under another name) in {home}/result" in shown.out


def test_refused_when_it_is_there_already(jobs: dict[str, Job], submit: Submit) -> None:
    assert jobs["succeeds"]
    with pytest.raises(BadSpec, match="already exists"):
        submit("succeeds")


def test_replaced_when_that_is_asked_for(
    world: FaultWorld, fs: FileSystem, home: str, jobs: dict[str, Job]
) -> None:
    job = jobs["replaces"]
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED
    assert_whole(fs, f"{home}/replaces", job)


def test_a_job_that_fails_leaves_nothing(
    world: FaultWorld, fs: FileSystem, home: str, jobs: dict[str, Job]
) -> None:
    assert world.end_of(jobs["discards"]).exit_code == ExitCode.USER_FAILED
    assert fs.list(f"{home}/discards") == []


def test_or_what_its_tasks_wrote_if_that_is_asked_for(
    world: FaultWorld, fs: FileSystem, home: str, jobs: dict[str, Job]
) -> None:
    job = jobs["keeps"]
    verdict = world.end_of(job)
    assert verdict.exit_code == ExitCode.USER_FAILED
    partial = f"{home}/keeps/result.partial.{job.id}"
    assert [status.path for status in fs.list(f"{home}/keeps")] == [partial]
    assert partial in verdict.hint
    assert {name.rpartition("/")[2] for name in names(fs, partial)} & {"rank-0", "rank-1"}


def quota(world: FaultWorld, home: str, *how: str) -> None:
    command = ["hdfs", "dfsadmin", *how, home]
    subprocess.run(command, env=world.environ, check=True, capture_output=True, timeout=60)


@pytest.mark.long
def test_the_am_killed_while_it_stores(
    world: FaultWorld, fs: FileSystem, home: str, submit: Submit, tmp_path: Path
) -> None:
    """A quota of names holds it up; the next AM goes on storing and runs nothing again."""
    home, flag = f"{home}/killed", tmp_path / "flag"
    job = submit("killed", flag=str(flag))
    world.until(job, lambda s: all(t.step == 1 for t in s.tasks) and s.tasks, "all written")
    quota(world, home, "-setQuota", "1")
    flag.touch()
    world.until_phase(job, Phase.STORING)
    status = world.until(job, lambda s: "quota" in s.reason.lower(), "reason")
    assert status.state is JobState.STORING
    assert status.deadline_s is not None
    started = len(world.events(job, TaskStarted))
    os.kill(world.am_pid(job), signal.SIGKILL)
    world.until(job, lambda s: s.am_attempt == 2 and "quota" in s.reason.lower(), "second AM")
    assert job.status().state is JobState.STORING
    assert not fs.exists(f"{home}/result")
    quota(world, home, "-clrQuota")
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED
    assert_whole(fs, home, job)
    assert len(world.events(job, TaskStarted)) == started
    assert world.events(job, StoringTroubled)


@pytest.mark.chaos
@pytest.mark.slow
def test_the_am_killed_at_random_moments_while_it_stores(
    world: FaultWorld, fs: FileSystem, home: str, submit: Submit
) -> None:
    """Names that both tasks have used make many renames, so that there are moments enough. YARN
    gives an AM two lives here, so each job has one to lose."""
    many, kills = 40, 0
    for number in range(3):
        place = f"{home}/random-{number}"
        job = submit(f"random-{number}", many=many)
        deadline = time.monotonic() + LIMIT_S
        pid = world.am_pid(job)
        while (status := job.status()).phase != Phase.STORING.value and status.verdict is None:
            assert time.monotonic() < deadline, status
            time.sleep(0.02)
        if status.verdict is None:
            time.sleep(random.uniform(0.0, 0.5))
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                kills += 1
            there = names(fs, f"{place}/result") if fs.exists(f"{place}/result") else set()
            assert there in (set(), whole(many)), "half an output"
        assert world.end_of(job).kind is VerdictKind.SUCCEEDED
        assert_whole(fs, place, job, many)
    assert kills > 0, "each was over before it could be killed"

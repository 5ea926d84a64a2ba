"""Faults of the job's own code: the verdict is USER_FAILED, names the first process that failed,
and shows its last lines."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.fault_world import MARKS
from yarnam.errors import ExitCode

if TYPE_CHECKING:
    from tests.integration.fault_world import Done, FaultWorld
    from yarnam.client import Job

pytestmark = [*MARKS, pytest.mark.long]

AT_ONCE = 3
LONG = 10_000_000
"""Bytes of one line: larger than every buffer on its way."""

GARBAGE = f"""
import os, sys
out = sys.stdout.buffer
out.write(bytes(range(256)) * 4 + b"\\n")
out.write(b"\\x1b[2J\\x1b]0;title\\x07\\xff\\xfe" + b"\\n")
out.write(b"L" * {LONG} + b"\\n")
out.write(b"the end\\n")
out.flush()
os._exit(9)
"""

FULL = "with open('/dev/full', 'w') as log: print('x' * 100, file=log)"


@dataclass(frozen=True)
class Failure:
    """A job that fails by its own fault, and what must be said of it."""

    command: str | list[str]
    said: tuple[str, ...]
    changes: dict[str, Any] = field(default_factory=dict)
    code: ExitCode = ExitCode.USER_FAILED


FAILURES = {
    # Rank 1 fails; rank 0 would go on for ever and has to be stopped.
    "exit-code": Failure(
        'if [ "$YARNAM_RANK" = 1 ]; then echo "bad weights" >&2; exit 3; fi; sleep 600',
        ("worker-1 (rank 1)", "exited with code 3", "| bad weights"),
    ),
    "no-python": Failure(
        ["python3", "train.py"],
        ("command not found", "python9.9"),
        {"worker": {"tasks": 1}, "environment": {"python": "python9.9"}},
    ),
    "garbage": Failure(
        ["python3", "-c", GARBAGE],
        ("exited with code 9", "| the end", "…"),
        {"worker": {"tasks": 1}},
    ),
    # What a program meets that writes its logs to a full disk.
    "disk-full": Failure(
        ["python3", "-c", FULL],
        ("exited with code 1", "disk-full: OSError: [Errno 28] No space left on device"),
        # Another node's disk may have space: without this it would be tried there.
        {"worker": {"tasks": 1}, "retry": {"max_restarts": 0}},
        ExitCode.ATTEMPTS_EXHAUSTED,
    ),
}


@pytest.fixture(scope="module")
def jobs(world: FaultWorld) -> Mapping[str, Job]:
    """All of them on the cluster together."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        submitted = {
            case: pool.submit(world.submit, f"fails-{case}", failure.command, **failure.changes)
            for case, failure in FAILURES.items()
        }
        return {case: future.result() for case, future in submitted.items()}


@pytest.fixture(scope="module")
def endings(world: FaultWorld, jobs: Mapping[str, Job]) -> Mapping[str, Done]:
    """Of ``yarnam watch``: its exit code is the job's, its last words the verdict."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        watched = {
            case: pool.submit(lambda job=job: world.yarnam("watch", job.id).wait())
            for case, job in jobs.items()
        }
        return {case: future.result() for case, future in watched.items()}


@pytest.mark.timeout(400)  # the first one waits for all of them
@pytest.mark.parametrize("case", FAILURES)
def test_the_users_fault_is_told_to_the_user(
    world: FaultWorld, jobs: Mapping[str, Job], endings: Mapping[str, Done], case: str
) -> None:
    done = endings[case]
    assert done.code == FAILURES[case].code, done
    for words in FAILURES[case].said:
        assert words in done.out, f"{words!r} is not said: {done}"
    assert "yarnam logs" in done.out, done
    assert len(done.out) < 20_000, "the verdict is for reading"
    assert not set(done.out) & {"\x1b", "\0", "\x07"}, "control characters reach the terminal"
    assert len(jobs[case].status().history) == 1, "a fault of the user's is not tried again"
    world.assert_cleared(jobs[case])


@pytest.mark.timeout(400)
def test_every_byte_of_garbage_is_in_the_logs(
    world: FaultWorld, jobs: Mapping[str, Job], endings: Mapping[str, Done]
) -> None:
    """Aggregated by YARN: the whole of it, also a line longer than all buffers."""
    assert endings["garbage"].code == ExitCode.USER_FAILED
    expected = bytes(range(256)) * 4 + b"\n" + b"\x1b[2J\x1b]0;title\x07\xff\xfe\n"
    expected += b"L" * LONG + b"\nthe end\n"
    found = b"".join(p.data for p in jobs["garbage"].logs(rank=0) if not p.is_note)
    assert len(found) == len(expected)
    assert found == expected
    tail = world.yarnam("logs", jobs["garbage"].id, "--rank", "0", "--tail", "1").wait()
    assert (tail.code, tail.out) == (0, "the end\n"), tail


@pytest.mark.timeout(400)
def test_the_status_stays_json(
    world: FaultWorld, jobs: Mapping[str, Job], endings: Mapping[str, Done]
) -> None:
    assert endings["garbage"].code == ExitCode.USER_FAILED
    done = world.yarnam("status", jobs["garbage"].id, "--json").wait()
    assert done.code == 0, done
    assert json.loads(done.out)["verdict"]["exit_code"] == ExitCode.USER_FAILED


@pytest.fixture
def small_log_disk(world: FaultWorld) -> Iterator[Path]:
    """nm4's containers keep their logs on a small disk, yet with as much room as the NodeManager
    wants there to be (16 MiB): it looks every two minutes, and would call the node unhealthy."""
    world.until_nodes_are_back()
    logs = world.cluster.paths.data / "nm4" / "container-logs"
    assert logs.is_dir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m,mode=755", "tmpfs", str(logs)]
    subprocess.run(mount, check=True)
    try:
        yield logs
    finally:
        # Lazily: YARN may still have a log open that it is sending to HDFS.
        subprocess.run(["umount", "--lazy", str(logs)], check=True)
        world.until_nodes_are_back()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_full_disk_for_logs(world: FaultWorld, small_log_disk: Path) -> None:
    """Until its log's disk is full the job prints; then it is told so by its own write, fails, and
    the user hears why."""
    spam = "import sys\nfor _ in range(1024): sys.stdout.write('x' * 65535 + '\\n')"
    job = world.submit(
        "fills-its-disk", ["python3", "-c", spam], worker={"tasks": 1}, nodes=["nm4"]
    )
    done = world.yarnam("watch", job.id).wait()
    assert done.code == ExitCode.USER_FAILED, done
    assert "the disk of its logs is full" in done.out, done
    world.assert_cleared(job)

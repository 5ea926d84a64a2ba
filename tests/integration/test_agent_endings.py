"""How processes end, and what the agent says about it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.integration.agent_world import Container, World, shipped, small_job, world
from yarnam.core.model.job_spec import JobSpec
from yarnam.wire.pb import yarnam_pb2 as pb

pytestmark = [pytest.mark.grpc, pytest.mark.asyncio]


async def ended(here: World, container: Container) -> Any:
    container.start()
    await here.am.until(container.ask, pb.READY)
    await here.am.launch(container.job, [container.ask])
    return await here.am.until(container.ask, pb.EXITED)


async def run_one(tmp_path: Path, job: JobSpec) -> tuple[Any, Container]:
    """Run to the end; returns the only process's report."""
    async with world(tmp_path) as here:
        container = here.container(job)
        report = await ended(here, container)
        assert not container.user_processes()
        return report.processes[0], container


async def test_non_zero_exit(tmp_path: Path) -> None:
    process, _ = await run_one(tmp_path, small_job(["sh", "-c", "echo broken >&2; exit 42"]))
    assert (process.kind, process.code) == ("non-zero", 42)
    assert list(process.last_lines) == ["broken"]
    assert abs(process.ended_at_s - time.time()) < 30


async def test_killed_by_a_signal(tmp_path: Path) -> None:
    process, _ = await run_one(tmp_path, small_job(["sh", "-c", "kill -SEGV $$"]))
    assert (process.kind, process.signal, process.code) == ("signal", signal.SIGSEGV, 0)


LAUNCHER = """
import subprocess, sys
subprocess.run(["/bin/sh", "-c", sys.argv[1]], check=True)
"""


@pytest.mark.parametrize(
    ("child", "kind", "code", "number"),
    [("kill -KILL $$", "signal", 0, signal.SIGKILL), ("exit 42", "non-zero", 42, 0)],
)
async def test_a_launchers_process_ends_as_its_child(
    tmp_path: Path, child: str, kind: str, code: int, number: int
) -> None:
    process, _ = await run_one(tmp_path, small_job([sys.executable, "-c", LAUNCHER, child]))
    assert (process.kind, process.code, process.signal) == (kind, code, number)
    assert process.finding.failure == ("killed" if number else process.finding.failure)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["no-such-program", "x"], "'no-such-program' is not on PATH ("),
        (["./missing.sh"], "there is no /"),
        (["/dev"], "is a directory"),
        (["./plain.txt"], "has no execute permission"),
        (["./lost.sh"], "the interpreter in the first line"),
        (["./headless"], "without a #! line"),
        (["plain.txt"], "write ./plain.txt"),
    ],
)
async def test_command_not_found(tmp_path: Path, command: list[str], words: str) -> None:
    async with world(tmp_path) as here:
        names = ("plain.txt", "lost.sh", "headless")
        job = small_job(command)
        container = here.container(job)
        files = (
            shipped(container, "plain.txt", "text"),
            shipped(container, "lost.sh", "#!/no/such/interpreter\n", executable=True),
            shipped(container, "headless", "echo hello\n", executable=True),
        )
        assert len(files) == len(names)
        container.job = small_job(command, files=files)
        container.write_job()
        report = await ended(here, container)
        (process,) = report.processes
        assert process.kind == "command-not-found"
        assert words in process.last_lines[0]
        assert words.encode() in container.log(), "the log says it as well"
        states = [each.state for each in here.am.mailbox.reports[container.ask]]
        assert pb.STARTED not in states


async def test_binary_garbage_and_endless_lines(tmp_path: Path) -> None:
    program = (
        "import sys; out = sys.stdout.buffer\n"
        "out.write(bytes(range(256)) * 4096 + b'\\n')\n"
        "out.write(b'x' * 3_000_000 + b'\\n')\n"
        "out.write('\\u00fc\\x1b[31mred'.encode() + b'\\n')\n"
        "out.write(b'10%\\r20%\\r30%\\r')\n"
    )
    process, container = await run_one(tmp_path, small_job([sys.executable, "-c", program]))
    assert process.kind == "ok"
    lines = list(process.last_lines)
    assert lines[-1] == "30%"
    assert lines[-2] == "ü\\x1b[31mred"
    assert lines[-3] == "x" * 499 + "…"
    assert all(len(line) <= 500 for line in lines)
    assert len(container.log()) == 256 * 4096 + 1 + 3_000_001 + len("ü\x1b[31mred\n".encode()) + 12


async def test_only_the_last_twenty_lines_are_reported(tmp_path: Path) -> None:
    process, _ = await run_one(tmp_path, small_job(["seq", "1", "100"]))
    assert list(process.last_lines) == [str(number) for number in range(81, 101)]


async def test_one_failure_ends_the_tasks_other_processes(tmp_path: Path) -> None:
    # No shell above the sleep: it might see its child killed first, and exit with 137.
    program = "trap '' TERM; [ $YARNAM_LOCAL_RANK = 1 ] && { sleep 0.5; exit 3; }; exec sleep 600"
    job = small_job(["sh", "-c", program], processes=3, grace_s=0.5)
    async with world(tmp_path) as here:
        container = here.container(job)
        start = time.monotonic()
        report = await ended(here, container)
        assert [process.kind for process in report.processes] == ["stopped", "non-zero", "stopped"]
        assert report.processes[1].code == 3
        assert report.processes[0].signal == signal.SIGKILL, "SIGTERM was ignored"
        assert [process.rank for process in report.processes] == [0, 1, 2]
        assert time.monotonic() - start < 20
        assert not container.user_processes()


HANGING = (
    "import os, signal, sys, time\n"
    "from yarnam import train\n"
    "signal.signal(signal.SIGTERM, lambda *_: None)\n"
    "train.report(step=1)\n"
    "if os.environ['YARNAM_LOCAL_RANK'] == '1':\n"
    "    while not os.path.exists('up'):\n"
    "        time.sleep(0.02)\n"
    "    sys.exit(3)\n"
    "open('up', 'w').close()\n"
)


async def after_a_failure(tmp_path: Path, then: str) -> tuple[float, float, Any]:
    """How long after the failure of a peer the AM hears of it, how long after it all of the task
    have ended, and the report of the process that is left, which runs ``then``."""
    job = small_job([sys.executable, "-c", HANGING + then], processes=2, grace_s=8.0)
    job = replace(job, am=replace(job.am, failure_grace_s=1.0))
    async with world(tmp_path) as here:
        container = here.container(job, sdk=True)
        container.start()
        await here.am.until(container.ask, pb.READY)
        await here.am.launch(job, [container.ask])

        def is_failing(report: Any) -> bool:
            return report.state == pb.STARTED and any(p.ended for p in report.processes)

        failing = await here.am.mailbox.until(container.ask, is_failing)
        told_s = time.time()
        report = await here.am.until(container.ask, pb.EXITED)
        failed_s = failing.processes[1].ended_at_s
        return told_s - failed_s, time.time() - failed_s, report.processes[0]


async def test_who_waits_for_a_failed_peer_is_not_waited_for(tmp_path: Path) -> None:
    """Its collective hangs, so it would use up all of its grace."""
    told_s, ended_s, left = await after_a_failure(tmp_path, "time.sleep(600)\n")
    assert told_s < 1.0, "the AM hears of it before the others of the task have ended"
    assert 1.0 <= ended_s < 4.0, left
    assert (left.kind, left.signal) == ("stopped", signal.SIGKILL)


async def test_a_checkpoint_under_way_is_not_cut_off(tmp_path: Path) -> None:
    save = (
        "with train.pause('checkpoint'):\n    time.sleep(4)\n    print('saved')\ntime.sleep(600)\n"
    )
    _, ended_s, left = await after_a_failure(tmp_path, save)
    assert list(left.last_lines) == ["saved"]
    assert ended_s < 7.0, "and afterwards there is nothing to wait for"


async def test_what_a_process_leaves_behind_is_ended_with_the_task(tmp_path: Path) -> None:
    job = small_job(["sh", "-c", "setsid sleep 600 & echo $!"])
    async with world(tmp_path) as here:
        container = here.container(job)
        report = await ended(here, container)
        assert report.processes[0].kind == "ok"
        left = int(container.log().split()[0])
        assert not Path(f"/proc/{left}").exists()


async def test_what_a_daemon_started_for_it_is_ended_with_the_task(tmp_path: Path) -> None:
    """Not below the keeper, but with the environment that it was asked with."""
    job = small_job(["sleep", "600"])
    async with world(tmp_path) as here:
        container = here.container(job).start()
        with subprocess.Popen(
            ["sleep", "600"], env={"YARNAM_CONTAINER": container.container_id}
        ) as daemon:
            await here.am.until(container.ask, pb.READY)
            await here.am.launch(job, [container.ask])
            await here.am.until(container.ask, pb.STARTED)
            await here.am.mailbox.order(container.ask, stop=pb.Stop(attempt=1, grace_s=1))
            await here.am.until(container.ask, pb.EXITED)
            try:
                assert await asyncio.to_thread(daemon.wait, 5) == -signal.SIGKILL
            finally:
                daemon.kill()


async def test_stop_lets_the_training_save_first(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "from yarnam import train\n"
        "train.should_stop()\n"
        "print('training', flush=True)\n"
        "while not train.should_stop():\n"
        "    time.sleep(0.02)\n"
        "print('saved', flush=True)\n"
    )
    job = small_job([sys.executable, "-c", program])
    async with world(tmp_path) as here:
        container = here.container(job, sdk=True).start()
        await here.am.until(container.ask, pb.READY)
        await here.am.launch(job, [container.ask])
        await here.am.until(container.ask, pb.STARTED)
        await container.until_printed(b"training")
        stop = pb.Stop(attempt=1, grace_s=10, reason="test")
        await here.am.mailbox.order(container.ask, stop=stop)
        report = await here.am.until(container.ask, pb.EXITED)
        assert (report.processes[0].kind, report.processes[0].code) == ("stopped", 0)
        assert list(report.processes[0].last_lines) == ["training", "saved"]


async def test_full_disk_fails_the_users_write_and_hangs_nobody(tmp_path: Path) -> None:
    program = "import sys\nfor _ in range(10): print('x' * 10000)\nsys.stdout.flush()"
    job = small_job([sys.executable, "-c", program])
    async with world(tmp_path) as here:
        container = here.container(job)
        (container.logs / "worker-0.0.log").symlink_to("/dev/full")
        (container.logs / "agent.log").symlink_to("/dev/full")
        report = await ended(here, container)
        assert (report.processes[0].kind, report.processes[0].code) != ("ok", 0)
        assert report.processes[0].kind == "non-zero"
        await here.am.leave(container.ask)
        assert await container.exit_code() == 0


async def test_log_directory_that_cannot_be_written(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        container = here.container(small_job(["true"]))
        (container.logs / "worker-0.0.log").mkdir()
        report = await ended(here, container)
        assert report.processes[0].kind == "not-started"
        assert "cannot open its log" in report.processes[0].last_lines[0]

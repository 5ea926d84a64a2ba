"""Sessions in the tasks of a job on the real cluster, by the commands that a user gives."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

import pytest

from tests.integration.submit_world import BIN, Done, interrupt

if TYPE_CHECKING:
    from tests.integration.submit_world import SubmitWorld

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs, pytest.mark.slow, pytest.mark.timeout(400)]

UNTIL_TOLD = "echo started; until [ -e stop ]; do sleep 0.2; done"


@pytest.fixture
def job(submit_world: SubmitWorld) -> Iterator[str]:
    """Two tasks of a GPU each, which end when ``stop`` is in the directory of one."""
    spec = submit_world.spec(
        "hands-on", ["/bin/sh", "-c", UNTIL_TOLD],
        gpus=None, roles={"worker": {"tasks": 2, "gpus": 1}},
    )  # fmt: skip
    application = submit_world.submit(spec)
    try:
        submit_world.await_state(application, "RUNNING")
        yield application
    finally:
        submit_world.run("kill", application)


def exec_with(
    world: SubmitWorld, *arguments: str, stdin: IO[bytes] | None = None
) -> tuple[int, bytes, bytes]:
    done = subprocess.run(
        [str(BIN / "yarnam"), "exec", *arguments],
        env=world.environ, stdin=stdin, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def events(world: SubmitWorld, application: str, kind: str) -> list[dict[str, Any]]:
    return [one for one in world.run("events", application, "--json").json if one["t"] == kind]


def test_commands_in_a_running_job(submit_world: SubmitWorld, job: str) -> None:
    world = submit_world
    code, out, err = exec_with(
        world, job, "--task", "worker-1", "--", "sh", "-c",
        'echo "$YARNAM_RANK $CUDA_VISIBLE_DEVICES"; echo oops >&2; exit 7',
    )  # fmt: skip
    assert (code, err) == (7, b"oops\n")
    rank, gpus = out.decode().split()
    assert rank == "1"
    assert gpus
    assert exec_with(world, job, "-r", "0", "--", "sh", "-c", "kill -9 $$")[0] == 137
    code, _, err = exec_with(world, job, "--", "no-such-program")
    assert code == 127
    assert b"no-such-program is not on PATH" in err
    code, _, err = exec_with(world, job, "--task", "worker-7", "--", "true")
    assert code == 64
    assert b"The tasks are: worker-0, worker-1" in err

    # A hundred MB there and back.
    path = world.folder / "data"
    path.write_bytes(os.urandom(1 << 20) * 100)
    with path.open("rb") as file:
        began = time.monotonic()
        code, out, _ = exec_with(world, job, "-i", "--", "cat", stdin=file)
        took_s = time.monotonic() - began
    assert code == 0
    assert hashlib.sha256(out).digest() == hashlib.sha256(path.read_bytes()).digest()
    print(f"100 MiB there and back in {took_s:.1f} s")

    begun = {one["session"]: one for one in events(world, job, "SessionBegun")}
    closed = {one["session"]: one for one in events(world, job, "SessionClosed")}
    assert set(begun) == set(closed)
    assert {one["by"] for one in begun.values()} == {world.user}
    cat = next(one for one in begun.values() if one["what"] == "cat")
    assert closed[cat["session"]]["outcome"] == "exit code 0"
    assert any("exit 7" in one["what"] for one in begun.values())


def test_ctrl_c_and_a_killed_client(submit_world: SubmitWorld, job: str) -> None:
    world = submit_world
    program = "trap 'echo interrupted; exit 9' INT; echo up; sleep 620 & wait"
    with world.start("exec", job, "--", "sh", "-c", program) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        interrupt(process)
        assert process.stdout.read() == "interrupted\n"
    assert process.returncode == 9
    with world.start("exec", job, "--", "sh", "-c", "echo up; sleep 621; true") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGKILL)
    until_gone("621")


def test_twenty_at_once_and_the_end_of_the_job(submit_world: SubmitWorld, job: str) -> None:
    world = submit_world
    many = [world.start("exec", job, "--", "sh", "-c", f"echo {n}") for n in range(20)]
    outs = [process.communicate(timeout=120)[0] for process in many]
    assert outs == [f"{n}\n" for n in range(20)]
    assert {process.returncode for process in many} == {0}
    with world.start("exec", job, "--", "sh", "-c", "echo up; sleep 622; true") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        for task in ("worker-0", "worker-1"):
            assert exec_with(world, job, "--task", task, "--", "touch", "stop")[0] == 0
        began = time.monotonic()
        _, err = process.communicate(timeout=60)
        took_s = time.monotonic() - began
    assert process.returncode == 69
    assert "the session in worker-0 has ended" in err
    assert took_s < 15
    until_gone("622")
    world.await_state(job, "SUCCEEDED")
    refused: Done = world.run("exec", job, "--", "true")
    assert refused.code == 64, refused.err


def until_gone(seconds: str) -> None:
    deadline = time.monotonic() + 10
    while subprocess.run(["pgrep", "-f", f"^sleep {seconds}$"], check=False).returncode == 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)

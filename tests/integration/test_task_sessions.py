"""Sessions in the tasks of a job on the real cluster, by the commands that a user gives."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import shutil
import signal
import subprocess
import termios
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import pexpect
import pytest

from tests.integration.fault_world import AM, kill_now
from tests.integration.submit_world import BIN, Done, interrupt
from tests.terminal import Terminal
from yarnam.core.model.job_status import JobState

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
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


def test_hands_on_a_running_job(submit_world: SubmitWorld, job: str) -> None:
    """One job for all of them: each leaves it as it was."""
    commands_in_a_running_job(submit_world, job)
    ctrl_c_and_a_killed_client(submit_world, job)
    one_command_in_every_task(submit_world, job)
    a_server_in_the_task_through_a_port_of_this_machine(submit_world, job)
    copies_both_ways(submit_world, job)
    a_shell_on_a_terminal(submit_world, job)
    if shutil.which("less"):
        a_full_screen_program(submit_world, job)


def one_command_in_every_task(world: SubmitWorld, job: str) -> None:
    code, out, err = exec_with(
        world, job, "--all", "--", "sh", "-c", "echo $YARNAM_RANK; exit $YARNAM_RANK"
    )
    assert code == 1
    assert sorted(out.decode().splitlines()) == ["worker-0: 0", "worker-1: 1"]
    assert err == b"exit code 0 in worker-0; 1 in worker-1\n"


def commands_in_a_running_job(world: SubmitWorld, job: str) -> None:
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


def ctrl_c_and_a_killed_client(world: SubmitWorld, job: str) -> None:
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


@pytest.mark.long
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


SERVER = """
import http.server, socketserver, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[::-1])
    def log_message(self, *_): pass
class Server(socketserver.ThreadingMixIn, http.server.HTTPServer): daemon_threads = True
server = Server(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


def a_server_in_the_task_through_a_port_of_this_machine(world: SubmitWorld, job: str) -> None:
    with world.start("exec", job, "-r", "1", "--", "python3", "-c", SERVER) as server:
        assert server.stdout is not None
        remote = server.stdout.readline().strip()
        with world.start("port-forward", job, "-r", "1", f":{remote}", "--json") as forward:
            assert forward.stdout is not None
            facts = json.loads(forward.stdout.readline())
            assert facts["local"].startswith("127.0.0.1:")
            url = f"http://{facts['local']}/"
            bodies = [os.urandom(200_000) for _ in range(12)]

            def post(body: bytes) -> bytes:
                with urllib.request.urlopen(url, data=body, timeout=60) as reply:
                    return bytes(reply.read())

            with ThreadPoolExecutor(12) as pool:
                replies = list(pool.map(post, bodies))
            assert replies == [body[::-1] for body in bodies]
            interrupt(forward)
            assert forward.wait(30) == 130
        with pytest.raises(OSError, match="refused"):
            post(b"x")
        server.kill()
    begun = events(world, job, "SessionBegun")
    assert [one["what"] for one in begun if one["kind"] == "port-forward"] == [remote]


def copies_both_ways(world: SubmitWorld, job: str) -> None:
    tree = world.folder / "tree"
    (tree / "deep").mkdir(parents=True)
    data = os.urandom(5 << 20)
    (tree / "deep" / "model.pt").write_bytes(data)
    (tree / "plain").write_text("x\n")
    done = world.run("cp", str(tree), f"{job}:there", "--task", "worker-1")
    assert done.code == 0, done.err
    code, out, _ = exec_with(
        world, job, "--task", "worker-1", "--", "sh", "-c", "sha256sum < there/deep/model.pt"
    )
    assert out.split()[0].decode() == hashlib.sha256(data).hexdigest()
    again = world.run("cp", str(tree), f"{job}:there/plain", "--task", "worker-1")
    assert again.code == 64
    assert "exists" in again.err
    one = world.run("cp", f"{tree}/plain", f"{job}:there", "--task", "worker-1")
    assert one.code == 64
    assert "plain exists; --force overwrites it" in one.err
    forced = world.run("cp", f"{tree}/plain", f"{job}:there", "--task", "worker-1", "--force")
    assert forced.code == 0, forced.err
    back = world.run("cp", f"{job}:there", "back", "--task", "worker-1", "--json")
    assert back.code == 0, back.err
    assert back.json == {"files": 2, "bytes": len(data) + 2}
    assert (world.folder / "back" / "deep" / "model.pt").read_bytes() == data
    none = world.run("cp", f"{job}:nothing", "back", "--task", "worker-1")
    assert none.code == 64
    assert "does not exist" in none.err
    assert code == 0


def a_full_screen_program(world: SubmitWorld, job: str) -> None:
    with shell(world, job) as child:
        child.sendline(
            "seq 1 500 > numbers; " + ("less numbers" if shutil.which("less") else "vi -R numbers")
        )
        child.expect("\\b22\\b")
        child.send("G")
        child.expect("500")
        child.send("q")
        child.sendline("exit 0")
        child.expect(pexpect.EOF)
        assert child.exit_code == 0


@contextmanager
def shell(world: SubmitWorld, job: str, *options: str) -> Iterator[Any]:
    child = Terminal(
        [str(BIN / "yarnam"), "shell", job, *options], env={**world.environ, "TERM": "xterm"},
        timeout_s=60, rows=24, columns=80,
    )  # fmt: skip
    try:
        child.sendline("PS1='ready> '; echo is-$((40+2))")
        child.expect("is-42")
        yield child
    finally:
        child.end()


def a_shell_on_a_terminal(world: SubmitWorld, job: str) -> None:
    """Its size, Ctrl-C, job control, UTF-8, and its own exit code."""
    with shell(world, job, "--task", "worker-1") as child:
        child.sendline("stty size; echo r-$YARNAM_RANK; printf 'h\\303\\251-%s\\n' é")
        child.expect("24 80")
        child.expect("r-1")
        child.expect("hé-é")
        child.setwinsize(50, 132)
        child.sendline("stty size")
        child.expect("50 132")
        child.sendline("sleep 623; echo after-$?")
        until_there("623")
        child.sendcontrol("c")
        child.sendline("echo next-$((1+1))")
        child.expect("next-2")
        until_gone("623")
        child.sendline("sleep 624")
        until_there("624")
        child.sendcontrol("z")
        child.sendline("jobs; kill -9 %1")
        child.expect("Stopped")
        until_gone("624")
        child.sendline("exit 5")
        child.expect(pexpect.EOF)
        assert child.exit_code == 5


@pytest.mark.long
def test_the_terminal_is_restored_whatever_ends_the_session(
    submit_world: SubmitWorld, job: str
) -> None:
    """A command's end, SIGTERM to the client, and the end of the task."""
    world = submit_world
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)

    def start(*command: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [str(BIN / "yarnam"), "exec", job, "-it", "--", *command],
            env={**world.environ, "TERM": "xterm"}, stdin=theirs, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\r\n"
        assert termios.tcgetattr(theirs) != before
        return process

    with start("sh", "-c", "echo up; sleep 1; exit 4") as process:
        assert process.wait(60) == 4
    assert termios.tcgetattr(theirs) == before
    with start("sh", "-c", "echo up; exec sleep 625") as process:
        process.terminate()
        assert process.wait(60) == -signal.SIGTERM
    assert termios.tcgetattr(theirs) == before
    until_gone("625")
    with start("sh", "-c", "echo up; exec sleep 626") as process:
        assert world.run("kill", job).code == 0
        assert process.wait(60) == 69
        assert process.stderr is not None
        assert b"the session in worker-0 has ended" in process.stderr.read()
    assert termios.tcgetattr(theirs) == before
    until_gone("626")
    os.close(ours)
    os.close(theirs)


@pytest.mark.long
def test_a_session_ends_with_its_am_and_the_next_one_opens_others(world: FaultWorld) -> None:
    job = world.submit("adopts-sessions", ["/bin/sh", "-c", "echo started; exec sleep 3000"])
    world.until(job, lambda s: s.state is JobState.RUNNING, "it to run")
    with world.yarnam("exec", job.id, "--", "sh", "-c", "echo up; exec sleep 627").process as held:
        until_there("627")
        kill_now(world.am_pid(job, AM))
        began = time.monotonic()
        assert held.wait(30) == 69
        assert time.monotonic() - began < 15
    until_gone("627")
    world.until(job, lambda s: s.am_attempt == 2 and not s.is_last_known, "the next one")
    done = world.yarnam("exec", job.id, "--", "echo", "again").wait()
    assert (done.code, done.out) == (0, "again\n"), done.err
    job.kill()


def until_there(seconds: str) -> None:
    deadline = time.monotonic() + 20
    while subprocess.run(["pgrep", "-f", f"^sleep {seconds}$"], check=False).returncode:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def until_gone(seconds: str) -> None:
    deadline = time.monotonic() + 10
    while subprocess.run(["pgrep", "-f", f"^sleep {seconds}$"], check=False).returncode == 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)

"""The program around commands that need a server beside them: real processes, without a gang."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from yarnam.agent.programs import head_launch, strangers

LIMIT_S = 60
CREDENTIALS = b"the job's credentials"
SERVER = """\
import socket, sys, time
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
time.sleep(float(sys.argv[2]))
sys.exit(int(sys.argv[3]))
"""
WORKER = "import sys, time; open(sys.argv[1], 'w').close(); time.sleep(600)"

Launch = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def ports() -> tuple[int, int]:
    """Of the head, and of its server."""
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
    ):
        return one.getsockname()[1], two.getsockname()[1]


@pytest.fixture
def launch(ports: tuple[int, int], tmp_path: Path) -> Iterator[Launch]:
    started: list[subprocess.Popen[str]] = []
    (tmp_path / strangers.CREDENTIALS).write_bytes(CREDENTIALS)
    folder = tmp_path / "process"
    folder.mkdir()

    def launch(
        code: str, *, is_head: bool = False, most_files: int = 0, **changes: Any
    ) -> subprocess.Popen[str]:
        head = {
            "is_head": is_head,
            "at": f"127.0.0.1:{ports[0]}",
            "server": ["python", "-c", SERVER, str(ports[1]), "600", "0"] if is_head else [],
            "server_at": f"127.0.0.1:{ports[1]}",
            "worker": [],
            "linger_s": 0.0,
            **changes,
        }
        env = {**os.environ, "YARNAM_HEAD": json.dumps(head), "YARNAM_PYTHON": sys.executable}
        words = [sys.executable, "-I", "-S", head_launch.__file__, "run"]
        command = [sys.executable, "-c", code]
        limit = ["prlimit", f"--nofile={most_files}"] if most_files else []
        child = subprocess.Popen(
            limit + words + command, env=env, cwd=folder,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(child)
        return child

    yield launch
    for child in started:
        if child.poll() is None:
            # As the keeper does: servers are in sessions of their own.
            for pid in Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
            child.kill()
        child.communicate()


def ended(child: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = child.communicate(timeout=LIMIT_S)
    return child.returncode, out, err


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_commands_begin_when_the_server_listens(
    launch: Launch, ports: tuple[int, int], tmp_path: Path
) -> None:
    met = tmp_path / "met"
    connect = f"import socket; socket.create_connection(('127.0.0.1', {ports[1]}))"
    other = launch(f"{connect}\nopen({str(met)!r}, 'w').close()")
    head = launch(f"{connect}\n{until_there(met)}", is_head=True)
    assert ended(other) == (0, "", "")
    assert ended(head) == (0, "", "")
    until(lambda: not head_launch.is_listening(ports[1]))


def until_there(path: Path) -> str:
    """A program that ends when the file exists."""
    return f"import os, time\nwhile not os.path.exists({str(path)!r}): time.sleep(0.05)"


def test_workers_end_when_the_head_has_succeeded(launch: Launch, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    worker = ["python", "-c", WORKER, str(seen)]
    other = launch("print('never')", worker=worker)
    head = launch(until_there(seen), is_head=True)
    assert ended(head)[0] == 0
    assert ended(other) == (0, "", "")


def test_the_commands_code_is_the_heads_and_a_worker_waits_for_the_stop(
    launch: Launch, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    other = launch("", worker=["python", "-c", WORKER, str(seen)])
    head = launch(f"{until_there(seen)}\nexit(7)", is_head=True)
    assert ended(head)[0] == 7
    assert other.stderr is not None
    assert "ended without success" in other.stderr.readline()
    assert other.poll() is None
    other.send_signal(signal.SIGTERM)
    assert ended(other)[0] == 128 + signal.SIGTERM


def test_a_command_ends_with_its_server(launch: Launch, ports: tuple[int, int]) -> None:
    server = ["python", "-c", SERVER, str(ports[1]), "0.5", "3"]
    code, _, err = ended(launch("import time; time.sleep(600)", is_head=True, server=server))
    assert code == 1
    assert "has ended with exit code 3" in err


def test_a_server_that_does_not_come_up(launch: Launch) -> None:
    code, out, err = ended(launch("print(1)", is_head=True, server=["python", "-c", "exit(5)"]))
    assert (code, out) == (1, "")
    assert "has ended with exit code 5" in err


def test_a_worker_that_fails_is_its_tasks_failure(launch: Launch) -> None:
    head = launch("import time; time.sleep(600)", is_head=True)
    assert ended(launch("", worker=["python", "-c", "exit(9)"]))[0] == 9
    assert head.poll() is None, "the gang decides"


def test_a_server_may_end_by_itself_after_the_command(
    launch: Launch, ports: tuple[int, int], tmp_path: Path
) -> None:
    left = tmp_path / "left"
    server = f"{SERVER.rsplit('sys.exit', 1)[0]}open({str(left)!r}, 'w').close()"
    words = ["python", "-c", server, str(ports[1]), "2"]
    assert ended(launch("", is_head=True, server=words, linger_s=30.0))[0] == 0
    assert left.exists()


# ---- callers that are not of the job -------------------------------------------------------


@pytest.mark.parametrize("most_files", [0, 40])
def test_strangers_keep_no_worker_out(
    launch: Launch, ports: tuple[int, int], tmp_path: Path, most_files: int
) -> None:
    """Also where they use up the descriptors of the head, and give some back."""
    seen = tmp_path / "seen"
    head = launch(until_there(seen), is_head=True, most_files=most_files)
    until(lambda: head_launch.is_listening(ports[0]))
    with ExitStack() as stack:
        for _ in range(5 * strangers.MAX_STRANGERS):
            stack.enter_context(socket.create_connection(("127.0.0.1", ports[0])))
        if not most_files:
            until(lambda: len(list(Path(f"/proc/{head.pid}/fd").iterdir())) < 100)
            other = launch("", worker=["python", "-c", WORKER, str(seen)])
            assert ended(head)[0] == 0
            assert ended(other) == (0, "", "")
    if most_files:
        other = launch("", worker=["python", "-c", WORKER, str(seen)])
        assert ended(head)[0] == 0
        assert ended(other) == (0, "", "")


def test_one_in_the_heads_place_ends_no_worker(
    launch: Launch, ports: tuple[int, int], tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    with socket.create_server(("127.0.0.1", ports[0])) as server:
        other = launch("", worker=["python", "-c", WORKER, str(seen)])
        talk, _ = server.accept()
        with talk:
            talk.sendall(b"\1" * strangers.NONCE_BYTES)
            until(seen.exists)
            talk.sendall(b"\1" * strangers.KEY_BYTES)
            assert other.stderr is not None
            assert "ended without success" in other.stderr.readline()
    assert other.poll() is None


def test_a_head_keeps_nothing_of_those_that_only_wait_for_it(
    launch: Launch, ports: tuple[int, int], tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    head = launch(until_there(seen), is_head=True)
    until(lambda: head_launch.is_listening(ports[0]))
    key = strangers.key_of(b"yarnam-head", CREDENTIALS)
    for _ in range(50):
        head_launch.HeadConnection(f"127.0.0.1:{ports[0]}", key).talk.close()
    assert len(list(Path(f"/proc/{head.pid}/fd").iterdir())) < 20
    seen.touch()
    assert ended(head) == (0, "", "")


# ---- variables that the server gives -------------------------------------------------------

ANSWERS = """\
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
port, code, answer = sys.argv[1:]
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(int(code))
        self.end_headers()
        self.wfile.write((answer + self.path[-1]).encode())
HTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()
"""
SHOW = "import os; print(os.environ['A'], os.environ['B'])"


def asked(ports: tuple[int, int], code: int, answer: str, rank: int) -> dict[str, Any]:
    """The server answers with this, and the last character of what it is asked for."""
    at = f"127.0.0.1:{ports[1]}"
    server = ["python", "-c", ANSWERS, str(ports[1]), str(code), answer]
    return {
        "asks": {"at": at, "path": f"/ranks/{rank}", "names": ["A", "B"]},
        "server": server if rank == 0 else [],
    }


def test_the_command_gets_what_the_server_says(launch: Launch, ports: tuple[int, int]) -> None:
    other = launch(SHOW, **asked(ports, 200, "7,1", 1))
    assert ended(launch(SHOW, is_head=True, **asked(ports, 200, "7,1", 0)))[:2] == (0, "7 10\n")
    del other  # the head ends with its command, maybe before the other has asked


def test_one_that_joins_asks_before_its_command_begins(
    launch: Launch, ports: tuple[int, int], tmp_path: Path
) -> None:
    end = tmp_path / "end"
    head = launch(until_there(end), is_head=True, **asked(ports, 200, "7,1", 0))
    assert ended(launch(SHOW, **asked(ports, 200, "7,1", 1)))[:2] == (0, "7 11\n")
    end.touch()
    assert ended(head)[0] == 0


@pytest.mark.parametrize(
    ("code", "answer", "why"),
    [
        (200, "-1,-", "the gang goes on without this task"),
        (503, "", "gives no ranks: HTTP 503"),
        (200, "1,2,", "gives no ranks: HTTP 200"),
    ],
)
def test_a_command_without_what_it_needs_does_not_begin(
    launch: Launch, ports: tuple[int, int], code: int, answer: str, why: str
) -> None:
    head = launch("print('never')", is_head=True, **asked(ports, code, answer, 0))
    assert (found := ended(head))[:2] == (1, "")
    assert why in found[2]


def test_a_stop_ends_the_asking(launch: Launch, ports: tuple[int, int]) -> None:
    """The server listens, and does not answer."""
    asks = {"at": f"127.0.0.1:{ports[1]}", "path": "/", "names": ["A"]}
    head = launch("print('never')", is_head=True, asks=asks)
    until(lambda: head_launch.is_listening(ports[0]))
    time.sleep(0.5)
    head.send_signal(signal.SIGTERM)
    code, out, err = ended(head)
    assert (code, out) == (1, "")
    assert "stopped while the ranks were asked for" in err

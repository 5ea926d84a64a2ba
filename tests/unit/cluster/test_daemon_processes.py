"""Processes are ended by who they are, never by their number or name alone."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from yarnam.cluster.daemons.daemon_processes import (
    ProcessId,
    end,
    identify,
    processes_of,
    read_record,
    start,
    tail,
    write_record,
)
from yarnam.cluster.hadoop.daemon_commands import Command

Spawn = Callable[..., "subprocess.Popen[bytes]"]


def wait_until(condition: Callable[[], bool], limit_s: float = 10.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.02)


def known(pid: int) -> ProcessId:
    identity = identify(pid)
    assert identity is not None
    return identity


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    started: list[subprocess.Popen[bytes]] = []

    def make(*argv: str, **settings: object) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(argv, **settings)  # type: ignore[call-overload]
        started.append(process)
        return process  # type: ignore[no-any-return]

    yield make
    for process in started:
        process.kill()
        process.wait()


def test_a_process_is_known_by_pid_and_start(spawn: Spawn) -> None:
    identity = known(spawn("sleep", "60").pid)
    assert identity.is_alive()
    assert not replace(identity, started_s=identity.started_s + 0.01).is_alive()
    assert not replace(identity, boot_id="another boot").is_alive()


def test_somebody_who_got_the_pid_later_is_left_alone(spawn: Spawn) -> None:
    process = spawn("sleep", "60")
    former = replace(known(process.pid), started_s=1.0)
    assert not former.send(signal.SIGKILL)
    assert end([former], 0, 1) == []
    assert process.poll() is None


def test_a_zombie_is_not_alive(spawn: Spawn) -> None:
    process = spawn("true")
    wait_until(lambda: not known(process.pid).is_alive())


def test_ending_asks_first_and_insists_then(spawn: Spawn) -> None:
    polite = spawn("sleep", "60")
    stubborn = spawn("bash", "-c", "trap '' TERM; echo ready; sleep 60 & wait; wait", stdout=-1)
    assert stubborn.stdout is not None
    assert stubborn.stdout.readline() == b"ready\n"
    stubborn.stdout.close()
    assert end([known(polite.pid), known(stubborn.pid)], grace_s=0.3, limit_s=5) == []
    assert polite.wait() == -signal.SIGTERM
    assert stubborn.wait() == -signal.SIGKILL


def test_a_frozen_process_ends_too(spawn: Spawn) -> None:
    process = spawn("sleep", "60")
    os.kill(process.pid, signal.SIGSTOP)
    assert end([known(process.pid)], grace_s=2, limit_s=5) == []
    assert process.wait() == -signal.SIGTERM


def test_a_daemon_is_written_down_with_its_own_session(tmp_path: Path) -> None:
    command = Command(("sh", "-c", "echo hello; exec sleep 60"), {"PATH": os.environ["PATH"]})
    process = start(command, tmp_path / "logs" / "d.out", tmp_path / "run" / "d.json")
    try:
        identity = read_record(tmp_path / "run" / "d.json")
        assert identity is not None
        assert identity.pid == process.pid
        assert os.getsid(process.pid) == process.pid
        wait_until(lambda: (tmp_path / "logs" / "d.out").read_text() == "hello\n")
    finally:
        end([known(process.pid)], 0, 5)
    assert process.wait(5) == -signal.SIGKILL


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 1}', '{"pid": 1, "x": 2}'])
def test_a_damaged_record_names_nobody(tmp_path: Path, content: str) -> None:
    path = tmp_path / "d.json"
    path.write_text(content)
    assert read_record(path) is None


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    identity = ProcessId(123, 4.56, "boot")
    write_record(tmp_path / "new" / "d.json", identity)
    assert read_record(tmp_path / "new" / "d.json") == identity


def test_marked_processes_are_found(spawn: Spawn) -> None:
    ours = spawn("sleep", "60", env={"YARNAM_CLUSTER_ID": "c-1", "PATH": os.environ["PATH"]})
    other = spawn("sleep", "60", env={"YARNAM_CLUSTER_ID": "c-11", "PATH": os.environ["PATH"]})
    wait_until(lambda: b"sleep" in Path(f"/proc/{ours.pid}/cmdline").read_bytes())
    found = {process.pid for process in processes_of("c-1", [], [])}
    assert ours.pid in found
    assert other.pid not in found


def test_descendants_of_a_daemon_are_found(spawn: Spawn) -> None:
    parent = spawn("bash", "-c", "sleep 60 & wait")
    identity = known(parent.pid)
    wait_until(lambda: len(processes_of(None, [identity], [])) == 2)
    assert end(processes_of(None, [identity], []), 0, 5) == []


def test_a_runaway_that_cleared_its_environment_is_found_by_where_it_stands(
    spawn: Spawn, tmp_path: Path
) -> None:
    work = tmp_path / "nm1" / "local" / "container"
    work.mkdir(parents=True)
    runaway = spawn("sleep", "60", env={}, cwd=work, start_new_session=True)
    found = processes_of(None, [], [tmp_path / "nm1" / "local"])
    assert runaway.pid in {process.pid for process in found}


def test_a_person_who_looks_around_with_a_terminal_is_left_alone(tmp_path: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:  # pragma: no cover - the child becomes another program
        os.chdir(tmp_path)
        os.execvp("sleep", ["sleep", "60"])
    try:
        wait_until(lambda: Path(f"/proc/{pid}/cwd").readlink() == tmp_path)
        assert pid not in {process.pid for process in processes_of(None, [], [tmp_path])}
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def test_whoever_asks_is_never_among_the_found() -> None:
    script = (
        "import os; from yarnam.cluster.daemons.daemon_processes import processes_of;"
        "print(os.getpid() in {p.pid for p in processes_of('c-2', [], [])})"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "YARNAM_CLUSTER_ID": "c-2"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout == "False\n"


def test_the_tail_of_a_log_is_read_whatever_is_in_it(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_bytes(b"first\n" * 10_000 + b"\xff\xfe\x00\nlast\n")
    lines = tail(log, 2)
    assert lines[-1] == "last"
    assert len(lines) == 2
    assert tail(tmp_path / "none.log", 5) == []

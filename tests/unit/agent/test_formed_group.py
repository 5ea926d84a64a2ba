"""The group that a framework has formed, by a file or by the workers of a launcher."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from yarnam.agent.launch.formed_group import GROUP_FILE, FormedGroup, GroupFile, LaunchedGroup
from yarnam.agent.programs import gloo_rendezvous

LIMIT_S = 20.0

WORKER = """
import os, subprocess, sys, time
if "LOADER" not in os.environ:  # its environment is that of its worker
    subprocess.Popen([sys.executable, __file__], env={**os.environ, "LOADER": "1"})
time.sleep(600)
"""

LAUNCHER = """
import os, subprocess, sys
# As torchrun: for each group that a line asks for, two workers with the variables of the group.
workers = []
for line in sys.stdin:
    for worker in workers:
        worker.kill()
        worker.wait()
    group = {"GROUP_WORLD_SIZE": line.strip(), "GROUP_RANK": "0"}
    workers = [
        subprocess.Popen([sys.executable, sys.argv[1]],
                         env={**os.environ, **group, "LOCAL_RANK": str(rank)})
        for rank in (1, 0)
    ]
"""


@contextmanager
def launched(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    worker, launcher = tmp_path / "worker.py", tmp_path / "launcher.py"
    worker.write_text(WORKER)
    launcher.write_text(LAUNCHER)
    command = f"{sys.executable} {launcher} {worker}; true"
    with subprocess.Popen(
        ["sh", "-c", command], stdin=subprocess.PIPE, text=True, start_new_session=True
    ) as shell:
        try:
            yield shell
        finally:
            os.killpg(shell.pid, signal.SIGKILL)


def until(source: LaunchedGroup, pid: int, group: FormedGroup) -> None:
    deadline = time.monotonic() + LIMIT_S
    while source.read(pid) != group:
        assert time.monotonic() < deadline, source.read(pid)
        time.sleep(0.05)


def test_both_sides_name_the_same_file() -> None:
    assert gloo_rendezvous.GROUP_FILE == GROUP_FILE


def test_each_start_of_a_launchers_workers_is_a_group(tmp_path: Path) -> None:
    source = LaunchedGroup()
    with launched(tmp_path) as shell:
        assert shell.stdin is not None
        assert source.read(shell.pid) is None
        for number, tasks in enumerate(("3", "2", "2"), 1):
            shell.stdin.write(f"{tasks}\n")
            shell.stdin.flush()
            until(source, shell.pid, FormedGroup(number, int(tasks)))
            time.sleep(0.3)  # its own children are there by now
            assert source.read(shell.pid) == FormedGroup(number, int(tasks))


def test_the_newest_round_is_read_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / GROUP_FILE
    path.write_text("9 9\n")
    source = GroupFile(tmp_path)
    assert source.read(1) is None, "it was of an earlier launch in this container"
    path.write_text("1 4\n")
    assert source.read(1) == FormedGroup(1, 4)
    path.write_text("no numbers\n")
    assert source.read(1) is None

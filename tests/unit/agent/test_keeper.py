"""The keeper clears up although YARN has removed the interpreter that it runs on."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from yarnam.agent.keeper import procfs

PROGRAM = """
import sys
from yarnam.agent.keeper.keeper import MARK, fork_keeper, pack, unpack

# What follows is as if the files of the interpreter were gone.
sys.path[:] = []
sys.path_importer_cache.clear()
sys.meta_path[:] = []
_, connection = fork_keeper(sys.argv[1])
connection.sendall(pack({
    "do": "start", "rank": 0, "log": sys.argv[2], "cwd": "/", "path": "/bin/sh",
    "argv": ["sh", "-c", "sleep 300; true"], "env": {
        MARK: sys.argv[1], "PATH": "/usr/bin:/bin", "YARNAM_SCRATCH": sys.argv[3]
    },
}))
assert unpack(bytearray(connection.recv(1000)))[0]["is"] == "started"
connection.recv(1)
"""


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_nothing_stays_when_the_agent_and_the_interpreter_are_gone(tmp_path: Path) -> None:
    mark = f"container_{tmp_path.name}"
    entry = f"YARNAM_CONTAINER={mark}".encode()
    scratch = tmp_path / "scratch"
    (scratch / "session").mkdir(parents=True)
    (scratch / "session" / "plasma").write_text("left behind")
    (scratch / "session" / "outside").symlink_to(tmp_path)
    log = tmp_path / "log"
    agent = subprocess.Popen([sys.executable, "-c", PROGRAM, mark, str(log), str(scratch)])
    try:
        await_marked(entry, 2)
        assert scratch.exists()
    finally:
        agent.kill()
        agent.wait()
    await_marked(entry, 0)
    await_gone(scratch)
    assert log.exists(), "it follows no link"


def await_gone(path: Path) -> None:
    deadline = time.monotonic() + 20.0
    while path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def await_marked(entry: bytes, count: int) -> None:
    """The shell and its sleep, or neither."""
    deadline = time.monotonic() + 20.0
    while len(found := procfs.marked(entry)) != count:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)

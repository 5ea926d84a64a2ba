"""The AM's Python process ends with Skein's Java, and at once on SIGTERM."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

CHILD = """
import os, time
from yarnam.adapters.process_lifetime import end_with_stdin, leave_at_once_on_sigterm
end_with_stdin()
leave_at_once_on_sigterm()
print(os.getpid(), flush=True)
time.sleep(60)
"""

PARENT = """
import subprocess, sys, time
command = ["bash", "-c", '"$@"; exit', "-", sys.executable, "-c", sys.argv[1]]
child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
print(int(child.stdout.readline()), flush=True)
time.sleep(60)
"""


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_it_does_not_outlive_java() -> None:
    """Between the two is a shell, which does."""
    command = [sys.executable, "-c", PARENT, CHILD]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_alive(child)
        parent.send_signal(signal.SIGKILL)
        deadline = time.monotonic() + 5.0
        while is_alive(child):
            assert time.monotonic() < deadline, "the child outlived Java"
            time.sleep(0.02)


def test_sigterm_ends_it_at_once_with_a_code_of_ours() -> None:
    command = [sys.executable, "-c", CHILD]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=5.0)
        assert process.stderr is not None
        said = process.stderr.read()
    assert time.monotonic() - began < 0.25 + 1.0
    assert process.returncode == 69
    assert b"SIGTERM" in said

"""The AM's Python process ends with its parent, and at once on SIGTERM."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CHILD = """
import sys, time
from yarnam.adapters.process_lifetime import end_with_parent, leave_at_once_on_sigterm
{prepare}
end_with_parent()
leave_at_once_on_sigterm()
print("ready", flush=True)
time.sleep(60)
"""

PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(60)
"""

NO_KERNEL_SIGNAL = "import ctypes; ctypes.CDLL = lambda *a, **k: (_ for _ in ()).throw(OSError())"


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize("prepare", ["", NO_KERNEL_SIGNAL], ids=["kernel", "watching"])
def test_it_does_not_outlive_its_parent(prepare: str) -> None:
    command = [sys.executable, "-c", PARENT, CHILD.format(prepare=prepare)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_alive(child)
        parent.send_signal(signal.SIGKILL)
        deadline = time.monotonic() + 5.0
        while is_alive(child):
            assert time.monotonic() < deadline, "the child outlived its parent"
            time.sleep(0.02)


def test_sigterm_ends_it_at_once_with_a_code_of_ours() -> None:
    command = [sys.executable, "-c", CHILD.format(prepare="")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=5.0)
    assert time.monotonic() - began < 0.25 + 1.0
    assert process.returncode == 69
    assert b"SIGTERM" in said

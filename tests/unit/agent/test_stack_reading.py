"""The Python stacks of a process, read while it runs."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from yarnam.agent.sessions.stack_reading import read_stacks, threads_in
from yarnam.core.model.session_parts import StackFrame

FAULTHANDLER = """\
Thread 0x00007f51a2ffe6c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait
step 5, loss 0.3
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Current thread 0x00007f51aabcd740 (most recent call first):
  File "/job/train.py", line 17 in forward
  File "/job/train.py", line 40 in <module>
step 6, loss 0.2
"""

PY_SPY = """\
Process 4711: python3 train.py
Python v3.11.4 (/usr/bin/python3.11)

Thread 4711 (idle): "MainThread"
    all_reduce (torch/distributed/c10d.py:1536)
    <module> (train.py:40)
Thread 4713 (active+gil)
    wait (threading.py:320)
"""

PROGRAM = """\
import faulthandler, signal, time
{register}
def train():
    print("trains", flush=True)
    time.sleep(600)
train()
"""

REGISTER = "faulthandler.register(signal.SIGRTMIN + 9, file=2, all_threads=True)"


def test_a_dump_of_faulthandler_without_what_the_program_prints() -> None:
    other, main = threads_in(FAULTHANDLER.splitlines())
    assert other.name == "Thread 0x00007f51a2ffe6c0"
    assert [frame.function for frame in other.frames] == ["wait", "_bootstrap"]
    assert main.name == "Current thread 0x00007f51aabcd740"
    assert main.frames[0] == StackFrame("forward", "/job/train.py", 17)


def test_a_dump_of_py_spy() -> None:
    main, other = threads_in(PY_SPY.splitlines())
    assert main.name == 'Thread 4711 (idle): "MainThread"'
    assert main.frames[1] == StackFrame("<module>", "train.py", 40)
    assert [frame.function for frame in other.frames] == ["wait"]


def test_output_that_looks_like_frames_needs_a_thread_before_it() -> None:
    assert threads_in(['  File "a.py", line 1 in f', "  f (a.py:1)"]) == ()
    [long] = threads_in(["Thread 1 (idle)", f"  f (a.py:{'9' * 5000})"])
    assert long.frames[0].line < 1 << 31


@contextmanager
def program(folder: Path, register: str) -> Iterator[tuple[int, Path]]:
    """The process below a shell, as of a job's command."""
    log = folder / "log"
    script = folder / "train.py"
    script.write_text(PROGRAM.format(register=register))
    with log.open("wb") as stream:
        child = subprocess.Popen(
            ["/bin/sh", "-c", f"{sys.executable} {script}; true"], stdout=stream, stderr=stream,
            start_new_session=True,
        )  # fmt: skip
    try:
        while b"trains" not in log.read_bytes():
            assert child.poll() is None
        yield child.pid, log
    finally:
        os.killpg(child.pid, 9)
        child.wait()


def no_py_spy(folder: Path) -> dict[str, str]:
    return {"PATH": str(folder)}


def test_a_program_with_the_signal_of_the_sdk_goes_on(tmp_path: Path) -> None:
    with program(tmp_path, REGISTER) as (pid, log):
        for _ in range(2):
            found = asyncio.run(read_stacks(pid, log, no_py_spy(tmp_path)))
            assert found is not None
            assert found.tool == "faulthandler"
            assert found.pid != pid, "Python is below the shell"
            functions = [frame.function for frame in found.threads[-1].frames]
            assert functions == ["train", "<module>"]


def test_a_program_without_it_is_left_alone(tmp_path: Path) -> None:
    with program(tmp_path, "") as (pid, log):
        before = log.read_bytes()
        assert asyncio.run(read_stacks(pid, log, no_py_spy(tmp_path))) is None
        assert log.read_bytes() == before
        os.kill(pid, 0)


def test_py_spy_of_the_job_comes_first_and_does_not_stop_the_process(tmp_path: Path) -> None:
    """It refuses a process that is not Python, such as the shell."""
    tool = tmp_path / "py-spy"
    tool.write_text(
        '#!/bin/sh\n[ "$*" = "dump --nonblocking --pid $4" ] || exit 2\n'
        f"case $(/usr/bin/tr '\\0' ' ' < /proc/$4/cmdline) in /bin/sh*) exit 1;; esac\n"
        f"/bin/cat <<'END'\n{PY_SPY}END\n"
    )
    tool.chmod(0o755)
    with program(tmp_path, REGISTER) as (pid, log):
        found = asyncio.run(read_stacks(pid, log, no_py_spy(tmp_path)))
        assert found is not None
        assert (found.tool, len(found.threads)) == ("py-spy", 2)
        assert found.pid != pid
        assert b"Current thread" not in log.read_bytes()

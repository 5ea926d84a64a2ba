"""Whether a process does anything, and where it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from yarnam.agent.launch import process_activity
from yarnam.agent.launch.process_activity import IDLE_S, ActivityProbe, tree
from yarnam.agent.launch.stack_dump import STACK_SIGNAL, dump_stack, innermost
from yarnam.train._reports.process_hooks import _STACK_SIGNAL

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def running(log: Path, code: str) -> Iterator[subprocess.Popen[bytes]]:
    """A shell with a Python process below it, once that has printed its first line."""
    env = {**os.environ, "YARNAM_RANK": "0", "PYTHONPATH": str(ROOT)}
    command = f"{sys.executable} -c '{code}'; true"
    with (
        log.open("wb") as out,
        subprocess.Popen(["sh", "-c", command], stdout=out, stderr=out, env=env) as process,
    ):
        try:
            deadline = time.monotonic() + 20
            while not log.stat().st_size:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            yield process
        finally:
            for pid in reversed([*tree(process.pid)]):
                os.kill(pid, signal.SIGKILL)


SLEEPS = """
import time
from yarnam import train
def waits():
    time.sleep(600)
print("up", flush=True)
waits()
"""


def test_what_sleeps_falls_idle_and_what_prints_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    now_s = 100.0
    monkeypatch.setattr(process_activity.time, "monotonic", lambda: now_s)
    with running(log, SLEEPS) as process:
        probe = ActivityProbe(process.pid, log)
        probe.poll()
        now_s += IDLE_S / 2
        assert not probe.poll()
        assert probe.idle_s == 0.0
        now_s += IDLE_S / 2
        assert probe.poll(), "that is news"
        assert probe.idle_s == IDLE_S
        now_s += 60.0
        assert not probe.poll()
        assert probe.idle_s == IDLE_S + 60.0
        with log.open("ab") as more:
            more.write(b"x")
        assert probe.poll()
        assert probe.idle_s == 0.0


def test_a_stopped_process_below_a_shell_is_seen(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with running(log, SLEEPS) as process:
        probe = ActivityProbe(process.pid, log)
        child = [*tree(process.pid)][-1]
        assert child != process.pid
        os.kill(child, signal.SIGSTOP)
        time.sleep(0.1)
        assert probe.poll()
        assert probe.is_stopped
        os.kill(child, signal.SIGCONT)
        time.sleep(0.1)
        assert probe.poll()
        assert not probe.is_stopped


def test_a_stopped_process_is_stopped_while_a_tool_reads_its_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    log.touch()
    states = [frozenset("S"), frozenset("St"), frozenset("ST"), frozenset("St"), frozenset("S")]
    facts = iter([process_activity._Facts(one) for one in states])
    monkeypatch.setattr(process_activity, "_facts", lambda _: next(facts))
    probe = ActivityProbe(os.getpid(), log)
    seen = []
    for _ in states:
        probe.poll()
        seen.append(probe.is_stopped)
    assert seen == [False, False, True, True, False]


@pytest.mark.asyncio
async def test_the_sdk_says_where_a_process_is(tmp_path: Path) -> None:
    assert STACK_SIGNAL == _STACK_SIGNAL
    log = tmp_path / "log"
    with running(log, SLEEPS) as process:
        stack = await dump_stack(process.pid, log)
        assert stack == ("waits (<string>:5)", "<module> (<string>:7)")
        assert "most recent call first" in log.read_text()


@pytest.mark.parametrize(
    ("text", "frames"),
    [
        (
            (
                'Thread 0x1 (most recent call first):\n  File "/a/q.py", line 3 in get\n\n'
                'Current thread 0x2 (most recent call first):\n  File "/a/d.py", line 12 in sum\n'
                '  File "/a/t.py", line 40 in <module>\n'
            ),
            ("sum (d.py:12)", "<module> (t.py:40)"),
        ),
        (
            (
                'Process 7: python\nThread 8 (idle): "queue"\n    get (q.py:3)\n\n'
                'Thread 7 (active): "MainThread"\n    reduce (torch/d.py:12)\n    main (t.py:40)\n'
            ),
            ("reduce (d.py:12)", "main (t.py:40)"),
        ),
        (
            "PID 7 - process\nTID 7:\n#0  0x00007f __poll\n#1  0x00007f ncclWait\n",
            ("__poll", "ncclWait"),
        ),
        (
            "Thread 1 (LWP 7):\n#0  0x00007f in __poll () from /lib/libc.so\n#1  main (c=1) at a.c",
            ("__poll", "main"),
        ),
        ("no permission to attach", ()),
    ],
)
def test_dumps_of_four_tools(text: str, frames: tuple[str, ...]) -> None:
    assert innermost(text.splitlines()) == frames


BURNS = """
import time
block = bytearray(64 << 20)
print("up", flush=True)
while True:
    pass
"""


def test_what_a_process_and_its_children_use_is_measured(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with running(log, BURNS) as process:
        probe = ActivityProbe(process.pid, log)
        probe.poll()
        deadline = time.monotonic() + 30
        while True:
            time.sleep(0.2)
            probe.poll()
            if probe.usage["cpu_cores"] > 0.01 or time.monotonic() > deadline:
                break
        assert 0.01 < probe.usage["cpu_cores"] < 3
        assert probe.usage["memory_bytes"] > 64 << 20
        assert probe.usage["read_bytes_per_s"] >= 0
    probe.poll()
    assert probe.usage["memory_bytes"] == 0
    assert min(probe.usage.values()) >= 0

"""The Python stacks of a process of the task, on demand and without stopping it."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from yarnam.agent.launch.process_activity import tree
from yarnam.agent.launch.stack_dump import (
    FAULTHANDLER_FRAME,
    PY_SPY_FRAME,
    STACK_SIGNAL,
    TOOLS_S,
    faulthandler_dump,
    handles,
    run_tool,
    size_of,
)
from yarnam.core.model.session_parts import RankStacks, StackFrame, ThreadStack

MAX_DIGITS = 9
"""A line's number has no more."""

MAX_TREE = 16
"""Processes of a rank that are looked at for Python, parents first."""

_THREADS = (
    re.compile(r"(?:Current thread|Thread) 0x[0-9a-f]+.*"),
    re.compile(r'Thread \S+ \([^()]*\)(?:: ".*")?'),
)
"""The first line of a thread's stack by faulthandler, and by py-spy."""


async def read_stacks(pid: int, log: Path, env: Mapping[str, str]) -> RankStacks | None:
    """The Python stacks of a process, or of the first one below it that is Python, without stopping
    it: by the job's own py-spy, else by the signal of ``yarnam.train``, whose dump is then in the
    log too. ``None`` if neither is there. Takes ``TOOLS_S`` and ``ANSWER_S`` at most."""
    pids = [*tree(pid)][:MAX_TREE]
    py_spy = shutil.which("py-spy", path=env.get("PATH", os.defpath))
    deadline = time.monotonic() + TOOLS_S
    for one in pids if py_spy is not None else ():
        command = [str(py_spy), "dump", "--nonblocking", "--pid", str(one)]
        if found := threads_in((await run_tool(command, deadline)).splitlines()):
            return RankStacks(one, "py-spy", found)
    handler = next((one for one in pids if handles(one, STACK_SIGNAL)), None)
    if handler is None:
        return None
    start = size_of(log)
    with suppress(OSError):
        os.kill(handler, STACK_SIGNAL)
    found = threads_in((await faulthandler_dump(log, start)).splitlines())
    return RankStacks(handler, "faulthandler", found) if found else None


def threads_in(lines: Sequence[str]) -> tuple[ThreadStack, ...]:
    """The threads in a dump of faulthandler or py-spy, without what the process has printed
    meanwhile."""
    found: list[tuple[str, list[StackFrame]]] = []
    for line in lines:
        python = FAULTHANDLER_FRAME.fullmatch(line)
        spied = PY_SPY_FRAME.fullmatch(line)
        if any(header.fullmatch(line) for header in _THREADS):
            found.append((line.removesuffix(" (most recent call first):"), []))
        elif found and python:
            found[-1][1].append(StackFrame(python[3], python[1], int(python[2][:MAX_DIGITS])))
        elif found and spied:
            found[-1][1].append(StackFrame(spied[1], spied[2], int(spied[3][:MAX_DIGITS])))
    return tuple(ThreadStack(name, tuple(frames)) for name, frames in found if frames)

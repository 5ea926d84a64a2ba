"""Where the threads of a process are: all of it into its log, the innermost functions for the
verdict.

By the first means that there is: Python's faulthandler, which the SDK has registered for a signal
(it works in a process that hangs in native code); py-spy; eu-stack; gdb. A process that is stopped
(SIGSTOP) answers no signal: only a tool sees where it is.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from yarnam.agent.launch.log_files import append_note
from yarnam.agent.launch.process_activity import tree
from yarnam.core.model.printable import printable

STACK_SIGNAL = signal.SIGRTMIN + 9
"""As ``yarnam.train`` registers it."""

ANSWER_S = 1.0
"""For faulthandler to write, at most: it takes milliseconds."""
ANSWER_POLL_S = 0.05
TOOLS_S = 3.0
"""For the tools to attach and read, all together."""
MAX_BYTES = 64 * 1024
"""Read of a dump."""
FRAMES = 3
MAX_FRAME = 100
"""Characters of a function with its file."""

TOOLS = (
    ("py-spy", ("dump", "--nonblocking", "--pid", "PID")),
    ("eu-stack", ("-p", "PID")),
    ("gdb", ("-p", "PID", "-batch", "-ex", "thread apply all bt 12")),
)

FAULTHANDLER_FRAME = re.compile(r'  File "([^"]*)", line (\d+) in (.+)')
PY_SPY_FRAME = re.compile(r" +(\S.*) \(([^()]*):(\d+)\)")
_NATIVE = re.compile(r"#\d+ +(?:0x[0-9a-f]+ +)?(?:in +)?([A-Za-z_][\w:~<>]*)")


async def dump_stack(pid: int, log: Path) -> tuple[str, ...]:
    """The innermost functions of the main thread, ``wait (threading.py:320)``; empty if nothing
    could be seen. Takes ``TOOLS_S`` at most."""
    pids = [*tree(pid)]
    handler = next((one for one in pids if handles(one, STACK_SIGNAL)), None)
    if handler is not None:
        start = size_of(log)
        with suppress(OSError):
            os.kill(handler, STACK_SIGNAL)
        return innermost((await faulthandler_dump(log, start)).splitlines())
    deadline = time.monotonic() + TOOLS_S
    for name, arguments in TOOLS:
        path = shutil.which(name)
        given = [str(pids[-1]) if word == "PID" else word for word in arguments]
        text = await run_tool([path, *given], deadline) if path is not None else ""
        if found := innermost(text.splitlines()):
            append_note(log, f"yarnam: stacks by {name}:\n{text}")
            return found
    return ()


async def faulthandler_dump(log: Path, start: int) -> str:
    """What faulthandler writes into the log, as soon as no more of it comes."""
    deadline = time.monotonic() + ANSWER_S
    before = ""
    while time.monotonic() < deadline:
        await asyncio.sleep(ANSWER_POLL_S)
        text = _since(log, start)
        # The main thread, which was signalled, comes last.
        if text == before and innermost(text.splitlines()):
            return text
        before = text
    return before


def innermost(lines: Sequence[str]) -> tuple[str, ...]:
    """The innermost functions of the main thread in a dump of any of these tools."""
    begins = [n for n, line in enumerate(lines) if line.startswith("Current thread")]
    begins += [n for n, line in enumerate(lines) if '"MainThread"' in line]
    found: list[str] = []
    for line in lines[begins[-1] if begins else 0 :]:
        if len(found) == FRAMES or (found and not line.strip()):
            break
        if python := FAULTHANDLER_FRAME.fullmatch(line):
            found.append(f"{python[3]} ({Path(python[1]).name}:{python[2]})")
        elif python := PY_SPY_FRAME.fullmatch(line):
            found.append(f"{python[1]} ({Path(python[2]).name}:{python[3]})")
        elif native := _NATIVE.match(line):
            found.append(native[1])
    return tuple(printable(one, max_length=MAX_FRAME) for one in found)


def handles(pid: int, number: int) -> bool:
    """Whether the process catches this signal; a stopped one does not answer to it."""
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name == "State" and value.split()[:1] in (["T"], ["t"]):
                return False
            if name == "SigCgt":
                return bool(int(value, 16) >> (number - 1) & 1)
    return False


async def run_tool(command: Sequence[str], deadline: float) -> str:
    """Return its output, or nothing if it cannot be started or takes too long. It never stays."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return ""
    try:
        limit_s = max(0.0, deadline - time.monotonic())
        out, _ = await asyncio.wait_for(process.communicate(), limit_s)
    except asyncio.TimeoutError:
        return ""
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return out[:MAX_BYTES].decode("utf-8", "replace")


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _since(path: Path, start: int) -> str:
    with suppress(OSError), path.open("rb") as stream:
        stream.seek(start)
        return stream.read(MAX_BYTES).decode("utf-8", "replace")
    return ""

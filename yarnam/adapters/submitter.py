"""Which process submits a job, so that another one on its machine can see that it is dead."""

from __future__ import annotations

import os
from pathlib import Path

from hdfs_utils.concurrency.process_locks import boot_id

_PROC = Path("/proc")


def this_process() -> str:
    """Empty where the system does not tell."""
    machine, started = _machine(), _started(os.getpid())
    return f"{machine} {os.getpid()} {started}" if machine and started else ""


def is_gone(submitter: str) -> bool:
    """Whether this is a process of this machine that has ended. False where that cannot be told: it
    is of another machine, another container or another user of the system."""
    machine, _, process = submitter.rpartition(" ")
    machine, _, pid = machine.rpartition(" ")
    if not machine or machine != _machine() or not pid.isdecimal():
        return False
    return _started(int(pid)) != process


def _machine() -> str:
    """This boot, the namespace of the process ids, and the user: /proc may hide those of others."""
    try:
        namespace = (_PROC / "self/ns/pid").readlink()
    except OSError:
        return ""
    return f"{boot_id()} {namespace} {os.getuid()}" if boot_id() else ""


def _started(pid: int) -> str:
    """When it was started, in ticks since the boot (``proc(5)``); empty means it has ended."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except (OSError, ValueError):
        return ""
    # The name of the program may have spaces and brackets itself.
    fields = text.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]

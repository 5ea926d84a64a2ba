"""The kernel's own log about a process: who was killed for want of memory, where a
segmentation fault was, which process a GPU's error (Xid) hit.

Readable only where the node lets users read it (``kernel.dmesg_restrict`` 0). Who sent a signal is
not in it: the kernel tells that to nobody but the process itself.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from yarnam.core.model.printable import printable

KERNEL_LOG = Path("/dev/kmsg")

RECENT_S = 60.0
"""A line that is older is of another process with this number."""

MAX_LINES = 3
MAX_LINE = 300
READ_BYTES = 8192
"""The kernel's longest record (CONSOLE_EXT_LOG_MAX)."""
LIMIT_S = 0.2
"""To read it all takes some 10 ms."""


def kernel_lines(
    pid: int, path: Path = KERNEL_LOG, since_boot_s: float | None = None
) -> tuple[str, ...]:
    """The last lines of the last minute that name the process; empty where there is none, or where
    the log may not be read. ``since_boot_s``: now, as the log counts."""
    now_s = time.monotonic() if since_boot_s is None else since_boot_s
    named = re.compile(rf"(\bprocess |\bpid[=: ]'?|\[){pid}\b")
    found = []
    for line in _read(path).split(b"\n"):
        # A record begins as in "6,339,5140900,-;text" (Documentation/ABI/testing/dev-kmsg).
        head, _, text = line.partition(b";")
        fields = head.split(b",")
        if len(fields) < 3 or not fields[2].isdigit():
            continue  # the second line of a record
        message = text.decode("utf-8", "replace")
        if int(fields[2][:18]) / 1e6 >= now_s - RECENT_S and named.search(message):
            found.append(printable(message, max_length=MAX_LINE))
    return tuple(found[-MAX_LINES:])


def _read(path: Path) -> bytes:
    """All of it, as far as ``LIMIT_S`` allows."""
    data = bytearray()
    deadline = time.monotonic() + LIMIT_S
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        while time.monotonic() < deadline:
            try:
                record = os.read(fd, READ_BYTES)
            except BrokenPipeError:
                continue  # that record has been overwritten meanwhile
            if not record:
                break
            data += record
    except OSError:
        pass  # BlockingIOError: its end
    finally:
        os.close(fd)
    return bytes(data)

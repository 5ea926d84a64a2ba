"""Facts from /proc: who descends from whom, who carries a mark, who listens."""

from __future__ import annotations

import os
from pathlib import Path

_LISTEN = "0A"
_SYN_RECEIVED = "03"
"""Kernels before 4.4 list it between the listening ones."""


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - often


def parents() -> dict[int, int]:
    """Parent of each living process; without zombies, which hold nothing."""
    found = {}
    for pid in _pids():
        try:
            text = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            continue
        # The name in brackets may hold anything: what follows the last bracket is plain.
        fields = text[text.rfind(b")") + 2 :].split()
        if len(fields) > 1 and fields[0] not in (b"Z", b"X"):
            found[pid] = int(fields[1])
    return found


def descendants(root: int) -> set[int]:
    """Living processes below ``root``, itself not included."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    todo = list(children.get(root, ()))
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo.extend(children.get(pid, ()))
    return found


def of_session(leader: int, root: int) -> set[int]:
    """Living processes below ``root`` in the session that ``leader`` led, itself included."""
    found = set()
    for pid in descendants(root):
        try:
            if os.getsid(pid) == leader:
                found.add(pid)
        except ProcessLookupError:
            continue
    return found


def marked(entry: bytes) -> set[int]:
    """Living processes that were started with ``entry`` (NAME=value) in their environment. Finds
    those that left their process tree; only processes of this user can be read."""
    found = set()
    needle = b"\0" + entry + b"\0"
    me = os.getuid()
    for pid in _pids():
        try:
            if Path(f"/proc/{pid}").stat().st_uid == me:
                environment = Path(f"/proc/{pid}/environ").read_bytes()
                if needle in b"\0" + environment + b"\0":
                    found.add(pid)
        except OSError:
            continue
    return found


def listening_ports() -> set[tuple[str, int, int]]:
    """``(hex address as the kernel writes it, port, uid)`` of every TCP socket in LISTEN.

    The kernel lists those first, and finds them by a table of their own. The rest is not asked for:
    to walk through all of its connections takes the kernel milliseconds.
    """
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with Path(table).open(encoding="ascii") as lines:
                next(lines, None)
                for line in lines:
                    fields = line.split(None, 8)
                    if len(fields) < 8 or fields[3] not in (_LISTEN, _SYN_RECEIVED):
                        break
                    if fields[3] == _LISTEN:
                        address, _, port = fields[1].partition(":")
                        found.add((address, int(port, 16), int(fields[7])))
        except OSError:
            continue
    return found

"""The output of the user's processes: files in the container's log directory."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from yarnam.core.model.printable import printable

LAST_LINES = 20
"""As many lines as fit on a screen beside the rest of a report."""

MAX_LINE_CHARS = 500

TAIL_BYTES = 256 * 1024
"""Read from the end for the last lines; a line longer than this shows its end only."""

SHORTEST_SECRET = 4
"""Characters. Shorter values are found in any text, and protect nothing."""


def log_name(role: str, index: int, local_rank: int) -> str:
    return f"{role}-{index}.{local_rank}.log"


def last_lines(path: Path, secrets: Collection[str] = ()) -> tuple[str, ...]:
    """The end of a log: decoded with replacement, made printable, each line cut. Empty when there
    is nothing to read. These lines go into the job's record, where the values of secret variables
    do not belong: ``***`` stands for them."""
    try:
        with path.open("rb") as stream:
            end = stream.seek(0, os.SEEK_END)
            start = max(0, end - TAIL_BYTES)
            stream.seek(start)
            data = stream.read(TAIL_BYTES)
    except OSError:
        return ()
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST_SECRET:
            data = data.replace(secret.encode("utf-8", "surrogateescape"), b"***")
    lines = data.rstrip(b"\r\n").split(b"\n")[-LAST_LINES:]
    if lines == [b""]:
        return ()
    return tuple(_shown(line) for line in lines)


def log_disk_problem(path: Path) -> str:
    """Why a process could not write its log to the end; empty where nothing is wrong with it."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return ""
    return "" if disk.f_bavail else f"the disk of its logs is full ({path.parent})"


def _shown(line: bytes) -> str:
    # A progress bar rewrites its line: show what a terminal would show in the end.
    shown = line.rstrip(b"\r").rpartition(b"\r")[2]
    # No more than can be shown is decoded; four bytes is the longest character.
    text = shown[: MAX_LINE_CHARS * 4 + 4].decode("utf-8", "replace")
    return printable(text, keep="\t", max_length=MAX_LINE_CHARS)


def start_of_last_lines(path: Path, count: int) -> int:
    """Offset at which the last ``count`` lines begin. A last line without an end counts."""
    block = 64 * 1024
    with path.open("rb") as stream:
        position = stream.seek(0, os.SEEK_END)
        if position == 0:
            return 0
        stream.seek(position - 1)
        left = count + (1 if stream.read(1) == b"\n" else 0)
        while position > 0:
            size = min(block, position)
            position -= size
            stream.seek(position)
            data = stream.read(size)
            at = len(data)
            while (at := data.rfind(b"\n", 0, at)) >= 0:
                left -= 1
                if left == 0:
                    return position + at + 1
    return 0


def append_note(path: Path, text: str) -> None:
    """Append a line to a process's log; a full disk loses it."""
    try:
        with path.open("ab") as stream:
            stream.write(text.encode("utf-8", "replace") + b"\n")
    except OSError:
        pass

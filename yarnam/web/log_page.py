"""The text of a job's logs, for ``yarnam ui``: bytes in, HTML out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from yarnam.web.rendering import html

LINES = 500
"""The page shows the end of a log: this many lines of it, and MAX_BYTES of them."""
MAX_BYTES = 256 << 10
MAX_LOGS = 16
"""On one page, as of a task with a process for each of 16 GPUs."""
MAX_READ_BYTES = 64 << 20
"""A log without line ends is not read to its end."""

SOURCES = {"processes": "processes", "agent": "agents", "am": "ApplicationMaster"}

_MAX_DIGITS = 9
_MAX_NAME = 200
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class LogChoice:
    """The choice of logs. ``None`` if not chosen."""

    source: str = "processes"
    rank: int | None = None
    task: str | None = None


@dataclass(frozen=True, slots=True)
class LogText:
    """The end of one log."""

    title: str
    text: str
    is_cut: bool = False
    """Whether it is longer than what is shown."""


@dataclass(frozen=True, slots=True)
class LogsView:
    """``chosen`` shows the defaults if nothing was chosen. ``last_rank`` is ``None`` if unknown."""

    application: str
    name: str
    is_live: bool
    chosen: LogChoice
    home: str
    at_s: float
    logs: Sequence[LogText] = ()
    notes: Sequence[str] = ()
    last_rank: int | None = None


def log_choice(query: Mapping[str, str]) -> LogChoice | None:
    """Read the choice from the fields of an address; ``None`` if they are invalid."""
    source = query.get("source", "") or "processes"
    rank, task = query.get("rank", "").strip(), query.get("task", "").strip()
    if source not in SOURCES or len(task) > _MAX_NAME:
        return None
    if rank and not (rank.isascii() and rank.isdecimal() and len(rank) <= _MAX_DIGITS):
        return None
    return LogChoice(source, int(rank) if rank else None, task or None)


def log_tails(pieces: Iterable[tuple[str, bytes]]) -> tuple[list[LogText], list[str]]:
    """The ends of logs that come as (title, some bytes), and what the reader should know."""
    tails: dict[str, tuple[bytes, bool]] = {}
    notes, read, left_out = [], 0, set[str]()
    for title, data in pieces:
        if title not in tails and len(tails) >= MAX_LOGS:
            left_out.add(title)
            continue
        known, is_cut = tails.get(title, (b"", False))
        both = known + data[-MAX_BYTES:]
        is_cut = is_cut or len(known) + len(data) > MAX_BYTES
        tails[title] = both[-MAX_BYTES:], is_cut
        read += len(data)
        if read > MAX_READ_BYTES:
            notes.append(f"Only the first {MAX_READ_BYTES >> 20} MiB of these lines were read.")
            break
    if left_out:
        notes.append(f"{len(left_out)} more logs are not shown: choose a rank or a task.")
    return [_log_text(title, *found) for title, found in tails.items()], notes


def _log_text(title: str, data: bytes, is_cut: bool) -> LogText:
    if is_cut:
        data = data.partition(b"\n")[2] or data
    lines = data.decode("utf-8", "replace").split("\n")
    # Show it as a terminal does: a progress bar overwrites its line, and colours are not text.
    text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)
    return LogText(title, _COLOUR.sub("", text), is_cut)


def log_page(view: LogsView) -> bytes:
    """The page, in UTF-8."""
    return html(
        "logs.html",
        view=view,
        chosen=view.chosen,
        sources=SOURCES,
        is_live=view.is_live,
        most_lines=LINES,
    )

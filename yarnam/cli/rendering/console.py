"""Output of commands: JSON, tables, notes, colours."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import click

STATE_COLOURS = {
    "SUCCEEDED": "green",
    "FAILED": "red",
    "CANCELLED": "magenta",
    "RUNNING": "cyan",
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
}


def is_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def has_colour() -> bool:
    """https://no-color.org: any value that is not empty turns colour off."""
    return is_terminal() and not os.environ.get("NO_COLOR")


def coloured(text: str, key: str = "") -> str:
    """``text`` in the colour of the state ``key`` (default: the text itself), on a terminal."""
    colour = STATE_COLOURS.get(key or text)
    return click.style(text, fg=colour) if colour and has_colour() else text


def print_json(value: Any) -> None:
    """Print one JSON document."""
    plain = _finite(value)
    sys.stdout.write(json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def print_json_line(value: Any) -> None:
    """Print one JSON document of a stream on its own line, flushed."""
    sys.stdout.write(json.dumps(_finite(value), ensure_ascii=False, allow_nan=False) + "\n")
    sys.stdout.flush()


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity (a diverged loss): they become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], colour_column: int = -1) -> str:
    """Aligned columns; the cells of ``colour_column`` in the colour of their state."""
    widths = [max(len(row[column]) for row in (headers, *rows)) for column in range(len(headers))]
    lines = []
    for number, row in enumerate((headers, *rows)):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        if number and colour_column >= 0:
            cells[colour_column] = coloured(cells[colour_column], row[colour_column])
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def print_note(text: str) -> None:
    """Print a note for the user on standard error; standard output is for results."""
    click.echo(text, err=True)


def duration(seconds: float) -> str:
    """As in ``42s``, ``3m05s``, ``2h07m``, ``5d03h``."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02}h"


def clock_time(at_s: float) -> str:
    """Local time of day, with the date unless it is today."""
    then = time.localtime(at_s)
    today = time.localtime()
    same_day = (then.tm_year, then.tm_yday) == (today.tm_year, today.tm_yday)
    return time.strftime("%H:%M:%S" if same_day else "%Y-%m-%d %H:%M:%S", then)

"""The one way to the terminal: lines, tables, JSON, notes, errors, the output of processes.

Whatever a command prints comes through here and is made printable here, as most of it is text of
others. Styles of ours are values (``Styled``), never characters within the text.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO, Union

import click

from yarnam._light_imports import on_first_use
from yarnam.core.model.printable import (
    MOST_SHOWN_AT_S,
    printable,
    printable_json,
    printable_lines,
    within,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

with on_first_use():
    from rich import console as rich_console
    from rich import text as rich_text

STATE_COLOURS = {
    "SUCCEEDED": "green",
    "FAILED": "red",
    "CANCELLED": "magenta",
    "RUNNING": "cyan",
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
}

_RESET = "\x1b[0m"
_PROCESS_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")


@dataclass(frozen=True)
class Styled:
    """A part of a line in a style of ours."""

    text: str
    colour: str | None = None
    is_bold: bool = False


Part = Union[str, Styled]
Line = Union[Part, tuple[Part, ...]]


def is_terminal(stream: TextIO | None = None) -> bool:
    """Whether standard output, or ``stream``, is a terminal that understands escape sequences."""
    return (stream or sys.stdout).isatty() and os.environ.get("TERM") != "dumb"


def has_colour(stream: TextIO | None = None) -> bool:
    """https://no-color.org: any value that is not empty turns colour off."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def coloured(text: str, key: str = "") -> Part:
    """``text`` in the colour of the state ``key`` (default: the text itself)."""
    colour = STATE_COLOURS.get(key or text)
    return Styled(text, colour) if colour else text


def print_line(*parts: Part) -> None:
    """Print one line of results. A line break within it is shown as an escape."""
    _write(sys.stdout, "".join(_shown(part, sys.stdout) for part in parts))


def print_lines(lines: Iterable[Line]) -> None:
    """Print lines of results."""
    for line in lines:
        print_line(*(line if isinstance(line, tuple) else (line,)))


def print_table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], colour_column: int = -1
) -> None:
    """Print aligned columns; the cells of ``colour_column`` in the colour of their state."""
    print_lines(table(headers, rows, colour_column))


def table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], colour_column: int = -1
) -> Iterator[Line]:
    """The lines of ``print_table``, for the middle of a longer text."""
    cells = [[printable(cell) for cell in row] for row in (headers, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for number, row in enumerate(cells):
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        if not number or colour_column < 0:
            yield "  ".join(padded).rstrip()
            continue
        before = "".join(f"{cell}  " for cell in padded[:colour_column])
        after = "".join(f"  {cell}" for cell in padded[colour_column + 1 :]).rstrip()
        yield before, coloured(padded[colour_column], row[colour_column].partition(" ")[0]), after


def is_confirmed(question: str) -> bool:
    """The answer of the user at the terminal: no, unless it is yes. Raises click.Abort at its
    end."""
    return click.confirm(printable(question), err=True)


def print_document(text: str) -> None:
    """Print text for a file or a shell: to a pipe as it is, on a terminal made printable."""
    shown = printable(text, keep="\n\t") if is_terminal() else text
    _write(sys.stdout, shown.removesuffix("\n"))


def print_json(value: Any) -> None:
    """Print one JSON document."""
    _write(sys.stdout, json_text(value, indent=2))


def print_json_line(value: Any) -> None:
    """Print one JSON document of a stream on its own line."""
    _write(sys.stdout, json_text(value))


def json_text(value: Any, indent: int | None = None) -> str:
    """As JSON that does nothing to a terminal. NaN and infinity, which JSON lacks, become null."""
    is_unicode = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    plain = _finite(value)
    return printable_json(
        json.dumps(plain, indent=indent, ensure_ascii=not is_unicode, allow_nan=False)
    )


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def print_note(text: str) -> None:
    """Print a note for the user on standard error; standard output is for results."""
    _write(sys.stderr, printable_lines(text))


def print_error(message: str, hint: str = "") -> None:
    """Print an error and what to do about it on standard error."""
    label = _shown(Styled("error:", "red", is_bold=True), sys.stderr)
    hint_lines = "".join(f"\n  {printable_lines(line)}" for line in hint.split("\n") if line)
    _write(sys.stderr, f"{label} {printable_lines(message)}{hint_lines}")


def print_progress(text: str) -> None:
    """Show ``text`` in place of the last one, on a terminal's line; an empty one clears it."""
    if is_terminal(sys.stderr):
        with _named(sys.stderr):
            sys.stderr.write(f"\r{printable(text)}\x1b[K")
            sys.stderr.flush()


def print_output(name: str, lines: Iterable[bytes]) -> None:
    """Print lines of a process's output, each after the process's name if there is one.

    To a pipe or file the lines go byte by byte as the process wrote them. A terminal gets them
    printable, but for the colours; of a line that was rewritten it gets the end.
    """
    prefix = f"{printable(name)}: ".encode() if name else b""
    for line in lines:
        shown = process_line(line) if is_terminal() else line
        with _named(sys.stdout):
            sys.stdout.buffer.write(prefix + shown + b"\n")
    with _named(sys.stdout):
        sys.stdout.buffer.flush()


def print_raw(data: bytes, *, is_error: bool = False) -> None:
    """Print what a command of the user's writes, byte by byte, as `ssh` does: on a terminal it may
    do there whatever the user's own programs may."""
    stream = sys.stderr if is_error else sys.stdout
    with _named(stream):
        stream.buffer.write(data)
        stream.buffer.flush()


def process_line(line: bytes) -> bytes:
    """A line of a process's output for a terminal; see ``print_output``."""
    text = line.decode("utf-8", "replace")
    pieces = _PROCESS_COLOUR.split(text.rpartition("\r")[2] or text)
    # Every second piece is a colour: what the pattern has caught.
    pieces[::2] = [printable(piece, keep="\t") for piece in pieces[::2]]
    end = _RESET if len(pieces) > 1 else ""
    return ("".join(pieces) + end).encode()


def live_console(*, on_stderr: bool = False) -> Console:
    """For live views: nothing in a string is markup, an emoji's name or a link."""
    return rich_console.Console(stderr=on_stderr, markup=False, emoji=False, highlight=False)


def live_text(line: Line, style: str = "") -> Text:
    """A line for a live view."""
    parts = line if isinstance(line, tuple) else (line,)
    pieces = [
        (printable(part.text), f"{'bold ' * part.is_bold}{part.colour or ''}".strip())
        if isinstance(part, Styled)
        else printable(part)
        for part in parts
    ]
    return rich_text.Text.assemble(*pieces, style=style)


def _shown(part: Part, stream: TextIO) -> str:
    if isinstance(part, str):
        return printable(part, keep="\t")
    text = printable(part.text, keep="\t")
    if not has_colour(stream):
        return text
    return click.style(text, fg=part.colour, bold=part.is_bold or None)


def _write(stream: TextIO, text: str) -> None:
    encoding = stream.encoding or "utf-8"
    with _named(stream):
        stream.write(f"{text}\n".encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()


@contextmanager
def _named(stream: TextIO) -> Iterator[None]:
    """A full disk under a stream is named. Notes are lost there: the work that they are about
    continues."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if stream is not sys.stderr:
            error.filename = "/dev/stdout"
            raise


def date_time(at_s: float) -> str:
    """Local time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(within(at_s, MOST_SHOWN_AT_S)))


def clock_time(at_s: float) -> str:
    """Local time of day, with the date unless it is today."""
    then = time.localtime(within(at_s, MOST_SHOWN_AT_S))
    today = time.localtime()
    same_day = (then.tm_year, then.tm_yday) == (today.tm_year, today.tm_yday)
    return time.strftime("%H:%M:%S" if same_day else "%Y-%m-%d %H:%M:%S", then)

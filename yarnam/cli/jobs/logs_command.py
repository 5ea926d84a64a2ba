"""``yarnam logs``: the output of a job's processes."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from yarnam.cli.options import job_argument, json_option, open_client
from yarnam.cli.rendering.console import is_terminal, print_json_line, print_note

if TYPE_CHECKING:
    from yarnam.client import LogPiece

MAX_HELD_BYTES = 64 * 1024
"""A longer line is printed in parts, so that memory stays bounded."""

_CONTROLS = re.compile(r"(\x1b\[[0-9;]*m)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""Control characters that could garble a terminal; colours pass."""


@click.command("logs")
@job_argument
@click.option("-t", "--task", help="Print only this task, such as worker-0.")
@click.option(
    "-r", "--rank", type=click.IntRange(0), help="Print only the process with this global rank."
)
@click.option("-f", "--follow", is_flag=True, help="Keep printing until the job ends.")
@click.option("--tail", type=click.IntRange(0), metavar="N", help="Start N lines before the end.")
@click.option("--am", "source", flag_value="am", help="Print the ApplicationMaster's logs.")
@click.option("--agent", "source", flag_value="agent", help="Print the agents' logs.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    job: str,
    task: str | None,
    rank: int | None,
    follow: bool,
    tail: int | None,
    source: str | None,
    as_json: bool,
) -> None:
    """Print the output of a job's processes.

    Reads from the agents while the job runs, afterwards from YARN's aggregated logs. Each line is
    prefixed with its task and rank, unless you select a single rank.
    """
    with open_client(ctx) as client:
        pieces = client.job(job).logs(
            task, rank=rank, follow=follow, tail=tail, source=source or "processes"
        )
        if as_json:
            _print_json(pieces)
        else:
            _Printer(with_names=rank is None).print(pieces)


def _print_json(pieces: Iterable[LogPiece]) -> None:
    for piece in pieces:
        print_json_line(
            {
                "task": piece.task,
                "rank": piece.rank,
                "container": piece.container,
                "note": piece.is_note,
                "text": piece.data.decode("utf-8", "replace"),
            }
        )


class _Printer:
    """Whole lines, so that the output of several processes does not mix within one."""

    def __init__(self, *, with_names: bool) -> None:
        self._with_names = with_names
        self._is_terminal = is_terminal()
        self._held: dict[tuple[str, int | None, str], bytes] = {}

    def print(self, pieces: Iterable[LogPiece]) -> None:
        for piece in pieces:
            if piece.is_note:
                print_note(piece.data.decode("utf-8", "replace"))
                continue
            key = (piece.task, piece.rank, piece.container)
            data = self._held.pop(key, b"") + piece.data
            *lines, rest = data.split(b"\n")
            for line in lines:
                self._print_line(key, line)
            if len(rest) > MAX_HELD_BYTES:
                self._print_line(key, rest)
            elif rest:
                self._held[key] = rest
            sys.stdout.buffer.flush()
        for key, rest in self._held.items():
            self._print_line(key, rest)
        sys.stdout.buffer.flush()

    def _print_line(self, key: tuple[str, int | None, str], line: bytes) -> None:
        if self._is_terminal:
            text = line.decode("utf-8", "replace").rpartition("\r")[2] or line.decode(
                "utf-8", "replace"
            )
            line = _CONTROLS.sub(lambda match: match[1] or "\ufffd", text).encode()
        if self._with_names:
            task, rank, _ = key
            name = task if rank is None else f"{task}[{rank}]"
            line = f"{name}: ".encode() + line
        sys.stdout.buffer.write(line + b"\n")

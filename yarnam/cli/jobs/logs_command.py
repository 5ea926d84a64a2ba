"""``yarnam logs``: the output of a job's processes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from yarnam.cli.options import job_argument, json_option, open_client
from yarnam.cli.rendering.console import print_json_line, print_note, print_output

if TYPE_CHECKING:
    from yarnam.client import LogPiece

MAX_HELD_BYTES = 64 * 1024
"""A longer line is printed in parts, so that memory stays bounded."""


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
        self._held: dict[tuple[str, int | None, str], bytes] = {}

    def print(self, pieces: Iterable[LogPiece]) -> None:
        for piece in pieces:
            if piece.is_note:
                print_note(piece.data.decode("utf-8", "replace"))
                continue
            key = (piece.task, piece.rank, piece.container)
            data = self._held.pop(key, b"") + piece.data
            *lines, rest = data.split(b"\n")
            if len(rest) > MAX_HELD_BYTES:
                lines.append(rest)
            elif rest:
                self._held[key] = rest
            print_output(self._name(key), lines)
        for key, rest in self._held.items():
            print_output(self._name(key), [rest])

    def _name(self, key: tuple[str, int | None, str]) -> str:
        if not self._with_names:
            return ""
        task, rank, _ = key
        return task if rank is None else f"{task}[{rank}]"

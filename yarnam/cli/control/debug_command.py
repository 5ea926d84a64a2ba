"""``yarnam debug``: where a rank's process is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import job_argument, json_option, open_client
from yarnam.cli.rendering.console import Line, Styled, print_json, print_lines

if TYPE_CHECKING:
    from yarnam.client.monitor.sessions.rank_stacks import StacksOfRank

with on_first_use():
    from yarnam.client.monitor.sessions import rank_stacks
    from yarnam.wire import codec


@click.command("debug")
@job_argument
@click.option("-r", "--rank", type=click.IntRange(0), required=True, help="The global rank.")
@json_option
@click.pass_context
def command(ctx: click.Context, job: str, rank: int, as_json: bool) -> None:
    """Show the Python stacks of a rank's process, as it runs.

    They are read by py-spy where the job's environment has it, else by a signal that yarnam.train
    answers. Neither stops the process.
    """
    with open_client(ctx) as client:
        handle = client.job(job)
        found = rank_stacks.read_rank_stacks(handle.status(), rank, handle.open_session)
    if as_json:
        print_json(codec.to_plain(found))
    else:
        print_lines(stack_lines(found))


def stack_lines(found: StacksOfRank) -> Iterator[Line]:
    """The threads, each with its innermost call first."""
    stacks = found.stacks
    where = f" on {found.node}" if found.node else ""
    yield f"rank {found.rank} in {found.task}{where}, process {stacks.pid}, by {stacks.tool}"
    for thread in stacks.threads:
        yield ""
        yield Styled(thread.name, is_bold=True)
        yield from (f"  {one.function} ({one.file}:{one.line})" for one in thread.frames)

"""``yarnam scale``: wish for another size of an elastic job."""

from __future__ import annotations

import click

from yarnam.cli.options import job_argument, json_option, open_client
from yarnam.cli.output import print_json
from yarnam.errors import UsageError

AUTO = "auto"


@click.command("scale")
@job_argument
@click.argument("size", metavar="N|auto")
@json_option
@click.pass_context
def command(ctx: click.Context, job: str, size: str, as_json: bool) -> int:
    """Wish for another size of an elastic job.

    N counts what the spec counts: GPUs where it says `gpus: {min, max}`, else tasks of the elastic
    role. The job gets that size as soon as there is room for it, and keeps it; with `auto` it
    chooses by itself again. A change of size stops all processes and starts them again from their
    checkpoint. Returns when the job has noted the wish: `yarnam watch` shows what becomes of it.
    """
    wanted = _size(size)
    with open_client(ctx) as client:
        handle = client.job(job)
        scaled = handle.scale(wanted)
    if as_json:
        print_json({"application": handle.id, "tasks": scaled.tasks, "gpus": scaled.gpus})
    else:
        click.echo(f"{handle.id}: {scaled}")
    return 0


def _size(text: str) -> int | None:
    if text == AUTO:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise UsageError(f"a size is a number or `{AUTO}`, not {text!r}")
    return int(text)

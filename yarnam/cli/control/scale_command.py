"""``yarnam scale``: resize an elastic job."""

from __future__ import annotations

import click

from yarnam.cli.options import job_argument, json_option, open_client
from yarnam.cli.rendering.console import print_json, print_line
from yarnam.errors import UsageError

AUTO = "auto"


@click.command("scale")
@job_argument
@click.argument("size", metavar="N|auto")
@json_option
@click.pass_context
def command(ctx: click.Context, job: str, size: str, as_json: bool) -> None:
    """Resize an elastic job.

    N is in the unit of the spec: GPUs with `gpus: {min, max}`, otherwise tasks of the elastic role.
    The job takes that size as soon as it fits and keeps it; with `auto`, it chooses its size again.
    Resizing stops all processes and restarts them from their checkpoint. The command returns when
    the job has accepted the request; to follow it, use `yarnam watch`.
    """
    wanted = _size(size)
    with open_client(ctx) as client:
        handle = client.job(job)
        scaled = handle.scale(wanted)
    if as_json:
        print_json({"application": handle.id, "tasks": scaled.tasks, "gpus": scaled.gpus})
    else:
        print_line(f"{handle.id}: {scaled}")


def _size(text: str) -> int | None:
    if text == AUTO:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise UsageError(f"the size must be a number or `{AUTO}`, not {text!r}")
    return int(text)

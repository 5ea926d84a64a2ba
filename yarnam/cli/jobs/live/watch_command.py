"""``yarnam watch``: follow a job until it ends."""

from __future__ import annotations

import click

from yarnam.cli.options import job_argument, json_option, open_client
from yarnam.cli.rendering.live_status import follow


@click.command("watch")
@job_argument
@json_option
@click.pass_context
def command(ctx: click.Context, job: str, as_json: bool) -> int:
    """Follow a job until it ends; exit with the job's exit code.

    Shows a live view on a terminal, otherwise one line per change; with --json, one document per
    line. Ctrl-C stops watching; the job continues.
    """
    with open_client(ctx) as client:
        return follow(client.job(job), as_json=as_json)

"""``yarnam watch``: follow one job until it ends."""

from __future__ import annotations

import click

from yarnam.cli.following import follow
from yarnam.cli.options import job_argument, json_option, open_client


@click.command("watch")
@job_argument
@json_option
@click.pass_context
def command(ctx: click.Context, job: str, as_json: bool) -> int:
    """Follow one job until it ends; the exit code is the job's own.

    A live view on a terminal, a line per change elsewhere, with --json one document per line.
    Ctrl-C asks nothing and kills nothing.
    """
    with open_client(ctx) as client:
        return follow(client.job(job), as_json=as_json)

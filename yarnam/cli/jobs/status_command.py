"""``yarnam status``: the status of one job."""

from __future__ import annotations

import time

import click

from yarnam.cli.options import job_argument, json_option, open_client
from yarnam.cli.rendering.console import print_json, print_lines
from yarnam.cli.rendering.status_text import as_plain, details


@click.command("status")
@job_argument
@json_option
@click.pass_context
def command(ctx: click.Context, job: str, as_json: bool) -> None:
    """Show the status of a job.

    JOB is an application id, the start of a job name, or `last`. Exits 0 whatever the job's state;
    to get the job's own exit code, use `yarnam watch`.
    """
    with open_client(ctx) as client:
        status = client.job(job).status()
    if as_json:
        print_json(as_plain(status))
    else:
        print_lines(details(status, time.time()))

"""``yarnam status``: one job as it stands."""

from __future__ import annotations

import time

import click

from yarnam.cli.describe import as_plain, details
from yarnam.cli.options import job_argument, json_option, open_client
from yarnam.cli.output import print_json


@click.command("status")
@job_argument
@json_option
@click.pass_context
def command(ctx: click.Context, job: str, as_json: bool) -> int:
    """Show one job as it stands.

    JOB is an application id, the start of the job's name, or `last`. The exit code is 0 whatever
    became of the job; `yarnam watch` ends with the job's own.
    """
    with open_client(ctx) as client:
        status = client.job(job).status()
    if as_json:
        print_json(as_plain(status))
    else:
        for line in details(status, time.time()):
            click.echo(line)
    return 0

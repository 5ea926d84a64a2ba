"""``yarnam resume``: let a suspended job continue."""

from __future__ import annotations

import click

from yarnam.cli.options import job_argument, json_option, open_client
from yarnam.cli.rendering.console import print_json, print_line
from yarnam.cli.rendering.status_text import as_plain


@click.command("resume")
@job_argument
@json_option
@click.pass_context
def command(ctx: click.Context, job: str, as_json: bool) -> None:
    """Resume a suspended job.

    It acquires its gang again, as a new job would, and its processes continue from their
    checkpoint. The command returns when the job waits for its gang; to follow it, use `yarnam
    watch`."""
    with open_client(ctx) as client:
        handle = client.job(job)
        status = handle.resume()
    if as_json:
        print_json(as_plain(status))
    else:
        print_line(f"{handle.id} is resumed: {status.state.value}")

"""``yarnam tokens``: let a job outlive its delegation tokens."""

from __future__ import annotations

import click

from yarnam.cli.options import job_argument, json_option, open_client
from yarnam.cli.rendering.console import date_time, print_json, print_line


@click.group("tokens")
def command() -> None:
    """Replace the Kerberos tokens of a running job."""


@command.command("refresh")
@job_argument
@json_option
@click.pass_context
def refresh(ctx: click.Context, job: str, as_json: bool) -> None:
    """Give a job new delegation tokens, by your Kerberos ticket or keytab.

    A job on a site with Kerberos loses HDFS when its tokens end, after 7 days by Hadoop's defaults.
    This replaces them in the ApplicationMaster, the agents and the running processes, and prints
    until when the new ones live: a day by default. Run it more often than that, for example from
    cron, from the day on that the first ones end.
    """
    with open_client(ctx) as client:
        handle = client.job(job)
        until_s = handle.refresh_tokens()
    if as_json:
        print_json({"application": handle.id, "until_s": until_s})
    else:
        print_line(f"{handle.id}: its tokens live until {date_time(until_s)}")

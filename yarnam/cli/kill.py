"""``yarnam kill``: cancel jobs."""

from __future__ import annotations

import click

from yarnam.cli.describe import as_plain
from yarnam.cli.options import json_option, open_client
from yarnam.cli.output import print_json, say
from yarnam.errors import YarnamError


@click.command("kill")
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True)
@click.option("--reason", default="", help="Goes into the job's verdict.")
@json_option
@click.pass_context
def command(ctx: click.Context, jobs: tuple[str, ...], reason: str, as_json: bool) -> int:
    """Cancel jobs and wait until YARN says that they are gone.

    The ApplicationMaster stops the processes in order (SIGTERM, then SIGKILL after the spec's
    grace). Where it does not answer, YARN kills the job. Works in every phase; killing a job that
    is over changes nothing.
    """
    ended, failures = [], []
    with open_client(ctx) as client:
        for reference in jobs:
            try:
                job = client.job(reference)
                was_over = job.status().state.is_final
                if not was_over and not as_json:
                    say(f"Cancelling {job.id}")
                status = job.kill(reason)
            except YarnamError as error:
                failures.append(error)
                continue
            ended.append(as_plain(status))
            if not as_json:
                what = "was over already" if was_over else "is over"
                click.echo(f"{job.id} {what}: {status.state.value}")
    for failure in failures[1:]:
        say(f"error: {failure.message}")
    if failures:
        raise failures[0]
    if as_json:
        print_json(ended)
    return 0

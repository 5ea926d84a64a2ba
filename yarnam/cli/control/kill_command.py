"""``yarnam kill``: cancel jobs."""

from __future__ import annotations

import click

from yarnam.cli.options import json_option, open_client
from yarnam.cli.rendering.console import print_json, print_line, print_note
from yarnam.cli.rendering.status_text import as_plain
from yarnam.errors import UsageError, YarnamError


@click.command("kill")
@click.argument("jobs", metavar="JOB...", nargs=-1)
@click.option("--array", "arrays", metavar="ID", multiple=True, help="All jobs of this array.")
@click.option("--reason", default="", help="Record this reason in the job's verdict.")
@json_option
@click.pass_context
def command(
    ctx: click.Context, jobs: tuple[str, ...], arrays: tuple[str, ...], reason: str, as_json: bool
) -> None:
    """Cancel jobs and wait until YARN has removed them.

    The ApplicationMaster stops the processes (SIGTERM, then SIGKILL after the grace period of the
    spec). If it does not respond, YARN kills the job. Killing a finished job has no effect. Of an
    array that a client still submits, no further job is started.
    """
    if not jobs and not arrays:
        raise UsageError("no job is named", hint="Name jobs, or an array with --array.")
    ended, failures = [], []
    with open_client(ctx) as client:
        for array_id in arrays:
            members = client.job_array(array_id).kill(reason)
            ended += [as_plain(status) for status in members]
            if not as_json:
                print_line(f"array {array_id}: {len(members)} jobs are finished")
        for reference in jobs:
            try:
                job = client.job(reference)
                was_over = job.status().state.is_final
                if not was_over and not as_json:
                    print_note(f"Cancelling {job.id}")
                status = job.kill(reason)
            except YarnamError as error:
                failures.append(error)
                continue
            ended.append(as_plain(status))
            if not as_json:
                what = "was already finished" if was_over else "is finished"
                print_line(f"{job.id} {what}: {status.state.value}")
    for failure in failures[1:]:
        print_note(f"error: {failure.message}")
    if failures:
        raise failures[0]
    if as_json:
        print_json(ended)

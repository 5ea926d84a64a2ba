"""``yarnam ps``: the list of jobs."""

from __future__ import annotations

import time

import click

from yarnam.cli.describe import as_plain, training_words
from yarnam.cli.options import json_option, open_client
from yarnam.cli.output import duration, print_json, say, table
from yarnam.model.status import JobState, JobStatus


@click.command("ps")
@click.option("-a", "--all", "include_ended", is_flag=True, help="Also jobs that are over.")
@click.option("-u", "--user", help="Whose jobs; `*` for everybody's. Default: your own.")
@click.option(
    "-s",
    "--state",
    type=click.Choice([state.value for state in JobState], case_sensitive=False),
    help="Only jobs in this state.",
)
@json_option
@click.pass_context
def command(
    ctx: click.Context, include_ended: bool, user: str | None, state: str | None, as_json: bool
) -> int:
    """List jobs, the newest first."""
    whose = "" if user == "*" else user
    with open_client(ctx) as client:
        jobs = client.jobs(
            include_ended=include_ended,
            user=whose,
            state=JobState(state.upper()) if state else None,
        )
    if as_json:
        print_json([as_plain(job) for job in jobs])
    elif jobs:
        headers = ("ID", "NAME", "USER", "QUEUE", "STATE", "TASKS", "AGE", "TRAINING")
        click.echo(table(headers, [_row(job) for job in jobs], colour_column=4))
    else:
        say("No jobs." if include_ended else "No living jobs; --all shows those that are over.")
    return 0


def _row(job: JobStatus) -> tuple[str, ...]:
    is_asking = job.asked and job.state is not JobState.QUEUED
    granted = f"{job.granted}/{job.asked}" if is_asking else "-"
    age = duration(time.time() - job.submitted_at_s) if job.submitted_at_s else "-"
    training = training_words(job) or "-"
    state = job.state.value
    return (job.application, job.name, job.user, job.queue, state, granted, age, training)

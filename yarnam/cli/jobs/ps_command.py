"""``yarnam ps``: the list of jobs."""

from __future__ import annotations

import time

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import json_option, moment, open_client
from yarnam.cli.rendering.console import print_json, print_note, print_table
from yarnam.cli.rendering.status_text import as_plain, training_text
from yarnam.core.model.job_status import JobState, JobStatus
from yarnam.core.model.printable import duration

with on_first_use():
    from yarnam.client.functions import array_members


@click.command("ps")
@click.option("-a", "--all", "include_ended", is_flag=True, help="Include finished jobs.")
@click.option("-u", "--user", help="List jobs of this user; `*` lists all users. Default: you.")
@click.option(
    "-s",
    "--state",
    type=click.Choice([state.value for state in JobState], case_sensitive=False),
    help="List only jobs in this state.",
)
@click.option("-q", "--queue", metavar="QUEUE", help="List only jobs of this queue: its full name.")
@click.option("--name", default="", help="List only jobs whose name starts with this.")
@click.option("--tag", "tags", multiple=True, help="List only jobs with this tag; repeatable.")
@click.option("--array", help="List all jobs of the array with this id, finished ones included.")
@click.option(
    "--since",
    metavar="WHEN",
    help="List only jobs submitted since then: a date, or an age such as 2h.",
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    include_ended: bool,
    user: str | None,
    state: str | None,
    queue: str | None,
    name: str,
    tags: tuple[str, ...],
    array: str | None,
    since: str | None,
    as_json: bool,
) -> None:
    """List jobs, newest first. With several filters, those that pass all of them."""
    whose = "" if user == "*" else user
    if array:
        tags, include_ended = (*tags, array_members.tag_of_array(array)), True
    with open_client(ctx) as client:
        jobs = client.jobs(
            include_ended=include_ended,
            user=whose,
            state=JobState(state.upper()) if state else None,
            queue=queue,
            name=name,
            tags=tags,
            since_s=moment(since, "--since"),
        )
    if as_json:
        print_json([as_plain(job) for job in jobs])
    elif jobs:
        headers = ("ID", "NAME", "USER", "QUEUE", "STATE", "TASKS", "AGE", "TRAINING")
        print_table(headers, [_row(job) for job in jobs], colour_column=4)
    else:
        print_note(
            "No jobs found."
            if include_ended or queue or name or tags or since
            else "No active jobs. To include finished jobs, use --all."
        )


def _row(job: JobStatus) -> tuple[str, ...]:
    is_asking = job.asked and job.state is not JobState.QUEUED
    granted = f"{job.granted}/{job.asked}" if is_asking else "-"
    age = duration(time.time() - job.submitted_at_s) if job.submitted_at_s else "-"
    failed = (f"{one.failed} of role {one.role} failed" for one in job.roles if one.failed)
    awaited = f"waits for {job.awaited[0].words}" if job.awaited else ""
    more = f" and {len(job.awaited) - 1} more" if job.awaited[1:] else ""
    training = ", ".join(filter(None, [training_text(job), awaited + more, *failed])) or "-"
    state = job.state.value
    if job.is_last_known:
        state += f" ({duration(time.time() - job.at_s)} ago)"
    return (job.application, job.name, job.user, job.queue, state, granted, age, training)

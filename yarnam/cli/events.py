"""``yarnam events``: the job's story from its journal."""

from __future__ import annotations

import click

from yarnam.cli.options import job_argument, json_option, open_client
from yarnam.cli.output import clock_time, print_json
from yarnam.cli.story import in_words
from yarnam.model.events import Event
from yarnam.wire.codec import to_plain


@click.command("events")
@job_argument
@json_option
@click.pass_context
def command(ctx: click.Context, job: str, as_json: bool) -> int:
    """Tell the job's story: every event of its gang, in order, from its journal."""
    with open_client(ctx) as client:
        events = client.job(job).events()
    if as_json:
        print_json([to_plain(event, Event) for event in events])
        return 0
    for event in events:
        click.echo(f"{clock_time(event.at_s)} {in_words(event)}")
    return 0

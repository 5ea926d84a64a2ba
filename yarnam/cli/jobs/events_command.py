"""``yarnam events``: the events in a job's journal."""

from __future__ import annotations

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import job_argument, json_option, open_client
from yarnam.cli.rendering.console import clock_time, print_json, print_line
from yarnam.cli.rendering.event_text import event_text
from yarnam.core.model.events import Event
from yarnam.wire.codec import to_plain

with on_first_use():
    from yarnam.core.accounting import task_names


@click.command("events")
@job_argument
@json_option
@click.pass_context
def command(ctx: click.Context, job: str, as_json: bool) -> None:
    """List all events of a job in order, from its journal."""
    with open_client(ctx) as client:
        handle = client.job(job)
        events = handle.events()
        names = {} if as_json else task_names.task_names(handle.record().job, events)
    if as_json:
        print_json([to_plain(event, Event) for event in events])
        return
    for event in events:
        print_line(f"{clock_time(event.at_s)} {event_text(event, names)}")

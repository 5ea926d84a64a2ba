"""``yarnam queues stop`` and ``resume``: whether gangs of a queue may begin."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import json_option, open_client, seconds_of
from yarnam.cli.rendering.console import print_json, print_line, print_note
from yarnam.core.model.printable import duration

if TYPE_CHECKING:
    from yarnam.client.queues.maintenance import Ordered

with on_first_use():
    from yarnam.client.queues import maintenance
    from yarnam.wire import codec

NOT_PROTECTED = (
    "whoever reaches the ZooKeeper may change this: its jobs and its administrators are one to it. "
    "To keep it for administrators: yarnam docs nodes"
)


@click.command()
@click.argument("queue", metavar="QUEUE")
@click.option("--reason", default="", help="Shown to those who wait.")
@click.option(
    "--drain",
    metavar="DURATION",
    help="Have the gangs that run save and leave within this time. Default: they run to their end.",
)
@json_option
@click.pass_context
def stop(ctx: click.Context, queue: str, reason: str, drain: str | None, as_json: bool) -> None:
    """Let no gang of a queue begin, nor of the queues below it.

    For administrators of the queue. QUEUE is a full name. Jobs may be submitted, and wait; they
    keep their places. Applications that are not yarnam's are not stopped.
    """
    drain_s = None if drain is None else seconds_of(drain, "--drain")
    with open_client(ctx) as client:
        found = maintenance.Maintenance(client.site).stop(queue, reason, drain_s)
        show_order(found, as_json=as_json, closed="stopped")


@click.command()
@click.argument("queue", metavar="QUEUE")
@json_option
@click.pass_context
def resume(ctx: click.Context, queue: str, as_json: bool) -> None:
    """Let gangs of a stopped queue begin again."""
    with open_client(ctx) as client:
        found = maintenance.Maintenance(client.site).resume(queue)
        show_order(found, as_json=as_json, closed="stopped")


def show_order(found: Ordered, *, as_json: bool, closed: str = "cordoned") -> None:
    """Print what holds for the place now."""
    closure = found.closure
    if as_json:
        print_json({"name": found.name, "closure": codec.to_plain(closure)})
    elif closure is None:
        print_line(f"{found.name} is open to gangs again")
    else:
        text = f"{found.name} is {closed} {closure.words}"
        if closure.drain_by_s is not None:
            text += f"; its gangs leave within {duration(closure.drain_by_s - time.time())}"
        print_line(text)
    if not found.is_protected:
        print_note(NOT_PROTECTED)

"""``yarnam advise``: how many GPUs a job should have."""

from __future__ import annotations

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import json_option, open_client, queue_option
from yarnam.cli.rendering.console import print_json, print_lines

with on_first_use():
    from yarnam.cli.jobs import advice_text
    from yarnam.wire import codec


@click.command("advise")
@click.argument("spec", type=click.Path(exists=True, dir_okay=False, readable=True))
@click.option(
    "--aim",
    type=click.Choice(["gpus", "finish", "cost"]),
    default="gpus",
    show_default=True,
    help="The fewest GPUs that end within 10 % of the soonest time, the soonest end, or the fewest "
    "GPU-hours.",
)
@click.option(
    "--batch",
    type=click.Choice(["global", "per-process"]),
    help="Whether the processes divide one batch, or each has its own; by default as the measured "
    "compute suggests, else global.",
)
@click.option("--max-gpus", type=click.IntRange(1, 1024), help="The largest size to consider.")
@queue_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    spec: str,
    aim: str,
    batch: str | None,
    max_gpus: int | None,
    queue: str | None,
    as_json: bool,
) -> None:
    """Advise how many GPUs a job should have, from its measured runs.

    Each run of a job leaves its speed in your history. What was not measured is shown as a range,
    or as unknown. Starts nothing.
    """
    with open_client(ctx) as client:
        found = client.advise(spec, aim=aim, batch=batch, most_gpus=max_gpus, queue=queue)
    if as_json:
        print_json(codec.to_plain(found))
    else:
        print_lines(advice_text.as_text(found))

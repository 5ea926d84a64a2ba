"""``yarnam plan``: where a job would run, on the current cluster or on a saved snapshot."""

from __future__ import annotations

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import json_option, open_client, queue_option
from yarnam.cli.rendering.console import print_json, print_lines
from yarnam.cli.rendering.plan_text import as_plain, as_text, queues_plain, queues_text

with on_first_use():
    from yarnam.client.planning import snapshot_file


@click.command("plan")
@click.argument("spec", type=click.Path(exists=True, dir_okay=False, readable=True))
@queue_option
@click.option(
    "--snapshot",
    type=click.Path(exists=True, dir_okay=False, readable=True),
    metavar="FILE",
    help="Plan on a snapshot written by `yarnam nodes --save`, without a cluster.",
)
@click.option(
    "--compare-queues", is_flag=True, help="Show when the job would start in each queue instead."
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    spec: str,
    queue: str | None,
    snapshot: str | None,
    compare_queues: bool,
    as_json: bool,
) -> None:
    """Show where a job would run: placements, ranks, nodes and the expected wait.

    Submits and writes nothing. If the job does not fit now, prints the reason that blocks it and
    exits 0: the job would wait. Exits 91 if the job can never fit, 65 if the spec is invalid.
    """
    if compare_queues:
        _compare(ctx, spec, queue, snapshot, as_json=as_json)
        return
    if snapshot is not None:
        found = snapshot_file.outlook_on_file(spec, snapshot, queue=queue)
    else:
        with open_client(ctx) as client:
            found = client.outlook(spec, queue=queue)
    if as_json:
        print_json(as_plain(found))
    else:
        print_lines(as_text(found))


def _compare(
    ctx: click.Context, spec: str, queue: str | None, snapshot: str | None, *, as_json: bool
) -> None:
    if snapshot is not None:
        rows = snapshot_file.compare_queues_on_file(spec, snapshot, queue=queue)
    else:
        with open_client(ctx) as client:
            rows = client.compare_queues(spec, queue=queue)
    if as_json:
        print_json(queues_plain(rows))
    else:
        print_lines(queues_text(rows))

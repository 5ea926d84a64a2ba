"""``yarnam plan``: what would become of a job, on the cluster as it is or on a saved one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from yarnam.cli.options import json_option, open_client
from yarnam.cli.output import print_json
from yarnam.cli.plan_text import as_plain, as_text

if TYPE_CHECKING:
    from yarnam.client.outlook import Outlook


@click.command("plan")
@click.argument("spec", type=click.Path(exists=True, dir_okay=False, readable=True))
@click.option("-q", "--queue", help="In place of the spec's queue.")
@click.option(
    "--snapshot",
    type=click.Path(exists=True, dir_okay=False, readable=True),
    metavar="FILE",
    help="Plan on the cluster in this file, as `yarnam nodes --save` made it; asks nobody.",
)
@json_option
@click.pass_context
def command(
    ctx: click.Context, spec: str, queue: str | None, snapshot: str | None, as_json: bool
) -> int:
    """Show where a job would go: the ladder of placements, the ranks, the nodes, the wait.

    Nothing is asked of YARN and nothing is written. Exits 0 also when the job does not fit now: it
    would wait, and what is in its way is said. Exits 91 when it can never fit, 65 when the spec is
    wrong.
    """
    if snapshot is not None:
        found = _on_file(spec, snapshot, queue)
    else:
        with open_client(ctx) as client:
            found = client.outlook(spec, queue=queue)
    if as_json:
        print_json(as_plain(found))
    else:
        for line in as_text(found):
            click.echo(line)
    return 0


def _on_file(spec: str, snapshot: str, queue: str | None) -> Outlook:
    from yarnam.client.offline import outlook_on_file

    return outlook_on_file(spec, snapshot, queue=queue)

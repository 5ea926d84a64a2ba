"""``yarnam doctor``: check this machine and the cluster."""

from __future__ import annotations

import click

from yarnam.cli.options import json_option, open_client
from yarnam.cli.output import coloured, print_json


@click.command("doctor")
@click.option("-q", "--queue", default="", help="The queue to look at. Default: all.")
@json_option
@click.pass_context
def command(ctx: click.Context, queue: str, as_json: bool) -> int:
    """Check everything that a job needs, on this machine and on the cluster.

    Each part is ok, warn or fail, with what to do. Writes and removes one small file on HDFS. The
    exit code is 0 unless a part fails.
    """
    from yarnam.client.doctor import examine, exit_code

    with open_client(ctx) as client:
        findings = examine(client.site, queue)
    if as_json:
        print_json(
            [
                {
                    "part": finding.part,
                    "health": finding.health.value,
                    "message": finding.message,
                    "hint": finding.hint,
                }
                for finding in findings
            ]
        )
    else:
        width = max(len(finding.part) for finding in findings)
        for finding in findings:
            mark = coloured(finding.health.value.ljust(4), finding.health.value)
            click.echo(f"{mark}  {finding.part.ljust(width)}  {finding.message}")
            for line in finding.hint.splitlines():
                click.echo(f"      {' ' * width}  → {line}")
    return exit_code(findings)

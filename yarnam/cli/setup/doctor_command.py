"""``yarnam doctor``: check this machine and the cluster."""

from __future__ import annotations

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import json_option, open_client
from yarnam.cli.rendering.console import coloured, print_json, print_line
from yarnam.errors import NoPermission

with on_first_use():
    from yarnam.client.doctor import cluster_checks


@click.command("doctor")
@click.option("-q", "--queue", default="", help="Check this queue. Default: all.")
@json_option
@click.pass_context
def command(ctx: click.Context, queue: str, as_json: bool) -> int:
    """Check everything a job needs, on this machine and on the cluster.

    Reports each check as ok, warn or fail, with what to do. Writes and deletes a small file on HDFS
    and a node in ZooKeeper. Exits 0 unless a check fails.
    """
    try:
        with open_client(ctx) as client:
            findings = cluster_checks.run_checks(client.site, queue)
    except NoPermission as error:
        # Without a ticket nothing of a site with Kerberos can be asked.
        findings = [cluster_checks.without_ticket(error)]
    if as_json:
        print_json(
            [
                {"part": f.part, "health": f.health.value, "message": f.message, "hint": f.hint}
                for f in findings
            ]
        )
    else:
        width = max(len(finding.part) for finding in findings)
        for finding in findings:
            mark = coloured(finding.health.value.ljust(4), finding.health.value)
            print_line(mark, f"  {finding.part.ljust(width)}  {finding.message}")
            for line in filter(None, finding.hint.split("\n")):
                print_line(f"      {' ' * width}  → {line}")
    return cluster_checks.exit_code(findings)

"""``yarnam queues lint``: check a file of queues before YARN reads it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import json_option, new_file_option
from yarnam.cli.rendering.console import Styled, print_json, print_line, print_note
from yarnam.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yarnam.core.queues.lint import Finding

with on_first_use():
    from yarnam.client.data import output_file
    from yarnam.client.queues import lint_file

_COLOURS = {"error": "red", "warning": "yellow", "note": "blue"}
_VERSIONS = ("3.1", "3.2", "3.3", "3.4")


@click.command("lint")
@click.argument("file", metavar="FILE")
@click.option("--site", default="", metavar="DIR", help="Check with the Hadoop settings in DIR.")
@click.option(
    "--cluster",
    default="",
    metavar="SNAPSHOT",
    help="Check with the nodes in SNAPSHOT, a file by `yarnam nodes --save`.",
)
@click.option(
    "--hadoop",
    default=_VERSIONS[-1],
    show_default=True,
    type=click.Choice(_VERSIONS),
    help="The version that will read the file.",
)
@click.option("--fix", is_flag=True, help="Write what is proposed into a new file, --output.")
@new_file_option
@json_option
def command(
    file: str,
    site: str,
    cluster: str,
    hadoop: str,
    fix: bool,
    output: str | None,
    as_json: bool,
) -> int:
    """Check a file of queues for what hurts gangs and GPUs.

    FILE is an allocation file (fair-scheduler.xml) or the settings of the Capacity Scheduler
    (capacity-scheduler.xml); its content tells which.

    Prints each finding with its line, why it hurts, and XML to write instead. An error means that
    YARN refuses the file, reads it otherwise than written, or can start no gang. Needs no cluster.
    Where neither the file nor the site knows GPUs, findings about them are notes. Exits 78 if there
    is an error, else 0. With --fix and --output, the new file has each proposal in its place, keeps
    comments and layout, and is what is checked; FILE is never changed.
    """
    if fix != (output is not None):
        raise UsageError("--fix and --output belong together: the file itself is never changed")
    major, _, minor = hadoop.partition(".")
    version = int(major), int(minor)
    if output is None:
        found = lint_file.lint_file(file, site=site, cluster=cluster, hadoop=version)
    else:
        text, count, found = lint_file.fixed_file(file, site=site, cluster=cluster, hadoop=version)
        with output_file.output_file(output, is_new=True) as draft:
            draft.write_bytes(text)
        print_note(f"Fixes written to {output}: {count}.")
        file = output
    if as_json:
        print_json([plain(finding) for finding in found])
    else:
        print_findings(file, found)
    return int(lint_file.exit_code(found))


def print_findings(file: str, found: Sequence[Finding]) -> None:
    """Each with its reason, and how many there are."""
    for finding in found:
        severity = finding.severity.value
        where = f"{file}:{finding.line}" if finding.line else "site"
        label = Styled(severity, _COLOURS[severity])
        print_line(f"{where}: ", label, f": {finding.message} [{finding.rule}]")
        print_line(f"    {finding.why}")
        if finding.mended:
            print_line(f"    instead: {finding.mended}")
    counts = Counter(finding.severity.value for finding in found)
    if found:
        shown = ("error", "warning", "note") if counts["note"] else ("error", "warning")
        print_line(", ".join(_count(counts[name], name) for name in shown))
    else:
        print_line(f"{file}: ok")


def plain(finding: Finding) -> dict[str, object]:
    """For ``--json``."""
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "line": finding.line,
        "message": finding.message,
        "why": finding.why,
        "mended": finding.mended,
    }


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"

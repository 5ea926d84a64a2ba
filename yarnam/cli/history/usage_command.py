"""``yarnam usage``: what the GPUs were used for."""

from __future__ import annotations

from pathlib import Path

import click

from yarnam.cli.history.history_options import chosen, filter_options, note_gaps
from yarnam.cli.options import json_option, open_client
from yarnam.cli.rendering.console import print_json, print_line, print_note, print_table
from yarnam.cli.rendering.history_text import sum_line, usage_cells, usage_headers, usage_plain
from yarnam.client.monitor.history_exports import write_usage
from yarnam.core.accounting.job_summary import sum_of
from yarnam.core.accounting.usage import GROUPS, usage
from yarnam.errors import UsageError


@click.command("usage")
@filter_options
@click.option(
    "--by",
    default="queue,user,week",
    show_default=True,
    help=f"What to group by, separated by commas: {', '.join(GROUPS)}.",
)
@click.option(
    "--parquet", type=click.Path(path_type=Path), help="Write the table to this Parquet file."
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    user: str,
    queue: str,
    state: str | None,
    name: str,
    since: str | None,
    until: str | None,
    by: str,
    parquet: Path | None,
    as_json: bool,
) -> None:
    """Add up the GPU hours of ended jobs: held, trained, lost, and what was lost to.

    Each job counts in the week (UTC, named by its Monday) in which it ended. The ETTR is weighted
    by GPUs. LOST is training that had to be done again; OVERHEAD is GPU time without training:
    held incomplete, staging, starting, recovering, idle.
    """
    columns = _columns(by)
    with open_client(ctx) as client:
        listing = client.history.jobs(chosen(queue, state, name, since, until), user)
    note_gaps(listing)
    rows = usage(listing.rows, columns)
    if parquet is not None:
        count = write_usage(parquet, columns, rows)
        print_note(f"Rows written to {parquet}: {count}.")
    if as_json:
        print_json([usage_plain(columns, row) for row in rows])
    elif not rows:
        print_note("No jobs found.")
    elif parquet is None:
        print_table(usage_headers(columns), [usage_cells(row) for row in rows])
        print_line(sum_line(sum_of(listing.rows)))


def _columns(text: str) -> tuple[str, ...]:
    columns = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    wrong = [name for name in columns if name not in GROUPS]
    if wrong or not columns:
        raise UsageError(f"--by {text}: group by {', '.join(GROUPS)}, separated by commas")
    return columns

"""``yarnam history``: the jobs that have ended."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from yarnam.cli.history.history_options import chosen, filter_options, note_gaps
from yarnam.cli.options import json_option, moment, open_client
from yarnam.cli.rendering.console import (
    print_json,
    print_line,
    print_lines,
    print_note,
    print_table,
)
from yarnam.cli.rendering.history_text import (
    HEADERS,
    record_lines,
    row_cells,
    sum_line,
    sum_plain,
    summary_plain,
)
from yarnam.client.monitor.history_exports import write_philly, write_summaries
from yarnam.client.submit.leftovers.job_removal import JobFiles
from yarnam.core.accounting.job_summary import sum_of, summary_of
from yarnam.errors import UsageError
from yarnam.wire.codec import to_plain

LIMIT = 50


@click.group("history")
def command() -> None:
    """List, show and export jobs that have ended."""


@command.command("list")
@filter_options
@click.option(
    "-n", "--limit", type=click.IntRange(0), default=LIMIT, show_default=True,
    help="Show at most N records, newest first (0 = all).",
)  # fmt: skip
@click.option("--sum", "only_sum", is_flag=True, help="Print only the sum over all jobs.")
@json_option
@click.pass_context
def list_(
    ctx: click.Context,
    user: str,
    queue: str,
    state: str | None,
    name: str,
    since: str | None,
    until: str | None,
    limit: int,
    only_sum: bool,
    as_json: bool,
) -> None:
    """List jobs that have ended, newest first, with their GPU hours and ETTR.

    ETTR is the training that was kept, as a share of all the time since the submit.
    """
    with open_client(ctx) as client:
        listing = client.history.jobs(chosen(queue, state, name, since, until), user)
    note_gaps(listing)
    rows = listing.rows
    total = sum_of(rows)
    shown = () if only_sum else rows[: limit or len(rows)]
    if as_json:
        plain = {"jobs": [summary_plain(row) for row in shown], "sum": sum_plain(total)}
        print_json(plain)
        return
    if not rows:
        print_note("No jobs found.")
        return
    if shown:
        print_table(HEADERS, [row_cells(row) for row in shown], colour_column=5)
    if len(shown) < len(rows) and not only_sum:
        print_note(f"{len(rows) - len(shown)} older jobs are not shown: use --limit.")
    print_line(sum_line(total))


@command.command()
@click.argument("job", metavar="JOB")
@click.option("-u", "--user", default="", help="A job of this user. Default: you.")
@json_option
@click.pass_context
def show(ctx: click.Context, job: str, user: str, as_json: bool) -> None:
    """Show the record of a job that has ended.

    JOB is an application id, the start of a job name (the newest of that name), or `last`.
    """
    with open_client(ctx) as client:
        record = client.history.record(job, user)
    if as_json:
        print_json(to_plain(record))
    else:
        print_lines(record_lines(record))


@command.command()
@filter_options
@click.option(
    "-f",
    "--format",
    "kind",
    type=click.Choice(["parquet", "philly"]),
    required=True,
    help="`parquet`: one row for each job. `philly`: the JSON of Microsoft's Philly trace.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The file to write."
)
@click.pass_context
def export(
    ctx: click.Context,
    user: str,
    queue: str,
    state: str | None,
    name: str,
    since: str | None,
    until: str | None,
    kind: str,
    output: Path,
) -> None:
    """Write jobs that have ended to a file for other tools."""
    with open_client(ctx) as client:
        history = client.history
        listing = history.jobs(chosen(queue, state, name, since, until), user)
        note_gaps(listing)
        if kind == "parquet":
            count = write_summaries(output, listing.rows)
        else:
            count = write_philly(output, history.records(listing.rows))
    print_note(f"Jobs written to {output}: {count}.")


@command.command()
@json_option
@click.pass_context
def repair(ctx: click.Context, as_json: bool) -> None:
    """Write the records of your jobs whose ApplicationMaster was lost before it could."""
    with open_client(ctx) as client:
        written = client.history.repair()
    if as_json:
        print_json([summary_plain(summary_of(one)) for one in written])
        return
    for one in written:
        print_line(f"{one.application}  {one.name}  {one.verdict.kind.value}")
    print_note(f"Records written: {len(written)}.")


@command.command()
@json_option
@click.pass_context
def compact(ctx: click.Context, as_json: bool) -> None:
    """Put your records together, so that they are listed faster.

    Also removes records of jobs that ended more than two years before the newest, and the oldest
    above 100,000.
    Lists do this by themselves when there are many new records.
    """
    with open_client(ctx) as client:
        count = client.history.compact()
    if as_json:
        print_json({"records": count})
        return
    print_note(f"Records put together: {count}.")


@command.command()
@click.option(
    "--before", metavar="WHEN", help="Jobs that ended before: a date, or an age such as 365d."
)
@click.option("--keep", type=click.IntRange(0), help="All but the newest N.")
@click.option(
    "--jobs",
    "files",
    is_flag=True,
    help="Remove the files of jobs that ended more than 30 days ago, and keep the records.",
)
@click.option("--dry-run", is_flag=True, help="With --jobs: show what would be removed.")
@json_option
@click.pass_context
def prune(
    ctx: click.Context,
    before: str | None,
    keep: int | None,
    files: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Remove your old records, or with --jobs the files of your ended jobs on HDFS.

    Each submit does the latter for some jobs. Jobs that are suspended, whose outputs or results
    are not stored or fetched, or whose spec says `keep: forever`, keep their files.
    """
    if files:
        if keep is not None or before is not None:
            raise UsageError("--jobs goes by the age of the jobs: without --before and --keep")
        with open_client(ctx) as client:
            _show_files(client.history.prune_files(is_trial=dry_run), dry_run, as_json)
        return
    if dry_run:
        raise UsageError("--dry-run is for --jobs")
    if before is None and keep is None:
        raise UsageError("say what to remove: --before, --keep, both, or --jobs")
    with open_client(ctx) as client:
        count = client.history.prune(before_s=moment(before, "--before"), keep=keep)
    if as_json:
        print_json({"records": count})
        return
    print_note(f"Records removed: {count}.")


def _show_files(found: Sequence[JobFiles], is_trial: bool, as_json: bool) -> None:
    if as_json:
        print_json([to_plain(each) for each in found])
        return
    for each in found:
        action = f"stays: {each.why_kept}" if each.why_kept else "removed"
        if is_trial and not each.why_kept:
            action = "would be removed"
        print_line(f"{each.key}  {each.application or '-'}  {action}")
    count = sum(not each.why_kept for each in found)
    print_note(f"Jobs whose files {'would be' if is_trial else 'were'} removed: {count}.")

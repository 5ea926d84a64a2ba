"""``yarnam usage``: what the GPUs were used for."""

from __future__ import annotations

import time
from pathlib import Path

import click
from click.core import ParameterSource

from yarnam._light_imports import on_first_use
from yarnam.cli.history.history_options import chosen, filter_options, note_gaps
from yarnam.cli.options import json_option, open_client, seconds_of
from yarnam.cli.rendering.console import print_json, print_line, print_note, print_table
from yarnam.cli.rendering.history_text import (
    USE_HEADERS,
    sum_line,
    usage_cells,
    usage_headers,
    usage_plain,
    use_cells,
    use_rows,
)
from yarnam.client.monitor.history_exports import write_columns, write_usage
from yarnam.client.monitor.job_history import ALL_USERS
from yarnam.core.accounting.job_summary import HistoryFilter, sum_of
from yarnam.core.accounting.usage import GROUPS, usage
from yarnam.core.accounting.use_over_time import MOST_POINTS
from yarnam.core.model.printable import duration
from yarnam.core.queues.queues_now import QueueJob
from yarnam.errors import UsageError

with on_first_use():
    from yarnam.client.planning import low_efficiencies
    from yarnam.client.queues import use_history

DAY_S = 86400.0


@click.command("usage")
@filter_options
@click.option(
    "--by",
    default="queue,user,week",
    show_default=True,
    help=f"What to group by, separated by commas: {', '.join(GROUPS)}.",
)
@click.option(
    "--every",
    metavar="DURATION",
    help="Show the GPUs of each queue over time instead: averages of intervals, such as 1h.",
)
@click.option(
    "--advice",
    is_flag=True,
    help="List the jobs whose GPUs waited for the network for more than half of each step instead.",
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
    every: str | None,
    advice: bool,
    parquet: Path | None,
    as_json: bool,
) -> None:
    """Add up the GPU hours of ended jobs: held, trained, lost, and what was lost to.

    Each job counts in the week (UTC, named by its Monday) in which it ended. The ETTR is weighted
    by GPUs. LOST is training that had to be done again; OVERHEAD is GPU time without training:
    held incomplete, staging, starting, recovering, idle.

    With --every, jobs that have not ended count too: the GPUs used, held in vain (by gangs that
    were not complete), waited for, and free of those that the cluster has now. The period is that
    of --since and --until, by default the last day.
    """
    if advice:
        if every is not None or parquet is not None:
            raise UsageError("--advice is a list of jobs: without --every and --parquet")
        _advice(ctx, chosen(queue, state, name, since, until), user, as_json)
        return
    if every is not None:
        if ctx.get_parameter_source("by") is not ParameterSource.DEFAULT:
            raise UsageError("--every is by queue: without --by")
        filters = chosen(queue, state, name, since, until)
        _over_time(ctx, filters, user, seconds_of(every, "--every"), parquet, as_json)
        return
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


def _advice(ctx: click.Context, filters: HistoryFilter, user: str, as_json: bool) -> None:
    with open_client(ctx) as client:
        found = low_efficiencies.low_efficiencies(client.history, filters, user)
    note_gaps(found.listing)
    if as_json:
        print_json([job._asdict() for job in found.jobs])
    elif not found.jobs:
        print_note(f"None of {found.measured} measured jobs computed for less than half of a step.")
    else:
        print_table(low_efficiencies.HEADERS, [job.cells for job in found.jobs])
    if found.unmeasured and not as_json:
        print_note(f"Not measured (no train.compute, or one process): {found.unmeasured} jobs.")


def _over_time(
    ctx: click.Context,
    filters: HistoryFilter,
    user: str,
    step_s: float,
    parquet: Path | None,
    as_json: bool,
) -> None:
    to_s = time.time() if filters.until_s is None else filters.until_s
    from_s = to_s - DAY_S if filters.since_s is None else filters.since_s
    if not 0 < step_s <= to_s - from_s:
        raise UsageError(f"--every has to be between 0 and {duration(to_s - from_s)}")
    if (to_s - from_s) / step_s > MOST_POINTS:
        raise UsageError(
            f"these are more than {MOST_POINTS} intervals", hint="Give a longer one: --every"
        )
    with open_client(ctx) as client:
        own = user or client.site.user

        def counts(job: QueueJob) -> bool:
            in_queue = job.queue == filters.queue or job.queue.startswith(f"{filters.queue}.")
            return (
                own in (ALL_USERS, job.user)
                and not filters.state
                and job.name.startswith(filters.name)
                and (not filters.queue or in_queue)
            )

        reader = use_history.UseReader(client.site, client.history)
        found = reader.read(filters, user, (from_s, to_s, step_s), counts)
    note_gaps(found.listing)
    if found.omitted:
        print_note(f"{found.omitted} older jobs do not count: choose a shorter period.")
    if found.missing:
        print_note(f"Only ended jobs count: {found.missing}")
    is_all = own == ALL_USERS and not (filters.queue or filters.state or filters.name)
    rows = use_rows(found.queues, found.total_gpus if is_all else None)
    if parquet is not None:
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        print_note(f"Rows written to {parquet}: {write_columns(parquet, columns)}.")
    if as_json:
        print_json(rows)
    elif parquet is None:
        print_table(USE_HEADERS, [use_cells(row) for row in rows])


def _columns(text: str) -> tuple[str, ...]:
    columns = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    wrong = [name for name in columns if name not in GROUPS]
    if wrong or not columns:
        raise UsageError(f"--by {text}: group by {', '.join(GROUPS)}, separated by commas")
    return columns

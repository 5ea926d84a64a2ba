"""``yarnam top``: what running jobs use now."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import json_option, open_client
from yarnam.cli.rendering.console import is_terminal, print_json, print_lines, print_note
from yarnam.errors import UsageError

if TYPE_CHECKING:
    from yarnam.cli.jobs.live.top_text import TopView
    from yarnam.client.monitor.live.live_jobs import LiveJobs
    from yarnam.client.monitor.live.usage_rows import UsageOrder

with on_first_use():
    from yarnam.cli.jobs.live import top_screen, top_text
    from yarnam.client.monitor.live import live_jobs, usage_rows

ONCE_LIMIT_S = 10.0
"""For all jobs to answer: one that does not takes 4 s to be given up, and a few of them are asked
at a time."""

ORDERS = ("name", "gpu", "gpu-memory", "power", "cpu", "memory", "step", "rate")
"""As ``UsageOrder``, which need not be loaded for ``--help``."""


@click.command("top")
@click.argument("job", metavar="[JOB]", required=False)
@click.option(
    "--sort",
    "order",
    type=click.Choice(ORDERS),
    help="Sort by this figure, the largest first. Default: jobs by age, tasks by rank.",
)
@click.option("--once", is_flag=True, help="Print one table and exit.")
@json_option
@click.pass_context
def command(
    ctx: click.Context, job: str | None, order: str | None, once: bool, as_json: bool
) -> int:
    """Show what your running jobs use: GPUs, CPU, memory, and their steps.

    With JOB its tasks are shown. On a terminal the table is redrawn until `q` or Ctrl-C; otherwise,
    or with --once or --json, it is printed once. A job that does not answer is shown with the age
    of its figures.
    """
    sort = None if order is None else usage_rows.UsageOrder(order)
    with open_client(ctx) as client:
        live = live_jobs.LiveJobs(client.site, "" if job is None else client.job(job).id)
        try:
            if is_terminal() and not once and not as_json:
                return top_screen.show(live, sort, has_tasks=job is not None)
            view = _read_once(live, sort, has_tasks=job is not None)
        finally:
            live.close()
    now_s = time.time()
    if as_json:
        print_json(top_text.top_plain(view, now_s))
    elif view.jobs:
        print_lines(top_text.top_lines(view, now_s))
    else:
        print_note("No active jobs.")
    return 0


def _read_once(live: LiveJobs, order: UsageOrder | None, *, has_tasks: bool) -> TopView:
    """Raises UsageError for a job that has ended: it uses nothing."""
    live.refresh()
    live.wait(ONCE_LIMIT_S)
    if live.error is not None:
        raise live.error
    view = top_screen.view_of(live, order, has_tasks=has_tasks)
    if has_tasks and view.jobs and view.jobs[0].status.state.is_final:
        application = view.jobs[0].status.application
        raise UsageError(
            f"{application} has ended: it is {view.jobs[0].status.state.value}",
            hint=f"For its result: yarnam status {application}",
        )
    return view

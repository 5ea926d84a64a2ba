"""``yarnam queues``: look at, check and change the queues of the Fair Scheduler."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import json_option, open_client
from yarnam.cli.queues.closing_commands import resume, stop
from yarnam.cli.queues.queues_change_commands import (
    apply,
    convert,
    diff,
    generate,
    history,
    undo,
)
from yarnam.cli.queues.queues_lint_command import command as lint_command
from yarnam.cli.queues.queues_what_if_command import command as what_if_command
from yarnam.cli.rendering.console import (
    is_terminal,
    live_console,
    live_text,
    print_json,
    print_json_line,
    print_line,
    print_lines,
)
from yarnam.cli.signals import INTERRUPTED, Terminated
from yarnam.errors import UsageError, YarnamError

if TYPE_CHECKING:
    from rich.console import Group

    from yarnam.cli.rendering.console import Line
    from yarnam.client import Client
    from yarnam.core.model.job_status import AwaitedJob
    from yarnam.core.policies.chosen_policy import QueuePolicy
    from yarnam.core.queues.queue_state import QueueState
    from yarnam.core.queues.queues_now import QueueJob, QueuesNow

with on_first_use():
    from rich import console as rich_console
    from rich import live

    from yarnam.cli.queues import policy_text
    from yarnam.cli.rendering import queue_text
    from yarnam.client.monitor import lookup
    from yarnam.client.queues import queue_view
    from yarnam.core.queues import queues_now, waiting

PARALLEL_READS = 16
MOST_READ = 64
"""Jobs whose ApplicationMasters are asked; each answers within milliseconds, or not at all."""

WATCH_EVERY_S = 2.0
"""Between two looks of --watch: each asks the ResourceManager for all nodes and jobs."""


node_label_option = click.option(
    "--node-label",
    default="",
    metavar="LABEL",
    help="Look at the nodes with this label (Capacity Scheduler). Default: those without one.",
)


@click.group("queues")
def command() -> None:
    """Show, check and change the scheduler's queues."""


@command.command()
@click.argument("queue", required=False, default="root", metavar="[QUEUE]")
@click.option("--watch", is_flag=True, help="Refresh every 2 seconds until Ctrl-C.")
@node_label_option
@json_option
@click.pass_context
def show(ctx: click.Context, queue: str, watch: bool, node_label: str, as_json: bool) -> int:
    """Show the queues as they are now: shares, use, jobs, and the largest gang that fits.

    QUEUE is a full name; default: all queues. FAIR is the share that a queue has now, STEADY the
    one it has when all queues are in use. The weights come from the allocation file, where this
    machine has it: the ResourceManager does not report them. Under the Capacity Scheduler CAPACITY
    is what a queue is guaranteed, ONE USER what a single user may have.
    """
    with open_client(ctx) as client:
        if watch:
            return _watch(client, queue, node_label, as_json=as_json)
        now = queue_view.queues_now(client.site, node_label)
        shown, chosen = _find(now, queue), _chosen_policies(client)
        if as_json:
            print_json(_plain(now, shown, chosen))
        else:
            print_lines(_lines(now, shown, chosen))
    return 0


def _chosen_policies(client: Client) -> Mapping[str, QueuePolicy]:
    """Empty if ZooKeeper does not answer: the queues are shown without them."""
    try:
        return client.policies.all()
    except YarnamError:
        return {}


def _lines(now: QueuesNow, shown: QueueState, chosen: Mapping[str, QueuePolicy]) -> Iterator[Line]:
    policies = {queue: policy_text.words(policy) for queue, policy in chosen.items()}
    return queue_text.queue_lines(now, shown, policies)


def _plain(
    now: QueuesNow, shown: QueueState, chosen: Mapping[str, QueuePolicy]
) -> dict[str, object]:
    below = {queue.name for queue in shown.walk()}
    policies = {
        queue: policy_text.as_plain(queue, policy)
        for queue, policy in chosen.items()
        if queue in below
    }
    return {**queue_text.queues_plain(now, shown), "policies": policies}


def _watch(client: Client, queue: str, node_label: str, *, as_json: bool) -> int:
    def take() -> tuple[QueuesNow, QueueState, Mapping[str, QueuePolicy]]:
        now = queue_view.queues_now(client.site, node_label)
        return now, _find(now, queue), _chosen_policies(client)

    def drawn() -> Group:
        return rich_console.Group(*(live_text(line) for line in _lines(*take())))

    try:
        if is_terminal() and not as_json:
            with live.Live(drawn(), console=live_console(), auto_refresh=False) as view:
                while True:
                    time.sleep(WATCH_EVERY_S)
                    view.update(drawn(), refresh=True)
        while True:
            if as_json:
                print_json_line(_plain(*take()))
            else:
                print_lines(_lines(*take()))
            time.sleep(WATCH_EVERY_S)
    except Terminated:
        raise
    except KeyboardInterrupt:
        return INTERRUPTED


@command.command()
@click.argument("what", metavar="JOB|QUEUE")
@node_label_option
@json_option
@click.pass_context
def why(ctx: click.Context, what: str, node_label: str, as_json: bool) -> int:
    """Tell why a job, or each waiting job of a queue, waits, and what would start it.

    QUEUE is a full name, as in root.dl. The answer names the first thing that holds a job up, with
    figures, and the smallest change that would remove it.
    """
    with open_client(ctx) as client:
        now, own_reason = queue_view.queues_now(client.site, node_label), ""
        if what == "root" or what.startswith("root."):
            stages = tuple(
                stage for stage in queues_now.Stage if stage is not queues_now.Stage.RUNNING
            )
            jobs = queue_text.jobs_of(now, _find(now, what), stages)
        else:
            application = lookup.find_application(client.site, what)
            jobs = [job for job in now.jobs if job.application == application]
            if not jobs:
                raise UsageError(
                    f"{application} has ended: it waits for nothing",
                    hint=f"How it ended: yarnam status {application}",
                )
        jobs = _with_awaited(client, jobs)
        if len(jobs) == 1:
            own_reason = _own_reason(client, jobs[0], now)
    if as_json:
        print_json([queue_text.job_plain(job, now) for job in jobs])
        return 0
    if not jobs:
        print_line(f"No job of {what} waits.")
    for job in jobs:
        print_lines(queue_text.why_lines(job, now, own_reason))
    return 0


def _with_awaited(client: Client, jobs: list[QueueJob]) -> list[QueueJob]:
    """The jobs without a ticket may wait for others, as they alone know: those of this user."""
    unknown = [job for job in jobs if job.awaits_gang and job.user == client.site.user]
    with ThreadPoolExecutor(PARALLEL_READS, thread_name_prefix="status") as pool:
        found = pool.map(lambda job: _awaited(client, job), unknown[:MOST_READ])
    awaited = dict(zip((job.application for job in unknown), found, strict=False))
    return [replace(job, awaited=awaited.get(job.application, ())) for job in jobs]


def _awaited(client: Client, job: QueueJob) -> tuple[AwaitedJob, ...]:
    try:
        return client.job(job.application).status().awaited
    except YarnamError:
        return ()


def _own_reason(client: Client, job: QueueJob, now: QueuesNow) -> str:
    """The job's own word, where tickets and queues leave the question open: it alone knows that it
    wants one rack, or which nodes it has learnt to avoid."""
    if waiting.why_waiting(job, now).cause not in waiting.OPEN or not job.is_gang:
        return ""
    try:
        status = client.job(job.application).status()
    except YarnamError:
        return ""
    queue = status.wait_queue
    missing = queue.missing if queue is not None else ""
    return "; ".join(filter(None, (status.reason, missing)))


for below in (
    *(lint_command, generate, diff, apply, undo, history, convert, what_if_command, stop, resume),
):
    command.add_command(below)


def _find(now: QueuesNow, name: str) -> QueueState:
    found = now.by_name.get(name)
    if found is None:
        close = difflib.get_close_matches(name, list(now.by_name), n=1)
        raise UsageError(
            f"the cluster has no queue {name}",
            hint=f"Did you mean {close[0]}?" if close else "To list them: yarnam queues show",
        )
    return found

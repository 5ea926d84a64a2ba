"""Follows a job to its end: a live view on a terminal, plain lines elsewhere, or JSON lines."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from yarnam.cli.describe import TASK_HEADERS, as_plain, headline, start_words, task_row
from yarnam.cli.output import clock_time, duration, is_terminal, print_json_line, say
from yarnam.cli.shell import INTERRUPTED, Terminated
from yarnam.errors import ExitCode
from yarnam.model.status import JobState, JobStatus

if TYPE_CHECKING:
    from rich.console import RenderableType

    from yarnam.client import Job

MAX_TASKS_SHOWN = 40
"""Rows of the live table; a terminal shows no more."""


def follow(job: Job, *, as_json: bool) -> int:
    """Show the job until it is over; returns the exit code of its verdict.

    Ctrl-C leaves the job alone, says how to kill it, and ends with 130.
    """
    try:
        if as_json:
            last = _as_json_lines(job)
        elif is_terminal():
            last = _live(job)
        else:
            last = _as_lines(job)
    except Terminated:
        raise
    except KeyboardInterrupt:
        say(f"\nThe job goes on. Look again: yarnam watch {job.id}; end it: yarnam kill {job.id}")
        return INTERRUPTED
    if last is None or last.verdict is None:
        return int(ExitCode.INTERNAL)
    if not as_json:
        for line in ending(last):
            click.echo(line)
    return last.verdict.exit_code


def ending(status: JobStatus) -> Iterator[str]:
    """What became of the job and what to do next."""
    verdict = status.verdict
    assert verdict is not None
    took = ""
    if status.submitted_at_s and verdict.decided_at_s > status.submitted_at_s:
        took = f" after {duration(verdict.decided_at_s - status.submitted_at_s)}"
    word = click.style(verdict.kind.value, bold=True)
    yield f"{word}{took}: {verdict.message}" if verdict.message else f"{word}{took}"
    hint = verdict.hint
    for line in hint.splitlines():
        yield f"  {line}"
    if status.state is JobState.FAILED and "yarnam logs" not in hint:
        yield f"  yarnam logs {status.application}"


def _as_json_lines(job: Job) -> JobStatus | None:
    last = None
    for last in job.watch():
        print_json_line(as_plain(last))
    return last


def _as_lines(job: Job) -> JobStatus | None:
    """A line per change that matters; steps, and inputs on their way, at most every ten seconds."""
    last, shown, shown_at = None, "", 0.0
    for last in job.watch():
        now = time.time()
        place = f"{last.turn.ahead} {last.turn.head}" if last.turn else ""
        place += " told" if last.turn and last.turn.start else ""
        key = f"{last.state} {last.phase} {last.attempt} {last.am_attempt} {last.granted} {place}"
        is_news = key != shown
        is_staging = last.state is JobState.STAGING and last.staging is not None
        is_moving = last.step is not None or is_staging
        if is_news or (is_moving and now - shown_at >= STEP_LINE_S):
            click.echo(f"{clock_time(now)} {headline(last, now)}")
            if last.turn is not None and last.turn.start is not None:
                click.echo(f"{clock_time(now)} {start_words(last.turn.start, now)}")
            shown, shown_at = key, now
    return last


STEP_LINE_S = 10.0
"""Between lines that only tell how far the training is, or its inputs are."""


def _live(job: Job) -> JobStatus | None:
    from rich.console import Console
    from rich.live import Live

    view = _View(job.id)
    console = Console(highlight=False)
    # The view is drawn again while nothing is new: the time left runs on.
    with Live(get_renderable=view.render, console=console, refresh_per_second=4, transient=False):
        for status in job.watch():
            view.status = status
    return view.status


class _View:
    """What the terminal shows."""

    def __init__(self, application: str) -> None:
        self.status: JobStatus | None = None
        self._application = application

    def render(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        status = self.status
        if status is None:
            return Text(f"{self._application}  …")
        now = time.time()
        parts: list[RenderableType] = [
            Text.assemble((status.name, "bold"), f"  {status.application}  queue {status.queue}"),
            Text.from_ansi(headline(status, now)),
        ]
        if status.turn is not None and status.turn.start is not None:
            parts.append(Text(start_words(status.turn.start, now)))
        if status.tracking_url:
            parts.append(Text(status.tracking_url, style="dim"))
        if status.tasks:
            parts.append(_tasks(status))
        if status.step is not None and status.total_steps:
            parts.append(_bar(status.step, status.total_steps, status.loss))
        if not status.state.is_final:
            parts.append(Text("Ctrl-C leaves the job alone", style="dim"))
        return Group(*parts)


def _tasks(status: JobStatus) -> RenderableType:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for header in TASK_HEADERS:
        table.add_column(header, no_wrap=header != "EXIT", overflow="ellipsis")
    for task in status.tasks[:MAX_TASKS_SHOWN]:
        table.add_row(*task_row(task))
    if len(status.tasks) > MAX_TASKS_SHOWN:
        table.add_row(f"and {len(status.tasks) - MAX_TASKS_SHOWN} more")
    return table


def _bar(step: int, total: int, loss: float | None) -> RenderableType:
    from rich.columns import Columns
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    words = f"{step}/{total}" + (f"  loss {loss:.4g}" if loss is not None else "")
    return Columns([ProgressBar(total=total, completed=min(step, total), width=40), Text(words)])

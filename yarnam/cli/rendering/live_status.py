"""Follows a job until it ends: a live view on a terminal, otherwise plain lines or JSON lines."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from yarnam._light_imports import on_first_use
from yarnam.cli.rendering.console import (
    Line,
    Styled,
    clock_time,
    is_terminal,
    live_console,
    live_text,
    print_json_line,
    print_line,
    print_lines,
    print_note,
)
from yarnam.cli.rendering.status_text import TASK_HEADERS, as_plain, headline, start_text, task_row
from yarnam.cli.signals import INTERRUPTED, Terminated
from yarnam.core.model.job_status import JobState, JobStatus
from yarnam.core.model.printable import duration, printable_lines
from yarnam.errors import ExitCode

if TYPE_CHECKING:
    from rich.console import RenderableType

    from yarnam.client import Job

with on_first_use():
    from rich import columns, live, progress_bar
    from rich import console as rich_console
    from rich import table as rich_table

WATCHING = "Ctrl-C stops watching, not the job"

MAX_TASKS_SHOWN = 40
"""Rows of the live table; few terminals show more."""


def follow(job: Job, *, as_json: bool) -> int:
    """Show the job until it ends; returns the exit code of its verdict. Ctrl-C stops watching,
    prints how to kill the job, and returns 130."""
    try:
        last = show(job.id, job.watch(), as_json=as_json)
    except Terminated:
        raise
    except KeyboardInterrupt:
        print_note("")
        print_note(
            f"The job continues. To follow it: yarnam watch {job.id}; to end it: yarnam kill "
            f"{job.id}"
        )
        return INTERRUPTED
    if last is None or last.verdict is None:
        return int(ExitCode.INTERNAL)
    if not as_json:
        print_lines(ending(last))
    return last.verdict.exit_code


def show(
    application: str, statuses: Iterable[JobStatus], *, as_json: bool, hint: str = WATCHING
) -> JobStatus | None:
    """Show each status as it comes; returns the last one. ``hint`` says what Ctrl-C does."""
    if as_json:
        return _as_json_lines(statuses)
    return _live(application, statuses, hint) if is_terminal() else _as_lines(statuses)


def ending(status: JobStatus) -> Iterator[Line]:
    """The job's verdict and what to do next."""
    verdict = status.verdict
    assert verdict is not None
    took = ""
    if status.submitted_at_s and verdict.decided_at_s > status.submitted_at_s:
        took = f" after {duration(verdict.decided_at_s - status.submitted_at_s)}"
    message = f"{took}: {verdict.message}" if verdict.message else took
    first, *others = printable_lines(message).split("\n")
    yield Styled(verdict.kind.value, is_bold=True), first
    yield from others
    hint = verdict.hint
    yield from (f"  {line}" for line in hint.split("\n") if line)
    if status.state is JobState.FAILED and "yarnam logs" not in hint:
        yield f"  yarnam logs {status.application}"


def _as_json_lines(statuses: Iterable[JobStatus]) -> JobStatus | None:
    last = None
    for last in statuses:
        print_json_line(as_plain(last))
    return last


def _as_lines(statuses: Iterable[JobStatus]) -> JobStatus | None:
    """A line per change of state; training and staging progress at most every ten seconds."""
    last, shown, shown_at = None, "", 0.0
    for last in statuses:
        now = time.time()
        place = f"{last.wait_queue.ahead} {last.wait_queue.head}" if last.wait_queue else ""
        place += " forecast" if last.wait_queue and last.wait_queue.start else ""
        key = f"{last.state} {last.phase} {last.attempt} {last.am_attempt} {last.granted} {place}"
        key += " last known" if last.is_last_known else ""
        is_news = key != shown
        is_staging = last.state is JobState.STAGING and last.staging is not None
        is_moving = last.step is not None or is_staging
        if is_news or (is_moving and now - shown_at >= STEP_LINE_S):
            print_line(f"{clock_time(now)} ", *headline(last, now))
            if last.wait_queue is not None and last.wait_queue.start is not None:
                print_line(f"{clock_time(now)} {start_text(last.wait_queue.start, now)}")
            shown, shown_at = key, now
    return last


STEP_LINE_S = 10.0
"""Between lines that only report progress."""


def _live(application: str, statuses: Iterable[JobStatus], hint: str) -> JobStatus | None:
    view = _View(application, hint)
    # The view is redrawn even without news: the time left changes.
    with live.Live(
        get_renderable=view.render, console=live_console(), refresh_per_second=4, transient=False
    ):
        for status in statuses:
            view.status = status
    return view.status


class _View:
    """The lines on the terminal."""

    def __init__(self, application: str, hint: str = WATCHING) -> None:
        self.status: JobStatus | None = None
        self._application = application
        self._hint = hint

    def render(self) -> RenderableType:
        if self.status is None:
            return live_text(f"{self._application}  …")
        return live_view(self.status, time.time(), self._hint)


def live_view(status: JobStatus, now: float, hint: str = WATCHING) -> RenderableType:
    """The job on a terminal."""
    parts: list[RenderableType] = [
        live_text(
            (Styled(status.name, is_bold=True), f"  {status.application}  queue {status.queue}")
        ),
        live_text(headline(status, now)),
    ]
    if status.wait_queue is not None and status.wait_queue.start is not None:
        parts.append(live_text(start_text(status.wait_queue.start, now)))
    if status.tracking_url:
        parts.append(live_text(status.tracking_url, "dim"))
    if status.tasks:
        parts.append(_tasks(status))
    if status.step is not None and status.total_steps:
        parts.append(_bar(status.step, status.total_steps, status.loss))
    if not status.state.is_final:
        parts.append(live_text(hint, "dim"))
    return rich_console.Group(*parts)


def _tasks(status: JobStatus) -> RenderableType:
    table = rich_table.Table(box=None, pad_edge=False, header_style="dim")
    for header in TASK_HEADERS:
        table.add_column(header, no_wrap=header != "EXIT", overflow="ellipsis")
    for task in status.tasks[:MAX_TASKS_SHOWN]:
        table.add_row(*map(live_text, task_row(task)))
    if len(status.tasks) > MAX_TASKS_SHOWN:
        table.add_row(f"and {len(status.tasks) - MAX_TASKS_SHOWN} more")
    return table


def _bar(step: int, total: int, loss: float | None) -> RenderableType:
    words = f"{step}/{total}" + (f"  loss {loss:.4g}" if loss is not None else "")
    return columns.Columns(
        [
            progress_bar.ProgressBar(total=total, completed=min(step, total), width=40),
            live_text(words),
        ]
    )

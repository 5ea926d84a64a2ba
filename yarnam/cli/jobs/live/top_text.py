"""What running jobs use, as a table that fits a terminal. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from yarnam.cli.rendering.console import Line, table
from yarnam.cli.rendering.status_text import rank_range
from yarnam.client.monitor.live.live_jobs import LiveJob
from yarnam.client.monitor.live.usage_rows import JobUse, UsageOrder, in_order, job_use, task_uses
from yarnam.core.model.job_status import byte_words
from yarnam.core.model.printable import duration, printable

GAP = 2
"""Spaces between two columns."""

SHORT = 12
"""Names are cut to this many characters before a column is left out."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table. Where a terminal is too narrow, the columns with the highest
    ``leave_out`` go first; those with 0 stay."""

    header: str
    cell: Callable[[JobUse], str]
    leave_out: int = 0
    may_be_cut: bool = False


@dataclass(frozen=True, slots=True)
class TopView:
    """The jobs to show, by job or by task."""

    jobs: Sequence[LiveJob]
    order: UsageOrder | None = None
    has_tasks: bool = False
    """Whether its one job is shown by task."""
    trouble: str = ""
    """Why the list of jobs is old; empty if it is not."""
    unread_jobs: int = 0
    """Jobs that are not read, as there are too many."""


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _size(value: float | None) -> str:
    return "-" if value is None else byte_words(int(value))


def _limit(row: JobUse) -> str:
    if row.memory_share is None:
        return "-"
    return f"{row.memory_share:.0%} of {_size(row.memory_limit_bytes)}"


def _age(row: JobUse) -> str:
    """How old the figures are; empty if they are not."""
    if row.age_s is None:
        return ""
    return "never" if math.isinf(row.age_s) else f"{duration(row.age_s)} ago"


_FIGURES = (
    Column("GPU%", lambda row: _number(row.gpu_percent, ".0f")),
    Column("GPU MEM", lambda row: _size(row.gpu_memory_bytes), 4),
    Column("WATTS", lambda row: _number(row.gpu_watts, ".0f"), 3),
    Column("CPU", lambda row: _number(row.cpu_cores, ".1f"), 3),
    Column("MEMORY", lambda row: _size(row.memory_bytes), 2),
    Column("LIMIT", _limit, 6),
    Column("STEP", lambda row: "-" if row.step is None else str(row.step), 5),
    Column("STEPS/S", lambda row: _number(row.steps_per_s, ".3g"), 1),
)

_OF_JOBS = (
    Column("ID", lambda row: row.id),
    Column("NAME", lambda row: row.name, 7, may_be_cut=True),
    Column("STATE", lambda row: row.state, 8),
    Column("GPUS", lambda row: str(row.gpus)),
    *_FIGURES,
)

_OF_TASKS = (
    Column("TASK", lambda row: row.id, may_be_cut=True),
    Column("NODE", lambda row: row.name or "-", 7, may_be_cut=True),
    Column("STATE", lambda row: row.state, 9),
    Column("RANKS", lambda row: rank_range(row.ranks), 10),
    Column("GPUS", lambda row: ",".join(row.gpu_ids) or "-", 8, may_be_cut=True),
    *_FIGURES,
)

_HEARD = Column("HEARD", lambda row: _age(row) or "now")
"""Present only if a job does not answer."""


def top_lines(
    view: TopView, now_s: float, width: int | None = None, height: int | None = None
) -> list[Line]:
    """The table, with what there is to say about it. ``width`` and ``height`` are those of the
    terminal, if it is to fit one."""
    uses = [job_use(job, now_s) for job in view.jobs]
    rows: Sequence[JobUse] = uses
    columns: tuple[Column, ...] = _OF_JOBS
    before = [f"The list of jobs is old: {view.trouble}"] if view.trouble else []
    after = [f"and {view.unread_jobs} older jobs (see: yarnam ps)"] if view.unread_jobs else []
    if view.has_tasks:
        columns = _OF_TASKS
        rows = [row for job in view.jobs for row in task_uses(job)]
        before += [_title(use) for use in uses]
        before += [f"  {job.status.reason}" for job in view.jobs if not rows and job.status.reason]
    elif any(row.age_s is not None for row in uses):
        columns = (*_OF_JOBS, _HEARD)
    rows = in_order(rows, view.order)
    if not rows:
        return [*before, "no task has started yet" if view.has_tasks else "No active jobs."]
    hidden: Sequence[str] = ()
    if width is not None:
        columns, cells, hidden = fitted(columns, rows, width)
    else:
        cells = [[column.cell(row) for column in columns] for row in rows]
    if hidden:
        after.append(f"left out, as the terminal is narrow: {', '.join(hidden)}")
    if height is not None:
        room = max(1, height - len(before) - len(after) - 1)
        if len(cells) > room:
            kept = max(1, room - 1)
            after.insert(0, f"and {len(cells) - kept} more rows")
            cells = cells[:kept]
    headers = [column.header for column in columns]
    state = headers.index("STATE") if "STATE" in headers else -1
    return [*before, *table(headers, cells, state), *after]


def _title(use: JobUse) -> str:
    parts = [f"{use.name or '(unnamed)'}  {use.id}  {use.state}"]
    if use.step is not None:
        parts.append(f"step {use.step}")
    if use.steps_per_s is not None:
        parts.append(f"{use.steps_per_s:.3g} steps/s")
    if use.age_s is not None:
        parts.append(f"heard {_age(use)}: {use.reason}" if use.reason else f"heard {_age(use)}")
    return ", ".join(parts)


def fitted(
    columns: Sequence[Column], rows: Sequence[JobUse], width: int
) -> tuple[tuple[Column, ...], list[list[str]], list[str]]:
    """The columns that fit, their cells, and the headers of those that were left out. Long names
    are cut first, with a sign."""
    kept = list(columns)
    hidden: list[str] = []
    while True:
        cells = [[printable(column.cell(row)) for column in kept] for row in rows]
        widths = [
            max([len(column.header), *(len(row[number]) for row in cells)])
            for number, column in enumerate(kept)
        ]
        over = sum(widths) + GAP * (len(kept) - 1) - width
        for number, column in enumerate(kept):
            if over > 0 and column.may_be_cut and widths[number] > SHORT:
                shorter = max(SHORT, widths[number] - over)
                over -= widths[number] - shorter
                for row in cells:
                    row[number] = cut(row[number], shorter)
        first = max(kept, key=lambda column: column.leave_out)
        if over <= 0 or not first.leave_out:
            return tuple(kept), cells, hidden
        kept.remove(first)
        hidden.append(first.header)


def cut(text: str, width: int) -> str:
    """``a long na…``."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def top_plain(view: TopView, now_s: float) -> dict[str, Any]:
    """What ``--json`` shows."""
    jobs = []
    uses = {job.status.application: job for job in view.jobs}
    for use in in_order([job_use(job, now_s) for job in view.jobs], view.order):
        tasks = in_order(task_uses(uses[use.id]), view.order)
        jobs.append(
            {
                **_plain(use, "ranks", "gpu_ids"),
                "tasks": [_plain(task, "age_s", "reason") for task in tasks],
            }
        )
    return {"at_s": now_s, "trouble": view.trouble, "unread_jobs": view.unread_jobs, "jobs": jobs}


def _plain(use: JobUse, *hidden: str) -> dict[str, Any]:
    return {name: value for name, value in asdict(use).items() if name not in hidden}

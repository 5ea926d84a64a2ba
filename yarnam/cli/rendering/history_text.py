"""Ended jobs, and what they used, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from yarnam.cli.rendering.cause_text import cause_lines
from yarnam.cli.rendering.console import Line, coloured, date_time, table
from yarnam.cli.rendering.ledger_text import ledger_line
from yarnam.core.accounting.history_record import HistoryRecord, RunPlacement
from yarnam.core.accounting.job_summary import HistorySum, JobSummary
from yarnam.core.accounting.usage import UsageRow
from yarnam.core.accounting.use_over_time import ROOT, UsePoint
from yarnam.core.model.printable import duration

HEADERS = (
    "ENDED", "ID", "NAME", "USER", "QUEUE", "STATE", "GPUS", "WALL", "GPU-H", "ETTR", "CAUSE",
)  # fmt: skip

NODES_SHOWN = 4


def row_cells(row: JobSummary) -> tuple[str, ...]:
    """The cells of one job under ``HEADERS``."""
    return (
        date_time(row.ended_at_s),
        row.application,
        row.name,
        row.user,
        row.queue,
        row.state,
        str(row.gpus),
        duration(row.wall_s),
        hours(row.held_gpu_s),
        f"{row.ettr:.0%}",
        row.cause or "-",
    )


def summary_plain(row: JobSummary) -> dict[str, Any]:
    """What ``--json`` shows of one job."""
    return {**row._asdict(), "wall_s": round(row.wall_s, 3), "ettr": round(row.ettr, 4)}


def sum_plain(total: HistorySum) -> dict[str, Any]:
    """What ``--json`` shows of a sum."""
    return {**asdict(total), "ettr": round(total.ettr, 4)}


def sum_line(total: HistorySum) -> str:
    """``120 jobs (100 succeeded, 15 failed, 5 cancelled), 812 GPU hours (…), ETTR 71%``."""
    jobs = "1 job" if total.jobs == 1 else f"{total.jobs} jobs"
    return (
        f"{jobs} ({total.succeeded} succeeded, {total.failed} failed, "
        f"{total.cancelled} cancelled), {hours(total.held_gpu_s)} GPU hours "
        f"({hours(total.kept_gpu_s)} training, {hours(total.lost_gpu_s)} lost, "
        f"{hours(total.overhead_gpu_s)} overhead), ETTR {total.ettr:.0%}"
    )


def hours(gpu_s: float) -> str:
    """GPU seconds as hours: ``0.25``, ``12.5``, ``1240``."""
    value = gpu_s / 3600
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def record_lines(record: HistoryRecord) -> Iterator[Line]:
    """The whole record."""
    verdict = record.verdict
    message, *more = verdict.message.splitlines() or [""]
    yield f"{record.name}  {record.application}"
    yield "  ", coloured(verdict.kind.value), f" (exit code {verdict.exit_code}): {message}"
    yield from (f"    {line}" for line in more)
    if record.cause is not None:
        yield from cause_lines(record.cause, indent="    ")
    yield f"  queue {record.queue}, user {record.user}"
    yield (
        f"  submitted {date_time(record.submitted_at_s)}, ended {date_time(record.ended_at_s)}, "
        f"{duration(record.ended_at_s - record.submitted_at_s)}"
    )
    if record.ledger is not None and record.ledger.wall_s:
        yield f"  {ledger_line(record.ledger)}"
    roles = ", ".join(
        f"{role.tasks} {role.name} ({role.resources.gpus} GPUs, {role.resources.memory_mib} MiB, "
        f"{role.resources.vcores} vcores each)"
        for role in record.roles
    )
    yield f"  tasks: {roles}"
    yield from (f"  {size.words}" for size in record.sizes)
    if record.advised is not None:
        last = record.sizes[-1].step_s if record.sizes else None
        yield f"  size by advice: {record.advised.words(last)}"
    yield f"  {_counts(record)}"
    if record.step is not None:
        saved = f", last saved {record.saved_step}" if record.saved_step is not None else ""
        yield f"  last step {record.step}{saved}"
    if record.checkpoint:
        yield f"  checkpoints in {record.checkpoint}"
    yield from (f"  {excluded.words}" for excluded in record.excluded_files)
    if record.output:
        yield f"  output {record.output}"
    yield from _attempts(record)
    if record.written_by != "am":
        yield "  (Its ApplicationMaster was lost: this record is from what the job left.)"


def _counts(record: HistoryRecord) -> str:
    text = f"attempts {record.attempt_count}, restarts {record.restarts}, "
    text += f"preemptions {record.preemptions}, AM attempts {record.am_attempts}"
    return text + (f", locality {record.locality}" if record.locality else "")


def _attempts(record: HistoryRecord) -> Iterator[Line]:
    if not record.attempts:
        return
    nodes = {run.attempt: _nodes(run) for run in record.placements}
    rows = [
        (
            str(one.attempt),
            date_time(one.started_at_s),
            one.level.lower(),
            f"{one.granted} of {one.asked}" + (f", {one.kept} kept" if one.kept else ""),
            nodes.get(one.attempt, "-"),
            (one.outcome.splitlines() or [""])[0] or "-",
        )
        for one in record.attempts
    ]
    yield ""
    yield from table(("ATTEMPT", "STARTED", "LEVEL", "GRANTED", "NODES", "OUTCOME"), rows)


def _nodes(run: RunPlacement) -> str:
    shown = ", ".join(node.node for node in run.nodes[:NODES_SHOWN])
    more = max(0, len(run.nodes) - NODES_SHOWN) + run.more_nodes
    return f"{shown} and {more} more" if more else shown


# ---- usage -----------------------------------------------------------------------------------


def usage_headers(columns: Sequence[str]) -> tuple[str, ...]:
    """Columns of the table of ``yarnam usage``."""
    group = tuple(name.upper() for name in columns)
    figures = ("JOBS", "FAILED", "GPU-H", "TRAINING", "LOST", "OVERHEAD", "ETTR", "TOP CAUSES")
    return (*group, *figures)


def usage_cells(row: UsageRow) -> tuple[str, ...]:
    """One row of it."""
    total = row.total
    causes = ", ".join(f"{one.cause} {hours(one.lost_gpu_s)}" for one in row.causes)
    return (
        *row.group,
        str(total.jobs),
        str(total.failed),
        hours(total.held_gpu_s),
        hours(total.kept_gpu_s),
        hours(total.lost_gpu_s),
        hours(total.overhead_gpu_s),
        f"{total.ettr:.0%}",
        causes or "-",
    )


def usage_plain(columns: Sequence[str], row: UsageRow) -> dict[str, Any]:
    """What ``--json`` shows of one row."""
    return {
        **dict(zip(columns, row.group, strict=True)),
        **sum_plain(row.total),
        "causes": [asdict(one) for one in row.causes],
    }


USE_HEADERS = ("FROM", "QUEUE", "USED", "IN VAIN", "WAITING", "FREE")


def use_rows(
    queues: Mapping[str, Sequence[UsePoint]], total_gpus: int | None
) -> list[dict[str, Any]]:
    """GPUs over time, for ``--json`` and Parquet. Of the whole cluster alone it is known what is
    free."""
    rows: list[dict[str, Any]] = []
    for queue, points in queues.items():
        for point in points:
            free = None
            if queue == ROOT and total_gpus is not None:
                free = max(0.0, round(total_gpus - point.used - point.held_in_vain, 3))
            rows.append(
                {
                    "from_s": round(point.at_s, 3),
                    "queue": queue,
                    "used_gpus": point.used,
                    "held_in_vain_gpus": point.held_in_vain,
                    "waiting_gpus": point.waiting,
                    "free_gpus": free,
                }
            )
    return sorted(rows, key=lambda row: row["from_s"])


def use_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """One interval of one queue under ``USE_HEADERS``."""
    names = ("used_gpus", "held_in_vain_gpus", "waiting_gpus", "free_gpus")
    amounts = ("-" if row[name] is None else f"{row[name]:.4g}" for name in names)
    return (date_time(row["from_s"]), row["queue"], *amounts)

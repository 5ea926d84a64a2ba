"""The use of a cluster's GPUs, summed over the jobs of the history."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from yarnam.core.accounting.job_summary import HistorySum, JobSummary, sum_of
from yarnam.core.model.printable import MOST_SHOWN_AT_S, within

TOP_CAUSES = 3


def week_of(summary: JobSummary) -> str:
    """The week in which it ended (UTC), by its Monday: ``2026-11-16``."""
    ended_at_s = within(summary.ended_at_s, MOST_SHOWN_AT_S)
    ended = datetime.fromtimestamp(ended_at_s, tz=timezone.utc)
    return (ended - timedelta(days=ended.weekday())).strftime("%Y-%m-%d")


GROUPS: Mapping[str, Callable[[JobSummary], str]] = {
    "queue": lambda summary: summary.queue,
    "user": lambda summary: summary.user,
    "week": week_of,
}
"""The keys by which jobs can be grouped."""


@dataclass(frozen=True, slots=True)
class CauseOfLoss:
    """The loss of jobs with this cause: all GPU time that was neither kept nor spent on saving.
    ``cause`` is a failure class, or ``preempted`` or ``infrastructure`` if no process failed."""

    cause: str
    jobs: int
    lost_gpu_s: float


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One group. ``group`` has the values of the columns that were grouped by, in their order."""

    group: tuple[str, ...]
    total: HistorySum
    causes: tuple[CauseOfLoss, ...]
    """Those that cost most, the worst first."""


def usage(rows: Iterable[JobSummary], by: Sequence[str]) -> tuple[UsageRow, ...]:
    """The rows by these columns (keys of ``GROUPS``), the most GPU time first; weeks in their
    order."""
    groups: dict[tuple[str, ...], list[JobSummary]] = defaultdict(list)
    keys = [GROUPS[name] for name in by]
    for row in rows:
        groups[tuple(key(row) for key in keys)].append(row)
    found = [UsageRow(group, sum_of(jobs), causes_of(jobs)) for group, jobs in groups.items()]
    week = by.index("week") if "week" in by else None

    def order(row: UsageRow) -> tuple[str, float, tuple[str, ...]]:
        return (row.group[week] if week is not None else "", -row.total.held_gpu_s, row.group)

    return tuple(sorted(found, key=order))


def causes_of(rows: Iterable[JobSummary]) -> tuple[CauseOfLoss, ...]:
    """The causes that cost the most GPU time."""
    lost: Counter[str] = Counter()
    jobs: Counter[str] = Counter()
    for row in rows:
        gpu_s = row.lost_gpu_s + row.overhead_gpu_s
        cause = _cause(row)
        if cause and gpu_s > 0:
            lost[cause] += gpu_s  # type: ignore[assignment]
            jobs[cause] += 1
    return tuple(
        CauseOfLoss(cause, jobs[cause], float(gpu_s))
        for cause, gpu_s in lost.most_common(TOP_CAUSES)
    )


def _cause(row: JobSummary) -> str:
    if row.cause:
        return row.cause
    if row.preemptions:
        return "preempted"
    return "infrastructure" if row.restarts or row.state == "FAILED" else ""

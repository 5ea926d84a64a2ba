"""A history record in one row: what lists, filters and sums go by."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, get_type_hints

from yarnam.core.accounting.history_record import HistoryRecord
from yarnam.core.model.job_status import Ledger, LedgerEntry, Use


class JobSummary(NamedTuple):
    """One ended job; a tuple, as 100,000 of them are made for a list. Times in seconds since the
    epoch; of uses, wall and GPU seconds."""

    key: str
    application: str
    name: str
    user: str
    queue: str
    state: str
    """SUCCEEDED, FAILED or CANCELLED."""
    cause: str
    """The failure class of its first cause; empty if no process failed."""
    locality: str
    exit_code: int
    tasks: int
    gpus: int
    attempts: int
    restarts: int
    preemptions: int
    submitted_at_s: float
    started_at_s: float
    """0 if it never ran."""
    ended_at_s: float
    waiting_s: float
    kept_s: float
    held_gpu_s: float
    """All GPU seconds that it held."""
    kept_gpu_s: float
    lost_gpu_s: float
    """Training that was lost."""
    overhead_gpu_s: float
    """Neither trained nor saved: held incomplete, staging, pre-run, starting, recovering, idle."""

    @property
    def wall_s(self) -> float:
        return max(0.0, self.ended_at_s - self.submitted_at_s)

    @property
    def ettr(self) -> float:
        return self.kept_s / self.wall_s if self.wall_s else 0.0


COLUMNS = JobSummary._fields
_TYPES = get_type_hints(JobSummary)
TEXT_COLUMNS = tuple(name for name in COLUMNS if _TYPES[name] is str)
WHOLE_COLUMNS = tuple(name for name in COLUMNS if _TYPES[name] is int)
NUMBER_COLUMNS = tuple(name for name in COLUMNS if _TYPES[name] is float)

OVERHEAD = (
    Use.HELD,
    Use.LOCALIZING,
    Use.STAGING,
    Use.PRE_RUN,
    Use.STARTING,
    Use.RECOVERING,
    Use.IDLE,
)


def summary_of(record: HistoryRecord) -> JobSummary:
    """The row of one record."""
    books = record.ledger or Ledger(())
    cause = record.cause
    return JobSummary(
        key=record.key,
        application=record.application,
        name=record.name,
        user=record.user,
        queue=record.queue,
        state=record.verdict.kind.value,
        cause=cause.finding.failure.value if cause is not None else "",
        locality=record.locality,
        exit_code=record.verdict.exit_code,
        tasks=record.tasks,
        gpus=record.gpus,
        attempts=record.attempt_count,
        restarts=record.restarts,
        preemptions=record.preemptions,
        submitted_at_s=round(record.submitted_at_s, 3),
        started_at_s=round(record.started_at_s or 0.0, 3),
        ended_at_s=round(record.ended_at_s, 3),
        waiting_s=round(books.of(Use.WAITING).wall_s, 1),
        kept_s=round(books.of(Use.KEPT).wall_s, 1),
        held_gpu_s=round(books.gpu_s, 1),
        kept_gpu_s=round(books.of(Use.KEPT).gpu_s, 1),
        lost_gpu_s=round(books.of(Use.LOST).gpu_s, 1),
        overhead_gpu_s=round(sum(_gpu_s(books.of(use)) for use in OVERHEAD), 1),
    )


def _gpu_s(entry: LedgerEntry) -> float:
    return entry.gpu_s


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """Empty and None: any."""

    user: str = ""
    queue: str = ""
    """The queue with those below it."""
    state: str = ""
    name: str = ""
    """The beginning of it."""
    since_s: float | None = None
    """Ended at or after this."""
    until_s: float | None = None
    """Ended before this."""

    def column_tests(self) -> tuple[tuple[str, Callable[[object], bool]], ...]:
        """The test of each column's value. Columns are tested before rows are made."""
        tests: list[tuple[str, Callable[[object], bool]]] = []
        if self.user:
            tests.append(("user", self.user.__eq__))
        if self.queue:
            queue, below = self.queue, f"{self.queue}."
            tests.append(("queue", lambda v: v == queue or str(v).startswith(below)))
        if self.state:
            tests.append(("state", self.state.__eq__))
        if self.name:
            start = self.name
            tests.append(("name", lambda v: str(v).startswith(start)))
        if self.since_s is not None:
            tests.append(("ended_at_s", self.since_s.__le__))  # type: ignore[arg-type]
        if self.until_s is not None:
            tests.append(("ended_at_s", self.until_s.__gt__))  # type: ignore[arg-type]
        return tuple(tests)

    def has(self, summary: JobSummary) -> bool:
        """Whether one row passes."""
        return all(test(getattr(summary, column)) for column, test in self.column_tests())


@dataclass(frozen=True, slots=True)
class HistorySum:
    """Several jobs added up."""

    jobs: int
    succeeded: int
    failed: int
    cancelled: int
    held_gpu_s: float
    kept_gpu_s: float
    lost_gpu_s: float
    overhead_gpu_s: float
    gpu_wall_s: float
    """Wall time times the GPUs asked for: what the ETTR is a share of."""
    gpu_kept_s: float
    """Kept training time, by the same GPUs."""

    @property
    def ettr(self) -> float:
        """Weighted by GPUs."""
        return self.gpu_kept_s / self.gpu_wall_s if self.gpu_wall_s else 0.0


def sum_of(rows: Iterable[JobSummary]) -> HistorySum:
    """All of them added up. A job without GPUs weighs as one with one GPU in the ETTR."""
    rows = list(rows)
    states = [row.state for row in rows]
    return HistorySum(
        jobs=len(rows),
        succeeded=states.count("SUCCEEDED"),
        failed=states.count("FAILED"),
        cancelled=states.count("CANCELLED"),
        held_gpu_s=sum(row.held_gpu_s for row in rows),
        kept_gpu_s=sum(row.kept_gpu_s for row in rows),
        lost_gpu_s=sum(row.lost_gpu_s for row in rows),
        overhead_gpu_s=sum(row.overhead_gpu_s for row in rows),
        gpu_wall_s=sum(row.wall_s * max(1, row.gpus) for row in rows),
        gpu_kept_s=sum(row.kept_s * max(1, row.gpus) for row in rows),
    )

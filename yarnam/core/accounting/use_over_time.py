"""GPUs over time, by queue: used, held in vain and waited for, from the history and from the jobs
that have not ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from yarnam.core.accounting.history_record import HistoryRecord
from yarnam.core.model.job_status import AttemptRecord, Holding, Use
from yarnam.core.queues.queues_now import QueueJob, Stage

ROOT = "root"
MOST_POINTS = 2000
MOST_QUEUES = 200
"""The most queues that are counted separately, by GPU time: any user can write a name into a
record."""
MOST_LEVELS = 12


@dataclass(frozen=True, slots=True)
class Span:
    """GPUs of one job from one time to another, in seconds since the epoch."""

    queue: str
    from_s: float
    to_s: float
    used: float = 0.0
    held_in_vain: float = 0.0
    """Held by a gang that was not complete."""
    waiting: float = 0.0
    """Wanted by a gang that held none."""


@dataclass(frozen=True, slots=True)
class UsePoint:
    """Averages over one interval, which begins at ``at_s``."""

    at_s: float
    used: float
    held_in_vain: float
    waiting: float


def spans_of(record: HistoryRecord) -> tuple[Span, ...]:
    """An ended job's GPUs, held and wanted. Which of it was in vain, and which pause was a wait, is
    read from its attempts; the sums are those of its ledger."""
    pieces = list(_pieces(record))
    vain = [holding.gpus > 0 and is_vain for _, _, holding, is_vain in pieces]
    waits = [
        not holding.containers and (number < len(pieces) - 1 or not record.holdings)
        for number, (_, _, holding, _) in enumerate(pieces)
    ]
    vain_gpu_s = sum(
        (to_s - from_s) * holding.gpus
        for (from_s, to_s, holding, _), is_one in zip(pieces, vain, strict=True)
        if is_one
    )
    wait_s = sum(
        to_s - from_s for (from_s, to_s, _, _), is_one in zip(pieces, waits, strict=True) if is_one
    )
    books = record.ledger
    in_vain = _part(books.of(Use.HELD).gpu_s, vain_gpu_s) if books is not None else 1.0
    in_wait = _part(books.of(Use.WAITING).wall_s, wait_s) if books is not None else 1.0
    return tuple(
        Span(
            record.queue,
            from_s,
            to_s,
            used=holding.gpus * (1.0 - in_vain if is_one_in_vain else 1.0),
            held_in_vain=holding.gpus * (in_vain if is_one_in_vain else 0.0),
            waiting=record.gpus * (in_wait if is_one_waiting else 0.0),
        )
        for (from_s, to_s, holding, _), is_one_in_vain, is_one_waiting in zip(
            pieces, vain, waits, strict=True
        )
    )


def _part(exact: float, computed: float) -> float:
    return min(1.0, exact / computed) if computed > 0 else 0.0


def _pieces(record: HistoryRecord) -> Iterator[tuple[float, float, Holding, bool]]:
    """Between two changes of what it held: from, to, the holding, and whether its attempt had not
    been complete by then."""
    holdings = [Holding(record.submitted_at_s, 0, 0), *record.holdings]
    ends = [*(one.at_s for one in record.holdings), record.ended_at_s]
    complete: set[int] = set()
    for holding, to_s in zip(holdings, ends, strict=True):
        attempt = _attempt_at(record.attempts, holding.at_s)
        if attempt is not None and holding.containers >= attempt.asked + attempt.kept:
            complete.add(attempt.attempt)
        is_vain = attempt is not None and attempt.attempt not in complete
        if to_s > holding.at_s:
            yield holding.at_s, to_s, holding, is_vain


def _attempt_at(attempts: Iterable[AttemptRecord], at_s: float) -> AttemptRecord | None:
    began = [one for one in attempts if one.started_at_s <= at_s and not one.is_pre_run]
    return began[-1] if began else None


def spans_now(jobs: Iterable[QueueJob], now_s: float) -> tuple[Span, ...]:
    """The jobs that have not ended, as far as is known of them now: how long their gangs have run,
    or they have waited."""
    return tuple(
        Span(job.queue, job.since_s, now_s, used=job.gpus)
        if job.stage is Stage.RUNNING
        else Span(job.queue, job.since_s, now_s, waiting=job.gpus)
        for job in jobs
        if job.gpus
    )


def use_over_time(
    spans: Iterable[Span], from_s: float, to_s: float, step_s: float, most_gpus: int | None = None
) -> Mapping[str, tuple[UsePoint, ...]]:
    """The averages of each interval, by queue with those below it; ``ROOT`` is all of them.
    ``most_gpus``: no job has more, whatever its record says."""
    count = max(1, min(MOST_POINTS, round((to_s - from_s) / step_s)))
    end_s = from_s + count * step_s
    parts: list[tuple[str, float, float, tuple[float, ...]]] = []
    totals: Counter[str] = Counter({ROOT: 0})
    for span in spans:
        begin, end = max(from_s, span.from_s), min(end_s, span.to_s)
        if end <= begin:
            continue
        amounts = tuple(
            max(0.0, amount if most_gpus is None else min(amount, float(most_gpus)))
            for amount in (span.used, span.held_in_vain, span.waiting)
        )
        parts.append((span.queue, (begin - from_s) / step_s, (end - from_s) / step_s, amounts))
        for name in _with_those_above(span.queue):
            totals[name] += sum(amounts) * (end - begin)  # type: ignore[assignment]
    del totals[ROOT]
    largest = sorted(totals, key=lambda name: (-totals[name], name))[: MOST_QUEUES - 1]
    sums = {name: _Sums(count) for name in (ROOT, *sorted(largest))}
    for queue, first, last, amounts in parts:
        for name in {ROOT, *_with_those_above(queue)} & sums.keys():
            sums[name].add(first, last, amounts)
    return {
        name: tuple(
            UsePoint(from_s + step_s * number, *values)
            for number, values in enumerate(one.averages())
        )
        for name, one in sums.items()
    }


def _with_those_above(queue: str) -> list[str]:
    parts = queue.split(".")[:MOST_LEVELS]
    return [".".join(parts[: number + 1]) for number in range(len(parts))]


class _Sums:
    """Three amounts in ``count`` intervals. A span costs the same however long it is: whole
    intervals are noted by its beginning and its end. Lives inside one call."""

    def __init__(self, count: int) -> None:
        self._within = [[0.0] * count for _ in range(3)]
        self._changes = [[0.0] * (count + 1) for _ in range(3)]
        self._count = count

    def add(self, begin: float, end: float, amounts: tuple[float, ...]) -> None:
        """``begin`` and ``end`` in intervals from the first."""
        first, last = int(begin), min(self._count - 1, int(end))
        for within, changes, amount in zip(self._within, self._changes, amounts, strict=True):
            if first == last:
                within[first] += amount * (end - begin)
                continue
            within[first] += amount * (first + 1 - begin)
            within[last] += amount * (end - last)
            changes[first + 1] += amount
            changes[last] -= amount

    def averages(self) -> Iterator[tuple[float, float, float]]:
        level = [0.0, 0.0, 0.0]
        for number in range(self._count):
            for kind in range(3):
                level[kind] += self._changes[kind][number]
            used, vain, waiting = (
                max(0.0, round(self._within[kind][number] + level[kind], 3)) for kind in range(3)
            )
            yield used, vain, waiting

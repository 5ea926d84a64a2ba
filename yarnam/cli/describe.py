"""A job's status in words: shared by ``status``, ``watch`` and ``submit``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from yarnam.cli.output import clock_time, coloured, duration, table
from yarnam.model.status import JobState, JobStatus, TaskStatus
from yarnam.wire.codec import to_plain

_WAITING = {JobState.QUEUED, JobState.ACQUIRING, JobState.STAGING, JobState.SUSPENDED}


def as_plain(status: JobStatus) -> dict[str, Any]:
    """What ``--json`` shows."""
    plain: dict[str, Any] = to_plain(status)
    return plain


def headline(status: JobStatus, now_s: float) -> str:
    """One line: state, what is granted, attempt, time left, steps, reason."""
    parts = [coloured(status.state.value)]
    if status.state in _WAITING and status.asked:
        parts.append(f"{status.granted} of {status.asked}{_by_level(status)}")
    if status.attempt > 1:
        parts.append(f"attempt {status.attempt} of {status.max_attempts}")
    if status.am_attempt > 1:
        parts.append(f"AM attempt {status.am_attempt}")
    if status.deadline_s is not None and not status.state.is_final:
        parts.append(f"{duration(status.deadline_s - now_s)} left")
    if training := training_words(status):
        parts.append(training)
    line = ", ".join(parts)
    # The AM's reason for waiting begins with the state and says the same at more length.
    if not status.reason or status.reason.startswith(status.state.value):
        return line
    return f"{line}: {status.reason}"


def training_words(status: JobStatus) -> str:
    """Step and loss; empty when the job tells neither."""
    parts = []
    if status.step is not None:
        of = f" of {status.total_steps}" if status.total_steps else ""
        parts.append(f"step {status.step}{of}")
    if status.loss is not None:
        parts.append(f"loss {status.loss:.4g}")
    return ", ".join(parts)


def details(status: JobStatus, now_s: float) -> Iterator[str]:
    """All of it, line by line."""
    yield f"{status.name or '(unnamed)'}  {status.application}"
    yield f"  {headline(status, now_s)}"
    yield f"  queue {status.queue}, user {status.user}"
    if status.submitted_at_s:
        ended_s = status.verdict.decided_at_s if status.verdict else 0.0
        age = duration((ended_s or now_s) - status.submitted_at_s)
        yield f"  submitted {clock_time(status.submitted_at_s)}, {age}{'' if ended_s else ' ago'}"
    if status.metrics:
        yield "  " + ", ".join(f"{name} {value:.6g}" for name, value in status.metrics)
    if status.checkpoint:
        yield f"  checkpoints in {status.checkpoint}"
    if status.tracking_url:
        yield f"  {status.tracking_url}"
    if status.tasks:
        yield ""
        yield task_table(status)
    if len(status.history) > 1:
        yield ""
        yield _history(status)
    if status.verdict is not None and status.verdict.hint:
        yield ""
        yield f"  {status.verdict.hint}"


TASK_HEADERS = ("TASK", "STATE", "NODE", "RACK", "GPUS", "RANKS", "STEP", "LOSS", "EXIT")


def task_row(task: TaskStatus) -> tuple[str, ...]:
    """The cells of one task under ``TASK_HEADERS``."""
    return (
        task.task or task.ask,
        task.state,
        task.node or "-",
        task.rack or "-",
        ",".join(task.gpu_ids) or "-",
        rank_range(task.ranks),
        "-" if task.step is None else str(task.step),
        "-" if task.loss is None else f"{task.loss:.4g}",
        task.exit_text or "-",
    )


def task_table(status: JobStatus) -> str:
    """Every task with its place and how far it is."""
    return table(TASK_HEADERS, [task_row(task) for task in status.tasks], colour_column=1)


def rank_range(ranks: tuple[int, ...]) -> str:
    """As in ``0-7``; ranks of one task follow each other."""
    if not ranks:
        return "-"
    return str(ranks[0]) if len(ranks) == 1 else f"{ranks[0]}-{ranks[-1]}"


def _by_level(status: JobStatus) -> str:
    if not status.granted_by_level:
        return ""
    parts = [f"{level.lower()} {count}" for level, count in status.granted_by_level]
    return f" ({', '.join(parts)})"


def _history(status: JobStatus) -> str:
    rows = [
        (
            str(record.attempt),
            clock_time(record.started_at_s),
            record.level.lower(),
            f"{record.granted} of {record.asked}",
            record.outcome or "goes on",
        )
        for record in status.history
    ]
    return table(("ATTEMPT", "BEGAN", "LEVEL", "GRANTED", "OUTCOME"), rows)

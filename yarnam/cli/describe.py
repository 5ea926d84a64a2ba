"""A job's status in words: shared by ``status``, ``watch`` and ``submit``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from yarnam.cli.output import clock_time, coloured, duration, table
from yarnam.model.status import (
    JobState,
    JobStatus,
    Phase,
    StagingStatus,
    StartForecast,
    TaskStatus,
    byte_words,
)
from yarnam.wire.codec import to_plain

_ON_ITS_WAY = {JobState.ACQUIRING, JobState.STAGING}

LONG_S = 3600.0
"""A job that waits for room has days for it: what is left of them is told in the last hour."""


def as_plain(status: JobStatus) -> dict[str, Any]:
    """What ``--json`` shows."""
    plain: dict[str, Any] = to_plain(status)
    return plain


def headline(status: JobStatus, now_s: float) -> str:
    """One line: state, what is granted, attempt, time left, steps, reason."""
    parts = [coloured(status.state.value)]
    if status.state in _ON_ITS_WAY and status.asked:
        parts.append(f"{status.granted} of {status.asked}{_by_level(status)}")
    if status.attempt > 1:
        parts.append(f"attempt {status.attempt} of {status.max_attempts}")
    if status.am_attempt > 1:
        parts.append(f"AM attempt {status.am_attempt}")
    if _has_deadline(status, now_s):
        assert status.deadline_s is not None
        parts.append(f"{duration(status.deadline_s - now_s)} left")
    if training := training_words(status):
        parts.append(training)
    line = ", ".join(parts)
    # The AM's reason for waiting begins with the state and says the same at more length.
    if not status.reason or status.reason.startswith(status.state.value):
        return line
    return f"{line}: {status.reason}"


def _has_deadline(status: JobStatus, now_s: float) -> bool:
    if status.deadline_s is None or status.state.is_final:
        return False
    return status.phase != Phase.PENDING.value or status.deadline_s - now_s < LONG_S


def training_words(status: JobStatus) -> str:
    """Step and loss; empty when the job tells neither."""
    parts = []
    if status.step is not None:
        of = f" of {status.total_steps}" if status.total_steps else ""
        parts.append(f"step {status.step}{of}")
    if status.loss is not None:
        parts.append(f"loss {status.loss:.4g}")
    return ", ".join(parts)


SUSPECTS_SHOWN = 10
"""Inputs that the job's processes have complained of; all of them are in the JSON."""


def start_words(start: StartForecast, now_s: float) -> str:
    """``likely to start in 25m00s (from 10m00s to 2h03m, if no others come)``."""
    if start.soonest_at_s is None or start.likely_at_s is None:
        return f"when it starts cannot be told: {start.untold}"
    likely = duration(start.likely_at_s - now_s)
    soonest = duration(start.soonest_at_s - now_s)
    if start.latest_at_s is None:
        span = f"not before {soonest}, perhaps much later"
    else:
        span = f"from {soonest} to {duration(start.latest_at_s - now_s)}"
    passed = ""
    if start.passed_until_s is not None and start.passed_until_s > now_s:
        passed = f"; smaller ones may pass it for {duration(start.passed_until_s - now_s)}"
    return f"likely to start in {likely} ({span}, if no others come{passed})"


def details(status: JobStatus, now_s: float) -> Iterator[str]:
    """All of it, line by line."""
    yield f"{status.name or '(unnamed)'}  {status.application}"
    yield f"  {headline(status, now_s)}"
    if status.turn is not None and status.turn.start is not None:
        yield f"  {start_words(status.turn.start, now_s)}"
    yield f"  queue {status.queue}, user {status.user}"
    if status.submitted_at_s:
        ended_s = status.verdict.decided_at_s if status.verdict else 0.0
        age = duration((ended_s or now_s) - status.submitted_at_s)
        yield f"  submitted {clock_time(status.submitted_at_s)}, {age}{'' if ended_s else ' ago'}"
    if status.size is not None:
        yield f"  elastic: {status.size.words}"
    yield from _inputs(status)
    if status.output is not None:
        yield f"  output: {status.output.words}"
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
    if status.blacklist:
        yield ""
        yield _blacklist(status)
    if status.verdict is not None and status.verdict.hint:
        yield ""
        yield f"  {status.verdict.hint}"


def _inputs(status: JobStatus) -> Iterator[str]:
    if status.staging is not None:
        yield f"  {staging_line(status.staging)}"
    for left in status.left_out:
        yield f"  {left.words}"
    for suspect in status.suspects[:SUSPECTS_SHOWN]:
        yield f"  {suspect.words}"
    if len(status.suspects) > SUSPECTS_SHOWN:
        yield f"  and {len(status.suspects) - SUSPECTS_SHOWN} more suspected inputs (--json)"


def staging_line(staging: StagingStatus) -> str:
    """``inputs on the nodes: 12 files, 3.2 GiB (1.1 GiB of it were there)``."""
    text = f"inputs on the nodes: {staging.files_done} of {staging.files} files, "
    text += f"{byte_words(staging.done)} of {byte_words(staging.size)}"
    if staging.is_done:
        text = f"inputs on the nodes: {staging.files} files, {byte_words(staging.size)}"
    if staging.cached:
        text += f" ({byte_words(staging.cached)} of it were there before)"
    return text


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


def _blacklist(status: JobStatus) -> str:
    rows = [(one.node, clock_time(one.until_s), one.why) for one in status.blacklist]
    return table(("REFUSED NODE", "UNTIL", "WHY"), rows)


def _history(status: JobStatus) -> str:
    rows = [
        (
            str(record.attempt),
            clock_time(record.started_at_s),
            record.level.lower(),
            f"{record.granted} of {record.asked}"
            + (f", {record.kept} kept" if record.kept else ""),
            record.outcome or "goes on",
        )
        for record in status.history
    ]
    return table(("ATTEMPT", "BEGAN", "LEVEL", "GRANTED", "OUTCOME"), rows)

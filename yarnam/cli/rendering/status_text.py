"""A job's status as text: shared by ``status``, ``watch`` and ``submit``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from yarnam.cli.rendering.console import Line, Part, clock_time, coloured, table
from yarnam.cli.rendering.ledger_text import ledger_line
from yarnam.core.model.job_status import (
    JobState,
    JobStatus,
    Phase,
    StagingStatus,
    StartForecast,
    TaskStatus,
    byte_words,
    granted_text,
)
from yarnam.core.model.printable import duration
from yarnam.core.observers.observer_registry import status_lines
from yarnam.wire.codec import to_plain

_ON_ITS_WAY = {
    JobState.PRE_RUN,
    JobState.ACQUIRING,
    JobState.STAGING,
    JobState.LAUNCHING,
    JobState.REPLACING,
}

LONG_S = 3600.0
"""The time left of a wait of days is shown only in the last hour."""


def as_plain(status: JobStatus) -> dict[str, Any]:
    """What ``--json`` shows."""
    plain: dict[str, Any] = to_plain(status)
    return plain


def headline(status: JobStatus, now_s: float) -> tuple[Part, ...]:
    """One line: state, grants, attempt, time left, steps, the reason's first line."""
    parts: list[str] = []
    if status.state in _ON_ITS_WAY and status.asked:
        parts.append(granted_text(status.granted, status.asked, status.granted_by_level))
    if status.attempt > 1:
        parts.append(f"attempt {status.attempt_words}")
    if status.am_attempt > 1:
        parts.append(f"AM attempt {status.am_attempt}")
    if _has_deadline(status, now_s):
        assert status.deadline_s is not None
        parts.append(f"{duration(status.deadline_s - now_s)} left")
    if training := training_text(status):
        parts.append(training)
    line = "".join(f", {part}" for part in parts)
    if status.is_last_known:
        line = f" as of {duration(now_s - status.at_s)} ago{line}"
    state = coloured(status.state.value)
    reason = status.reason.partition("\n")[0]
    # The AM's reason for waiting begins with the state and says the same at more length.
    if not reason or reason.startswith(status.state.value):
        return state, line
    return state, f"{line}: {reason}"


def _has_deadline(status: JobStatus, now_s: float) -> bool:
    if status.deadline_s is None or status.state.is_final:
        return False
    return status.phase != Phase.PENDING.value or status.deadline_s - now_s < LONG_S


def training_text(status: JobStatus) -> str:
    """Step and loss; empty if the job reports neither."""
    parts = []
    if status.step is not None:
        of = f" of {status.total_steps}" if status.total_steps else ""
        parts.append(f"step {status.step}{of}")
    if status.loss is not None:
        parts.append(f"loss {status.loss:.4g}")
    return ", ".join(parts)


SUSPECTS_SHOWN = 10
"""Suspected inputs to show; the JSON has all of them."""


def start_text(start: StartForecast, now_s: float) -> str:
    """``likely to start in 25m00s, 9 in 10 such jobs within 2h03m (if gangs end as their ages and
    declared durations suggest)``."""
    if start.soonest_at_s is None or start.likely_at_s is None:
        return f"start time unknown: {start.unknown_why}"
    likely = duration(start.likely_at_s - now_s)
    if start.latest_at_s is None:
        span = "possibly much later"
    else:
        span = f"9 in 10 such jobs within {duration(start.latest_at_s - now_s)}"
    passed = ""
    if start.passed_until_s is not None and start.passed_until_s > now_s:
        passed = (
            f"; smaller jobs may start first for another {duration(start.passed_until_s - now_s)}"
        )
    return (
        f"likely to start in {likely}, {span} (if gangs end as their ages and declared durations "
        f"suggest{passed})"
    )


def _of_spec(status: JobStatus) -> Iterator[Line]:
    if status.size is not None:
        yield f"  elastic: {status.size.words}"
    if status.advised:
        yield f"  size by advice: {status.advised}"
    if not status.interactive:
        yield "  sessions: off (interactive: false)"


def details(status: JobStatus, now_s: float) -> Iterator[Line]:
    """The whole status, line by line."""
    yield f"{status.name or '(unnamed)'}  {status.application}"
    yield "  ", *headline(status, now_s)
    yield from (f"    {line}" for line in status.reason.split("\n")[1:])
    if status.wait_queue is not None and status.wait_queue.start is not None:
        yield f"  {start_text(status.wait_queue.start, now_s)}"
    asked = f" (its spec asks for {status.requested_queue})" if status.requested_queue else ""
    yield f"  queue {status.queue}{asked}, user {status.user}"
    yield from _times(status, now_s)
    yield from (f"  {line.text}" for line in status_lines(status, now_s))
    yield from _of_spec(status)
    yield from (f"  role {one.words}" for one in status.roles)
    if status.pre_run is not None:
        yield f"  pre-run: {status.pre_run.words}"
    yield from _inputs(status)
    if status.output is not None:
        yield f"  output: {status.output.words}"
    if status.metrics:
        yield "  " + ", ".join(f"{name} {value:.6g}" for name, value in status.metrics)
    if status.checkpoint:
        kept = f": {status.mirror.words(now_s)}" if status.mirror is not None else ""
        yield f"  checkpoints in {status.checkpoint}{kept}"
    if status.tracking_url:
        yield f"  {status.tracking_url}"
    if status.tasks:
        yield ""
        yield from table(TASK_HEADERS, [task_row(task) for task in status.tasks], colour_column=1)
    if len(status.history) > 1:
        yield ""
        yield from _history(status)
    if status.blacklist:
        yield ""
        yield from _blacklist(status)
    if status.verdict is not None and status.verdict.hint:
        yield ""
        yield from (f"  {line}" for line in status.verdict.hint.split("\n") if line)


def _times(status: JobStatus, now_s: float) -> Iterator[str]:
    if status.submitted_at_s:
        ended_s = status.verdict.decided_at_s if status.verdict else 0.0
        age = duration((ended_s or now_s) - status.submitted_at_s)
        yield f"  submitted {clock_time(status.submitted_at_s)}, {age}{'' if ended_s else ' ago'}"
    if status.time_limit is not None and not status.state.is_final:
        yield f"  time limit {status.time_limit.words(now_s)}"
    if status.ledger is not None and status.ledger.wall_s:
        yield f"  {ledger_line(status.ledger)}"


def _inputs(status: JobStatus) -> Iterator[str]:
    if status.staging is not None:
        yield f"  {staging_line(status.staging)}"
    for left in status.excluded_files:
        yield f"  {left.words}"
    for suspect in status.suspects[:SUSPECTS_SHOWN]:
        yield f"  {suspect.words}"
    if len(status.suspects) > SUSPECTS_SHOWN:
        yield f"  and {len(status.suspects) - SUSPECTS_SHOWN} more suspected inputs (see --json)"


def staging_line(staging: StagingStatus) -> str:
    """``inputs on the nodes: 12 files, 3.2 GiB (1.1 GiB from cache)``."""
    text = f"inputs on the nodes: {staging.files_done} of {staging.files} files, "
    text += f"{byte_words(staging.done)} of {byte_words(staging.size)}"
    if staging.is_done:
        text = f"inputs on the nodes: {staging.files} files, {byte_words(staging.size)}"
    if staging.cached:
        text += f" ({byte_words(staging.cached)} from cache)"
    return text


TASK_HEADERS = ("TASK", "STATE", "NODE", "RACK", "GPUS", "RANKS", "STEP", "LOSS", "EXIT")


def task_row(task: TaskStatus) -> tuple[str, ...]:
    """The cells of one task under ``TASK_HEADERS``."""
    return (
        task.name,
        task.state,
        task.node or "-",
        task.rack or "-",
        ",".join(task.gpu_ids) or "-",
        rank_range(task.ranks),
        "-" if task.step is None else str(task.step),
        "-" if task.loss is None else f"{task.loss:.4g}",
        task.exit_text or "-",
    )


def rank_range(ranks: tuple[int, ...]) -> str:
    """As in ``0-7``; the ranks of a task are consecutive."""
    if not ranks:
        return "-"
    return str(ranks[0]) if len(ranks) == 1 else f"{ranks[0]}-{ranks[-1]}"


def _blacklist(status: JobStatus) -> Iterator[Line]:
    rows = [(one.node, clock_time(one.until_s), one.why) for one in status.blacklist]
    return table(("EXCLUDED NODE", "UNTIL", "REASON"), rows)


def _history(status: JobStatus) -> Iterator[Line]:
    rows = [
        (
            str(record.attempt),
            clock_time(record.started_at_s),
            record.level.lower(),
            f"{record.granted} of {record.asked}"
            + (f", {record.kept} kept" if record.kept else ""),
            record.outcome or "in progress",
        )
        for record in status.history
    ]
    return table(("ATTEMPT", "STARTED", "LEVEL", "GRANTED", "OUTCOME"), rows)

"""Reports a gang that does nothing at all, and a program that is not watched for hangs. It restarts
nothing: a program may wait for something outside. ``hang.silence`` is what acts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from yarnam.core.failures.rank_activity import RankActivity
from yarnam.core.model.events import ConditionChanged
from yarnam.core.model.job_status import AttemptRecord, Condition, JobStatus
from yarnam.core.model.printable import duration
from yarnam.core.observers.observer import (
    NOTHING,
    Observation,
    Observer,
    StatusLine,
    View,
    condition,
    condition_text,
)

NAME, NOT_WATCHED = "silence", "hang-watch"

SILENT_S = 1800.0
"""As long as ``hang.timeout``: a program that evaluates or downloads for half an hour at least uses
CPU or reads."""

WATCH_AFTER_S = 600.0
"""A program that reports steps has reported one by then, compiled and with its data. Ours."""


@dataclass(frozen=True, slots=True)
class SilenceWatch:
    attempt: int = 0
    since_s: float = 0.0
    """When the first look at the whole gang of this attempt was."""
    is_silent: bool = False
    is_unwatched: bool = False


def observe(state: SilenceWatch, view: View) -> tuple[SilenceWatch, Observation]:
    if not view.is_training or not view.job.hang.detect:
        return state, NOTHING
    if state.attempt != view.gang.attempt:
        state = SilenceWatch(view.gang.attempt, view.now_s)
    ranks = _ranks(view)
    if not ranks:
        return state, NOTHING
    state, silence = _silence(state, view, ranks)
    state, watch = _watch(state, view, ranks)
    return state, Observation(silence.events + watch.events, silence.warnings + watch.warnings)


def _ranks(view: View) -> list[RankActivity]:
    """The processes that train: no services, and none that waits for another role. Empty while some
    of them have not reported yet."""
    unwatched = view.job.auxiliary_roles
    running = [member for member in view.started if member.target.role not in unwatched]
    asks = {member.ask for member in running}
    ranks = [rank for rank in view.activity if rank.ask in asks]
    expected = sum(member.target.processes_per_task for member in running)
    return ranks if len(ranks) >= expected else []


def _silence(
    state: SilenceWatch, view: View, ranks: list[RankActivity]
) -> tuple[SilenceWatch, Observation]:
    living = [rank for rank in ranks if not rank.has_ended]
    quiet_s = min((rank.idle_s for rank in living), default=0.0)
    is_silent = quiet_s >= SILENT_S and not any(rank.pause for rank in living)
    if is_silent is state.is_silent:
        return state, NOTHING
    text = (
        f"no process has used CPU, read, written or printed for {duration(quiet_s)}. Nothing is "
        "restarted for that; to restart a gang that hangs like this, set hang.silence"
    )
    found = condition(NAME, view, text if is_silent else "")
    return replace(state, is_silent=is_silent), found


def _watch(
    state: SilenceWatch, view: View, ranks: list[RankActivity]
) -> tuple[SilenceWatch, Observation]:
    reports_steps = any(
        rank.has_stepped or rank.step_s is not None or rank.step is not None for rank in ranks
    )
    is_late = view.now_s >= state.since_s + WATCH_AFTER_S
    is_unwatched = is_late and not reports_steps and view.job.hang.silence_s is None
    if is_unwatched is state.is_unwatched:
        return state, NOTHING
    text = (
        "the program reports no steps, so it is not watched for hangs. Set hang.silence (such as "
        "1h), or report steps with yarnam.train"
    )
    found = condition(NOT_WATCHED, view, text if is_unwatched else "")
    return replace(state, is_unwatched=is_unwatched), replace(found, warnings=())


def _lines(status: JobStatus, now_s: float) -> Iterator[StatusLine]:
    for one in _own(status.conditions):
        yield StatusLine(f"{one.type}: {one.message}", is_warning=one.type == NAME)


def _past(record: AttemptRecord) -> Iterator[str]:
    yield from (f"{one.type}: {one.message}" for one in _own(record.conditions))


def _own(conditions: tuple[Condition, ...]) -> Iterator[Condition]:
    return (one for one in conditions if one.type in (NAME, NOT_WATCHED))


SILENCE = Observer(
    NAME, "hang", SilenceWatch(), observe, ConditionChanged, condition_text, _lines, _past
)

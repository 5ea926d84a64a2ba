"""Warns before a job's ``time_limit`` ends it, while there is time to do something about it."""

from __future__ import annotations

from yarnam.core.model.events import TimerKind
from yarnam.core.model.printable import duration
from yarnam.core.observers.observer import NOTHING, Observation, View, condition, condition_observer

NAME = "time-limit"

WARN_SHARE, MOST_WARN_S, LEAST_WARN_S = 0.1, 3600.0, 60.0
"""The warning comes when a tenth of the limit is left: early enough to submit a job that continues,
late enough to be about this run. At most an hour before, at least a minute. Our own choice."""


def observe(warned: int, view: View) -> tuple[int, Observation]:
    """``warned``: the attempt that was warned last; 0 if none was."""
    gang, limit_s = view.gang, view.job.time_limit_s
    stops_at_s = gang.deadline_s(TimerKind.TIME_LIMIT)
    if limit_s is None or stops_at_s is None or warned == gang.attempt:
        return warned, NOTHING
    left_s = stops_at_s - view.now_s
    if left_s > min(MOST_WARN_S, max(LEAST_WARN_S, WARN_SHARE * limit_s)):
        return warned, NOTHING
    grace_s = view.job.am.stop_grace_s
    text = (
        f"the job stops in {duration(max(0.0, left_s))} by its time_limit of {duration(limit_s)}, "
        f"with {duration(grace_s)} for a checkpoint (am.stop_grace)"
    )
    return gang.attempt, condition(NAME, view, text)


TIME_LIMIT = condition_observer(NAME, "time_limit", 0, observe)

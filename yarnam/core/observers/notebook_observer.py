"""Ends a notebook that nobody uses, so that its GPUs do not wait over a weekend; warns before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from yarnam.core.model.events import NotebookIdle
from yarnam.core.model.metrics import GPU_PERCENT, NOTEBOOK_IDLE_S
from yarnam.core.model.printable import duration
from yarnam.core.observers.observer import NOTHING, Observation, View, condition, condition_observer

NAME = "notebook"

WARN_SHARE, MOST_WARN_S = 0.25, 900.0
"""The warning comes when a quarter of the timeout is left, at most a quarter of an hour before the
end. Ours."""

BUSY_GPU_PERCENT = 5.0
"""A GPU that only holds memory is below it. Ours."""


@dataclass(frozen=True, slots=True)
class NotebookWatch:
    attempt: int = 0
    used_at_s: float = 0.0
    """The last moment at which somebody, or something, used it."""
    is_warned: bool = False
    is_over: bool = False


def observe(state: NotebookWatch, view: View) -> tuple[NotebookWatch, Observation]:
    rule, now_s = view.job.notebook, view.now_s
    if rule is None or not view.is_training or not view.started:
        return state, NOTHING
    if state.attempt != view.gang.attempt:
        state = NotebookWatch(view.gang.attempt, now_s)
    if state.is_over:
        return state, NOTHING
    state = replace(state, used_at_s=max(state.used_at_s, _used_at_s(view)))
    idle_s, limit_s = max(0.0, now_s - state.used_at_s), rule.idle_timeout_s
    left_s = limit_s - idle_s
    if left_s <= 0.0:
        text = (
            f"for {duration(limit_s)} no kernel was busy, no client was connected and no GPU was "
            "used (notebook.idle_timeout)"
        )
        event = NotebookIdle(now_s, view.gang.attempt, text)
        return replace(state, is_over=True), Observation((event,), (text,))
    is_near = left_s <= min(MOST_WARN_S, WARN_SHARE * limit_s)
    if is_near is state.is_warned:
        return state, NOTHING
    text = (
        f"unused for {duration(idle_s)}: the job ends, with its files saved, when it has been for "
        f"{duration(limit_s)} (notebook.idle_timeout)"
    )
    return replace(state, is_warned=is_near), condition(NAME, view, text if is_near else "")


def _used_at_s(view: View) -> float:
    """The last use by the newest reports; without any the present, since nothing is known then."""
    used: list[float] = []
    for metrics in view.metrics:
        values = dict(metrics.values)
        idle_s, busy = float(values.get(NOTEBOOK_IDLE_S, 0.0)), float(values.get(GPU_PERCENT, 0.0))
        is_idle = 0.0 <= idle_s < inf and not BUSY_GPU_PERCENT <= busy < inf
        # Not by the report's own time: the clocks of two nodes differ.
        used.append(view.now_s - idle_s if is_idle else view.now_s)
    return max(used, default=view.now_s)


def _event_text(event: NotebookIdle) -> str:
    return f"unused: {event.text}"


NOTEBOOK = replace(
    condition_observer(NAME, "notebook", NotebookWatch(), observe),
    event=NotebookIdle,
    event_text=_event_text,
)

"""Follows the losses that the program reports, to predict the training's end and to see a flat
loss. The ApplicationMaster that follows a killed one begins anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from yarnam.core.fits.predicted_end import (
    FALL,
    LossSeries,
    StepPace,
    counted_end,
    predicted_end,
)
from yarnam.core.model.events import LossFlat
from yarnam.core.model.job_status import FlatLoss, JobStatus, PredictedEnd, Use
from yarnam.core.model.metrics import LOSS_NAMES
from yarnam.core.model.printable import duration, gpu_hours
from yarnam.core.observers.observer import NOTHING, Observation, Observer, StatusLine, View

FIT_EVERY_S = 30.0
"""A prediction takes 30 ms of the ApplicationMaster's only thread. Ours."""


@dataclass(frozen=True, slots=True)
class LossWatch:
    series: LossSeries = field(default_factory=LossSeries)
    pace: StepPace = StepPace()
    next_fit_s: float = 0.0
    stopped: int = 0
    """The attempt that was stopped for its loss."""
    end: PredictedEnd | None = None


def observe(state: LossWatch, view: View) -> tuple[LossWatch, Observation]:
    if not view.is_training:
        return state, NOTHING
    lead = next((metrics for metrics in view.metrics if metrics.step is not None), None)
    if lead is None or lead.step is None:
        return state, NOTHING
    state = replace(state, pace=state.pace.add(lead.step, lead.at_s))
    values = dict(lead.values)
    loss = next((values[name] for name in LOSS_NAMES if name in values), None)
    if loss is not None:
        state = replace(state, series=state.series.add(lead.step, float(loss), lead.at_s))
    if view.now_s < state.next_fit_s:
        return state, NOTHING
    rule = view.job.stop_early
    within = FALL if rule is None else rule.within
    end = predicted_end(state.series, lead.total_steps or None, view.now_s, within=within)
    if end is None and lead.total_steps:
        end = counted_end(state.pace, lead.total_steps, view.now_s)
    was_flat = state.end is not None and state.end.flat is not None
    state = replace(state, next_fit_s=view.now_s + FIT_EVERY_S, end=end)
    flat = None if end is None else end.flat
    if flat is None:
        return state, NOTHING
    warnings = () if was_flat else (flat.words,)
    if rule is None or flat.lasted_s < rule.flat_for_s or state.stopped == view.gang.attempt:
        return state, Observation(warnings=warnings)
    event = LossFlat(view.now_s, view.gang.attempt, flat.words)
    return replace(state, stopped=view.gang.attempt), Observation((event,), warnings)


def _event_text(event: LossFlat) -> str:
    return event.text


def _lines(status: JobStatus, now_s: float) -> Iterator[StatusLine]:
    """``expected to end in 2h10m (8000 steps left, by its loss; its curve is off by 0.4 %, and was
    by 1.2 % where it foretold)``, and a flat loss."""
    predicted = status.predicted_end
    if predicted is None or status.state.is_final:
        return
    if predicted.end_at_s is not None:
        by = "by its loss" if predicted.is_by_loss else "by its own count"
        off = ""
        if predicted.is_by_loss and predicted.miss is not None:
            off = f"; its curve is off by {predicted.fit_error or 0.0:.1%}, and was by "
            off += f"{predicted.miss:.1%} where it foretold"
        left = duration(max(0.0, predicted.end_at_s - now_s))
        text = f"expected to end in {left} ({predicted.steps_left} steps left, {by}{off})"
        yield StatusLine(text, is_warning=False)
    if predicted.flat is not None:
        yield StatusLine(f"{predicted.flat.words}{_spent(status, predicted.flat)}")


def _spent(status: JobStatus, flat: FlatLoss) -> str:
    training = status.ledger.of(Use.KEPT).gpu_s if status.ledger is not None else 0.0
    return f", about {gpu_hours(flat.share * training)} of its training" if training else ""


def _status(state: LossWatch, status: JobStatus) -> JobStatus:
    return replace(status, predicted_end=state.end)


LOSS = Observer(
    "loss", "stop_early", LossWatch(), observe, LossFlat, _event_text, _lines, status=_status
)

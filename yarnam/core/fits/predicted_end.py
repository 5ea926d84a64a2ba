"""Where a training goes by its losses: how many steps are left until the loss is flat, when that
is, how far such a prediction has been off so far, and since when the loss has been flat. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite

from yarnam.core.fits.loss_curve import LossCurve, fit_loss
from yarnam.core.model.job_status import FlatLoss, PredictedEnd

MOST_POINTS = 128
"""The number of points kept of a training of any length: two fits then take some 30 ms."""

FALL = 0.001
"""A loss counts as flat where a tenth more steps would lower it by less than this part of the
largest that was seen. Ours."""

FLAT_SHARE, FLAT_POINTS, FLAT_S = 0.2, 10, 600.0
"""A loss is called flat when it has been so for this part of all steps, this number of points and
this number of seconds. Ours."""


@dataclass(frozen=True, slots=True)
class LossPoint:
    """The mean of the losses that were reported from ``step`` on, until the next point."""

    step: int
    loss: float
    at_s: float
    count: int = 1


@dataclass(frozen=True, slots=True)
class LossSeries:
    """A training's losses, thinned as it gets longer."""

    points: tuple[LossPoint, ...] = ()
    stride: int = 1
    """Steps of one point."""
    step: int = 0
    """The newest."""

    def add(self, step: int, loss: float, at_s: float) -> LossSeries:
        """A training that continues from an older checkpoint drops the points after it."""
        if not isfinite(loss) or step < 0:
            return self
        points = self.points
        if points and step < points[-1].step:
            points = tuple(one for one in points if one.step < step)
        if points and step < points[-1].step + self.stride:
            last = points[-1]
            mean = (last.loss * last.count + loss) / (last.count + 1)
            newest = replace(last, loss=mean, at_s=at_s, count=last.count + 1)
            return replace(self, points=(*points[:-1], newest), step=step)
        points = (*points, LossPoint(step, loss, at_s))
        if len(points) <= MOST_POINTS:
            return replace(self, points=points, step=step)
        pairs = zip(points[::2], points[1::2], strict=False)
        halved = tuple(_joined(one, two) for one, two in pairs)
        return LossSeries((*halved, *points[2 * len(halved) :]), 2 * self.stride, step)


PACE_POINTS, PACE_GAP_S = 10, 5.0
"""The speed is that of the last minute or so: steps of one program differ little. Ours."""


@dataclass(frozen=True, slots=True)
class StepPace:
    """When the newest steps were reported, whether or not a loss came with them."""

    points: tuple[tuple[int, float], ...] = ()
    """Steps and times, at least ``PACE_GAP_S`` apart but for the newest."""

    def add(self, step: int, at_s: float) -> StepPace:
        """A training that continues from an older checkpoint begins anew."""
        points = self.points
        if step < 0 or (points and (step < points[-1][0] or at_s < points[-1][1])):
            return StepPace(((step, at_s),) if step >= 0 else ())
        if len(points) > 1 and points[-1][1] - points[-2][1] < PACE_GAP_S:
            points = points[:-1]
        return StepPace((*points, (step, at_s))[-PACE_POINTS:])

    @property
    def steps_per_s(self) -> float:
        """0 if unknown."""
        if len(self.points) < 2:
            return 0.0
        (first, began_s), (last, at_s) = self.points[0], self.points[-1]
        return (last - first) / (at_s - began_s) if at_s > began_s else 0.0


def counted_end(pace: StepPace, total_steps: int, now_s: float) -> PredictedEnd | None:
    """Predict the end of a program that reports its steps and their total, and no loss; ``None``
    before its first step."""
    if not pace.points:
        return None
    left, speed = max(0, total_steps - pace.points[-1][0]), pace.steps_per_s
    return PredictedEnd(steps_left=left, end_at_s=now_s + left / speed if speed > 0 else None)


def _joined(one: LossPoint, two: LossPoint) -> LossPoint:
    count = one.count + two.count
    loss = (one.loss * one.count + two.loss * two.count) / count
    return LossPoint(one.step, loss, two.at_s, count)


def predicted_end(
    series: LossSeries, total_steps: int | None, now_s: float, *, within: float = FALL
) -> PredictedEnd | None:
    """Predict when the training ends, or return None if too little is known.

    ``total_steps``, as the program reports them, come before the curve. ``within``: how much a flat
    loss may still move, as a part of itself."""
    points = series.points
    if not points:
        return None
    step = series.step
    curve = fit_loss([(one.step, one.loss) for one in points])
    if total_steps is not None:
        last = total_steps
    elif curve is not None:
        last = _flat_at(curve, step)
    else:
        return None
    left, pace = max(0, last - step), _steps_per_s(points)
    return PredictedEnd(
        steps_left=left,
        end_at_s=now_s + left / pace if pace > 0 else None,
        is_by_loss=total_steps is None,
        fit_error=None if curve is None else curve.error,
        miss=_miss(points),
        flat=_flat(points, within),
    )


def _flat_at(curve: LossCurve, step: int) -> int:
    return int(min(1e15, curve.flat_at(FALL, max(1.0, step / 10.0))))


def _miss(points: Sequence[LossPoint]) -> float | None:
    """By how much the curve of the first three quarters is off on the last one, on the average, as
    a part of the loss there."""
    known = len(points) * 3 // 4
    curve = fit_loss([(one.step, one.loss) for one in points[:known]])
    later = [one for one in points[known:] if one.loss > 0]
    if curve is None or not later:
        return None
    return sum(abs(curve.loss(one.step) - one.loss) / one.loss for one in later) / len(later)


def _steps_per_s(points: Sequence[LossPoint]) -> float:
    """The speed over the newest points, so that an earlier interruption does not count."""
    first, last = points[-min(len(points), 10)], points[-1]
    span_s = last.at_s - first.at_s
    return (last.step - first.step) / span_s if span_s > 0 else 0.0


def _flat(points: Sequence[LossPoint], within: float) -> FlatLoss | None:
    """None if the loss moves, or has not been flat for long."""
    last = points[-1]
    low = high = last.loss
    since, count = last, 0
    for one in reversed(points):
        low, high = min(low, one.loss), max(high, one.loss)
        if high - low > within * max(abs(low), abs(high)):
            break
        since, count = one, count + 1
    steps, all_steps = last.step - since.step, last.step - points[0].step
    lasted_s = last.at_s - since.at_s
    if count < FLAT_POINTS or lasted_s < FLAT_S or steps < FLAT_SHARE * all_steps:
        return None
    return FlatLoss(since.step, lasted_s, steps / all_steps if all_steps else 0.0)

"""A training job's loss over its steps, and how many steps are left until it is flat (Peng et al.,
"Optimus", EuroSys 2018): l(k) = 1 / (b0 k + b1) + b2 with b >= 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt

from yarnam.core.fits.nnls import nnls

LEAST_POINTS = 5
ASYMPTOTES = 40
"""How many values of b2 are tried, between 0 and the smallest loss."""

Point = tuple[float, float]
"""A step and the loss there."""


@dataclass(frozen=True, slots=True)
class LossCurve:
    """In parts of ``largest``, the largest loss that was seen."""

    b0: float
    b1: float
    b2: float
    largest: float
    error: float
    """Root mean square of what the curve is off, as a share of the largest loss."""

    def loss(self, step: float) -> float:
        return self.largest * (1.0 / (self.b0 * step + self.b1) + self.b2)

    def flat_at(self, threshold: float = 0.01, span: float = 1.0) -> float:
        """The first step after which ``span`` more steps lower the loss by less than ``threshold``
        of the largest. Solves b0 span / ((b0 k + b1) (b0 (k + span) + b1)) = threshold for k."""
        if self.b0 <= 0.0:
            return 0.0
        # u (u + c) = c / threshold with u = b0 k + b1 and c = b0 span.
        c = self.b0 * span
        u = (-c + sqrt(c * c + 4.0 * c / threshold)) / 2.0
        return float(max(0, ceil((u - self.b1) / self.b0)))


def fit_loss(points: Sequence[Point]) -> LossCurve | None:
    """The curve of least squares, by a grid over b2. Returns None for fewer than ``LEAST_POINTS``
    positive points, and where no curve falls."""
    kept = _without_outliers([(step, loss) for step, loss in points if step >= 0 and loss > 0])
    if len(kept) < LEAST_POINTS:
        return None
    largest = max(loss for _, loss in kept)
    scaled = [(step, loss / largest) for step, loss in kept]
    smallest = min(loss for _, loss in scaled)
    found = [_fit(scaled, smallest * part / ASYMPTOTES, largest) for part in range(ASYMPTOTES)]
    curves = [curve for curve in found if curve is not None]
    return min(curves, key=lambda curve: curve.error, default=None)


def _fit(points: Sequence[Point], b2: float, largest: float) -> LossCurve | None:
    # Weighted, so that what is small is an error of the loss and not of its reciprocal.
    rows = [((loss - b2) ** 2 * step, (loss - b2) ** 2) for step, loss in points]
    b0, b1 = nnls(rows, [loss - b2 for _, loss in points])
    if b0 * points[0][0] + b1 <= 0.0:
        return None
    squares = sum((1.0 / (b0 * step + b1) + b2 - loss) ** 2 for step, loss in points)
    return LossCurve(b0, b1, b2, largest, sqrt(squares / len(points)))


def _without_outliers(points: list[Point]) -> list[Point]:
    """Without points that are far above both their neighbours."""
    points = sorted(points)
    return [
        point
        for number, point in enumerate(points)
        if not 0 < number < len(points) - 1
        or point[1] <= 2.0 * max(points[number - 1][1], points[number + 1][1])
    ]

"""Steps in a second over the size of a gang (Peng et al., "Optimus", EuroSys 2018), for synchronous
all-reduce: a step takes t0 M / w + t1 + t2 w, with w GPUs, the global batch M, and t >= 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from yarnam.core.fits.nnls import nnls

LEAST_SIZES = 3
"""Different sizes that the job must have run at: three unknowns."""


@dataclass(frozen=True, slots=True)
class SpeedCurve:
    t0: float
    """Seconds that the shared part of a batch takes on one GPU."""
    t1: float
    t2: float

    def step_s(self, gpus: int) -> float:
        return self.t0 / gpus + self.t1 + self.t2 * gpus

    def rate(self, gpus: int) -> float:
        """Steps per second, or 0 if nothing is known."""
        seconds = self.step_s(gpus)
        return 1.0 / seconds if seconds > 0 else 0.0

    def rates(self, least: int, most: int) -> tuple[tuple[int, float], ...]:
        """For ``PolicyTicket.rates``."""
        return tuple((gpus, self.rate(gpus)) for gpus in range(least, most + 1))


def fit_speed(samples: Sequence[tuple[int, float]]) -> SpeedCurve | None:
    """The curve through (GPUs, steps per second), or None with fewer than ``LEAST_SIZES`` sizes."""
    good = [(gpus, rate) for gpus, rate in samples if gpus > 0 and rate > 0]
    if len({gpus for gpus, _ in good}) < LEAST_SIZES:
        return None
    # Weighted by the rate: what is small is the relative error of a step's time.
    rows = [(rate / gpus, rate, rate * gpus) for gpus, rate in good]
    return SpeedCurve(*nnls(rows, [1.0] * len(good)))

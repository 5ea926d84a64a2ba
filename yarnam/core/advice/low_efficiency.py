"""Finds the jobs whose GPUs mostly waited for the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from yarnam.core.advice.predictions import measured_program, predict, shares_batch
from yarnam.core.fits.step_time import StepSample

LOW = 0.5
"""Below this share of a step, the compute is not worth the GPUs."""


@dataclass(frozen=True, slots=True)
class Efficiency:
    """The share of a step in which a job computed; ``half_speed`` is the speed that half of its
    processes would have had, as a share of its own, ``None`` if unknown."""

    share: float
    half_speed: float | None = None

    @property
    def is_low(self) -> bool:
        return self.share < LOW


def efficiency_of(size: StepSample, runs: Sequence[StepSample]) -> Efficiency | None:
    """The efficiency of one run among all ``runs`` of its program; ``None`` if its compute was not
    measured."""
    if size.compute_s is None or size.step_s <= 0.0 or size.processes <= 1:
        return None
    share = min(1.0, max(0.0, size.compute_s / size.step_s))
    return Efficiency(share, _half_speed(size, runs))


def _half_speed(size: StepSample, runs: Sequence[StepSample]) -> float | None:
    is_shared = shares_batch(runs)
    if is_shared is None:
        return None
    program = measured_program(runs, is_batch_shared=is_shared)
    processes = max(1, size.processes // 2)
    nodes = min(processes, max(1, size.nodes * processes // size.processes))
    found = predict(program, nodes, processes)
    if found is None or not found.step_s.likely:
        return None
    ratio = size.step_s / found.step_s.likely
    return ratio if is_shared else ratio * processes / size.processes

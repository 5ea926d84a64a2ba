"""The step of a gang at sizes that were measured, and at those that were not, as ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, log2
from statistics import median

from yarnam.core.fits.step_time import LEAST_SIZES, StepSample, StepTime, fit_step_time

SPREADS = ((0.88, 1.25), (0.88, 1.4), (0.82, 1.7), (0.75, 2.7))
"""Truth over prediction: the range of 80 % of public measurements at sizes that were measured, and
one, two and more doublings away from those (docs/evidence/advice.md). Predictions err to the low
side, as links and nodes get slower in ways that smaller gangs do not show."""


MOST_STEP_S = 1e7
"""A longer step was not measured by this program."""


@dataclass(frozen=True, slots=True)
class Span:
    """A quantity that is known as a range. ``None`` means unknown."""

    low: float
    likely: float | None = None
    high: float | None = None

    def times(self, factor: float) -> Span:
        return Span(
            self.low * factor,
            None if self.likely is None else self.likely * factor,
            None if self.high is None else self.high * factor,
        )

    def plus(self, other: Span) -> Span:
        """The sum, unknown where either is."""
        likely = None
        if self.likely is not None and other.likely is not None:
            likely = self.likely + other.likely
        high = None if self.high is None or other.high is None else self.high + other.high
        return Span(self.low + other.low, likely, high)


@dataclass(frozen=True, slots=True)
class StepPrediction:
    """Seconds of one step at one size."""

    step_s: Span
    is_measured: bool = False
    compute_s: float | None = None
    """The part in the process itself, if it is known."""
    fixed_s: float | None = None
    """The part of the compute that more processes do not divide."""
    why_unknown: str = ""
    """Why nothing but a lower bound is known."""


@dataclass(frozen=True, slots=True)
class MeasuredProgram:
    """The samples of one program, and the model through them."""

    samples: tuple[StepSample, ...]
    is_batch_shared: bool
    """A global batch is divided among the processes; else each process has one of its own."""
    model: StepTime | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(sorted({sample.processes for sample in self.samples}))

    def local_batch(self, processes: int) -> float:
        """In global batches, or in batches of one process."""
        return 1.0 / processes if self.is_batch_shared else 1.0


def measured_program(measured: Sequence[StepSample], *, is_batch_shared: bool) -> MeasuredProgram:
    """The program with the local batch of each sample filled in. Impossible samples are left
    out."""
    samples = tuple(
        replace(sample, local_batch=1.0 / sample.processes if is_batch_shared else 1.0)
        for sample in measured
        if sample.processes >= sample.nodes >= 1 and 0.0 < sample.step_s <= MOST_STEP_S
    )
    return MeasuredProgram(samples, is_batch_shared, fit_step_time(samples))


def shares_batch(measured: Sequence[StepSample]) -> bool | None:
    """Whether the processes seem to divide one batch: their compute shrinks as they become more.
    ``None`` if the compute is not known at two sizes."""
    computed: dict[int, list[float]] = {}
    for sample in measured:
        own_s = sample.own_s
        if own_s is not None and own_s > 0.0 and sample.processes >= 1:
            computed.setdefault(sample.processes, []).append(own_s)
    if len(computed) < LEAST_SIZES:
        return None
    least, most = min(computed), max(computed)
    ratio = median(computed[most]) / median(computed[least])
    # Half-way between "as long" and "divided", on the scale of ratios.
    return ratio < float((least / most) ** 0.5)


def predict(program: MeasuredProgram, nodes: int, processes: int) -> StepPrediction | None:
    """``None`` if nothing has been measured."""
    model = program.model
    if model is None:
        return None
    batch = program.local_batch(processes)
    here = [s for s in program.samples if (s.nodes, s.processes) == (nodes, processes)]
    has_curve = len(program.sizes) >= LEAST_SIZES
    compute_s = model.compute_s(batch) if has_curve else None
    fixed_s = model.fixed_s if has_curve and program.is_batch_shared else None
    if here:
        steps_s = sorted(sample.step_s for sample in here)
        computed = sorted(s.own_s for s in here if s.own_s is not None)
        own_s = computed[len(computed) // 2] if computed else compute_s
        likely_s = steps_s[len(steps_s) // 2]
        return StepPrediction(Span(steps_s[0], likely_s, steps_s[-1]), True, own_s, fixed_s)
    if not has_curve:
        [size] = program.sizes
        count = "one process" if size == 1 else f"{size} processes"
        why = f"it has run with {count} only"
        return StepPrediction(Span(_best_s(program, processes)), why_unknown=why)
    step_s = model.step_s(nodes, processes, batch)
    low, high = SPREADS[min(len(SPREADS) - 1, _doublings(program.sizes, processes))]
    if step_s is None:
        # The links between nodes are as fast as those within one at best.
        within_s = model.step_s(1, processes, batch) if nodes > 1 else None
        bound_s = model.compute_s(batch) if within_s is None else within_s
        where = "several nodes" if nodes > 1 else "several GPUs of one node"
        why = f"it has not run on {where}"
        return StepPrediction(Span(bound_s * low), False, compute_s, fixed_s, why)
    return StepPrediction(Span(step_s * low, step_s, step_s * high), False, compute_s, fixed_s)


def _best_s(program: MeasuredProgram, processes: int) -> float:
    """The step if compute were all and divided evenly: no size is faster."""
    own = [
        (sample.step_s if sample.own_s is None else sample.own_s) * sample.local_batch**-1
        for sample in program.samples
    ]
    return min(own) * program.local_batch(processes)


def _doublings(sizes: Sequence[int], processes: int) -> int:
    """How many doublings lie between a size and the nearest measured range."""
    if processes > sizes[-1]:
        return ceil(log2(processes / sizes[-1]) - 1e-9)
    return max(0, ceil(log2(sizes[0] / processes) - 1e-9))

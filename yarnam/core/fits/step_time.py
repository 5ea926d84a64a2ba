"""The time of a data-parallel training step by how many processes share it, on how many nodes.

A step is ``(compute^g + network^g)^(1/g)``: ``g`` = 1 if the two follow each other, large if they
overlap (Qiao et al., "Pollux", OSDI 2021). Compute is ``c0 + c1 b`` for a local batch of ``b``.
The network is that of an all-reduce over ``r`` processes, with one pair of costs within a node
and one between nodes: ``volume 2 (r - 1) / r`` for a ring's bytes (nccl-tests, PERFORMANCE.md) and
``latency (r - 1)``. The latency explains noise where few sizes are known, so that it errs far
beyond them: a prior holds it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from yarnam.core.fits.nnls import nnls

LEAST_SIZES = 2
"""Distinct numbers of processes without which a job has no curve."""

OVERLAPS = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0)
"""The exponents that a fit tries, from none to full overlap."""

LATENCY_PRIOR = 0.3
"""The weight of "the latency is 0" beside each sample. Of 0.1, 0.3 and 1, the one that errs least
over both sets of public measurements (docs/evidence/advice.md)."""


@dataclass(frozen=True, slots=True)
class StepSample:
    """One measured size. Times are seconds of one step."""

    nodes: int
    processes: int
    local_batch: float
    """In any unit that the samples of a program share; 1 where it is not known yet."""
    step_s: float
    compute_s: float | None = None
    """The part of the step in the process itself; ``None`` if it was not measured."""

    @property
    def own_s(self) -> float | None:
        """The compute: measured, or the whole step of a process that shares it with nobody."""
        return self.step_s if self.compute_s is None and self.processes == 1 else self.compute_s


@dataclass(frozen=True, slots=True)
class LinkCost:
    """The costs of an all-reduce over one class of links, in seconds."""

    volume_s: float
    latency_s: float

    def network_s(self, processes: int) -> float:
        return self.volume_s * _volume(processes) + self.latency_s * (processes - 1)


@dataclass(frozen=True, slots=True)
class StepTime:
    """A fitted model of one program on one model of GPU."""

    fixed_s: float
    per_item_s: float
    """Seconds that each item of the local batch adds."""
    overlap: float = 1.0
    one_node: LinkCost | None = None
    """``None`` if it has not run on several GPUs of one node."""
    several_nodes: LinkCost | None = None
    """``None`` if it has not run on several nodes."""

    def compute_s(self, local_batch: float) -> float:
        return self.fixed_s + self.per_item_s * local_batch

    def network_s(self, nodes: int, processes: int) -> float | None:
        """The all-reduce without overlap; ``None`` if no sample crossed such links."""
        if processes <= 1:
            return 0.0
        links = self.several_nodes if nodes > 1 else self.one_node
        return None if links is None else links.network_s(processes)

    def step_s(self, nodes: int, processes: int, local_batch: float) -> float | None:
        """``None`` if no sample crossed such links."""
        network_s = self.network_s(nodes, processes)
        if network_s is None:
            return None
        return overlapped_s(self.compute_s(local_batch), network_s, self.overlap)


def overlapped_s(compute_s: float, network_s: float, overlap: float) -> float:
    longer_s = max(compute_s, network_s)
    if longer_s <= 0.0:
        return 0.0
    shares = (compute_s / longer_s) ** overlap + (network_s / longer_s) ** overlap
    return longer_s * float(shares ** (1.0 / overlap))


def fit_step_time(samples: Sequence[StepSample]) -> StepTime | None:
    """The model through the samples, which are all of one program; ``None`` without any."""
    good = [s for s in samples if s.step_s > 0.0 and s.processes >= 1 and s.nodes >= 1]
    if not good:
        return None
    known = [(s, own_s) for s in good if (own_s := s.own_s) is not None and 0 < own_s <= s.step_s]
    if not any(sample.processes > 1 and sample.compute_s is not None for sample, _ in known):
        return _without_compute(good)
    rows = [(1.0 / own_s, sample.local_batch / own_s) for sample, own_s in known]
    fixed_s, per_item_s = nnls(rows, [1.0] * len(rows))
    tries = (
        StepTime(
            fixed_s, per_item_s, overlap,
            _links([pair for pair in known if pair[0].nodes == 1], overlap),
            _links([pair for pair in known if pair[0].nodes > 1], overlap),
        )
        for overlap in OVERLAPS
    )  # fmt: skip
    return min(tries, key=lambda model: _error(model, good))


def _links(known: Sequence[tuple[StepSample, float]], overlap: float) -> LinkCost | None:
    """The costs that leave the network's part of each step, as far as compute does not hide it."""
    rows: list[tuple[float, float]] = []
    values: list[float] = []
    for sample, own_s in known:
        if sample.processes == 1:
            continue
        step_s = sample.step_s
        network_s = step_s * max(0.0, 1.0 - (own_s / step_s) ** overlap) ** (1.0 / overlap)
        # The network's error in the step's, relative to the step.
        weight = (network_s / step_s) ** (overlap - 1.0) / step_s if network_s else 1.0 / step_s
        rows.append((weight * _volume(sample.processes), weight * (sample.processes - 1)))
        values.append(weight * network_s)
    if not rows:
        return None
    volume_s = nnls([(row[0],) for row in rows], values)[0]
    if volume_s > 0.0:
        rows.append((0.0, LATENCY_PRIOR * len(values) ** 0.5 / volume_s))
        values.append(0.0)
    return LinkCost(*nnls(rows, values))


def _without_compute(good: Sequence[StepSample]) -> StepTime:
    """One fit of all parts, without overlap: nothing tells compute from network."""
    classes = [
        [s for s in good if s.processes > 1 and (s.nodes > 1) is several]
        for several in (False, True)
    ]

    def row(sample: StepSample) -> list[float]:
        several = sample.nodes > 1
        is_alone = sample.processes == 1
        volume, latency = _volume(sample.processes), sample.processes - 1.0
        links = [
            part if part_several is several and not is_alone else 0.0
            for part_several in (False, True)
            for part in (volume, latency)
        ]
        return [value / sample.step_s for value in (1.0, sample.local_batch, *links)]

    rows = [row(sample) for sample in good]
    values = [1.0] * len(rows)
    bandwidth_only = nnls([[*r[:3], r[4]] for r in rows], values)
    for number, samples in enumerate(classes):
        volume_s = bandwidth_only[2 + number]
        if samples and volume_s > 0.0:
            prior = [0.0] * 6
            prior[3 + 2 * number] = LATENCY_PRIOR * len(samples) ** 0.5 / volume_s
            rows.append(prior)
            values.append(0.0)
    fixed_s, per_item_s, *links = nnls(rows, values)
    one_node = LinkCost(links[0], links[1]) if classes[0] else None
    several_nodes = LinkCost(links[2], links[3]) if classes[1] else None
    return StepTime(fixed_s, per_item_s, 1.0, one_node, several_nodes)


def _error(model: StepTime, samples: Sequence[StepSample]) -> float:
    """The sum of squares of relative errors."""
    predicted = (model.step_s(s.nodes, s.processes, s.local_batch) for s in samples)
    return sum(
        ((step_s - sample.step_s) / sample.step_s) ** 2
        for sample, step_s in zip(samples, predicted, strict=True)
        if step_s is not None
    )


def _volume(processes: int) -> float:
    return 2.0 * (processes - 1) / processes


# ---- the speed of an elastic gang ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SpeedCurve:
    """Steps per second over the size of one gang, wherever it runs."""

    step_time: StepTime

    def step_s(self, gpus: int) -> float:
        return self.step_time.step_s(1, gpus, 1.0 / gpus) or 0.0

    def rate(self, gpus: int) -> float:
        """Steps per second, or 0 if nothing is known."""
        seconds = self.step_s(gpus)
        return 1.0 / seconds if seconds > 0 else 0.0

    def rates(self, least: int, most: int) -> tuple[tuple[int, float], ...]:
        """For ``PolicyTicket.rates``."""
        return tuple((gpus, self.rate(gpus)) for gpus in range(least, most + 1))


def fit_speed(samples: Sequence[tuple[int, float]]) -> SpeedCurve | None:
    """The curve through (GPUs, steps per second), or ``None`` with fewer than ``LEAST_SIZES``
    sizes. Whether a larger gang shares one batch or takes a larger one is not known: a shared part
    and a constant one are both fitted."""
    good = [(gpus, rate) for gpus, rate in samples if gpus > 0 and rate > 0]
    if len({gpus for gpus, _ in good}) < LEAST_SIZES:
        return None
    step_time = _without_compute([StepSample(1, g, 1.0 / g, 1.0 / rate) for g, rate in good])
    return SpeedCurve(step_time)


def untried_speed(gpus: int, rate: float, shared: float) -> SpeedCurve:
    """The assumption for a job that has run at one size: this share of its step is divided."""
    step_s = 1.0 / rate
    no_cost = LinkCost(0.0, 0.0)
    return SpeedCurve(StepTime((1.0 - shared) * step_s, shared * step_s * gpus, 1.0, no_cost))

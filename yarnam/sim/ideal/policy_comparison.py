"""Several policies over one trace, each with several seeds, and how sure the differences are."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt

from yarnam.sim.ideal.ideal_report import Figures, IdealReport, IdealRow
from yarnam.sim.ideal.ideal_run import run
from yarnam.sim.ideal.ideal_settings import IdealSettings
from yarnam.sim.ideal.trace_job import TraceJob

T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
"""Student's t for a confidence of 95 % and 1 to 9 degrees of freedom; more: 2."""

FIGURES = (
    "jct_mean_s", "jct_p50_s", "jct_p99_s", "wait_mean_s", "wait_p99_s", "slowdown_mean",
    "makespan_s", "used_share",
)  # fmt: skip
"""Of ``IdealReport``: those that are compared."""

SPREAD = 0.05
"""Seeds other than the first move every submission by up to this share of the mean gap between
submissions, and every run time by up to this share of itself: as good a trace as the real one."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds; ``half`` is half of its confidence interval of 95 %, 0 of one seed."""

    mean: float
    half: float


@dataclass(frozen=True, slots=True)
class PolicyFigures:
    """One policy: the report of the trace as it is, and each figure over all seeds."""

    name: str
    report: IdealReport
    estimates: dict[str, Estimate]
    figures: Figures
    """Of the trace as it is."""


def compare(
    trace: Sequence[TraceJob],
    runs: Sequence[tuple[str, IdealSettings]],
    seeds: Sequence[int],
    on_row: Callable[[str, int, IdealRow], None] | None = None,
) -> tuple[PolicyFigures, ...]:
    """Each run on the same traces: the first seed is the trace as it is. Raises as ``run``."""
    found: list[PolicyFigures] = []
    for name, settings in runs:
        outcomes = []
        for at, seed in enumerate(seeds):
            # Made anew for each policy: one trace is kept, however many seeds there are.
            jobs = shaken(trace, seed) if at else trace

            def ended(row: IdealRow, name: str = name, seed: int = seed) -> None:
                if on_row is not None:
                    on_row(name, seed, row)

            outcomes.append(run(jobs, settings, name=name, on_row=ended))
        reports = [outcome.report for outcome in outcomes]
        estimates = {
            figure: estimate([getattr(report, figure) for report in reports]) for figure in FIGURES
        }
        found.append(PolicyFigures(name, reports[0], estimates, outcomes[0].figures))
    return tuple(found)


def shaken(trace: Sequence[TraceJob], seed: int) -> list[TraceJob]:
    """The same jobs, with submissions and run times that are a little off."""
    dice = random.Random(seed)  # noqa: S311 - reproducible, not secret
    span_s = trace[-1].submit_s - trace[0].submit_s if trace else 0.0
    gap_s = SPREAD * span_s / max(1, len(trace))
    jobs = [
        job._replace(
            submit_s=max(0.0, job.submit_s + dice.uniform(-gap_s, gap_s)),
            run_s=job.run_s * (1.0 + dice.uniform(-SPREAD, SPREAD)),
        )
        for job in trace
    ]
    jobs.sort(key=lambda job: job.submit_s)
    return jobs


def estimate(values: Sequence[float]) -> Estimate:
    many = len(values)
    middle = sum(values) / many
    if many < 2:
        return Estimate(middle, 0.0)
    variance = sum((value - middle) ** 2 for value in values) / (many - 1)
    factor = T_95[many - 2] if many - 2 < len(T_95) else 2.0
    return Estimate(middle, factor * sqrt(variance / many))

"""Several policies over one trace, each with several seeds, and how sure the differences are."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt

from yarnam.sim.ideal.ideal_report import Figures, IdealReport, IdealRow
from yarnam.sim.ideal.ideal_run import OnTime, run
from yarnam.sim.ideal.ideal_settings import IdealSettings
from yarnam.sim.ideal.trace_job import TraceJob

T_95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Student's t for a confidence of 95 % and 1 to 30 degrees of freedom."""

FIGURES = (
    "jct_mean_s", "jct_p50_s", "jct_p99_s", "wait_mean_s", "wait_p99_s", "slowdown_mean",
    "makespan_s", "used_share",
)  # fmt: skip
"""Of ``IdealReport``: those that are compared."""

SPREAD = 0.05
"""Each of several seeds moves every submission by up to this share of the mean gap between
submissions, and every run time by up to this share of itself: as good a trace as the real one."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds; ``half`` is half of its confidence interval of 95 %, 0 of one seed."""

    mean: float
    half: float


@dataclass(frozen=True, slots=True)
class PolicyFigures:
    """One policy: the report of the trace as it is, and each figure over all seeds. The trace as it
    is counts only if it is the only one: the gaps between its jobs differ from those of shaken
    traces."""

    name: str
    report: IdealReport
    estimates: dict[str, Estimate]
    figures: Figures
    """The figures of the trace as it is."""


def compare(
    trace: Sequence[TraceJob],
    runs: Sequence[tuple[str, IdealSettings]],
    seeds: Sequence[int],
    on_row: Callable[[str, IdealRow], None] | None = None,
    on_time: OnTime | None = None,
) -> tuple[PolicyFigures, ...]:
    """Each run on the same traces: the trace as it is, and one for each of several seeds. Raises as
    ``run``."""
    found: list[PolicyFigures] = []
    for name, settings in runs:

        def ended(row: IdealRow, name: str = name) -> None:
            if on_row is not None:
                on_row(name, row)

        as_it_is = run(trace, settings, name=name, on_row=ended, on_time=on_time)
        reports = [as_it_is.report]
        if len(seeds) > 1:
            # Built again for each policy, so that one trace is kept, however many seeds there are.
            reports = [
                run(shaken(trace, seed), settings, name=name, on_time=on_time).report
                for seed in seeds
            ]
        estimates = {
            figure: estimate([getattr(report, figure) for report in reports]) for figure in FIGURES
        }
        found.append(PolicyFigures(name, as_it_is.report, estimates, as_it_is.figures))
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
    return Estimate(middle, t_95(many - 1) * sqrt(variance / many))


def t_95(freedom: int) -> float:
    """Beyond the table by Cornish and Fisher's series from the normal distribution."""
    if freedom <= len(T_95):
        return T_95[freedom - 1]
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)

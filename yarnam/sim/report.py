"""Figures of an outcome, and their comparison with the central scheduler's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from yarnam.sim.simulation import Outcome
from yarnam.sim.world import JobRecord

FLOOR_S = 60.0
"""Waits below a minute count as a minute when two schedulers' waits of one job are divided: 3 s are
not "three times as bad" as 1 s for the user of a training job."""


SHORT_S = 10.0
"""The threshold of the bounded slowdown, so that jobs of a moment do not decide it: Feitelson et
al., "Theory and practice in parallel job scheduling", JSSPP 1997."""


@dataclass(frozen=True, slots=True)
class Report:
    """One row of the comparison. Times in seconds, shares in [0, 1].

    ``idle_share``: GPU-seconds in containers of gangs that did not stand (yet), as a share of all
    GPU-seconds in containers. A container counts as idle from its grant by the RM until its whole
    gang has registered, or until its node has it back.
    ``wait_ratio``: for each job its wait divided by its wait under the central scheduler, both at
    least ``FLOOR_S``; infinite for a job that never started.
    """

    name: str
    jobs: int
    finished: int
    failed: int
    stuck: int
    """Neither finished nor failed when nothing was left to happen."""
    idle_share: float
    wait_mean_s: float
    wait_p50_s: float
    wait_p99_s: float
    wait_max_s: float
    wait_ratio_p50: float
    wait_ratio_p99: float
    wait_ratio_max: float
    slowdown_ratio_p99: float
    """The 99th percentile of the jobs' bounded slowdowns, each divided by the same job's under the
    central scheduler. The bounded slowdown is (wait + run time) / max(run time, ``SHORT_S``), at
    least 1."""
    p99_ratio: float
    """The 99th percentile of all waits, divided by that under the central scheduler; both at least
    ``FLOOR_S``."""
    class_ratio: float
    """The mean wait of a class of sizes (1; 2 to 4; 8; more GPUs) divided by that under the central
    scheduler, both at least ``FLOOR_S``: the worst of the classes."""
    attempts_per_job: float
    asks: int
    makespan_s: float
    used_share: float
    """GPU-seconds of the jobs' running gangs as a share of what the cluster had until the last job
    arrived; what stood at the start is not among them."""


def report(outcome: Outcome, central: Outcome, name: str = "") -> Report:
    """``central`` is the outcome of the same jobs under the central scheduler."""
    records = outcome.records
    finished = [r for r in records if r.ended_s is not None and not r.is_failed]
    failed = [r for r in records if r.is_failed]
    waits = sorted(math.inf if r.wait_s is None else r.wait_s for r in records)
    ratios = sorted(
        max(FLOOR_S, math.inf if mine.wait_s is None else mine.wait_s)
        / max(FLOOR_S, its.wait_s or 0.0)
        for mine, its in zip(records, central.records, strict=True)
    )
    slowdowns = sorted(
        _slowdown(mine) / _slowdown(its) for mine, its in zip(records, central.records, strict=True)
    )
    started = [wait for wait in waits if wait < math.inf]
    return Report(
        name=name or outcome.settings.mode.value,
        jobs=len(records),
        finished=len(finished),
        failed=len(failed),
        stuck=len(records) - len(finished) - len(failed),
        idle_share=idle_share(outcome),
        wait_mean_s=sum(started) / len(started) if started else math.inf,
        wait_p50_s=percentile(waits, 0.5),
        wait_p99_s=percentile(waits, 0.99),
        wait_max_s=waits[-1] if waits else 0.0,
        wait_ratio_p50=percentile(ratios, 0.5),
        wait_ratio_p99=percentile(ratios, 0.99),
        wait_ratio_max=ratios[-1] if ratios else 0.0,
        slowdown_ratio_p99=percentile(slowdowns, 0.99),
        p99_ratio=max(FLOOR_S, percentile(waits, 0.99))
        / max(FLOOR_S, percentile(sorted(r.wait_s or 0.0 for r in central.records), 0.99)),
        class_ratio=_worst_class(outcome, central),
        attempts_per_job=sum(r.attempts for r in records) / max(1, len(records)),
        asks=sum(r.asks for r in records),
        makespan_s=outcome.ended_s,
        used_share=_used_share(outcome),
    )


def idle_share(outcome: Outcome) -> float:
    """See ``Report.idle_share``; 0 when nothing was ever granted."""
    idle = total = 0.0
    for container in outcome.containers:
        freed_s = outcome.ended_s if container.freed_s is None else container.freed_s
        stood_s = outcome.stood.get((container.job, container.ask.attempt), math.inf)
        gpus = container.resources.gpus
        idle += gpus * max(0.0, min(freed_s, stood_s) - container.granted_s)
        total += gpus * (freed_s - container.granted_s)
    return idle / total if total else 0.0


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all does not exceed (nearest rank)."""
    if not ordered:
        return 0.0
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _slowdown(record: JobRecord) -> float:
    if record.wait_s is None:
        return math.inf
    runs_s = record.job.duration_s
    return max(1.0, (record.wait_s + runs_s) / max(runs_s, SHORT_S))


def _worst_class(outcome: Outcome, central: Outcome) -> float:
    worst = 0.0
    for least, most in ((1, 1), (2, 4), (5, 8), (9, math.inf)):
        pairs = [
            (math.inf if mine.wait_s is None else mine.wait_s, its.wait_s or 0.0)
            for mine, its in zip(outcome.records, central.records, strict=True)
            if least <= mine.job.gpus <= most
        ]
        if pairs:
            mine_s = max(FLOOR_S, sum(mine for mine, _ in pairs) / len(pairs))
            its_s = max(FLOOR_S, sum(its for _, its in pairs) / len(pairs))
            worst = max(worst, mine_s / its_s)
    return worst


def _used_share(outcome: Outcome) -> float:
    last_s = max((record.job.submit_s for record in outcome.records), default=0.0)
    used = 0.0
    for record in outcome.records:
        if record.stood_s is not None and record.stood_s < last_s:
            end_s = record.ended_s if record.ended_s is not None else outcome.ended_s
            used += record.job.gpus * (min(end_s, last_s) - record.stood_s)
    return used / (last_s * outcome.settings.rm.gpus) if last_s else 0.0


def table(reports: Sequence[Report]) -> str:
    """The comparison, one row per mode."""
    head = (
        f"{'':<22} {'done':>5} {'fail':>5} {'stuck':>5} {'idle held':>9} "
        f"{'wait mean':>9} {'p50':>6} {'p99':>8} {'max':>8}   "
        f"{'job/central p50':>15} {'p99':>6}   {'slowdown':>8} {'p99/p99':>7} {'class':>6}"
    )
    return "\n".join([head, *(_row(one) for one in reports)])


def _row(one: Report) -> str:
    return (
        f"{one.name:<22} {one.finished:>5} {one.failed:>5} {one.stuck:>5} "
        f"{one.idle_share:>9.2%} "
        f"{_seconds(one.wait_mean_s):>9} {_seconds(one.wait_p50_s):>6} "
        f"{_seconds(one.wait_p99_s):>8} {_seconds(one.wait_max_s):>8}   "
        f"{_times(one.wait_ratio_p50):>15} {_times(one.wait_ratio_p99):>6} "
        f"  {_times(one.slowdown_ratio_p99):>8} {_times(one.p99_ratio):>7} "
        f"{_times(one.class_ratio):>6}"
    )


def _seconds(value: float) -> str:
    return "never" if value == math.inf else f"{value:.0f} s"


def _times(value: float) -> str:
    return "never" if value == math.inf else f"{value:.1f}"

"""Figures of one run, gathered while it goes: eight bytes for each job and figure."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from yarnam.sim.report import percentile

SHORT_S = 10.0
"""The shortest run time of the bounded slowdown (Feitelson et al., JSSPP 1997)."""

MOST_BINS = 2048
"""The most points of the curve of GPUs in use."""


class IdealRow(NamedTuple):
    """The result of one job. Times in seconds since the first submission."""

    job: str
    queue: str
    gpus: int
    submit_s: float
    start_s: float
    """The start of its first run."""
    end_s: float
    run_s: float
    """The run time that it needed on its own GPUs."""
    starts: int
    """How often its gang started, in any size."""
    resizes: int = 0
    """Starts that followed immediately on another size."""

    @property
    def jct_s(self) -> float:
        return self.end_s - self.submit_s

    @property
    def wait_s(self) -> float:
        """All time in which it did not run."""
        return max(0.0, self.end_s - self.submit_s - self.run_s)

    @property
    def slowdown(self) -> float:
        return max(1.0, self.jct_s / max(self.run_s, SHORT_S))


@dataclass(frozen=True, slots=True)
class IdealReport:
    """Times in seconds. JCT: job completion time, from submission to end."""

    name: str
    jobs: int
    unfinished: int
    jct_mean_s: float
    jct_p50_s: float
    jct_p99_s: float
    jct_max_s: float
    wait_mean_s: float
    wait_p99_s: float
    wait_max_s: float
    slowdown_mean: float
    makespan_s: float
    """The last end, since the first submission."""
    used_share: float
    """GPU time of running gangs, of all until the last end, or until the run was stopped."""
    suspensions: int
    """Starts anew, but for those of another size."""
    resizes: int
    decisions: int
    stopped_at_s: float | None = None
    """When a run ended before its jobs did."""


class Figures:
    """Takes rows one by one."""

    def __init__(self, gpus: int) -> None:
        self._gpus = gpus
        self.jcts = array("d")
        self.waits = array("d")
        self.slowdowns = array("d")
        self.usage = UsageCurve()
        self._last_end_s = 0.0
        self._starts = self._resizes = 0

    def add(self, row: IdealRow) -> None:
        self.jcts.append(row.jct_s)
        self.waits.append(row.wait_s)
        self.slowdowns.append(row.slowdown)
        self._last_end_s = max(self._last_end_s, row.end_s)
        self._starts += row.starts
        self._resizes += row.resizes

    def report(
        self, name: str, unfinished: int, decisions: int, stopped_at_s: float | None = None
    ) -> IdealReport:
        jcts, waits = sorted(self.jcts), sorted(self.waits)
        until_s = self._last_end_s if stopped_at_s is None else stopped_at_s
        capacity = self._gpus * until_s
        return IdealReport(
            name=name,
            jobs=len(jcts) + unfinished,
            unfinished=unfinished,
            jct_mean_s=mean(jcts),
            jct_p50_s=percentile(jcts, 0.5),
            # The public simulators' rule: the one after 99 of 100.
            jct_p99_s=jcts[int(0.99 * len(jcts))] if jcts else 0.0,
            jct_max_s=jcts[-1] if jcts else 0.0,
            wait_mean_s=mean(waits),
            wait_p99_s=waits[int(0.99 * len(waits))] if waits else 0.0,
            wait_max_s=waits[-1] if waits else 0.0,
            slowdown_mean=mean(self.slowdowns),
            makespan_s=self._last_end_s,
            used_share=self.usage.gpu_s / capacity if capacity else 0.0,
            suspensions=self._starts - len(jcts) - self._resizes,
            resizes=self._resizes,
            decisions=decisions,
            stopped_at_s=stopped_at_s,
        )


class UsageCurve:
    """GPUs in use over time: means over bins of equal length, at most ``MOST_BINS``."""

    def __init__(self) -> None:
        self.gpu_s = 0.0
        self._now_s = 0.0
        self._used = 0
        self._bin_s = 1.0
        self._bins = [0.0]
        """GPU-seconds of each."""

    def now(self, now_s: float, used: int) -> None:
        """This many are in use from now on."""
        self.gpu_s += self._used * (now_s - self._now_s)
        while now_s >= MOST_BINS * self._bin_s:
            halved = zip_longest(self._bins[::2], self._bins[1::2], fillvalue=0.0)
            self._bins = [one + two for one, two in halved]
            self._bin_s *= 2.0
        first, last = int(self._now_s / self._bin_s), int(now_s / self._bin_s)
        self._bins.extend([0.0] * (last + 1 - len(self._bins)))
        if self._used:
            for number in range(first, last + 1):
                begin_s = max(self._now_s, number * self._bin_s)
                end_s = min(now_s, (number + 1) * self._bin_s)
                self._bins[number] += self._used * max(0.0, end_s - begin_s)
        self._now_s, self._used = now_s, used

    def means(self, most: int) -> list[tuple[float, float]]:
        """When each of at most this many bins begins, and the mean of GPUs in use in it; the end of
        the curve comes last."""
        every = -(-len(self._bins) // most)
        points: list[tuple[float, float]] = []
        for first in range(0, len(self._bins), every):
            begin_s = first * self._bin_s
            length_s = min(self._now_s, (first + every) * self._bin_s) - begin_s
            if length_s > 0:
                points.append((begin_s, sum(self._bins[first : first + every]) / length_s))
        return [*points, (self._now_s, points[-1][1])] if points else []


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0

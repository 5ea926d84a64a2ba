"""The Gittins index of a job from the services of past jobs: how likely it ends soon for what that
costs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import inf

MOST_STEPS = 64
"""The most changes of a running job's index in one queue, for any number of samples. Ours."""


class ServiceDistribution:
    """Services of past jobs, GPU-seconds."""

    __slots__ = ("_sorted", "_sums")

    def __init__(self, samples: Sequence[float]) -> None:
        self._sorted = sorted(samples)
        self._sums = [0.0, *accumulate(self._sorted)]

    def index(self, attained: float, quantum: float) -> float:
        """P(S - a <= d | S > a) / E[min(S - a, d) | S > a] of attained service a and quantum d,
        or 0 if no past job had more. (The public code divides by a sum of S in place of S - a.)"""
        first = bisect_right(self._sorted, attained)
        more = len(self._sorted) - first
        if not more:
            return 0.0
        last = (
            bisect_right(self._sorted, attained + quantum) if quantum < inf else len(self._sorted)
        )
        ended = last - first
        spent = self._sums[last] - self._sums[first] - attained * ended
        if quantum < inf:
            spent += quantum * (more - ended)
        return ended / spent if spent > 0 else inf

    def between(self, lower: float, upper: float) -> list[float]:
        """The samples in there."""
        return self._sorted[bisect_right(self._sorted, lower) : bisect_right(self._sorted, upper)]


class QueueIndex:
    """The index in one queue, as it is where the queue begins and at each sample: there it falls.
    What it rises by in between is left out, as two jobs that one look finds a few seconds apart
    would change places by it."""

    __slots__ = ("_edges", "_values")

    def __init__(self, distribution: ServiceDistribution, lower: float, upper: float) -> None:
        inside = distribution.between(lower, upper)
        thinned = inside[:: 1 + len(inside) // MOST_STEPS]
        edges = {lower, *thinned, *inside[-1:]}
        self._edges = sorted(edge for edge in edges if edge < upper)
        self._values = [distribution.index(edge, upper - lower) for edge in self._edges]

    def value(self, attained: float) -> float:
        return self._values[max(0, bisect_right(self._edges, attained) - 1)]

    def below(self, attained: float, bound: float) -> float:
        """The attained service, above this one, at which the index is less than ``bound``; infinite
        where it stays above."""
        for at in range(bisect_right(self._edges, attained), len(self._edges)):
            if self._values[at] < bound:
                return self._edges[at]
        return inf

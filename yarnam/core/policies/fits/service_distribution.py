"""The Gittins index of a job from the services of past jobs: how likely it ends soon for what that
costs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import inf


class ServiceDistribution:
    """Services of past jobs, GPU-seconds."""

    __slots__ = ("_sorted", "_sums")

    def __init__(self, samples: Sequence[float]) -> None:
        self._sorted = sorted(samples)
        self._sums = [0.0, *accumulate(self._sorted)]

    def index(self, attained: float, quantum: float) -> float:
        """P(S - a <= d | S > a) / E[min(S - a, d) | S > a] of attained service a and quantum d;
        0: no past job had more. (The public code divides by a sum of S in place of S - a.)"""
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

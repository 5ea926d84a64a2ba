"""One value of a metric, on its way to an experiment tracker."""

from __future__ import annotations

from typing import NamedTuple


class Point(NamedTuple):
    """``at_s``: seconds since the epoch."""

    name: str
    value: float
    step: int
    at_s: float

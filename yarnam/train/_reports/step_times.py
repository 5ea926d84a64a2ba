"""How long this process computes in each step, on its own and without the others.

In a gang that synchronizes, all ranks take as long for a step as the slowest one: the fast ones
wait in the collective. Who is slow shows only in the time until the collective begins.
"""

from __future__ import annotations

import math
import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

WINDOW = 16
"""Steps of which the medians are sent. The ApplicationMaster judges windows that do not overlap
(``yarnam.core.failures.straggler_detection``)."""

COMPUTE_S, STEP_S, STEPS = "median_compute_s", "median_step_s", "measured_steps"
"""The metrics, as ``yarnam.wire.protocol`` knows them."""


class StepTimes:
    """The step times of one process. Bounded, and a few microseconds for each step."""

    def __init__(self) -> None:
        self._compute_s: deque[float] = deque(maxlen=WINDOW)
        self._step_s: deque[float] = deque(maxlen=WINDOW)
        self._steps = 0
        self._last: tuple[int, float] | None = None
        self._computed_s = 0.0
        self._is_marked = False
        self._is_disturbed = False

    def disturb(self) -> None:
        """The step under way is not a usual one: it has a pause."""
        self._is_disturbed = True

    @contextmanager
    def compute(self) -> Iterator[None]:
        began_s = time.perf_counter()
        try:
            yield
        finally:
            self._computed_s += time.perf_counter() - began_s
            self._is_marked = True

    def end_step(self, step: int, own_s: Any = None) -> None:
        """Mark this step as done. ``own_s`` is a time that the program has measured itself."""
        now_s, last, computed_s = time.perf_counter(), self._last, self._computed_s
        if last is not None and last[0] == step:
            return
        own_s = None if own_s is None else _seconds(own_s)  # an exception takes as long as the rest
        has_own = own_s is not None or self._is_marked
        steps = 0 if last is None else step - last[0]
        # The first step compiles, and a step with a pause is not representative.
        if last is not None and steps > 0 and not self._is_disturbed:
            self._step_s.append((now_s - last[1]) / steps)
            if has_own:
                self._compute_s.append(computed_s / steps if own_s is None else own_s)
            self._steps += steps
        self._last, self._computed_s = (step, now_s), 0.0
        self._is_marked = self._is_disturbed = False

    def metrics(self) -> dict[str, float]:
        """The metrics of the last steps; empty before one is measured."""
        if not self._step_s:
            return {}
        found = {STEP_S: _median(self._step_s), STEPS: float(self._steps)}
        if len(self._compute_s) == len(self._step_s):
            found[COMPUTE_S] = _median(self._compute_s)
        return found


def _median(times: deque[float]) -> float:
    # Not the module statistics: it would import decimal and fractions into the training code.
    return sorted(times)[len(times) // 2]


def _seconds(value: Any) -> float | None:
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


of_process = StepTimes()

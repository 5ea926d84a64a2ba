"""The hard cap on what one process asks of the ResourceManager: a token bucket."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

REQUESTS_PER_S = 1.0
"""Requests that a job may make over time: twice the need of the first in the queue, which polls
every 2 s (docs/evidence/cluster-cost.md)."""

BURST = 30
"""Requests in one burst: a start, a claim and a growing gang may coincide."""

SHOWN_S = 60.0
"""How long after a request that had to wait the cap counts as felt."""


class RequestBudget:
    """Thread-safe."""

    def __init__(
        self,
        per_s: float = REQUESTS_PER_S,
        burst: int = BURST,
        *,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._per_s = per_s
        self._burst = float(burst)
        self._now_s = now_s
        self._sleep = sleep
        self._lock = threading.Lock()
        self._left = self._burst
        self._counted_at_s = now_s()
        self._held_at_s: float | None = None

    def take(self, limit_s: float) -> bool:
        """Waits for a request's turn, but no longer than ``limit_s``; whether it may be sent."""
        with self._lock:
            now_s = self._now_s()
            passed_s, self._counted_at_s = now_s - self._counted_at_s, now_s
            self._left = min(self._burst, self._left + passed_s * self._per_s)
            pause_s = max(0.0, (1.0 - self._left) / self._per_s)
            if pause_s:
                self._held_at_s = now_s
            if pause_s > limit_s:
                return False
            self._left -= 1.0
        if pause_s:
            self._sleep(pause_s)
        return True

    @property
    def trouble(self) -> str:
        """Text for a person where the cap is felt; empty means it is not."""
        held_at_s = self._held_at_s
        if held_at_s is None or self._now_s() - held_at_s >= SHOWN_S:
            return ""
        return (
            f"asks the ResourceManager less often than it would: at most {self._per_s:g} requests "
            "a second are allowed to a job"
        )

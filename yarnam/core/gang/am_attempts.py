"""Which failed AM attempts count."""

from __future__ import annotations

from collections.abc import Iterable

from yarnam.core.model.job_spec import AmSpec


def ends_the_job(am: AmSpec, earlier_ends_s: Iterable[float], now_s: float) -> bool:
    """Whether one more failed AM attempt now is one too many. ``earlier_ends_s`` are the ends of
    the others; 0 for one that lives. YARN counts in the same way
    (``RMAppImpl.getNumFailedAppAttempts``), but leaves out those that were not the application's
    own fault (preempted, lost with their node)."""
    began_s = now_s - am.attempts_interval_s
    return 1 + sum(end_s > began_s for end_s in earlier_ends_s) >= am.attempts

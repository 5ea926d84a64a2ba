"""Which failed AM attempts count."""

from __future__ import annotations

from collections.abc import Iterable

from yarnam.core.model.job_spec import AmSpec


def replaced_from_s(am: AmSpec, earlier_ends_s: Iterable[float]) -> float | None:
    """From when on YARN starts another attempt if this one fails: 0 if it does at any time,
    ``None`` if it never does. Counted as in ``ends_the_job``."""
    allowed = am.attempts - 1
    if allowed <= 0:
        return None
    newest = sorted((end_s for end_s in earlier_ends_s if end_s), reverse=True)[:allowed]
    return newest[-1] + am.attempts_interval_s if len(newest) == allowed else 0.0


def ends_the_job(am: AmSpec, earlier_ends_s: Iterable[float], now_s: float) -> bool:
    """Whether one more failed AM attempt now is one too many. ``earlier_ends_s`` are the ends of
    the others; 0 for one that lives. YARN counts in the same way
    (``RMAppImpl.getNumFailedAppAttempts``), but leaves out those that were not the application's
    own fault (preempted, lost with their node)."""
    began_s = now_s - am.attempts_interval_s
    return 1 + sum(end_s > began_s for end_s in earlier_ends_s) >= am.attempts

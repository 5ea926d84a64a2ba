"""The limit of how long tickets may keep a job from idle GPUs.

The order of the wait queue is useful only while GPUs are used in it. A job that waits although its
whole gang fits at every poll waits for others to take those GPUs. If they never do, their tickets
are wrong: forged, or of a job that hangs, or of a malicious user. After a limit the job continues
as without tickets: by jitter, and all or none. So whatever is written in ZooKeeper delays no job by
more than these limits, beyond the time in which the GPUs are in use.
"""

from __future__ import annotations

from dataclasses import dataclass

from yarnam.core.model.tickets import MustWait, Ticket

IDLE_LIMIT_S = 180.0
"""The limit for a ticket that nothing keeps from asking: its holder polls every 45 s at the latest
and claims immediately. In simulations, also with four times the load that the cluster can handle,
no job was delayed for more than 12 s."""

RESERVED_LIMIT_S = 24 * 3600.0
"""The limit for nodes that are reserved for the head, and come free only as the gangs on them end.
In simulations of gangs that run for up to two days on four nodes, a job was rightly kept from them
for up to 17 hours."""

SPREAD_S = 90.0
"""Jobs that were kept by the same ticket continue one after the other: those that start first take
the GPUs that the others would ask for. A job continues up to this much later, by ticket number."""

GOLDEN = 0.6180339887498949
"""Multiples of it, modulo one, are spread evenly however many there are."""


DOUBT_S = 120.0
"""A head that has left its whole gang's GPUs idle for this long in all has no nodes reserved for it
any more: that counts as idle too. The first in the queue polls every 3 s; in simulations of honest
jobs no more than 81 s came together."""

MOST_HEADS = 100
"""Jobs whose idle time is remembered, the latest ones: they have to live to be first."""


@dataclass(frozen=True, slots=True)
class Delay:
    """How long a job has been kept from asking for free GPUs."""

    at_s: float = 0.0
    """When it polled last."""
    fits_since_s: float | None = None
    """Its gang has fitted at every poll since then; ``None`` if it does not fit."""
    idle_since_s: float | None = None
    """And, since then, not only on nodes that are reserved for the head."""
    idle_behind: tuple[tuple[str, float], ...] = ()
    """The first of the queue, and how long in all it has left such GPUs idle: one that never asks
    must not start from zero whenever others have used them for a while."""

    def after(self, last: MustWait, now_s: float, *, fits: bool) -> Delay:
        """After one more poll that ended in ``last``."""
        if not fits:
            return self.not_fitting(now_s)
        fits_since_s = now_s if self.fits_since_s is None else self.fits_since_s
        first, others = last.head.job, dict(self.idle_behind)
        if last.is_reserved and others.get(first, 0.0) < DOUBT_S:
            return Delay(now_s, fits_since_s, None, self.idle_behind)
        if self.idle_since_s is None:
            return Delay(now_s, fits_since_s, now_s, self.idle_behind)
        idle_s = others.pop(first, 0.0) + now_s - self.at_s
        behind = (*others.items(), (first, idle_s))[-MOST_HEADS:]
        return Delay(now_s, fits_since_s, self.idle_since_s, behind)

    def not_fitting(self, now_s: float) -> Delay:
        """After a poll at which its gang did not fit."""
        return Delay(now_s, idle_behind=self.idle_behind)

    def is_over(self, me: Ticket, last: MustWait) -> bool:
        """Whether the holder of ``me`` waits for the others no longer."""
        later_s = SPREAD_S * (me.number * GOLDEN % 1.0)
        reserved_s = 0.0 if self.fits_since_s is None else self.at_s - self.fits_since_s
        idle_s = 0.0 if self.idle_since_s is None else self.at_s - self.idle_since_s
        if self.fits_since_s is not None:
            idle_s = max(idle_s, dict(self.idle_behind).get(last.head.job, 0.0))
        return idle_s >= IDLE_LIMIT_S + later_s or reserved_s >= RESERVED_LIMIT_S + later_s

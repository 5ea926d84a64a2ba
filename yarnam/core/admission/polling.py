"""When to poll the cluster again. ``u`` is a draw, uniform in [0, 1)."""

from __future__ import annotations

from yarnam.core.model.plans import NoFit, PlacementPlan
from yarnam.core.model.tickets import MustWait

FIRST_POLL_S = 2.0
"""Mean interval of the first in the queue. Released GPUs are free again after 0.5 to 1.5 s with
short heartbeats, and a poll costs the ResourceManager two REST calls (skein-on-yarn.md, 12)."""

POLL_CAP_S = 30.0
"""Longest mean interval: backfill must see short gaps too."""

FREED_S = 2.5
"""Released GPUs are free for others after 0.5 to 1.5 s (skein-on-yarn.md, 12)."""

STAGGER_S = 0.25
"""Between the polls of neighbours in the queue after a change: those ahead have asked by the time
that those behind poll, and the ResourceManager gets four polls a second however long the queue
is."""

CONFIRM_WITHIN_S = 3.0
"""Longest pause before the second poll. A container takes up to 2 s from the ask to the grant that
others can see (ask to RM 0.5 s, grant at a node's heartbeat 1 s, AM 0.5 s; skein-on-yarn.md, 12),
so two jobs that draw far enough apart see each other."""


def poll_interval_s(wait: MustWait, u: float) -> float:
    """How long a job with a ticket waits before it polls again: the further back the longer, so
    that ``n`` waiting jobs together poll only about ``log(n) / FIRST_POLL_S`` times a second.
    Spread over half to one and a half of the mean, so that they do not poll in step."""
    mean_s = min(POLL_CAP_S, FIRST_POLL_S * (1 + wait.ahead))
    return mean_s * (0.5 + u)


def poll_after_change_s(wait: MustWait, u: float) -> float:
    """How soon to poll when a gang has ended or a ticket has gone, if no poll is due before."""
    return min(FREED_S + STAGGER_S * (wait.ahead + u), poll_interval_s(wait, u))


def confirm_delay_s(u: float) -> float:
    """Without tickets: how long to wait after a poll that says "fits", before polling once more and
    asking only if it still does. Jobs that saw the same GPUs come free would all ask for them;
    of those that pause for different times the later see the earlier one's grants."""
    return CONFIRM_WITHIN_S * u


def must_confirm(outcome: PlacementPlan | NoFit, *, has_spare: bool, has_waited: bool) -> bool:
    """Without tickets: whether a second poll has to confirm a plan. Where room is scarce, others
    may have seen the same GPUs. ``has_spare``: a second gang like this one would find room as well;
    ``has_waited``: the gang did not fit before."""
    return isinstance(outcome, PlacementPlan) and (has_waited or not has_spare)

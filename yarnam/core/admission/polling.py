"""When to poll the cluster again. ``u`` is a draw, uniform in [0, 1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

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
"""Least time between the polls of neighbours in the queue after a change: those ahead have asked,
and have published what they saw, by the time that those behind poll."""

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


def poll_after_change_s(wait: MustWait, u: float, took_s: float = 0.0) -> float:
    """How soon to poll when a gang has ended or a ticket has gone, if no poll is due before.
    ``took_s``: how long the job's last own poll took."""
    stagger_s = max(STAGGER_S, took_s) * (wait.ahead + u)
    return min(FREED_S + stagger_s, poll_interval_s(wait, u))


def confirm_delay_s(u: float) -> float:
    """Without tickets: how long to wait after a poll that finds room, before polling once more and
    asking only if the gang still fits. Jobs that saw the same GPUs come free would all ask for
    them; if they pause for different times, the later ones see the grants of the earlier."""
    return CONFIRM_WITHIN_S * u


def must_confirm(outcome: PlacementPlan | NoFit, *, has_spare: bool, has_waited: bool) -> bool:
    """Without tickets: whether a second poll has to confirm a plan. If room is scarce, others may
    have seen the same GPUs. ``has_spare``: a second gang like this one would find room as well;
    ``has_waited``: the gang did not fit before."""
    return isinstance(outcome, PlacementPlan) and (has_waited or not has_spare)


# ---- snapshots that other jobs have taken --------------------------------------------------------

OWN_POLL_EVERY = 10
"""A job that waits behind others makes one in this many polls to the ResourceManager even if a
shared snapshot is available: a forged one delays a job by no more polls than that."""


@dataclass(frozen=True, slots=True)
class PollHistory:
    """The last own poll of a waiting job, which is all that it trusts."""

    own_at_s: float = -inf
    ahead: int = 0
    """Jobs ahead of it, by that poll."""
    u: float = 0.0
    """A random draw at that time, uniform in [0, 1)."""
    unconfirmed: int = 0
    """Own polls in a row that did not confirm the room which a shared snapshot had shown."""

    def after_own_poll(self, wait: MustWait, now_s: float, u: float) -> PollHistory:
        """After an own poll that did not admit the job."""
        return replace(self, own_at_s=now_s, ahead=wait.ahead, u=u)

    def position(self, wait: MustWait) -> int:
        """A shared snapshot may move a job forward, never back."""
        return min(self.ahead, wait.ahead)


def accepted_age_s(history: PollHistory, wait: MustWait, now_s: float) -> float:
    """How old a shared snapshot may be for the next poll of a waiting job; with 0 the job asks the
    ResourceManager itself. The first in the queue always does, so those behind it find its
    snapshot. Each of them accepts a snapshot as old as its own polls are apart: when the first does
    not publish, the second does, and so on."""
    position = history.position(wait)
    own_every_s = OWN_POLL_EVERY * FIRST_POLL_S * (1 + position)
    if position == 0 or now_s - history.own_at_s >= own_every_s * (0.5 + history.u):
        return 0.0
    return min(POLL_CAP_S, FIRST_POLL_S * (1 + position))


def may_confirm(history: PollHistory, wait: MustWait, now_s: float) -> bool:
    """A shared snapshot shows room: whether the job may ask the ResourceManager now if that is
    true. Each time in a row that it was not, the pause doubles: who publishes room that is not
    there must not make all jobs poll."""
    if not history.unconfirmed:
        return True
    pause_s = FIRST_POLL_S * (1 + history.position(wait)) * 2.0 ** min(history.unconfirmed, 10)
    return now_s - history.own_at_s >= pause_s

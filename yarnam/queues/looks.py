"""When to look at the cluster again. ``u`` is a draw, uniform in [0, 1)."""

from __future__ import annotations

from yarnam.model.tickets import MayAsk, Turn

FIRST_LOOK_S = 2.0
"""Mean interval of the first in line. Released GPUs are free again after 0.5 to 1.5 s with short
heartbeats, and a look costs the ResourceManager two REST calls (skein-on-yarn.md, 12)."""

LOOK_CAP_S = 30.0
"""Longest mean interval: backfill must see short gaps too."""

FREED_S = 2.5
"""Released GPUs are free for others after 0.5 to 1.5 s (skein-on-yarn.md, 12)."""

STAGGER_S = 0.25
"""Between the looks of neighbours in line after a change: those before have asked by the time that
those behind look, and the ResourceManager gets four looks a second however long the line is."""

SECOND_LOOK_S = 3.0
"""Longest pause before the second look. A container takes up to 2 s from the ask to the grant that
others can see (ask to RM 0.5 s, grant at a node's heartbeat 1 s, AM 0.5 s; skein-on-yarn.md, 12),
so two jobs that draw far enough apart see each other."""


def look_interval_s(turn: Turn, u: float) -> float:
    """How long a job with a ticket waits for its next look: the further back the longer, so that
    ``n`` waiting jobs together look only about ``log(n) / FIRST_LOOK_S`` times a second. Spread
    over half to one and a half of the mean, so that they do not look in step."""
    place = 0 if isinstance(turn, MayAsk) else turn.ahead
    mean_s = min(LOOK_CAP_S, FIRST_LOOK_S * (1 + place))
    return mean_s * (0.5 + u)


def look_after_change_s(turn: Turn, u: float) -> float:
    """How soon to look when a gang has ended or a ticket has gone, if no look is due before."""
    place = 0 if isinstance(turn, MayAsk) else turn.ahead
    return min(FREED_S + STAGGER_S * (place + u), look_interval_s(turn, u))


def second_look_s(u: float) -> float:
    """Without tickets: how long to wait after a look that says "fits", before looking once more and
    asking only if it still does. Jobs that saw the same GPUs come free would all ask for them;
    of those that pause for different times the later see the earlier one's grants."""
    return SECOND_LOOK_S * u

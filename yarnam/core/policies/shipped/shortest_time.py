"""Shortest remaining time first (SRTF): by declared or predicted run time. A job without a known
run time comes after the others, by arrival. ``shortest_service`` orders by the time times GPUs."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from yarnam.core.model.tickets import PolicyTicket
from yarnam.core.policies.policy_settings import LEAST_PAUSE, LEAST_RUN, Settings
from yarnam.core.policies.policy_ticket import arrival
from yarnam.core.policies.schedule import Schedule
from yarnam.core.policies.scheduling_policy import Policy
from yarnam.core.policies.scheduling_view import SchedulingView
from yarnam.core.policies.serving import gpus_of, pinned, preemptive


def decide(view: SchedulingView, settings: Settings) -> Schedule:
    return least_first(view, settings, lambda ticket, left_s: left_s, "s")


def least_first(
    view: SchedulingView,
    settings: Settings,
    needs_of: Callable[[PolicyTicket, float], float],
    unit: str,
) -> Schedule:
    """Order by what each job still needs: a function of its ticket and its remaining time."""
    left: dict[str, float] = {}
    for one in view.tickets:
        left_s = one.left_s(view.now_s)
        left[one.job] = inf if left_s is None else needs_of(one, left_s)
    order = sorted(view.tickets, key=lambda one: (left[one.job], *arrival(one)))
    kept = pinned(view, settings["least_run"][0])

    def explain(ticket: PolicyTicket) -> str:
        needs = left[ticket.job]
        said = "unknown" if needs == inf else f"{needs:.0f} {unit}"
        return f"remaining: {said}, for {gpus_of(ticket)}; the least first"

    return preemptive(order, view, kept, explain, least_pause_s=settings["least_pause"][0])


POLICY = Policy(
    "srtf",
    "The least remaining run time first, suspending others.",
    (LEAST_RUN, LEAST_PAUSE),
    decide,
    suspends=True,
    starves_nobody=False,
)

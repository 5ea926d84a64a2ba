"""Shortest remaining time first (SRTF): by declared or predicted run time. A job without a known
run time comes after the others, by arrival."""

from __future__ import annotations

from math import inf

from yarnam.core.model.tickets import PolicyTicket
from yarnam.core.policies.policy_settings import LEAST_PAUSE, LEAST_RUN, Settings
from yarnam.core.policies.policy_ticket import arrival
from yarnam.core.policies.schedule import Schedule
from yarnam.core.policies.scheduling_policy import Policy
from yarnam.core.policies.scheduling_view import SchedulingView
from yarnam.core.policies.serving import gpus_of, pinned, preemptive


def decide(view: SchedulingView, settings: Settings) -> Schedule:
    now_s = view.now_s
    left = {one.job: _left(one, now_s) for one in view.tickets}
    order = sorted(view.tickets, key=lambda one: (left[one.job], *arrival(one)))
    kept = pinned(view, settings["least_run"][0])

    def explain(ticket: PolicyTicket) -> str:
        needs = left[ticket.job]
        said = "unknown" if needs == inf else f"{needs:.0f} s"
        return f"remaining: {said}, for {gpus_of(ticket)}; the least first"

    return preemptive(order, view, kept, explain, least_pause_s=settings["least_pause"][0])


def _left(ticket: PolicyTicket, now_s: float) -> float:
    left_s = ticket.left_s(now_s)
    return inf if left_s is None else left_s


POLICY = Policy(
    "srtf",
    "The least remaining run time first, suspending others.",
    (LEAST_RUN, LEAST_PAUSE),
    decide,
    suspends=True,
    starves_nobody=False,
)

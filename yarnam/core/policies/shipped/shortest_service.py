"""Shortest remaining service first (SRSF): by remaining run time times GPUs. A job without a known
run time comes after the others, by arrival."""

from __future__ import annotations

from yarnam.core.policies.policy_settings import LEAST_PAUSE, LEAST_RUN, Settings
from yarnam.core.policies.schedule import Schedule
from yarnam.core.policies.scheduling_policy import Policy
from yarnam.core.policies.scheduling_view import SchedulingView
from yarnam.core.policies.shipped.shortest_time import least_first


def decide(view: SchedulingView, settings: Settings) -> Schedule:
    return least_first(view, settings, lambda ticket, left_s: left_s * ticket.gpus, "GPU-s")


POLICY = Policy(
    "srsf",
    "The least remaining service (time times GPUs) first, suspending others.",
    (LEAST_RUN, LEAST_PAUSE),
    decide,
    suspends=True,
    starves_nobody=False,
)

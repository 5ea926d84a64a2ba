"""Tiresias's queues with the Gittins index inside each: the job that most likely ends soon, for
what that costs, by the services of past jobs (Gu et al., "Tiresias", NSDI 2019)."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from math import inf

from yarnam.core.fits.service_distribution import QueueIndex, ServiceDistribution
from yarnam.core.model.tickets import PolicyTicket
from yarnam.core.policies.policy_settings import LEAST_PAUSE, LEAST_RUN, Setting, Settings
from yarnam.core.policies.schedule import Schedule
from yarnam.core.policies.scheduling_policy import Policy
from yarnam.core.policies.scheduling_view import SchedulingView
from yarnam.core.policies.shipped.tiresias import LIMITS, PROMOTE, discretized

SAMPLES = Setting(
    "samples", (), 0.0, 1e15,
    "Services of past jobs, for the index: by default those of the queue's history when the policy "
    "is chosen. Without any, attained service decides.",
    "GPU-s", is_list=True, is_from_past=True,
)  # fmt: skip


NO_SAMPLES = "no past jobs are known, so attained service alone decides"


def decide(view: SchedulingView, settings: Settings) -> Schedule:
    samples = settings["samples"]
    if samples:
        return discretized(view, settings, _indices(samples, settings["limits"]))
    found = discretized(view, settings, ())

    def explain(ticket: PolicyTicket) -> str:
        return f"{found.explain(ticket)}; {NO_SAMPLES}"

    return replace(found, explain=explain)


@lru_cache(maxsize=4)
def _indices(samples: tuple[float, ...], limits: tuple[float, ...]) -> tuple[QueueIndex, ...]:
    """The index of each queue."""
    distribution = ServiceDistribution(samples)
    return tuple(
        QueueIndex(distribution, lower, upper) for lower, upper in pairwise((0.0, *limits, inf))
    )


POLICY = Policy(
    "gittins",
    "Tiresias's queues; inside each the job that most likely ends soon, by past jobs.",
    (LIMITS, PROMOTE, SAMPLES, LEAST_RUN, LEAST_PAUSE),
    decide,
    suspends=True,
)

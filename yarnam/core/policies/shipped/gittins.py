"""Tiresias's queues with the Gittins index inside each: the job that most likely ends soon, for
what that costs, by the services of past jobs (Gu et al., "Tiresias", NSDI 2019)."""

from __future__ import annotations

from functools import lru_cache
from math import inf

from yarnam.core.model.tickets import PolicyTicket
from yarnam.core.policies.fits.service_distribution import ServiceDistribution
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


def decide(view: SchedulingView, settings: Settings) -> Schedule:
    limits = settings["limits"]
    distribution = _distribution(settings["samples"])

    def within(ticket: PolicyTicket, queue: int, counted: float) -> float:
        del ticket
        lower = limits[queue - 1] if queue else 0.0
        quantum = limits[queue] - lower if queue < len(limits) else inf
        return -distribution.index(counted, quantum)

    return discretized(view, settings, within)


@lru_cache(maxsize=4)
def _distribution(samples: tuple[float, ...]) -> ServiceDistribution:
    return ServiceDistribution(samples)


POLICY = Policy(
    "gittins",
    "Tiresias's queues; inside each the job that most likely ends soon, by past jobs.",
    (LIMITS, PROMOTE, SAMPLES, LEAST_RUN, LEAST_PAUSE),
    decide,
    suspends=True,
)

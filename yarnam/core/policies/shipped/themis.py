"""Finish-time fairness (Mahajan et al., "Themis", NSDI 2020): rho is the time from submission to
the expected end here, divided by that of the job alone on its fair part of the cluster. The job
that is worst off comes first; a running job keeps its GPUs for a lease."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace
from math import inf

from yarnam.core.model.tickets import PolicyTicket
from yarnam.core.policies.policy_settings import LEAST_PAUSE, Setting, Settings
from yarnam.core.policies.policy_ticket import arrival
from yarnam.core.policies.schedule import Schedule
from yarnam.core.policies.scheduling_policy import Policy
from yarnam.core.policies.scheduling_view import SchedulingView
from yarnam.core.policies.serving import gpus_of, pinned, preemptive

UNKNOWN_S = 3600.0
"""A job without a known run time is expected to run as long again as it has run, and at least an
hour."""

LOOKS_A_LEASE = 60
"""Crossings of two jobs are considered at most this many times in a lease. The figure is our own
choice."""


def decide(view: SchedulingView, settings: Settings) -> Schedule:
    wanted = sum(one.gpus for one in view.tickets)
    contention = max(1.0, wanted / max(1, view.capacity.total_gpus))
    rhos = {one.job: rho(one, view.now_s, contention) for one in view.tickets}
    order = sorted(view.tickets, key=lambda one: (-rhos[one.job], *arrival(one)))
    lease_s = settings["lease"][0]
    kept = pinned(view, lease_s)

    def explain(ticket: PolicyTicket) -> str:
        return (
            f"its end is {rhos[ticket.job]:.2f} times as far as alone on its part of the cluster, "
            f"for {gpus_of(ticket)}; the largest first"
        )

    found = preemptive(order, view, kept, explain, least_pause_s=settings["least_pause"][0])
    passes_s = _passes_at_s(found, view.now_s, rhos, contention, lease_s)
    return replace(found, next_change_s=min(found.next_change_s, passes_s))


def _passes_at_s(
    found: Schedule, now_s: float, rhos: Mapping[str, float], contention: float, lease_s: float
) -> float:
    """When the rho of a job that waits, which grows with time, passes that of one that runs and
    whose lease is over: the rho of a job that runs stays, or nearly so."""
    running = sorted(
        rhos[one.job] for one in found.order
        if one.is_running and one.job in found.gpus and now_s >= one.since_s + lease_s
    )  # fmt: skip
    first_s = inf
    for ticket in found.order if running else ():
        mine = rhos[ticket.job]
        above = bisect_left(running, mine)
        if ticket.job in found.gpus or above == len(running):
            continue
        in_a_second = rho(ticket, now_s + 1.0, contention) - mine
        if in_a_second > 0:
            first_s = min(first_s, now_s + (running[above] - mine) / in_a_second)
    return max(first_s, now_s + lease_s / LOOKS_A_LEASE)


def rho(ticket: PolicyTicket, now_s: float, contention: float) -> float:
    executed_s = ticket.service(now_s) / max(1, ticket.gpus)
    left_s = ticket.left_s(now_s)
    if left_s is None:
        left_s = max(UNKNOWN_S, executed_s)
    alone_s = (executed_s + left_s) * contention
    return (now_s - ticket.submitted_at_s + left_s) / max(1.0, alone_s)


POLICY = Policy(
    "themis",
    "Finish-time fairness: whoever is worst off against its part of the cluster comes first.",
    (
        Setting(
            "lease",
            (1200.0,),
            1.0,
            7 * 86400.0,
            "How long a job keeps its GPUs before others may get them.",
            "s",
        ),
        LEAST_PAUSE,
    ),
    decide,
    suspends=True,
)

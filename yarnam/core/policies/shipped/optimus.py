"""Marginal gain (Peng et al., "Optimus", EuroSys 2018): every job gets its smallest gang, by
arrival; each further GPU goes to the elastic job whose predicted end it brings forward the most,
per GPU. Remaining steps come from the fit of the loss curve, speeds from the fit over the sizes
that the job has run at (``fits``); the job reports both in its ticket."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from math import inf

from yarnam.core.model.tickets import PolicyTicket
from yarnam.core.policies.policy_settings import Setting, Settings
from yarnam.core.policies.policy_ticket import arrival
from yarnam.core.policies.schedule import Schedule
from yarnam.core.policies.scheduling_policy import Policy
from yarnam.core.policies.scheduling_view import Capacity, SchedulingView
from yarnam.core.policies.serving import gpus_of, settled_first, waiting_of

SETTINGS = (
    Setting(
        "interval", (600.0,), 1.0, 86400.0, "Keep a gang at a new size for at least this long.",
        "s",
    ),
    Setting(
        "worth", (2.0,), 0.0, 1e6,
        "Resize a gang only if that saves this multiple of what the change costs.",
    ),
)  # fmt: skip


def decide(view: SchedulingView, settings: Settings) -> Schedule:
    now_s = view.now_s
    running = sorted((one for one in view.tickets if one.is_running), key=arrival)
    waiting = waiting_of(view)
    capacity = view.capacity.emptied()
    taken: dict[str, int] = {}
    for ticket in (*running, *waiting):
        least = ticket.smallest if ticket.can_suspend or not ticket.is_running else ticket.gpus
        if capacity.take(ticket, least):
            taken[ticket.job] = least
    elastic = [one for one in (*running, *waiting) if one.is_elastic and one.job in taken]
    fresh = {
        one.job
        for one in running
        if now_s < one.since_s + settings["interval"][0] and one.is_elastic
    }
    grow(elastic, taken, capacity, fresh, now_s)
    _shrink_for_others(running, taken, capacity)
    _keep(running, taken, settings["worth"][0], now_s)
    order = [*running, *waiting]
    smallest = {
        one.job: one.smallest
        for one in running
        if one.is_elastic and one.can_suspend and one.job in taken
    }
    # If a job fits only on the nodes of elastic gangs, these go down to their smallest.
    taken, left = settled_first(view, (order, taken), (order, {**taken, **smallest}))
    starting = [one for one in waiting if one.job in taken and one.is_elastic]
    keeps_s = [now_s + settings["interval"][0] for _ in starting[:1]]
    keeps_s += [one.since_s + settings["interval"][0] for one in running if one.job in fresh]

    def explain(ticket: PolicyTicket) -> str:
        gpus = taken.get(ticket.job, 0)
        if not gpus:
            return f"not even its smallest gang of {ticket.smallest} fits"
        if not ticket.is_elastic:
            return f"its gang has one size, {gpus_of(ticket)}"
        gain = marginal_gain(ticket, gpus, now_s)
        return f"{gpus} GPUs: one more would save {max(0.0, gain):.0f} s"

    return Schedule(order, taken, left, explain, min(keeps_s, default=inf))


def grow(
    jobs: Iterable[PolicyTicket],
    taken: dict[str, int],
    capacity: Capacity,
    fresh: set[str],
    now_s: float,
) -> None:
    """One GPU after the other to the largest gain, while there are any. Who is ``fresh`` gets back
    what it has, and no more."""
    tickets = {one.job: one for one in jobs}
    heap = [
        (-marginal_gain(one, taken[one.job], now_s), arrival(one), one.job)
        for one in tickets.values()
    ]
    heapq.heapify(heap)
    while heap and capacity.free_gpus:
        gain, at, job = heapq.heappop(heap)
        ticket = tickets[job]
        limit = ticket.gpus if job in fresh else ticket.most_gpus
        if gain >= 0 or taken[job] >= limit or not capacity.take(ticket, 1):
            continue
        taken[job] += 1
        heapq.heappush(heap, (-marginal_gain(ticket, taken[job], now_s), at, job))


def marginal_gain(ticket: PolicyTicket, gpus: int, now_s: float) -> float:
    """By how many seconds one more GPU brings its end forward; 0 if unknown."""
    left = steps_left(ticket, now_s)
    now_rate, then_rate = ticket.rate(gpus), ticket.rate(gpus + 1)
    if left is None or now_rate <= 0 or then_rate <= 0:
        return 0.0
    return left / now_rate - left / then_rate


def steps_left(ticket: PolicyTicket, now_s: float) -> float | None:
    if ticket.remaining_steps is None:
        return None
    done = ticket.rate(ticket.gpus) * (now_s - ticket.since_s) if ticket.is_running else 0.0
    return max(0.0, ticket.remaining_steps - done)


def _shrink_for_others(
    running: list[PolicyTicket], taken: dict[str, int], capacity: Capacity
) -> None:
    """A gang keeps the GPUs that no other would gain by, even if its own gain is unknown."""
    for ticket in running:
        while ticket.is_elastic and 0 < taken.get(ticket.job, 0) < ticket.gpus:
            if not capacity.take(ticket, 1):
                break
            taken[ticket.job] += 1


def _keep(running: list[PolicyTicket], taken: dict[str, int], worth: float, now_s: float) -> None:
    """A gang that would win less by growing than the change costs keeps its size."""
    for ticket in running:
        gpus = taken.get(ticket.job, 0)
        left = steps_left(ticket, now_s)
        if not ticket.is_elastic or gpus <= ticket.gpus or left is None:
            continue
        rate, then = ticket.rate(ticket.gpus), ticket.rate(gpus)
        saved_s = left / rate - left / then if rate > 0 and then > 0 else 0.0
        if saved_s < worth * ticket.pause_cost_s:
            taken[ticket.job] = ticket.gpus


POLICY = Policy(
    "optimus",
    "Every job its smallest gang; each further GPU to the elastic job that gains the most.",
    SETTINGS,
    decide,
    resizes=True,
)

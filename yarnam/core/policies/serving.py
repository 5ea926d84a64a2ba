"""How an order of jobs becomes a schedule: who fits, one after the other. Shared by the
policies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from math import inf

from yarnam.core.model.tickets import PolicyTicket
from yarnam.core.policies.policy_ticket import arrival, by_priority, priorities
from yarnam.core.policies.schedule import Explain, Schedule
from yarnam.core.policies.scheduling_view import Capacity, SchedulingView


@dataclass(frozen=True, slots=True)
class Pinned:
    """The jobs that run regardless of the order, and until when."""

    tickets: tuple[PolicyTicket, ...]
    until_s: float
    """When the first of them may be suspended; infinite: none ever."""
    least_run_s: float = 0.0
    """How long one that starts now cannot be suspended."""


def pinned(view: SchedulingView, least_run_s: float) -> Pinned:
    """Jobs that cannot be suspended, have not run for ``least_run_s`` yet, or will end sooner than
    a suspend and a resume take; by arrival."""
    now_s = view.now_s
    kept: list[PolicyTicket] = []
    until_s = inf
    for ticket in view.tickets:
        if not ticket.is_running:
            continue
        if not ticket.can_suspend:
            kept.append(ticket)
        elif least_run_s and now_s < ticket.since_s + least_run_s:
            kept.append(ticket)
            until_s = min(until_s, ticket.since_s + least_run_s)
        elif 0.0 < (left_s := ticket.left_s(now_s) or 0.0) <= ticket.pause_cost_s:
            kept.append(ticket)
            until_s = min(until_s, now_s + left_s)
    kept.sort(key=arrival)
    return Pinned(tuple(kept), until_s, least_run_s)


def resting(ticket: PolicyTicket, now_s: float, least_pause_s: float) -> bool:
    """Whether its last suspension is too short ago to start it again."""
    return bool(
        least_pause_s
        and ticket.service_gpu_s
        and not ticket.is_running
        and now_s < ticket.since_s + least_pause_s
    )


def serve(
    order: Iterable[PolicyTicket], capacity: Capacity, *, stops_at_first: bool = False
) -> dict[str, int]:
    """Take the GPUs of each gang, in this order; ``capacity`` has the rest. A gang that does not
    fit is bypassed, or (``stops_at_first``) no gang behind it starts."""
    taken: dict[str, int] = {}
    for ticket in order:
        if capacity.take(ticket, ticket.gpus):
            taken[ticket.job] = ticket.gpus
        elif stops_at_first or not capacity.free_gpus:
            break
    return taken


def preemptive(
    order: Sequence[PolicyTicket],
    view: SchedulingView,
    kept: Pinned,
    explain: Explain,
    *,
    next_change_s: float = inf,
    least_pause_s: float = 0.0,
    promoted: frozenset[str] = frozenset(),
) -> Schedule:
    """The first jobs in ``order`` run, beside those that are ``kept``; the others yield. A higher
    priority comes before the policy's own order; before any job yields to it, elastic jobs below it
    shrink to their least."""
    order = by_priority(order, view.now_s)
    held = {one.job for one in kept.tickets}
    candidates = [one for one in order if one.job not in held] if held else order
    if least_pause_s:
        candidates = [one for one in candidates if not resting(one, view.now_s, least_pause_s)]
        ends = (one.since_s + least_pause_s for one in order if not one.is_running)
        next_change_s = min(next_change_s, min((at for at in ends if at > view.now_s), default=inf))
    for_whom, smaller = _making_way(candidates, view)
    taken, capacity = _served(smaller if for_whom else candidates, view, kept)
    if for_whom and for_whom.isdisjoint(taken):
        taken, capacity = _served(candidates, view, kept)
    if len(taken) < len(order):
        next_change_s = min(next_change_s, kept.until_s)
        if kept.least_run_s and any(one.job in taken and not one.is_running for one in order):
            next_change_s = min(next_change_s, view.now_s + kept.least_run_s)
    return Schedule(order, taken, capacity, explain, next_change_s, promoted)


def _served(
    order: Iterable[PolicyTicket], view: SchedulingView, kept: Pinned
) -> tuple[dict[str, int], Capacity]:
    capacity = view.capacity.emptied()
    taken: dict[str, int] = {}
    for ticket in kept.tickets:
        capacity.take(ticket, ticket.gpus)
        taken[ticket.job] = ticket.gpus
    taken.update(serve(order, capacity))
    return taken, capacity


def _making_way(
    order: Sequence[PolicyTicket], view: SchedulingView
) -> tuple[frozenset[str], list[PolicyTicket]]:
    """The jobs that wait and find no room although elastic jobs below them run with more than their
    least, and the same order with these at their least. Both are empty if there are none. ``order``
    has the highest priority first."""
    below = [one for one in order if one.is_running and one.gpus > one.smallest]
    lowest = min((one.priority for one in below), default=None)
    if lowest is None or all(one.priority <= lowest for one in order):
        return frozenset(), []
    levels, free = priorities(order, view.now_s), view.capacity.copy()
    above = frozenset(
        one.job
        for one in takewhile(lambda one: levels[one.job] > lowest, order)
        if not one.is_running and not free.take(one, one.gpus)
    )
    highest = max((levels[job] for job in above), default=lowest)
    shrunk = {one.job: replace(one, gpus=one.smallest) for one in below if one.priority < highest}
    return above, [shrunk.get(one.job, one) for one in order]


def settled(
    order: Iterable[PolicyTicket], sizes: dict[str, int], capacity: Capacity
) -> dict[str, int]:
    """Take these sizes, each gang as a whole; one that does not fit at its size on any nodes takes
    the largest that does."""
    taken: dict[str, int] = {}
    for ticket in order:
        wanted = sizes.get(ticket.job, 0)
        for gpus in range(wanted, min(wanted, ticket.smallest) - 1, -1) if wanted else ():
            if capacity.take(ticket, gpus):
                taken[ticket.job] = gpus
                break
    return taken


Sizing = tuple[Sequence[PolicyTicket], dict[str, int]]
"""An order, and the GPUs of each job."""


def settled_first(
    view: SchedulingView, first: Sizing, otherwise: Sizing
) -> tuple[dict[str, int], Capacity]:
    """``first``, and the rest; ``otherwise`` if some job does not fit by it."""
    left = view.capacity.emptied()
    taken = settled(*first, left)
    if len(taken) < len(first[1]):
        left = view.capacity.emptied()
        taken = settled(*otherwise, left)
    return taken, left


def running_first(
    view: SchedulingView, waiting: Sequence[PolicyTicket]
) -> tuple[list[PolicyTicket], dict[str, int], Capacity]:
    """For policies that never suspend: the order with all running jobs before ``waiting``, the GPUs
    that those hold, and the capacity left."""
    running = sorted((one for one in view.tickets if one.is_running), key=arrival)
    return [*running, *waiting], {one.job: one.gpus for one in running}, view.capacity.copy()


def waiting_of(view: SchedulingView) -> list[PolicyTicket]:
    """All that wait, by priority and arrival."""
    waiting = sorted((one for one in view.tickets if not one.is_running), key=arrival)
    return list(by_priority(waiting, view.now_s))


def gpus_of(ticket: PolicyTicket) -> str:
    return "1 GPU" if ticket.gpus == 1 else f"{ticket.gpus} GPUs"

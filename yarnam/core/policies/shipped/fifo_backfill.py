"""First come, first served, with EASY backfilling (Lifka, "The ANL/IBM SP scheduling system",
1995): a later job may start if it does not delay the first one that waits, by the declared run
times."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import inf

from yarnam.core.model.printable import duration
from yarnam.core.model.tickets import PolicyTicket
from yarnam.core.policies.policy_settings import Setting, Settings
from yarnam.core.policies.policy_ticket import arrival
from yarnam.core.policies.schedule import Schedule
from yarnam.core.policies.scheduling_policy import Policy
from yarnam.core.policies.scheduling_view import Capacity, SchedulingView
from yarnam.core.policies.serving import gpus_of, running_first, waiting_of

LEAST_LEFT_S = 900.0
"""A gang without a declared or predicted end is expected to run as long again as it has run, and at
least this long (as in ``admission.reservations``)."""

Release = tuple[float, PolicyTicket]
"""The expected time at which the job gives its GPUs back."""


def decide(view: SchedulingView, settings: Settings) -> Schedule:
    waiting = waiting_of(view)
    order, taken, left = running_first(view, waiting)
    now_s = view.now_s
    started = 0
    while started < len(waiting) and left.take(waiting[started], waiting[started].gpus):
        taken[waiting[started].job] = waiting[started].gpus
        started += 1
    head = waiting[started] if started < len(waiting) else None
    in_turn, shadow_s = frozenset(taken), inf
    if head is not None and left.free_gpus:
        running = [one for one in view.tickets if one.is_running]
        releases = [(_end_s(one, now_s), one) for one in (*running, *waiting[:started])]
        shadow_s, later = shadow(head, left, releases)
        behind = waiting[started + 1 :]
        if settings["shortest_first"][0]:
            behind.sort(key=lambda one: (_run_s(one), *arrival(one)))
        within_s = -inf if shadow_s == inf else shadow_s - now_s
        taken.update(_backfill(behind, left, within_s, later))

    def explain(ticket: PolicyTicket) -> str:
        if ticket.is_running:
            return "it runs"
        if head is None or ticket.job in in_turn:
            return "first come, first served: its gang fits"
        if ticket.job == head.job:
            when = "" if shadow_s == inf else f", expected in {duration(shadow_s - now_s)}"
            return f"first of all that wait; its {gpus_of(ticket)} are not free{when}"
        if ticket.job in taken:
            return f"it does not delay {head.job}, which came first"
        return f"it does not fit, or could delay {head.job} ({gpus_of(head)}), which came first"

    return Schedule(order, taken, left, explain)


def _backfill(
    behind: Sequence[PolicyTicket], left: Capacity, within_s: float, later: Capacity
) -> dict[str, int]:
    """Those that end before the head starts, or leave it enough."""
    taken: dict[str, int] = {}
    both: Capacity | None = None
    for ticket in behind:
        gpus = ticket.gpus
        if gpus > left.free_gpus:
            continue
        if _run_s(ticket) <= within_s:
            if not left.take(ticket, gpus):
                continue
            both = None
        else:
            if gpus > later.free_gpus:
                continue
            both = both or left.overlap(later)
            if not both.take(ticket, gpus):
                continue
            left.take_as(both, ticket, gpus)
            later.take_as(both, ticket, gpus)
        taken[ticket.job] = gpus
    return taken


def shadow(
    head: PolicyTicket, left: Capacity, releases: Sequence[Release]
) -> tuple[float, Capacity]:
    """When the head is expected to fit, and the capacity that it leaves over then. If the time is
    unknown (infinite), the head leaves over the capacity that it could never use."""
    coming = sorted(releases, key=lambda release: release[0])
    free, fitting = left.free_gpus, len(coming) + 1
    for number, (_, ticket) in enumerate(coming, 1):
        free += ticket.gpus
        if free >= head.gpus:
            fitting = number
            break

    def after(number: int) -> Capacity | None:
        """Once this many have given back, and all that do at the same time."""
        until_s = coming[number - 1][0]
        later = left.copy()
        for at_s, ticket in coming:
            if at_s > until_s:
                break
            later.give(ticket)
        return later if later.take(head, head.gpus) else None

    numbers = range(fitting, len(coming) + 1)
    found = after(fitting) if numbers else None
    if found is None and numbers:
        # Its tasks do not fit node by node. The more are free the sooner they do.
        fitting += bisect_left(numbers, True, key=lambda number: after(number) is not None)
        found = after(fitting) if fitting <= len(coming) else None
    if found is None:
        return inf, left.out_of_reach(head)
    return coming[fitting - 1][0], found


def _end_s(ticket: PolicyTicket, now_s: float) -> float:
    left_s = ticket.left_s(now_s)
    return now_s + (max(LEAST_LEFT_S, now_s - ticket.since_s) if left_s is None else left_s)


def _run_s(ticket: PolicyTicket) -> float:
    return inf if ticket.remaining_s is None else ticket.remaining_s


POLICY = Policy(
    "fifo-backfill",
    "First come, first served; later jobs start where they do not delay the first (EASY).",
    (
        Setting(
            "shortest_first",
            (0.0,),
            0,
            1,
            "1: of the later jobs the one with the shortest declared run time first (EASY-SJBF).",
        ),
    ),
    decide,
)

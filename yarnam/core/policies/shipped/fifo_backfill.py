"""First come, first served, with EASY backfilling (Lifka, "The ANL/IBM SP scheduling system",
1995): a later job may start if it does not delay the first one that waits, as far as the declared
run times tell."""

from __future__ import annotations

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
"""A gang that tells nothing is expected to run as long again as it has run, and at least so long
(as ``admission.reservations`` has it)."""

Release = tuple[float, int]
"""When how many GPUs are expected to come free."""


def decide(view: SchedulingView, settings: Settings) -> Schedule:
    waiting = waiting_of(view)
    order, taken, left = running_first(view, waiting)
    now_s = view.now_s
    started = 0
    while started < len(waiting) and left.take(waiting[started], waiting[started].gpus):
        taken[waiting[started].job] = waiting[started].gpus
        started += 1
    head = waiting[started] if started < len(waiting) else None
    shadow_s = inf
    if head is not None and left.free_gpus:
        running = [one for one in view.tickets if one.is_running]
        releases = [(_end_s(one, now_s), one.gpus) for one in (*running, *waiting[:started])]
        shadow_s, spare = shadow(head, left.free_gpus, releases)
        behind = waiting[started + 1 :]
        if settings["shortest_first"][0]:
            behind.sort(key=lambda one: (_run_s(one), *arrival(one)))
        taken.update(_backfill(behind, left, shadow_s - now_s, spare))

    def explain(ticket: PolicyTicket) -> str:
        if ticket.is_running:
            return "it runs"
        if head is None or arrival(ticket) < arrival(head):
            return "first come, first served: its gang fits"
        if ticket.job == head.job:
            when = "" if shadow_s == inf else f", expected in {duration(shadow_s - now_s)}"
            return f"first of all that wait; its {gpus_of(ticket)} are not free{when}"
        if ticket.job in taken:
            return f"it does not delay {head.job}, which came first"
        return f"it does not fit, or would delay {head.job} ({gpus_of(head)}), which came first"

    return Schedule(order, taken, left, explain)


def _backfill(
    behind: Sequence[PolicyTicket], left: Capacity, within_s: float, spare: int
) -> dict[str, int]:
    """Those that end before the head starts, or leave it enough."""
    taken: dict[str, int] = {}
    for ticket in behind:
        ends_in_time = _run_s(ticket) <= within_s
        if ticket.gpus > left.free_gpus or not (ends_in_time or ticket.gpus <= spare):
            continue
        if left.take(ticket, ticket.gpus):
            taken[ticket.job] = ticket.gpus
            spare -= 0 if ends_in_time else ticket.gpus
    return taken


def shadow(head: PolicyTicket, free: int, releases: Sequence[Release]) -> tuple[float, int]:
    """When the head is expected to fit, and how many GPUs it leaves over then. Infinite: nobody
    knows."""
    ready_s = inf
    for at_s, gpus in sorted(releases):
        if at_s > ready_s or at_s == inf:
            break
        free += gpus
        if free >= head.gpus:
            ready_s = at_s
    return ready_s, free - head.gpus if ready_s < inf else 0


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

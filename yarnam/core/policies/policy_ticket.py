"""The order of jobs by arrival and by priority, and how far a job's own word is believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from yarnam.core.admission.wait_queue import PRIORITY_STEP_S
from yarnam.core.model.tickets import PolicyTicket

Arrival = tuple[float, int, str]


def arrival(ticket: PolicyTicket) -> Arrival:
    """Orders jobs by submission; no two are equal."""
    return ticket.submitted_at_s, ticket.number, ticket.job


def by_priority(order: Sequence[PolicyTicket], now_s: float) -> Sequence[PolicyTicket]:
    """The same order, the highest priority first; jobs of one priority keep their order."""
    if all(one.priority == order[0].priority for one in order):
        return order
    levels = priorities(order, now_s)
    return sorted(order, key=lambda one: -levels[one.job])


def priorities(tickets: Sequence[PolicyTicket], now_s: float) -> dict[str, int]:
    """The effective priority of each job. As in the wait queue (``admission.wait_queue``), waiting
    raises it step by step, up to the highest of all, so that no job waits forever behind those of
    higher priority."""
    highest = max((ticket.priority for ticket in tickets), default=0)

    def reached(ticket: PolicyTicket) -> int:
        waited_s = 0.0 if ticket.is_running else max(0.0, now_s - ticket.since_s)
        return min(highest, ticket.priority + int(waited_s // PRIORITY_STEP_S))

    return {t.job: highest if t.priority == highest else reached(t) for t in tickets}


def believed(
    ticket: PolicyTicket, recorded_gpu_s: Mapping[str, float], now_s: float
) -> PolicyTicket:
    """The ticket with no less attained service than the ResourceManager has recorded for the
    application. A job that understates it would be served first under ``tiresias`` and the like;
    one that overstates it harms only itself. A job's remaining time is its own claim: under
    ``srtf`` and ``srsf`` it can gain by understating it, until its declared end has passed (it then
    counts as one that has nothing left and is never suspended for a shorter one), so these two are
    for queues whose users trust each other."""
    recorded = recorded_gpu_s.get(ticket.job)
    if recorded is None or recorded <= ticket.service(now_s):
        return ticket
    missing = recorded - ticket.service(now_s)
    return replace(
        ticket,
        service_gpu_s=ticket.service_gpu_s + missing,
        counted_gpu_s=ticket.counted_gpu_s + missing,
    )

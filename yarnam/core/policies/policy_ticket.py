"""The order of jobs by arrival, and how far a job's own word on its service is believed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from yarnam.core.model.tickets import PolicyTicket

Arrival = tuple[float, int, str]


def arrival(ticket: PolicyTicket) -> Arrival:
    """Orders jobs by submission; no two are equal."""
    return ticket.submitted_at_s, ticket.number, ticket.job


def believed(
    ticket: PolicyTicket, recorded_gpu_s: Mapping[str, float], now_s: float
) -> PolicyTicket:
    """The ticket with no less attained service than the ResourceManager has recorded for the
    application. A job that understates it would be served first under ``tiresias`` and the like;
    one that overstates it harms only itself. What a job says of the time that it still needs is its
    own word: under ``srtf`` and ``srsf`` it can gain by understating it, until its declared end has
    passed (it then counts as one that has nothing left and is never suspended for a shorter one),
    so these two are for queues whose users trust each other."""
    recorded = recorded_gpu_s.get(ticket.job)
    if recorded is None or recorded <= ticket.service(now_s):
        return ticket
    missing = recorded - ticket.service(now_s)
    return replace(
        ticket,
        service_gpu_s=ticket.service_gpu_s + missing,
        counted_gpu_s=ticket.counted_gpu_s + missing,
    )

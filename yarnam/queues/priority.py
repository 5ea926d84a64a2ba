"""``gang.priority``: an order among the waiting jobs of one queue, with aging.

Jobs of one queue exchange the places that they have in the line, so a queue gains nothing over
others by what its users say of their jobs. Where all have one priority nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from yarnam.model.tickets import Ticket

PRIORITY_STEP_S = 900.0
"""Waiting for so long is worth one step of priority, up to the highest in the queue: from then on a
job is passed by only for what orders jobs of the same priority. With the range of -10 to 10 that
is after five hours at the latest. Ours."""


def by_priority(order: Sequence[Ticket], now_s: float) -> list[Ticket]:
    """The same line, the jobs of each queue by priority within the places of their queue; those
    that have come to the same one stay in the order that they have."""
    by_queue: dict[str, list[Ticket]] = {}
    for ticket in order:
        by_queue.setdefault(ticket.queue, []).append(ticket)
    if all(_are_alike(mine) for mine in by_queue.values()):
        return list(order)
    served = {queue: iter(_ordered(mine, now_s)) for queue, mine in by_queue.items()}
    return [next(served[ticket.queue]) for ticket in order]


def _are_alike(tickets: Sequence[Ticket]) -> bool:
    return all(ticket.priority == tickets[0].priority for ticket in tickets)


def _ordered(tickets: Sequence[Ticket], now_s: float) -> list[Ticket]:
    highest = max(ticket.priority for ticket in tickets)

    def reached(ticket: Ticket) -> int:
        steps = int(max(0.0, now_s - ticket.taken_at_s) // PRIORITY_STEP_S)
        return min(highest, ticket.priority + steps)

    return sorted(tickets, key=lambda ticket: -reached(ticket))

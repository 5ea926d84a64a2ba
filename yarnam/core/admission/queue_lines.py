"""The tickets of each YARN queue in serving order, kept from one poll to the next: between two
polls a few tickets come and go, and queues get their share or lose it. Neither is a reason to sort
all tickets again."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from math import inf

from yarnam.core.model.tickets import Ticket

Arrival = tuple[float, int, str]

Entry = tuple[int, Arrival, Ticket]
"""GPUs, arrival, and the ticket. Two jobs never arrive alike, so tickets are not compared."""

Fits = Callable[[Ticket], bool]
"""Whether the empty cluster could hold it."""


def arrival(ticket: Ticket) -> Arrival:
    """The sort key of tickets: when they were taken. The number alone is not enough: the creator of
    a ticket's node chooses its name, but no ticket counts as taken before its application existed
    (``ticket_checks``)."""
    return ticket.taken_at_s, ticket.number, ticket.job


@dataclass(frozen=True, slots=True)
class QueueLine:
    """Those of one queue that free GPUs could help: the smallest first, then by arrival."""

    entries: tuple[Entry, ...] = ()
    waiting_gpus: int = 0
    first_taken_at_s: float = inf
    firsts: tuple[tuple[int, Ticket], ...] = ()
    """The first waiting ticket of each size that could ever fit."""

    def after(self, gone: Iterable[Ticket], come: Iterable[Ticket], fits: Fits) -> QueueLine:
        """Return the line without some tickets, and with others."""
        entries, touched = list(self.entries), set[int]()
        waiting_gpus, first_taken_at_s = self.waiting_gpus, self.first_taken_at_s
        has_lost_first = False
        for ticket in gone:
            gpus = ticket.gpus
            position = bisect_left(entries, (gpus, arrival(ticket)))
            if position < len(entries) and entries[position][2] == ticket:
                del entries[position]
                touched.add(gpus)
                waiting_gpus -= 0 if ticket.is_acquiring else gpus
                has_lost_first |= ticket.taken_at_s == first_taken_at_s
        for ticket in come:
            entry = _entry(ticket)
            entries.insert(bisect_left(entries, entry[:2]), entry)
            touched.add(entry[0])
            waiting_gpus += 0 if ticket.is_acquiring else entry[0]
            first_taken_at_s = min(first_taken_at_s, ticket.taken_at_s)
        if has_lost_first:
            first_taken_at_s = min((entry[1][0] for entry in entries), default=inf)
        firsts = {gpus: ticket for gpus, ticket in self.firsts if gpus not in touched}
        for gpus in touched:
            first = _first_of(gpus, entries, fits)
            if first is not None:
                firsts[gpus] = first
        ordered = tuple(sorted(firsts.items(), key=_gpus_of))
        return QueueLine(tuple(entries), waiting_gpus, first_taken_at_s, ordered)


def line_of(tickets: Iterable[Ticket], fits: Fits) -> QueueLine:
    entries = sorted({entry[:2]: entry for entry in map(_entry, tickets)}.values(), key=_key_of)
    sizes = dict.fromkeys(gpus for gpus, _, _ in entries)
    firsts = ((gpus, _first_of(gpus, entries, fits)) for gpus in sizes)
    return QueueLine(
        tuple(entries),
        sum(gpus for gpus, _, ticket in entries if not ticket.is_acquiring),
        min((entry[1][0] for entry in entries), default=inf),
        tuple((gpus, first) for gpus, first in firsts if first is not None),
    )


def merged(lines: Mapping[str, QueueLine]) -> tuple[Entry, ...]:
    """Merge the lines of several queues as if they were one."""
    found = [line.entries for line in lines.values() if line.entries]
    if len(found) < 2:
        return found[0] if found else ()
    return tuple(sorted(chain.from_iterable(found)))


def first_of_each_size(lines: Mapping[str, QueueLine]) -> Mapping[int, Ticket]:
    """The same of several queues together."""
    firsts: dict[int, Ticket] = {}
    for line in lines.values():
        for gpus, ticket in line.firsts:
            known = firsts.get(gpus)
            if known is None or arrival(ticket) < arrival(known):
                firsts[gpus] = ticket
    return firsts


def _entry(ticket: Ticket) -> Entry:
    return ticket.gpus, arrival(ticket), ticket


def _key_of(entry: Entry) -> tuple[int, Arrival]:
    return entry[:2]


def _gpus_of(first: tuple[int, Ticket]) -> int:
    return first[0]


def _first_of(gpus: int, entries: list[Entry], fits: Fits) -> Ticket | None:
    """Among those of this size."""
    for position in range(bisect_left(entries, (gpus,)), len(entries)):
        size, _, ticket = entries[position]
        if size != gpus:
            break
        if not ticket.is_acquiring and fits(ticket):
            return ticket
    return None

"""The model of the ticket queue: what ZooKeeper keeps for all jobs. Answers are instant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from yarnam.core.admission.wait_queue import (
    Contention,
    PresortedTickets,
    node_sizes,
    presorted,
    presorted_by,
)
from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.core.model.tickets import RunningGang, Ticket


class SimTicketQueue:
    """Tickets and running gangs. ``version`` grows with each change that could alter a decision."""

    def __init__(self) -> None:
        self.tickets: dict[int, Ticket] = {}
        self.running: dict[str, RunningGang] = {}
        self.version = 0
        self._number = 0
        self._waiting: dict[int, Callable[[], None]] = {}
        self._view: tuple[Ticket, ...] = ()
        self._running_view: tuple[RunningGang, ...] = ()
        self._seen = -1
        self._presorted: PresortedTickets | None = None
        self._presorted_of: tuple[Ticket, ...] | None = None
        self._presorted_by: tuple[object, ...] = ()

    def take(self, ticket: Ticket, changed: Callable[[], None]) -> Ticket:
        """A ``number`` of 0 gets the next one; another one returns to its place. ``changed`` is
        called when a ticket or a running gang has gone."""
        if not ticket.number:
            self._number += 1
            ticket = replace(ticket, number=self._number)
        self._waiting[ticket.number] = changed
        self.update(ticket)
        return ticket

    def update(self, ticket: Ticket) -> None:
        """Show this instead."""
        if self.tickets.get(ticket.number) != ticket:
            self.tickets[ticket.number] = ticket
            self.version += 1

    def give_back(self, number: int) -> None:
        """The job waits no longer."""
        if self.tickets.pop(number, None) is not None:
            del self._waiting[number]
            self._changed()

    def launched(self, gang: RunningGang) -> None:
        """The gang holds GPUs from now on."""
        self.running[gang.job] = gang
        self.version += 1

    def gone(self, job: str) -> None:
        """Its gang holds nothing any more."""
        if self.running.pop(job, None) is not None:
            self._changed()

    def others(self) -> tuple[tuple[Ticket, ...], tuple[RunningGang, ...]]:
        """All tickets by number, and all running gangs."""
        if self._seen != self.version:
            view = tuple(self.tickets[number] for number in sorted(self.tickets))
            # The same tuple as long as only gangs have come and gone.
            self._view = self._view if view == self._view else view
            self._running_view = tuple(self.running.values())
            self._seen = self.version
        return self._view, self._running_view

    def contention(self, snapshot: ClusterSnapshot, now_s: float) -> Contention:
        """What all jobs see, sorted anew only where the order could be another one."""
        tickets, running = self.others()
        by = presorted_by(snapshot)
        if tickets is not self._presorted_of or by != self._presorted_by:
            self._presorted = presorted(snapshot, tickets, node_sizes(snapshot.nodes))
            self._presorted_of, self._presorted_by = tickets, by
        return Contention(snapshot, tickets, running, now_s, self._presorted)

    def _changed(self) -> None:
        self.version += 1
        for changed in tuple(self._waiting.values()):
            changed()

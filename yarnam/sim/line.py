"""The model ticket office: what ZooKeeper keeps for all jobs. Answers are instant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from yarnam.model.tickets import RunningGang, Ticket


class Office:
    """Tickets and standing gangs. ``version`` grows with every change that could alter a turn."""

    def __init__(self) -> None:
        self.tickets: dict[int, Ticket] = {}
        self.running: dict[str, RunningGang] = {}
        self.version = 0
        self._number = 0
        self._waiting: dict[int, Callable[[], None]] = {}
        self._view: tuple[Ticket, ...] = ()
        self._running_view: tuple[RunningGang, ...] = ()
        self._seen = -1

    def take(self, ticket: Ticket, changed: Callable[[], None]) -> Ticket:
        """``changed`` is called when a ticket or a standing gang has gone."""
        self._number += 1
        self._waiting[self._number] = changed
        numbered = replace(ticket, number=self._number)
        self.tickets[self._number] = numbered
        self.version += 1
        return numbered

    def update(self, ticket: Ticket) -> None:
        if self.tickets.get(ticket.number) != ticket:
            self.tickets[ticket.number] = ticket
            self.version += 1

    def give_back(self, number: int) -> None:
        if self.tickets.pop(number, None) is not None:
            del self._waiting[number]
            self._changed()

    def stand(self, gang: RunningGang) -> None:
        self.running[gang.job] = gang
        self.version += 1

    def gone(self, job: str) -> None:
        if self.running.pop(job, None) is not None:
            self._changed()

    def others(self) -> tuple[tuple[Ticket, ...], tuple[RunningGang, ...]]:
        if self._seen != self.version:
            self._view = tuple(self.tickets[number] for number in sorted(self.tickets))
            self._running_view = tuple(self.running.values())
            self._seen = self.version
        return self._view, self._running_view

    def _changed(self) -> None:
        self.version += 1
        for changed in tuple(self._waiting.values()):
            changed()

"""A ticket queue in memory. Sessions are lost when the test says so."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from yarnam.core.admission.ticket_checks import believed_gang, believed_ticket
from yarnam.core.admission.wait_queue import SILENT_AFTER_S
from yarnam.core.model.tickets import RunningGang, Ticket
from yarnam.core.policies.chosen_policy import NOTHING_CHOSEN, QueuePolicy
from yarnam.core.queue_client.ticket_list import TicketList
from yarnam.errors import Unavailable
from yarnam.ports import Superseded
from yarnam.ports.ticket_queue import ClaimDecision, LiveApplications

HEARTBEAT_S = 15.0


def asking(
    ticket: Ticket, may: Callable[[TicketList], bool] = lambda others: True
) -> ClaimDecision:
    """Asks by this ticket, if it may."""
    return lambda listed: ticket if may(listed) else None


@dataclass
class FakeTicketStore:
    """What the queues of all jobs share."""

    now_s: Callable[[], float]
    tickets: dict[int, tuple[Ticket, int, float]] = field(default_factory=dict)
    """By number: the ticket, its holder's AM attempt, when it was written."""
    gangs: dict[str, RunningGang] = field(default_factory=dict)
    last_number: int = 0
    queues: list[FakeTicketQueue] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    applications: LiveApplications | None = None
    """None: the ResourceManager is not asked."""
    policy: QueuePolicy = NOTHING_CHOSEN
    """Of all queues."""
    recorded_gpu_s: dict[str, float] = field(default_factory=dict)

    def notify(self, but: FakeTicketQueue) -> None:
        for queue in self.queues:
            if queue is not but:
                queue.changed()

    def listed(self, job: str) -> TicketList:
        now_s = self.now_s()
        names = {ticket.job for ticket, _, _ in self.tickets.values()} | set(self.gangs)
        found = self.applications.confirm(names - {job}) if self.applications else None
        live = found.applications if found else None
        tickets = []
        for number, (ticket, _, at_s) in sorted(self.tickets.items()):
            is_stuck = ticket.is_acquiring and now_s - at_s > SILENT_AFTER_S
            shown = replace(ticket, number=number, seen_at_s=at_s)
            believed = believed_ticket(shown, live, now_s)
            if ticket.job != job and not is_stuck and not isinstance(believed, str):
                tickets.append(believed)
        gangs = [
            believed_gang(gang, live) for name, gang in sorted(self.gangs.items()) if name != job
        ]
        running = tuple(gang for gang in gangs if not isinstance(gang, str))
        trouble = found.trouble if found else ""
        return TicketList(tuple(tickets), running, trouble, self.policy, self.recorded_gpu_s)


class FakeTicketQueue:
    """``is_away`` calls fail as if nobody answered."""

    def __init__(self, hall: FakeTicketStore, job: str, am_attempt: int = 1) -> None:
        self.hall = hall
        self.job = job
        self.am_attempt = am_attempt
        self.is_away = False
        self.is_closed = False
        self.claims = 0
        self.changed: Callable[[], None] = lambda: None
        self._ticket: Ticket | None = None
        self._gang: RunningGang | None = None

    def open(self, changed: Callable[[], None]) -> None:
        self.changed = changed
        self.hall.queues.append(self)
        changed()

    @property
    def trouble(self) -> str:
        return "ZooKeeper at fake:2181 does not answer" if self.is_away or self.is_closed else ""

    def take(self, ticket: Ticket) -> Ticket:
        with self._answering():
            known = self._ticket.number if self._ticket else 0
            number = ticket.number or known or self._earlier_number()
            if not number:
                self.hall.last_number += 1
                number = self.hall.last_number
            self._ticket = replace(ticket, number=number)
            self._write()
            return self._ticket

    def update(self, ticket: Ticket) -> None:
        with self._answering():
            if self._ticket is not None:
                self._ticket = replace(ticket, number=self._ticket.number)
                self._write()
                if ticket.blocked_reason:
                    self._gang = None
                    self.hall.gangs.pop(self.job, None)

    def policy(self) -> QueuePolicy:
        with self._answering():
            return self.hall.policy

    def others(self) -> TicketList:
        with self._answering():
            return self.hall.listed(self.job)

    def claim(self, claim: ClaimDecision) -> bool:
        with self._answering():
            ticket = claim(self.hall.listed(self.job)) if self._ticket else None
            if self._ticket is None or ticket is None:
                return False
            self.claims += 1
            self._ticket = replace(ticket, number=self._ticket.number, is_acquiring=True)
            self._write()
            return True

    def set_running(self, gang: RunningGang) -> None:
        with self._answering():
            self._gang = gang
            self.hall.gangs[self.job] = gang
            self._drop()

    def close(self) -> None:
        self.is_closed = True
        self._ticket = self._gang = None
        self._forget()

    def lose_session(self) -> None:
        """Its nodes go; then it is back in a new session, and what it had is restored."""
        self._forget()
        if self._ticket is not None:
            self._write()
        if self._gang is not None:
            self.hall.gangs[self.job] = self._gang
        self.changed()

    # ---- inside ------------------------------------------------------------------------------

    def _answering(self) -> threading.RLock:
        if self.trouble:
            raise Unavailable(self.trouble)
        return self.hall.lock

    def _earlier_number(self) -> int:
        mine = [n for n, (ticket, _, _) in self.hall.tickets.items() if ticket.job == self.job]
        return min(mine, default=0)

    def _write(self) -> None:
        assert self._ticket is not None
        number, now_s = self._ticket.number, self.hall.now_s()
        old = self.hall.tickets.get(number)
        if old is not None and old[1] > self.am_attempt:
            raise Superseded(f"a newer AM attempt of {self.job} has its place")
        is_same = old is not None and replace(old[0], seen_at_s=None) == self._ticket
        if old is None or not is_same or now_s - old[2] >= HEARTBEAT_S:
            self.hall.tickets[number] = (self._ticket, self.am_attempt, now_s)
        if not is_same:
            self.hall.notify(self)

    def _drop(self) -> None:
        if self._ticket is not None:
            self.hall.tickets.pop(self._ticket.number, None)
            self._ticket = None
        self.hall.notify(self)

    def _forget(self) -> None:
        with self.hall.lock:
            for number, (ticket, am_attempt, _) in list(self.hall.tickets.items()):
                if ticket.job == self.job and am_attempt == self.am_attempt:
                    del self.hall.tickets[number]
            self.hall.gangs.pop(self.job, None)
            self.hall.notify(self)

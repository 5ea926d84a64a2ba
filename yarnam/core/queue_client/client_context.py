"""One step of the client: its state while it changes, and the actions so far."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from yarnam.core.model.tickets import Ticket
from yarnam.core.queue_client.admission_rules import policy_ticketed
from yarnam.core.queue_client.client_actions import ClientAction, Remember
from yarnam.core.queue_client.client_events import Moment
from yarnam.core.queue_client.client_state import (
    Admission,
    Following,
    QueueClient,
    Record,
    wanted_ticket,
)

T = TypeVar("T", QueueClient, Admission, Record, Following)


def _changed(value: T, changes: dict[str, Any]) -> T:
    """The value with these fields. Most of what a step sets is so already, and a copy costs ten
    microseconds: a simulation makes millions."""
    news = {name: new for name, new in changes.items() if getattr(value, name) is not new}
    return replace(value, **news) if news else value


@dataclass(slots=True)
class ClientStep:
    client: QueueClient
    moment: Moment
    actions: list[ClientAction] = field(default_factory=list["ClientAction"])
    serial: int = field(init=False)

    def __post_init__(self) -> None:
        self.serial = self.client.serial

    @property
    def now_s(self) -> float:
        return self.moment.now_s

    @property
    def admission(self) -> Admission:
        return self.client.admission

    def do(self, action: ClientAction) -> None:
        self.actions.append(action)

    def set(self, **changes: Any) -> None:
        self.client = _changed(self.client, changes)

    def admit(self, **changes: Any) -> None:
        self.set(admission=_changed(self.client.admission, changes))

    def record(self, **changes: Any) -> None:
        self.set(record=_changed(self.client.record, changes))

    def follow(self, **changes: Any) -> None:
        self.set(following=_changed(self.client.following, changes))

    def next_serial(self) -> int:
        self.serial += 1
        return self.serial

    def ended(self) -> QueueClient:
        """The client after the step."""
        self.set(serial=self.serial)
        return self.client

    def wanted(self) -> Ticket:
        """The ticket that the job takes while it waits."""
        return policy_ticketed(self.client, wanted_ticket(self.client, self.now_s), self.moment)

    def has_taken(self, ticket: Ticket) -> None:
        """The queue has given the job this place."""
        self.set(ticket=ticket)
        if ticket.number != self.client.number:
            self.set(number=ticket.number, taken_at_s=ticket.taken_at_s)
            self.do(Remember(ticket.number, ticket.taken_at_s))

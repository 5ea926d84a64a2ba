"""The ticket office: where jobs that contend for the same GPUs agree on an order.

Tickets make waiting efficient, nothing more. No safety rests on them: two jobs that both ask are
parted by the gang machine's hold timeout, and a job without an office goes by its own look at the
cluster and by jitter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from yarnam.model.tickets import RunningGang, Ticket


@dataclass(frozen=True, slots=True)
class TicketList:
    """The other jobs at one instant. ``seen_at_s`` of each ticket is by this office's own clock:
    when it last noticed that the holder wrote it, whatever the holder's clock says."""

    tickets: tuple[Ticket, ...] = ()
    """By number."""
    running: tuple[RunningGang, ...] = ()


MayClaim = Callable[[TicketList], bool]
"""Whether this job may ask, given the others. Pure; it may be asked more than once."""


class TicketOffice(Protocol):
    """One job's dealings with the other jobs. Calls but ``open`` and ``trouble`` take at most 10 s
    and raise Unavailable while the office does not work, and Superseded when a newer AM attempt of
    the same job has come."""

    def open(self, changed: Callable[[], None]) -> None:
        """Begin to connect; returns at once. ``changed`` is called, in a thread of the office's,
        when the others or ``trouble`` may have changed. It must not block."""

    @property
    def trouble(self) -> str:
        """Why the office does not work now, in words; empty while it does. Returns at once."""

    def take(self, ticket: Ticket) -> Ticket:
        """Stand in line. A ``number`` of 0 gets the next one, larger than all before it; another
        number is one that this job was given earlier, and it returns to that place. Again: like
        ``update``. What the job lost with a lost session the office restores by itself."""

    def update(self, ticket: Ticket) -> None:
        """Show this to the others instead: each call is also a sign of life."""

    def others(self) -> TicketList:
        """From the office's own copy, which follows the changes: asks nobody."""

    def claim(self, ticket: Ticket, may: MayClaim) -> bool:
        """Say that containers are asked for from now on (``is_acquiring``). True only if ``may``
        agreed to the others as they were at that very moment: no other claim came in between."""

    def stand(self, gang: RunningGang) -> None:
        """The gang stands: its ticket goes, and the others see what it holds instead."""

    def give_back(self) -> None:
        """Neither waits nor stands. Harmless when there is nothing to give back."""

    def close(self) -> None:
        """Give everything back and leave; idempotent, at most 3 s, never raises."""

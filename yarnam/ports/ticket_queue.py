"""The ticket queue: where jobs that contend for the same GPUs agree on an order.

Tickets make waiting efficient, nothing more. No safety rests on them: two jobs that both ask are
separated by the gang machine's hold timeout, and a job without a ticket queue goes by its own
snapshots of the cluster and by jitter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from yarnam.core.model.tickets import LiveApplication, RunningGang, Ticket
from yarnam.core.policies.chosen_policy import QueuePolicy
from yarnam.core.queue_client.ticket_list import TicketList


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Which applications of yarnam's live, by the ResourceManager."""

    applications: Mapping[str, LiveApplication] | None
    """The applications by name; ``None`` if the ResourceManager does not answer, and has not for
    some time."""
    trouble: str = ""
    """Why not."""


class LiveApplications(Protocol):
    """Confirms what is read in the ticket queue. Never raises; at most 5 s."""

    def confirm(self, names: Collection[str]) -> Confirmation:
        """Return the known living applications, those of these names among them: a name that has
        not been requested yet causes a new request, within limits."""

    def newest_attempt(self, application: str) -> int:
        """The number of its newest AM attempt; 0 if unknown."""


ClaimDecision = Callable[[TicketList], Ticket | None]
"""The ticket by which this job asks, given the others; ``None`` if it may not ask. Pure; it may be
called more than once."""


class TicketQueue(Protocol):
    """One job's access to the queue. All calls but ``open`` and ``trouble`` take at most 10 s and
    raise Unavailable while the queue does not answer, and Superseded when a newer AM attempt of the
    same job has taken over."""

    def open(self, changed: Callable[[], None]) -> None:
        """Begin to connect; returns immediately. ``changed`` is called, in a thread of the queue's,
        when ``trouble`` may have changed, or the others since they were last read. It must not
        block."""

    @property
    def trouble(self) -> str:
        """Why the queue does not work now; empty while it does. Returns immediately."""

    def take(self, ticket: Ticket) -> Ticket:
        """Enqueue the job. A ``number`` of 0 gets the next one, larger than all before it; another
        number is one that this job was given earlier, and it returns to that place. Called again,
        it updates the ticket. What is lost with a session the queue restores on its own."""

    def update(self, ticket: Ticket) -> None:
        """Show this to the others instead. Each call is also a heartbeat. The job of a
        blocked ticket holds nothing: it is not shown as running any more."""

    def others(self) -> TicketList:
        """Those that the ResourceManager confirms (``ticket_checks``), as they are now."""

    def policy(self) -> QueuePolicy:
        """Return the policy of the job's own queue, for a running job: one call of ZooKeeper's."""

    def claim(self, claim: ClaimDecision) -> bool:
        """Announce that containers are requested from now on (``is_acquiring``), by the ticket that
        ``claim`` gives. True only if it gave that for the others as they were at that very moment:
        no other claim came between."""

    def set_running(self, gang: RunningGang) -> None:
        """The gang runs: its ticket goes, and the others see what it holds instead."""

    def close(self) -> None:
        """Neither wait nor run any more, and disconnect; idempotent, at most 3 s, never raises."""

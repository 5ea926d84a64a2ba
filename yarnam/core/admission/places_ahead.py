"""The room that the jobs ahead take of a snapshot: the requests of all, nodes for the head, and the
gangs ahead one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from yarnam.core.admission.reservations import Reservation, ReservationLedger
from yarnam.core.model.ids import NodeId
from yarnam.core.model.tickets import Ticket

NOT_SOON_S = 300.0
"""A head that is expected no sooner may be bypassed by gangs of unknown duration, most of which are
short. Of 5, 10 and 30 minutes the first two came out alike and better than the third in simulations
(docs/explanation/contention.md)."""


@dataclass(frozen=True, slots=True)
class HeadReservation:
    """The nodes reserved for a head that does not fit."""

    head: Ticket
    reservation: Reservation
    is_firm: bool
    is_strict: bool

    def may_be_bypassed_by(self, ticket: Ticket, now_s: float) -> bool:
        """Whether the ticket may use reserved nodes."""
        left_s = self.reservation.ready_at_s - now_s
        if left_s == inf:
            return False
        if ticket.duration_s is not None:
            return ticket.duration_s <= left_s
        return not self.is_firm and left_s >= NOT_SOON_S

    def closed_to(self, ticket: Ticket, now_s: float) -> frozenset[NodeId]:
        """The reserved nodes, unless the ticket may use them."""
        return frozenset() if self.may_be_bypassed_by(ticket, now_s) else self.reservation.nodes


class PlacesAhead:
    """The places at one moment. Jobs that decide in the order of the queue continue where the job
    before them stopped."""

    __slots__ = ("_first", "_head", "_ledger", "_walked", "kept", "requested")

    def __init__(
        self,
        requested: ReservationLedger,
        head: Ticket | None,
        reserve: Callable[[Ticket, ReservationLedger], HeadReservation],
    ) -> None:
        """``requested`` is the room that all requests leave; it is not changed. ``reserve`` finds
        nodes for a head that does not fit on that room."""
        self.requested = requested
        self.kept: HeadReservation | None = None
        self._ledger = requested.copy()
        self._head = head
        self._first: Ticket | None = None
        self._walked = 0
        if head is not None and self._ledger.reserve(head) is None:
            self.kept = reserve(head, self._ledger)

    def is_before(self, ahead: Sequence[Ticket]) -> bool:
        """Whether it has come no further than to these."""
        return self._walked <= len(ahead)

    def left_by(
        self, ahead: Sequence[Ticket], now_s: float
    ) -> tuple[ReservationLedger, Ticket | None]:
        """Return the room that all these tickets leave, which the caller must not change, and the
        first of them that takes any."""
        for ticket in ahead[self._walked :]:
            takes = False
            if ticket is self._head:
                takes = self.kept is None
            elif not ticket.is_acquiring:
                closed = frozenset[NodeId]()
                if self.kept is not None:
                    closed = self.kept.closed_to(ticket, now_s)
                takes = self._ledger.reserve(ticket, closed=closed) is not None
            if takes and self._first is None:
                self._first = ticket
        self._walked = len(ahead)
        return self._ledger, self._first

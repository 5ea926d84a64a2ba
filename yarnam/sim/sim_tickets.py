"""The model of the ticket queue: what ZooKeeper keeps for all jobs. Answers are instant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from yarnam.core.admission.decision import requested
from yarnam.core.admission.places_ahead import HeadReservation, PlacesAhead
from yarnam.core.admission.reservations import (
    GangsOnNodes,
    ReservationLedger,
    gangs_on_nodes_after,
)
from yarnam.core.admission.wait_queue import (
    GangAges,
    PresortedTickets,
    QueueSnapshot,
    gang_ages,
    node_sizes,
    presorted,
    resorted,
)
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, Node, QueueView
from yarnam.core.model.tickets import RunningGang, Ticket


class SimTicketQueue:
    """Tickets and running gangs. ``version`` grows with each change that could alter a decision,
    ``freed`` when a job's request is no longer counted."""

    def __init__(self) -> None:
        self.tickets: dict[int, Ticket] = {}
        self.running: dict[str, RunningGang] = {}
        self.version = 0
        self.freed = 0
        self._number = 0
        self._shared = _SharedView()

    def write(self, ticket: Ticket) -> Ticket:
        """Shows this instead. A ``number`` of 0 gets the next one; another one returns to its
        place. The job of a blocked ticket holds nothing."""
        if not ticket.number:
            self._number += 1
            ticket = replace(ticket, number=self._number)
        if ticket.blocked_reason:
            self.gone(ticket.job)
        self._show(ticket)
        return ticket

    def _show(self, ticket: Ticket) -> None:
        shown = self.tickets.get(ticket.number)
        if shown != ticket:
            self._shared.note(shown, ticket)
            self.tickets[ticket.number] = ticket
            self.version += 1
            self.freed += shown is not None and shown.is_acquiring

    def give_back(self, number: int) -> None:
        """The job waits no longer."""
        ticket = self.tickets.pop(number, None)
        if ticket is not None:
            self._shared.note(ticket, None)
            self.version += 1
            self.freed += 1

    def launched(self, gang: RunningGang) -> None:
        """The gang holds GPUs from now on."""
        self._shared.note_gang(self.running.get(gang.job), gang)
        self.running[gang.job] = gang
        self.version += 1

    def gone(self, job: str) -> None:
        """Its gang holds nothing any more."""
        gang = self.running.pop(job, None)
        if gang is not None:
            self._shared.note_gang(gang, None)
            self.version += 1

    def queue_snapshot(self, snapshot: ClusterSnapshot, now_s: float) -> QueueSnapshot:
        """The view that all jobs share."""
        return self._shared.queue_snapshot(snapshot, self.tickets, self.running, now_s)

    def may_pass(self, ticket: Ticket, now_s: float) -> bool:
        """Whether it may use the nodes that are reserved for the head, by what has been found out
        at this moment."""
        kept = self._shared.kept
        return kept is not None and kept.may_be_bypassed_by(ticket, now_s)

    def plain(self, snapshot: ClusterSnapshot, now_s: float) -> QueueSnapshot:
        """The same, without what makes the order by ``wait_queue`` quick: for a policy, which has
        an order of its own."""
        self._shared.forget()
        return QueueSnapshot(
            snapshot, tuple(self.tickets.values()), tuple(self.running.values()), now_s
        )


class _SharedView:
    """The view that all jobs share, built again only after a change."""

    def __init__(self) -> None:
        self.running: tuple[RunningGang, ...] | None = None
        """``None`` after a change."""
        self._ages: GangAges | None = None
        self._gangs_on: GangsOnNodes = {}
        self._gone: list[Ticket] = []
        self._come: list[Ticket] = []
        self._acquiring: dict[int, Ticket] = {}
        self._known_gpus = Counter[str]()
        """The GPUs of gangs that run or are being acquired, by queue."""
        self._has_started = False
        """Or ended, since the tickets were sorted: a gang."""
        self._tickets: tuple[Ticket, ...] = ()
        self._queues: tuple[QueueView, ...] | None = None
        self._nodes: tuple[Node, ...] | None = None
        self._sizes: Mapping[Resources, int] = {}
        self._presorted: PresortedTickets | None = None
        self._ledger: ReservationLedger | None = None
        self._requested: ReservationLedger | None = None
        self._places: list[PlacesAhead] = []
        self._places_at_s = 0.0

    @property
    def kept(self) -> HeadReservation | None:
        """The reservation that the last job to decide has found."""
        return self._places[0].kept if self._places else None

    def forget(self) -> None:
        """Nothing is known of the tickets any more."""
        self._gone.clear()
        self._come.clear()
        self._presorted, self._queues = None, None

    def note(self, gone: Ticket | None, come: Ticket | None) -> None:
        """A ticket has gone, or come, or one has taken the place of the other."""
        self._places = []
        if gone is not None and gone.is_acquiring:
            del self._acquiring[gone.number]
            self._known_gpus[gone.queue] -= gone.gpus
        if come is not None and come.is_acquiring:
            self._acquiring[come.number] = come
            self._known_gpus[come.queue] += come.gpus
        if gone is not None and gone in self._come:
            self._come.remove(gone)
        elif gone is not None:
            self._gone.append(gone)
        if come is not None:
            self._come.append(come)

    def note_gang(self, gone: RunningGang | None, come: RunningGang | None) -> None:
        """The same of gangs that run."""
        self.running = None
        self._has_started = True
        if gone is not None:
            self._known_gpus[gone.queue] -= gone.gpus
        if come is not None:
            self._known_gpus[come.queue] += come.gpus
        self._gangs_on = gangs_on_nodes_after(self._gangs_on, gone, come)

    def queue_snapshot(
        self,
        snapshot: ClusterSnapshot,
        tickets: Mapping[int, Ticket],
        running: Mapping[str, RunningGang],
        now_s: float,
    ) -> QueueSnapshot:
        if self.running is None:
            self._places = []
            self.running = tuple(running.values())
            self._ages = gang_ages(self.running)
        has_moved = snapshot.nodes is not self._nodes
        if has_moved:
            self._sizes = self._sizes or node_sizes(snapshot.nodes)
            self._nodes = snapshot.nodes
        has_changed = bool(self._gone or self._come)
        if has_changed:
            self._tickets = tuple(map(tickets.__getitem__, sorted(tickets)))
        self._sort(snapshot, has_changed=has_changed)
        if self._presorted is None:
            self._requested = None
        elif has_moved or has_changed or self._requested is None:
            if self._ledger is None:
                self._ledger = ReservationLedger(snapshot)
            elif has_moved:
                self._ledger = self._ledger.moved_to(snapshot)
            self._requested = requested(self._ledger.copy(), self._acquiring.values())
        if has_moved or now_s != self._places_at_s:
            self._places, self._places_at_s = [], now_s
        return QueueSnapshot(
            snapshot,
            self._tickets,
            self.running,
            now_s,
            self._presorted,
            self._ages,
            self._requested,
            self._gangs_on,
            self._places,
        )

    def _sort(self, snapshot: ClusterSnapshot, *, has_changed: bool) -> None:
        """The order of the tickets; updated from the last order if that is known."""
        known = self._presorted
        if known is None and (has_changed or self._queues is None):
            self._presorted = presorted(snapshot, self._tickets, self._sizes, self._known_gpus)
        elif known is not None:
            versions = snapshot.queues is not self._queues, self._has_started
            if has_changed or any(versions):
                self._presorted = resorted(
                    known, self._gone, self._come, snapshot, self._tickets, self._known_gpus
                )
        self._has_started = False
        if self._presorted is not known:
            self._places = []
        self._queues = snapshot.queues
        self._gone.clear()
        self._come.clear()

"""The other jobs of the wait queue at one instant, and what follows from them alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from yarnam.core.admission import QueueSnapshot
from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.core.model.tickets import RunningGang, Ticket, in_same_partitions
from yarnam.core.policies.chosen_policy import (
    NOTHING_CHOSEN,
    ActivePolicy,
    QueuePolicy,
    active_policy,
)
from yarnam.core.policies.queue_schedule import QueueSchedule, queue_schedule


@dataclass(frozen=True, slots=True)
class TicketList:
    """``seen_at_s`` of each ticket is by the reader's own clock: when it last noticed that the
    holder wrote it, whatever the holder's clock says."""

    tickets: tuple[Ticket, ...] = ()
    """By number, without the reader's own."""
    running: tuple[RunningGang, ...] = ()
    trouble: str = ""
    """Why the ResourceManager confirms none of this; empty if it confirms all of it."""
    policy: QueuePolicy = NOTHING_CHOSEN
    """The choice for the job's own queue."""
    recorded_gpu_s: Mapping[str, float] = field(default_factory=dict[str, float])
    """GPU-seconds that the ResourceManager has charged applications, where it reports them."""
    unread: int = 0
    """Jobs of which nothing is known yet but that they are there. A claim reads them."""

    def active(self) -> ActivePolicy | None:
        """The policy that jobs go by. ``None`` if nothing but the default is chosen."""
        return active_policy(self.policy)

    def queue_snapshot(self, me: Ticket, snapshot: ClusterSnapshot, now_s: float) -> QueueSnapshot:
        """The jobs and the cluster that the admission decision of ``me`` is about."""
        tickets = in_same_partitions(me, self.tickets)
        return QueueSnapshot(snapshot, tickets, self.running, now_s)

    def schedule(
        self, mine: Ticket | RunningGang, seen: QueueSnapshot, policy: ActivePolicy
    ) -> tuple[QueueSchedule, QueueSnapshot]:
        """The schedule of the queue, and its snapshot with the job itself in it."""
        tickets = [ticket for ticket in seen.tickets if ticket.job != mine.job]
        running = [gang for gang in seen.running if gang.job != mine.job]
        if isinstance(mine, Ticket):
            tickets.append(replace(mine, blocked_reason="", is_acquiring=False))
        else:
            running.append(mine)
        world = QueueSnapshot(seen.snapshot, tickets, running, seen.now_s)
        schedule = queue_schedule(mine.queue, world, policy, self.recorded_gpu_s)
        return schedule, world


NOBODY = TicketList()

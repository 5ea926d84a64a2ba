"""yarnam's default: the smallest gang first, and no job waits forever (``admission.wait_queue``).
This module adds nothing to what ``admission.admit`` decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from yarnam.core.admission.decision import admit
from yarnam.core.admission.wait_queue import (
    QueueSnapshot,
    gpus_by_queue,
    node_sizes,
    presorted,
    wait_queue,
)
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, Node, NodeState, QueueView
from yarnam.core.model.tickets import Admitted, Demand, PolicyTicket, RunningGang, Ticket
from yarnam.core.policies.policy_settings import Settings
from yarnam.core.policies.policy_ticket import arrival
from yarnam.core.policies.schedule import Schedule
from yarnam.core.policies.scheduling_policy import Policy
from yarnam.core.policies.scheduling_view import SchedulingView

NOWHERE = "root.default"


def decide(view: SchedulingView, settings: Settings) -> Schedule:
    del settings
    running = sorted((one for one in view.tickets if one.is_running), key=arrival)
    waiting = [one for one in view.tickets if not one.is_running]
    taken = {one.job: one.gpus for one in running}
    left = view.capacity.copy()
    why: dict[str, str] = {}
    order = running
    if waiting:
        seen = contention(view, running, waiting)
        tickets = {ticket.job: ticket for ticket in seen.tickets}
        by_job = {one.job: one for one in waiting}
        queue = wait_queue(seen.tickets[0], seen).order
        order = [*running, *(by_job[ticket.job] for ticket in queue)]
        for ticket in queue:
            one = by_job[ticket.job]
            trial = left.copy()
            fits = trial.take(one, one.gpus)
            decision = admit(tickets[one.job], seen, fits_now=fits, explain=False)
            why[one.job] = decision.reason
            if isinstance(decision, Admitted) and fits:
                left = trial
                taken[one.job] = one.gpus

    def explain(ticket: PolicyTicket) -> str:
        return "it runs" if ticket.is_running else why[ticket.job]

    return Schedule(order, taken, left, explain)


def contention(
    view: SchedulingView, running: Sequence[PolicyTicket], waiting: Sequence[PolicyTicket]
) -> QueueSnapshot:
    """The same jobs as the admission decision sees them. Without a snapshot the cluster is one node
    with all GPUs."""
    snapshot = view.snapshot or _one_node(view)
    largest = max((node.total.gpus for node in snapshot.nodes), default=1)
    tickets = tuple(_ticket(one, largest) for one in waiting)
    gangs = tuple(
        RunningGang(
            job=one.job,
            queue=one.queue or NOWHERE,
            gpus=one.gpus,
            ends_at_s=None if one.remaining_s is None else one.since_s + one.remaining_s,
            nodes=() if view.snapshot else ((snapshot.nodes[0].node_id, one.gpus),),
            since_s=one.since_s,
        )
        for one in running
    )
    sizes = node_sizes(snapshot.nodes)
    seen = QueueSnapshot(snapshot, tickets, gangs, view.now_s)
    known = presorted(snapshot, tickets, sizes, gpus_by_queue(tickets, seen))
    return replace(seen, presorted=known)


def _ticket(ticket: PolicyTicket, largest: int) -> Ticket:
    each = min(ticket.gpus, max(1, largest))
    while ticket.gpus % each:
        each -= 1
    return Ticket(
        number=ticket.number,
        job=ticket.job,
        name=ticket.job,
        queue=ticket.queue or NOWHERE,
        demands=(Demand(Resources(gpus=each), ticket.gpus // each),),
        taken_at_s=ticket.submitted_at_s,
        duration_s=ticket.remaining_s,
        priority=ticket.priority,
    )


def _one_node(view: SchedulingView) -> ClusterSnapshot:
    total, free = view.capacity.total_gpus, view.capacity.free_gpus
    node = Node(
        NodeId("all"), RackId("/all"), NodeState.RUNNING, Resources(gpus=total),
        Resources(gpus=total - free),
    )  # fmt: skip
    return ClusterSnapshot(view.now_s, (node,), QueueView(NOWHERE))


POLICY = Policy(
    "smallest-first",
    "The smallest gang first, the first that has waited too long before all others.",
    (),
    decide,
)

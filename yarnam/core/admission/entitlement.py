"""Room that a queue is entitled to but other queues hold: YARN takes it back only for a queue that
has requested containers.

The Fair Scheduler preempts for containers that have been requested. A gang that waits until nodes
are free would never get its queue's share from queues that use more than theirs. So the queue's
entitlement counts as room: the gang asks, holds the containers that it gets within its usual
limits, and YARN preempts the rest (``FSPreemptionThread``).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import ceil

from yarnam.core.admission.wait_queue import QueueSnapshot, is_silent, queues_of, wait_queue
from yarnam.core.model.plans import PlacementPlan
from yarnam.core.model.snapshot import QueueView
from yarnam.core.model.tickets import Ticket

FAIR_SHARE_THRESHOLD = 0.5
"""The Fair Scheduler preempts up to this part of the instantaneous fair share: its default for
``fairSharePreemptionThreshold``. The REST API does not show the queue's own. If that is higher the
job claims too little; if it is lower, or preemption by fair share has no timeout, it asks in vain
within ``gang.hold_timeout`` and backs off."""

OWN_RISK = 2
"""A job does not claim if more than half as many of YARN's possible victims are useless to it as
useful: those in its own queue, and those on nodes that it may not use. The figure is our own
choice."""

FIRST_PAUSE_S = 300.0
"""The pause after a claim that failed: well above the preemption timeouts of the Fair Scheduler's
examples (a minute or two), so that a claim is not repeated before YARN could have acted. The figure
is our own choice."""


@dataclass(frozen=True, slots=True)
class ClaimHistory:
    """How a job's claims have ended. A claim fails if the admin has changed the share or victims do
    not leave: the gang has then held a part of its GPUs idle. It also fails if the gang soon lost
    its gains again: YARN looks for victims in every queue, including the one that it preempts for,
    so two jobs that both claim again immediately would take the GPUs back from each other."""

    failed: int = 0
    """Failed claims in a row."""
    failed_at_s: float = 0.0

    def after(self, now_s: float, lasted_s: float) -> ClaimHistory:
        """The gang has to be acquired anew. ``lasted_s``: since its claim; 0 means it has never
        run."""
        if lasted_s >= _pause_s(self.failed + 1):
            return ClaimHistory()
        return ClaimHistory(self.failed + 1, now_s)

    def may_claim(self, now_s: float) -> bool:
        """The pause doubles after each failure. Meanwhile the job waits for free GPUs as any other,
        which uses up no attempt."""
        return not self.failed or now_s - self.failed_at_s >= _pause_s(self.failed)


def _pause_s(failed: int) -> float:
    return FIRST_PAUSE_S * 2.0 ** min(failed - 1, 20)


def entitlement(me: Ticket, seen: QueueSnapshot) -> str:
    """Explain why YARN would take GPUs from others for this gang; empty if it would not. Only the
    first gang of a queue is entitled, and only while no other of that queue acquires: two would
    claim the same share."""
    snapshot = seen.snapshot
    queues = queues_of(snapshot)
    mine = queues.get(me.queue)
    if not snapshot.preempts or mine is None or not me.gpus:
        return ""
    share = entitled_gpus(mine)
    if mine.used.gpus + me.gpus > share or _is_behind_its_own(me, seen):
        return ""
    excess = sum(_excess_gpus(queue) for name, queue in queues.items() if name != me.queue)
    if not excess:
        return ""
    nodes = snapshot.nodes
    usable = me.nodes_of(node for node in nodes if node.is_usable)
    free = sum(node.free.gpus for node in nodes if node.node_id in usable)
    held = sum(node.used.gpus for node in nodes if node.node_id in usable)
    elsewhere = sum(node.used.gpus for node in nodes) - held
    gain = min(excess, held)
    in_vain = _own_losses(me, mine, seen) + min(excess, elsewhere)
    # Without a gain YARN takes nothing, even if the free GPUs are too scattered.
    if not gain or free + gain < me.gpus or OWN_RISK * in_vain > gain:
        return ""
    return (
        f"queue {mine.name} is entitled to {share} GPUs and uses {mine.used.gpus}: "
        f"YARN takes the rest from queues above their share"
    )


def entitled_gpus(queue: QueueView) -> int:
    """How many GPUs YARN would secure for a queue by preemption: its minimum share, or what it
    defends of the fair share."""
    minimum, fair = _shares(queue)
    return max(minimum, int(fair * FAIR_SHARE_THRESHOLD))


def lead_of(plan: PlacementPlan, me: Ticket, seen: QueueSnapshot) -> int:
    """How many containers a claim requests first; 0 for all. For each request YARN chooses victims
    on its own, at worst one of each gang, though a gang gives back all of its containers when it
    loses a part. So the claim requests only as many as make enough gangs leave, even the smallest
    ones. That is known only if gangs with tickets hold all that YARN may take."""
    queues = queues_of(seen.snapshot)
    rich = {name for name, one in queues.items() if name != me.queue and _excess_gpus(one)}
    gangs = [gang for gang in seen.running if gang.queue in rich and gang.gpus]
    known = Counter[str]()
    for gang in gangs:
        known[gang.queue] += gang.gpus
    if not gangs or any(queues[name].used.gpus > known[name] for name in rich):
        return 0
    asks = [ask for ask in plan.rungs[0].asks if ask.target.resources.gpus]
    wanted = sum(ask.count * ask.target.resources.gpus for ask in asks)
    lead = ceil(wanted / min(gang.gpus for gang in gangs))
    return lead if lead < sum(ask.count for ask in asks) else 0


def for_yarn_to_place(plan: PlacementPlan) -> PlacementPlan:
    """Use the widest rungs alone. YARN chooses the containers, and it takes them from any node of
    the cluster, also for a request that may land in one rack only: the Fair Scheduler looks for
    victims by the request's entry for all nodes, which such a request has too."""
    widest = max(rung.level for rung in plan.rungs)
    return replace(plan, rungs=tuple(rung for rung in plan.rungs if rung.level is widest))


def _excess_gpus(queue: QueueView) -> int:
    """The GPUs that the Fair Scheduler may take from this queue."""
    if not queue.is_preemptable:
        return 0
    return max(0, queue.used.gpus - max(_shares(queue)))


def _shares(queue: QueueView) -> tuple[int, int]:
    """GPUs of its minimum and of its instantaneous fair share."""
    return (
        queue.minimum.gpus if queue.minimum else 0,
        queue.fair_share.gpus if queue.fair_share else 0,
    )


def _own_losses(me: Ticket, mine: QueueView, seen: QueueSnapshot) -> float:
    """GPUs that YARN might take from gangs of the same queue, for one of their own: it spares only
    those that have no more than their share within it."""
    gangs = [gang.gpus for gang in seen.running if gang.queue == mine.name]
    others = sum(one.queue == mine.name and one.job != me.job for one in seen.tickets)
    share = max(_shares(mine)) / (len(gangs) + others + 1)
    return sum(max(0.0, gpus - share) for gpus in gangs)


def _is_behind_its_own(me: Ticket, seen: QueueSnapshot) -> bool:
    if any(ticket.queue == me.queue for ticket in wait_queue(me, seen).ahead_of(me)):
        return True
    return any(
        ticket.is_acquiring and ticket.queue == me.queue and ticket.job != me.job
        for ticket in seen.tickets
        if not is_silent(ticket, seen.now_s)
    )

"""The admission decision of a job in the wait queue: the one of ``core.admission``, or that of its
queue's policy, on the nodes that quotas leave open."""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.admission import Decision, QueueSnapshot, decide
from yarnam.core.model.ids import NodeId
from yarnam.core.model.plans import NoFit
from yarnam.core.model.tickets import MustWait, Ticket
from yarnam.core.policies.cells import closed_to
from yarnam.core.policies.chosen_policy import ActivePolicy, QueuePolicy
from yarnam.core.policies.queue_schedule import decide_by_schedule
from yarnam.core.policies.schedule import JobDecision
from yarnam.core.queue_client.client_events import Moment
from yarnam.core.queue_client.client_state import QueueClient, wanted_ticket
from yarnam.core.queue_client.cluster_poll import ClusterPoll
from yarnam.core.queue_client.ticket_list import TicketList

LEFT_TO_QUOTAS = "free nodes are left to the quotas of other queues (placement.cells)"

OUTDATED = "another gang has just started"

CLOCKS_DIFFER_S = 2.0
"""By how much the clocks of two nodes may differ without harm. Those of a cluster are within
milliseconds as a rule; the seconds cost now and then a poll that was not needed."""


def with_policy_of(client: QueueClient, listed: TicketList, moment: Moment) -> QueueClient:
    """The client that knows the choice for its queue as it was read with the tickets."""
    if listed.policy == client.chosen:
        return client
    return with_policy(client, listed.policy, listed.active(), moment)


def with_policy(
    client: QueueClient, chosen: QueuePolicy, active: ActivePolicy | None, moment: Moment
) -> QueueClient:
    """The client that knows this choice for its queue."""
    if chosen == client.chosen:
        return client
    client = replace(
        client,
        chosen=chosen,
        policy=active,
        decision=None if active is None else client.decision,
    )
    if client.ticket is not None:
        ticket = policy_ticketed(client, client.ticket, moment)
        client = replace(client, ticket=ticket)
    return client


def policy_ticketed(client: QueueClient, ticket: Ticket, moment: Moment) -> Ticket:
    """The ticket with what the job reports to the policy of its queue."""
    mine = moment.policy_ticket
    if client.policy is None or mine is None or not mine.gpus:
        return replace(ticket, policy=None)
    return replace(ticket, policy=replace(mine, settings_version=client.policy.version))


def waiting_ticket(client: QueueClient, moment: Moment) -> Ticket:
    """The job's ticket, or the one that it would take."""
    if client.ticket is not None:
        return client.ticket
    return policy_ticketed(client, wanted_ticket(client, moment.now_s), moment)


def decided(
    client: QueueClient, poll: ClusterPoll, listed: TicketList, moment: Moment
) -> tuple[Decision, JobDecision | None]:
    """The admission decision by this poll and these tickets, and the decision of its queue's
    policy."""
    client = with_policy_of(client, listed, moment)
    me = waiting_ticket(client, moment)
    if poll.snapshot.stopped:
        # As one whose turn it is not: no node is kept for it, and nobody waits behind it.
        return MustWait(0, me, poll.snapshot.stopped, is_by_policy=True), client.decision
    seen = listed.queue_snapshot(me, poll.snapshot, moment.now_s)
    closed = closed_to(me, seen) if client.job.respects_cells else frozenset[NodeId]()
    if not closed:
        return _decided_on(client, poll, me, seen, listed)
    inside = poll.without(closed)
    decision, row = _decided_on(client, inside, me, seen, listed)
    if isinstance(decision, MustWait) and poll.fits and isinstance(inside.plan(), NoFit):
        decision = replace(decision, reason=LEFT_TO_QUOTAS, is_by_policy=True)
    return decision, row


def _decided_on(
    client: QueueClient, poll: ClusterPoll, me: Ticket, seen: QueueSnapshot, listed: TicketList
) -> tuple[Decision, JobDecision | None]:
    may_claim, policy = client.admission.claims.may_claim(seen.now_s), client.policy
    if policy is None or not me.gpus:
        decision = decide(
            me, seen, poll.plan, may_fit=poll.fits, excluded=poll.excluded, may_claim=may_claim,
            explain=client.job.explains, may_keep_clear=poll.may_keep_clear,
        )  # fmt: skip
        return decision, client.decision
    schedule, world = listed.schedule(me, seen, policy)
    return decide_by_schedule(
        schedule, me, world, poll.plan, may_fit=poll.fits, excluded=poll.excluded,
        may_claim=may_claim, explain=client.job.explains,
    )  # fmt: skip


def claim_decision(
    client: QueueClient, poll: ClusterPoll, listed: TicketList, moment: Moment
) -> tuple[Decision, JobDecision | None]:
    """As ``decided``, for a claim on these tickets. Pure: a queue may ask more than once."""
    if is_outdated(client, poll, listed):
        return MustWait(0, waiting_ticket(client, moment), OUTDATED), client.decision
    return decided(client, poll, listed, moment)


def is_outdated(client: QueueClient, poll: ClusterPoll, listed: TicketList) -> bool:
    """Whether a gang runs whose containers the snapshot may not show, because they were granted
    after it. Its ticket has gone, so nothing else shows them."""
    since_s = poll.asked_at_s - CLOCKS_DIFFER_S
    return any(
        gang.since_s is not None
        and gang.since_s >= since_s
        and gang.job not in client.admission.started
        for gang in listed.running
    )

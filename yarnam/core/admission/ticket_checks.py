"""Decide which tickets count: those that the ResourceManager confirms, and that could be true.

Any client that reaches the ZooKeeper can write there. So a ticket is only a claim of the
application that it names. That application has to be alive and of the user that the ticket names,
and to have begun before the ticket was taken. Its queue is the one that the ResourceManager has it
in. It counts once, and while it waits it holds nothing but its ApplicationMaster.

What is refused is refused with a reason, for the log. What a live application's own tickets may
still cost others is bounded in ``delay_limit``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from math import isfinite
from typing import Union

from yarnam.core.model.job_spec import MAX_TASKS
from yarnam.core.model.tickets import LiveApplication, PolicyTicket, RunningGang, Ticket

CLOCK_SKEW_S = 60.0
"""How far the clock of an ApplicationMaster's node may be behind the ResourceManager's. Hadoop
expects clocks to agree within minutes (Kerberos: five). The figure is our own choice."""

SETTLED_S = 60.0
"""A younger application may hold containers although it waits: those that Skein requested before
there was a plan, which go back after 4 s (``early_containers``). The figure is our own choice."""

MOST_TEXT = 300
"""Characters of a name or a reason. Names in a spec have at most 63."""

MOST_DEMANDS = 100
"""Container sizes in one gang: one for each role."""

MOST_AMOUNT = 2**31 - 1
"""The most of one resource: YARN's own limit."""

MOST_SIZES = 64
"""The most sizes at which an elastic gang may have run."""

MOST_PRIORITY = 10
"""``gang.priority`` ranges from -10 to 10."""

Applications = Mapping[str, LiveApplication]


def believed_ticket(
    ticket: Ticket, applications: Applications | None, now_s: float
) -> Union[Ticket, str]:
    """The ticket as far as it is believed; else the reason why it does not count. ``applications``
    are the living ones by name; with ``None`` the ResourceManager does not answer, so only
    impossible tickets are refused."""
    absurd = _absurd_ticket(ticket)
    if absurd or applications is None:
        return absurd or ticket
    app = applications.get(ticket.job)
    if app is None:
        return "the ResourceManager knows no such living application"
    if ticket.user != app.user:
        return f"it is not of the user {app.user!r}, whose application it names"
    if ticket.taken_at_s < app.started_at_s - CLOCK_SKEW_S:
        return "it was taken before its application began"
    is_settled = now_s - app.started_at_s >= SETTLED_S
    if is_settled and not ticket.is_acquiring and not ticket.blocked_reason and app.containers > 1:
        return f"its application holds {app.containers} containers, so it does not wait"
    taken_at_s = max(ticket.taken_at_s, app.started_at_s)
    policy = _since_its_start(ticket.policy, app)
    return replace(ticket, queue=_queue(ticket.queue, app), taken_at_s=taken_at_s, policy=policy)


def believed_gang(gang: RunningGang, applications: Applications | None) -> Union[RunningGang, str]:
    """The same for the report of a running gang."""
    absurd = _absurd_gang(gang)
    if absurd or applications is None:
        return absurd or gang
    app = applications.get(gang.job)
    if app is None:
        return "the ResourceManager knows no such living application"
    since_s = None if gang.since_s is None else max(gang.since_s, app.started_at_s)
    policy = _since_its_start(gang.policy, app)
    return replace(gang, queue=_queue(gang.queue, app), since_s=since_s, policy=policy)


def _since_its_start(policy: PolicyTicket | None, app: LiveApplication) -> PolicyTicket | None:
    """No ticket can be older than its application."""
    if policy is None:
        return None
    return replace(
        policy,
        submitted_at_s=max(policy.submitted_at_s, app.started_at_s),
        since_s=max(policy.since_s, app.started_at_s),
    )


def _queue(named: str, app: LiveApplication) -> str:
    """The ResourceManager's word. The Capacity Scheduler gives the last part of the name only."""
    return named if named.endswith(f".{app.queue}") else app.queue


def _absurd_ticket(ticket: Ticket) -> str:
    """Name a value that no version of yarnam writes, if any."""
    if not 1 <= len(ticket.demands) <= MOST_DEMANDS:
        return f"it has {len(ticket.demands)} demands"
    for demand in ticket.demands:
        want = demand.resources
        if not 1 <= demand.count <= MAX_TASKS:
            return f"it wants {_short(demand.count)} containers of one size"
        if not _within(1, MOST_AMOUNT, want.memory_mib, want.vcores):
            return "it wants containers of no size, or of more than YARN can count"
        if not _within(0, MOST_AMOUNT, want.gpus):
            return f"it wants {_short(want.gpus)} GPUs for a container"
        if len(demand.nodes) + len(demand.racks) > MAX_TASKS:
            return "it asks for more nodes than a gang may have tasks"
    if ticket.tasks > MAX_TASKS:
        return f"it wants {ticket.tasks} containers"
    if max(len(ticket.included), len(ticket.excluded)) > MAX_TASKS:
        return "it names more nodes than a gang may have tasks"
    if len(ticket.node_labels) > MAX_TASKS:
        return "it names more node labels than a gang may have tasks"
    if not _within(-MOST_PRIORITY, MOST_PRIORITY, ticket.priority):
        return "its priority is out of range"
    times_s = (ticket.taken_at_s, ticket.duration_s or 0.0, ticket.forecast_s or 0.0)
    if not all(isfinite(at_s) and at_s >= 0 for at_s in times_s):
        return "its times are impossible"
    words = (ticket.name, ticket.queue, ticket.user, ticket.gpu_model, ticket.blocked_reason)
    places = (name for demand in ticket.demands for name in (*demand.nodes, *demand.racks))
    return _absurd_policy(ticket.policy, ticket.job) or _absurd_text(
        chain(words, ticket.node_labels, places)
    )


def _absurd_gang(gang: RunningGang) -> str:
    if len(gang.nodes) > MAX_TASKS:
        return "it names more nodes than a gang may have tasks"
    if not _within(0, MOST_AMOUNT, gang.gpus, *(gpus for _, gpus in gang.nodes)):
        return "its GPUs are not a count"
    times_s = (gang.ends_at_s or 0.0, gang.since_s or 0.0, gang.wait_ratio or 0.0)
    if not all(isfinite(at_s) and at_s >= 0 for at_s in times_s):
        return "its times are impossible"
    return _absurd_policy(gang.policy, gang.job) or _absurd_text((gang.queue,))


def _absurd_policy(policy: PolicyTicket | None, job: str) -> str:
    """Validate the ticket's inputs for the policy of its queue; empty if they are valid."""
    if policy is None:
        return ""
    if policy.job != job or len(policy.rates) > MOST_SIZES:
        return "what it tells the policy of its queue is not about this job"
    counts = (
        policy.gpus,
        policy.least_gpus,
        policy.most_gpus,
        policy.nodes,
        *(g for g, _ in policy.rates),
    )
    amounts = (
        policy.submitted_at_s, policy.since_s, policy.service_gpu_s, policy.counted_gpu_s,
        policy.started_gpu_s,
        policy.pause_cost_s, policy.remaining_s or 0.0, policy.remaining_steps or 0.0,
        *(rate for _, rate in policy.rates),
    )  # fmt: skip
    if not _within(-MOST_PRIORITY, MOST_PRIORITY, policy.priority):
        return "its priority is out of range"
    if not _within(0, MOST_AMOUNT, *counts) or not all(
        isfinite(amount) and amount >= 0 for amount in amounts
    ):
        return "what it reports to the policy of its queue is impossible"
    return _absurd_text((policy.queue,))


def _absurd_text(words: Iterable[str]) -> str:
    for text in words:
        if len(text) > MOST_TEXT or not text.isprintable():
            return f"it has a text of {len(text)} characters that no job writes"
    return ""


def _within(least: int, most: int, *amounts: int) -> bool:
    return all(least <= amount <= most for amount in amounts)


def _short(number: int) -> str:
    return str(number) if abs(number) < 10**9 else "more than 10**9"

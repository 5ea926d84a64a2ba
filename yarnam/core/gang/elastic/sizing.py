"""Decide the size of an elastic gang: grow, shrink, or keep, and why. Pure and quick.

Each resize costs a stop and a start from the checkpoint, so the rules are slow on purpose:

- the size that a user requested takes precedence, and is taken as soon as it fits;
- the gang grows while GPUs are idle and no job waits for them, at most once per ``min_run_s``;
- it goes to its least size while a job of its queue with a higher priority waits, again only when
  that has lasted for ``shrink_after_s``; only a size that a user requested stays;
- it releases what its queue is over the fair share only when that has lasted for
  ``shrink_after_s`` with others waiting, and never goes below its least size;
- after it has released something it grows again on its own only after ``min_run_s``, and only when
  no job waits: no probe releases what another has taken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Union

from yarnam.core.gang.policy import SizePolicy
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.plans import Supplement
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import QueueView
from yarnam.core.model.tickets import Ticket


class SizeReason(Enum):
    """Why a gang has, or gets, the size it has. Countable, as the planner's reasons are."""

    REQUESTED = "requested"
    IDLE_GPUS = "idle-gpus"
    OVER_SHARE = "over-share"
    OUTRANKED = "outranked"
    # Why it stays.
    AT_REQUESTED = "at-requested"
    AT_MOST = "at-most"
    AT_LEAST = "at-least"
    NO_FREE_CAPACITY = "no-free-capacity"
    OTHERS_WAIT = "others-wait"
    RAN_TOO_SHORT = "ran-too-short"
    NOT_FOR_LONG = "not-for-long"
    GROWS_ON_DEMAND = "grows-on-demand"


@dataclass(frozen=True, slots=True)
class SizeFacts:
    """The gang's own state, for the decision on its size."""

    tasks: int
    """Running tasks of the elastic role."""
    since_s: float
    """When it began to run at this size."""
    requested: int | None = None
    """The size that a user, the queue's policy or the program asked for."""
    over_since_s: float | None = None
    """Since when every probe has found that others should get some of its GPUs."""
    is_firm: bool = True
    """Whether the requested size stays even if a job of higher priority waits: a user's does."""


@dataclass(frozen=True, slots=True)
class ClusterProbe:
    """The result of one probe of the cluster."""

    spare: int
    """Further tasks that would fit now."""
    excess: int = 0
    """Tasks that the queue is over its fair share, while others wait."""
    waiting: int = 0
    """Jobs that wait for GPUs."""
    outranked: int = 0
    """Those of its own queue with a higher priority."""


@dataclass(frozen=True, slots=True)
class Grow:
    to: int
    reason: SizeReason


@dataclass(frozen=True, slots=True)
class Shrink:
    to: int
    reason: SizeReason


@dataclass(frozen=True, slots=True)
class Keep:
    reason: SizeReason


SizeDecision = Union[Grow, Shrink, Keep]


def decide_size(
    facts: SizeFacts, seen: ClusterProbe, policy: SizePolicy, now_s: float
) -> SizeDecision:
    """Decide after one probe. ``Grow`` never goes beyond what fits, ``Shrink`` never below the
    least size."""
    if seen.outranked and (facts.requested is None or not facts.is_firm):
        return _make_way(facts, seen, policy, now_s)
    if facts.requested is not None:
        return _towards(facts.requested, facts, seen, policy)
    if seen.excess > 0:
        return _give_back(facts, seen, policy, now_s)
    return _take_idle(facts, seen, policy, now_s)


def _towards(
    requested: int, facts: SizeFacts, seen: ClusterProbe, policy: SizePolicy
) -> SizeDecision:
    """A user knows what it costs: no waiting, no regard to others."""
    requested = policy.bounded(requested)
    if requested < facts.tasks:
        return Shrink(requested, SizeReason.REQUESTED)
    if requested == facts.tasks:
        return Keep(SizeReason.AT_REQUESTED)
    to = min(requested, facts.tasks + seen.spare)
    return Grow(to, SizeReason.REQUESTED) if to > facts.tasks else Keep(SizeReason.NO_FREE_CAPACITY)


def _make_way(
    facts: SizeFacts, seen: ClusterProbe, policy: SizePolicy, now_s: float
) -> SizeDecision:
    """All gangs below the waiting job shrink to their least, before any is suspended for it."""
    if facts.tasks <= policy.least:
        return Keep(SizeReason.AT_LEAST)
    if _has_lasted(facts, policy, now_s):
        return Shrink(policy.least, SizeReason.OUTRANKED)
    if facts.requested is not None and policy.bounded(facts.requested) < facts.tasks:
        return _towards(facts.requested, facts, seen, policy)
    return Keep(SizeReason.NOT_FOR_LONG)


def _has_lasted(facts: SizeFacts, policy: SizePolicy, now_s: float) -> bool:
    since_s = facts.over_since_s
    return since_s is not None and now_s - since_s >= policy.rules.shrink_after_s


def _give_back(
    facts: SizeFacts, seen: ClusterProbe, policy: SizePolicy, now_s: float
) -> SizeDecision:
    if facts.tasks <= policy.least:
        return Keep(SizeReason.AT_LEAST)
    if not _has_lasted(facts, policy, now_s):
        return Keep(SizeReason.NOT_FOR_LONG)
    return Shrink(max(policy.least, facts.tasks - seen.excess), SizeReason.OVER_SHARE)


def _take_idle(
    facts: SizeFacts, seen: ClusterProbe, policy: SizePolicy, now_s: float
) -> SizeDecision:
    if facts.tasks >= policy.most:
        return Keep(SizeReason.AT_MOST)
    if not policy.rules.grow:
        return Keep(SizeReason.GROWS_ON_DEMAND)
    if seen.waiting > 0:
        return Keep(SizeReason.OTHERS_WAIT)
    if seen.spare <= 0:
        return Keep(SizeReason.NO_FREE_CAPACITY)
    if now_s - facts.since_s < policy.rules.min_run_s:
        return Keep(SizeReason.RAN_TOO_SHORT)
    return Grow(min(policy.most, facts.tasks + seen.spare), SizeReason.IDLE_GPUS)


def next_probe_s(policy: SizePolicy, u: float) -> float:
    """The interval, shortened by up to a quarter: jobs that started together do not probe in step,
    and two that see the same idle GPUs seldom ask for them simultaneously."""
    return policy.rules.grow_interval_s * (1.0 - 0.25 * u)


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job that waits for GPUs, as far as it is known."""

    queue: str
    gpus: int = 0
    priority: int | None = None
    """The rank among the jobs of its queue; ``None`` if unknown."""


def waiting_jobs(tickets: Iterable[Ticket], queue: str) -> tuple[WaitingJob, ...]:
    """Those that wait with a ticket, which YARN does not know of; of this queue those too that its
    policy has wait."""
    return tuple(
        # Who is getting his containers needs none of this job's.
        WaitingJob(ticket.queue, ticket.gpus, None if ticket.is_acquiring else ticket.priority)
        for ticket in tickets
        if not ticket.blocked_reason or (ticket.queue == queue and ticket.policy is not None)
    )


def cluster_probe(
    spare: int, queue: QueueView, job: JobSpec, growth: Supplement, waiters: Collection[WaitingJob]
) -> ClusterProbe:
    """The result of a probe for ``growth``, with room for ``spare`` more tasks."""
    target = growth.wanted[0].target
    mine = sum(task.role == target.role for task in growth.held)
    excess = excess_tasks(queue, waiters, mine, target.resources)
    outranked = outranking(job.queue, job.gang.priority, waiters)
    return ClusterProbe(spare, excess, len(waiters), outranked)


def outranking(queue: str, priority: int, waiters: Iterable[WaitingJob]) -> int:
    """How many of them are of this queue, with a priority higher than this."""
    return sum(
        one.queue == queue and one.priority is not None and one.priority > priority
        for one in waiters
    )


def excess_tasks(
    queue: QueueView, waiters: Iterable[WaitingJob], tasks: int, size: Resources
) -> int:
    """This gang's part, in whole tasks of ``size``, of what its queue uses beyond its fair share of
    GPUs; 0 while no job of another queue waits, or if the queue's share is unknown.

    The fair share is the Fair Scheduler's instantaneous one: of all queues with a running job, by
    weight. ``tasks`` is what the gang has now; other jobs of the queue see the same excess, so
    each releases in proportion to what it has.
    """
    others = any(waiter.queue != queue.name for waiter in waiters)
    if not others or queue.fair_share is None or queue.fair_share.gpus <= 0 or not size.gpus:
        return 0
    over = queue.used.gpus - queue.fair_share.gpus
    if over <= 0 or queue.used.gpus <= 0:
        return 0
    mine = min(1.0, tasks * size.gpus / queue.used.gpus)
    return int(over * mine / size.gpus + 0.5)

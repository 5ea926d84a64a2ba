"""Which size an elastic gang should have: grow, shrink, or keep, and why. Pure and quick.

Each resize costs a stop and a start from the checkpoint, so the rules are slow on purpose:

- a user's wish counts above all, and is followed as soon as there is room;
- the gang grows while GPUs are idle and nobody waits for them, at most once per ``min_run_s``;
- it gives back what its queue is over the fair share only when that has lasted for
  ``shrink_after_s`` with others waiting, and never goes below its least size;
- after it has given something back it grows again by itself only after ``min_run_s``, and only
  when nobody waits: what one look takes another does not give back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Union

from yarnam.model.job import JobSpec
from yarnam.model.resources import Resources
from yarnam.model.snapshot import QueueView


class SizeReason(Enum):
    """Why a gang has, or gets, the size it has. Countable, as the planner's reasons are."""

    WISH = "wish"
    IDLE_GPUS = "idle-gpus"
    OVER_SHARE = "over-share"
    # Why it stays.
    AT_WISH = "at-wish"
    AT_MOST = "at-most"
    AT_LEAST = "at-least"
    NO_ROOM = "no-room"
    OTHERS_WAIT = "others-wait"
    RAN_TOO_SHORT = "ran-too-short"
    NOT_FOR_LONG = "not-for-long"
    GROWS_ON_DEMAND = "grows-on-demand"


@dataclass(frozen=True, slots=True)
class SizePolicy:
    """The limits of one elastic role. Sizes in tasks, times in seconds."""

    role: str
    least: int
    most: int
    patience_s: float
    grow: bool
    grow_interval_s: float
    min_run_s: float
    shrink_after_s: float
    checkpoint_grace_s: float
    processes_per_task: int = 1

    def bounded(self, tasks: int) -> int:
        return max(self.least, min(self.most, tasks))


@dataclass(frozen=True, slots=True)
class SizeFacts:
    """What the gang knows of itself."""

    tasks: int
    """Of the elastic role, running now."""
    since_s: float
    """When it began to run at this size."""
    wish: int | None = None
    """The size a user asked for."""
    over_since_s: float | None = None
    """Since when every look has found the queue over its share with others waiting."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What one look at the cluster has shown."""

    spare: int
    """Further tasks that would fit now."""
    excess: int = 0
    """Tasks that the queue is over its fair share, while others wait."""
    waiting: int = 0
    """Jobs that wait for GPUs."""


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


Sizing = Union[Grow, Shrink, Keep]


def size_policy(job: JobSpec) -> SizePolicy | None:
    """None: the gang has one size."""
    role = job.elastic_role
    if role is None or role.min_tasks is None:
        return None
    elastic = job.elastic
    return SizePolicy(
        role=role.name,
        least=role.min_tasks,
        most=role.tasks,
        patience_s=elastic.patience_s,
        grow=elastic.grow,
        grow_interval_s=elastic.grow_interval_s,
        min_run_s=elastic.min_run_s,
        shrink_after_s=elastic.shrink_after_s,
        checkpoint_grace_s=elastic.checkpoint_grace_s,
        processes_per_task=role.processes_per_task,
    )


def resize(facts: SizeFacts, seen: Surroundings, policy: SizePolicy, now_s: float) -> Sizing:
    """What to do after one look. ``Grow`` never goes beyond what fits, ``Shrink`` never below the
    least size."""
    if facts.wish is not None:
        return _towards(facts.wish, facts, seen, policy)
    if seen.excess > 0:
        return _give_back(facts, seen, policy, now_s)
    return _take_idle(facts, seen, policy, now_s)


def _towards(wish: int, facts: SizeFacts, seen: Surroundings, policy: SizePolicy) -> Sizing:
    """A user knows what it costs: no waiting, no look at others."""
    wish = policy.bounded(wish)
    if wish < facts.tasks:
        return Shrink(wish, SizeReason.WISH)
    if wish == facts.tasks:
        return Keep(SizeReason.AT_WISH)
    to = min(wish, facts.tasks + seen.spare)
    return Grow(to, SizeReason.WISH) if to > facts.tasks else Keep(SizeReason.NO_ROOM)


def _give_back(facts: SizeFacts, seen: Surroundings, policy: SizePolicy, now_s: float) -> Sizing:
    if facts.tasks <= policy.least:
        return Keep(SizeReason.AT_LEAST)
    if facts.over_since_s is None or now_s - facts.over_since_s < policy.shrink_after_s:
        return Keep(SizeReason.NOT_FOR_LONG)
    return Shrink(max(policy.least, facts.tasks - seen.excess), SizeReason.OVER_SHARE)


def _take_idle(facts: SizeFacts, seen: Surroundings, policy: SizePolicy, now_s: float) -> Sizing:
    if facts.tasks >= policy.most:
        return Keep(SizeReason.AT_MOST)
    if not policy.grow:
        return Keep(SizeReason.GROWS_ON_DEMAND)
    if seen.waiting > 0:
        return Keep(SizeReason.OTHERS_WAIT)
    if seen.spare <= 0:
        return Keep(SizeReason.NO_ROOM)
    if now_s - facts.since_s < policy.min_run_s:
        return Keep(SizeReason.RAN_TOO_SHORT)
    return Grow(min(policy.most, facts.tasks + seen.spare), SizeReason.IDLE_GPUS)


def next_look_s(policy: SizePolicy, u: float) -> float:
    """The interval, shortened by up to a quarter: jobs that started together do not look in step,
    and two that see the same idle GPUs seldom ask for them at once."""
    return policy.grow_interval_s * (1.0 - 0.25 * u)


@dataclass(frozen=True, slots=True)
class Waiter:
    """A job that waits for GPUs, as far as it is known."""

    queue: str
    gpus: int = 0


def excess_tasks(queue: QueueView, waiters: Iterable[Waiter], tasks: int, size: Resources) -> int:
    """This gang's part, in whole tasks of ``size``, of what its queue uses beyond its fair share
    of GPUs; 0 while nobody of another queue waits, or where the queue's share is not known.

    The fair share is the Fair Scheduler's instantaneous one: of all queues with a running job, by
    weight. ``tasks`` is what the gang has now; other jobs of the queue see the same excess, so
    each gives back in proportion to what it has.
    """
    others = any(waiter.queue != queue.name for waiter in waiters)
    if not others or queue.fair_share is None or queue.fair_share.gpus <= 0 or not size.gpus:
        return 0
    over = queue.used.gpus - queue.fair_share.gpus
    if over <= 0 or queue.used.gpus <= 0:
        return 0
    mine = min(1.0, tasks * size.gpus / queue.used.gpus)
    return int(over * mine / size.gpus + 0.5)

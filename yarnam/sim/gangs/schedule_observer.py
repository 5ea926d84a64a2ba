"""Watches the policy of one queue for all of its jobs.

Tickets are the same for all of them here, so the schedule is computed once after a change, and a
job polls only if its decision has it act: polls that find nothing to do leave no trace, and are
left out.
"""

from __future__ import annotations

from math import inf
from typing import Protocol

from yarnam.core.admission import QueueSnapshot
from yarnam.core.policies.chosen_policy import ActivePolicy
from yarnam.core.policies.queue_schedule import QueueSchedule, queue_schedule
from yarnam.sim.world import World

POLL_S = 5.0
"""The time between two polls of a job, give or take a quarter: ``AmSettings.policy_look_s``."""

CHECK_S = 1.0
"""A change is noticed after this time. Polls of jobs come up to six times as late."""


class ObservedJob(Protocol):
    """A job of the queue whose gang runs, or that the policy has suspended."""

    def may_act(self, found: QueueSchedule, interrupted: frozenset[str]) -> bool:
        """Whether its decision has it act, and no poll of it is due. ``interrupted`` is from the
        schedule."""
        ...

    def look_after(self, delay_s: float) -> None: ...


class ScheduleObserver:
    """The observer of one queue's schedule."""

    def __init__(self, queue: str, world: World, active: ActivePolicy) -> None:
        self.active = active
        self._queue = queue
        self._world = world
        self._jobs: dict[str, ObservedJob] = {}
        self._found: QueueSchedule | None = None
        self._versions = (-1, -1)
        self._changes_s = inf
        self._acted_on: QueueSchedule | None = None
        self._is_checking = False

    def join(self, job: str, observed: ObservedJob) -> None:
        self._jobs[job] = observed
        if not self._is_checking:
            self._is_checking = True
            self._world.timeline.after(CHECK_S, self._check)

    def leave(self, job: str) -> None:
        del self._jobs[job]

    @property
    def resizes(self) -> bool:
        return self.active.policy is not None and self.active.policy.resizes

    @property
    def is_stale(self) -> bool:
        """Whether the schedule has changed."""
        world = self._world
        versions = (world.rm.nodes.version, world.tickets.version)
        return versions != self._versions or world.timeline.now_s >= self._changes_s

    def queue_snapshot(self) -> QueueSnapshot:
        """The view of each job of the queue."""
        world = self._world
        return world.tickets.plain(world.rm.snapshot(self._queue), world.timeline.now_s)

    def schedule(self) -> QueueSchedule:
        """The schedule that each job of the queue computes now."""
        found, world = self._found, self._world
        if found is None or self.is_stale:
            now_s = world.timeline.now_s
            found = self._found = queue_schedule(
                self._queue, self.queue_snapshot(), self.active, {}
            )
            self._versions = (world.rm.nodes.version, world.tickets.version)
            changes_s = found.schedule.next_change_s
            # It cannot reach another decision at the same instant.
            self._changes_s = changes_s if changes_s > now_s else inf
        return found

    def pause_s(self) -> float:
        """The time from one poll of a job to its next."""
        return POLL_S * (0.75 + 0.5 * self._world.dice.random())

    def _check(self) -> None:
        if not self._jobs:
            self._is_checking = False
            return
        world = self._world
        found = self.schedule()
        if found is not self._acted_on:
            self._acted_on = found
            interrupted = found.interrupted
            for one in [one for one in self._jobs.values() if one.may_act(found, interrupted)]:
                interval_s = self.pause_s()
                one.look_after(world.dice.random() * interval_s + world.rm.settings.poll_s)
        world.timeline.after(CHECK_S, self._check)

"""Folds each look at the gang into the observers of the core, and carries out what follows."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from yarnam.am.serial_executor import SerialExecutor
from yarnam.core.accounting.attained_service import tasks_for
from yarnam.core.failures.rank_activity import RankActivity
from yarnam.core.gang import Gang, MemberState, policy_for
from yarnam.core.gang.policy import SizePolicy
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.job_status import JobStatus
from yarnam.core.model.metrics import AgentMetrics
from yarnam.core.observers.observer import Observation, View
from yarnam.core.observers.observer_registry import OBSERVERS
from yarnam.ports import Clock, Inbox, TaskMailbox

log = logging.getLogger("yarnam.am")


class GangObservers:
    """``observe`` is to be called every second or two while the gang is there."""

    def __init__(
        self,
        job: JobSpec,
        mailbox: TaskMailbox,
        executor: SerialExecutor,
        clock: Clock,
        inbox: Inbox,
    ) -> None:
        self._job = job
        self._size = policy_for(job).size
        self._mailbox = mailbox
        self._executor = executor
        self._clock = clock
        self._inbox = inbox
        self._states: dict[str, Any] = {observer.name: observer.initial for observer in OBSERVERS}

    async def observe(
        self, gang: Gang, metrics: Sequence[AgentMetrics], activity: Sequence[RankActivity]
    ) -> None:
        view = view_of(gang, self._job, self._clock.now_s(), metrics, activity, self._size)
        for observer in OBSERVERS:
            try:
                state, observation = observer.observe(self._states[observer.name], view)
                self._states[observer.name] = state
                await self._carry_out(observation, gang.attempt)
            except Exception:  # The job, and the other observers, do not depend on one of them.
                log.exception("the observer %s failed", observer.name)

    def completed(self, status: JobStatus) -> JobStatus:
        """The status with what the observers add to it."""
        for observer in OBSERVERS:
            status = observer.status(self._states[observer.name], status)
        return status

    async def _carry_out(self, observation: Observation, attempt: int) -> None:
        for warning in observation.warnings:
            log.warning("%s", warning)
        if observation.dump:
            await self._executor.call(lambda: self._mailbox.dump(observation.dump, attempt))
        for event in observation.events:
            self._inbox(event)


def view_of(
    gang: Gang,
    job: JobSpec,
    now_s: float,
    metrics: Sequence[AgentMetrics] = (),
    activity: Sequence[RankActivity] = (),
    size: SizePolicy | None = None,
) -> View:
    """The gang as the observers see it, with the reports of its present attempt."""
    mine = [metric for metric in metrics if metric.attempt == gang.attempt]
    mine.sort(key=lambda metric: metric.rank)
    started = tuple(member for member in gang.members if member.state is MemberState.STARTED)
    sized = None if size is None else partial(tasks_for, job, gang, size)
    return View(gang, job, now_s, mine, activity, started, sized)

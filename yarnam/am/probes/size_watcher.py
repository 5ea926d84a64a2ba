"""The size that the job's own program asks for, by its reports, or by ``elastic.schedule``."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from yarnam.core.accounting.attained_service import tasks_for
from yarnam.core.gang import Gang, policy_for
from yarnam.core.model.events import ScaleRequested
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.job_status import Phase
from yarnam.core.model.metrics import EPOCH, REQUESTED_GPUS, AgentMetrics
from yarnam.ports import Clock, Inbox

log = logging.getLogger("yarnam.am")

MAX_COUNT = 1 << 53
"""A metric is a float of the program's own: beyond this it does not count."""


class SizeWatcher:
    """``poll`` is to be called at each look at the gang, every second or two. Each wish becomes
    one event; what follows from it is the gang machine's affair, as with ``yarnam scale``."""

    def __init__(self, job: JobSpec, clock: Clock, inbox: Inbox) -> None:
        self._job = job
        self._size = policy_for(job).size
        self._clock = clock
        self._inbox = inbox
        self._requested: tuple[int, int] | None = None
        """The attempt whose program asked, and for how many GPUs."""
        self._scheduled = 0

    def poll(self, gang: Gang, metrics: Sequence[AgentMetrics]) -> None:
        if gang.phase is not Phase.RUNNING or gang.is_pre_run:
            return
        mine = [one for one in metrics if one.attempt == gang.attempt]
        mine.sort(key=lambda one: one.rank)
        self._by_program(gang, mine)
        self._by_schedule(gang, mine)

    def _by_program(self, gang: Gang, mine: Sequence[AgentMetrics]) -> None:
        asked = (_count(dict(one.values).get(REQUESTED_GPUS)) for one in mine)
        gpus = next((one for one in asked if one >= 0), None)
        if gpus is None or self._requested == (gang.attempt, gpus):
            return
        self._requested = gang.attempt, gpus
        size = self._size
        if size is None:
            log.warning("the program asks for %d GPUs, but the job has one size", gpus)
            return
        tasks = tasks_for(self._job, gang, size, gpus) if gpus else None
        if tasks != gang.program_size:
            by = f"the program ({gpus} GPUs)" if gpus else "the program"
            log.info("%s asks for %s", by, f"{tasks} tasks" if tasks else "automatic size")
            self._inbox(ScaleRequested(self._clock.now_s(), by, tasks, is_program=True))

    def _by_schedule(self, gang: Gang, mine: Sequence[AgentMetrics]) -> None:
        schedule = self._job.elastic.schedule
        if not schedule:
            return
        steps = (one.step for one in mine if one.step is not None)
        epochs = (_count(dict(one.values).get(EPOCH)) for one in mine)
        epoch = next((one for one in epochs if one >= 0), -1)
        now = self._job.elastic.reached(next(steps, -1), epoch)
        if now <= max(gang.scheduled, self._scheduled):
            return
        self._scheduled = now
        by, tasks = f"elastic.schedule ({schedule[now - 1].words})", self._job.scheduled_tasks(now)
        log.info("%s asks for %s tasks", by, tasks)
        self._inbox(ScaleRequested(self._clock.now_s(), by, tasks, is_program=True, scheduled=now))


def _count(value: float | None) -> int:
    """-1: it is not told, or is no count."""
    return int(value) if value is not None and 0 <= value < MAX_COUNT else -1

"""Asks YARN how far the jobs are that this one waits for (``depends_on``)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from yarnam.am.am_settings import AmSettings
from yarnam.am.serial_executor import SerialExecutor
from yarnam.core.gang import Gang
from yarnam.core.model.events import AwaitedJobsSeen
from yarnam.core.model.job_status import AwaitedJob, JobState
from yarnam.errors import YarnamError
from yarnam.ports import Clock, Inbox

log = logging.getLogger("yarnam.am")


class AwaitedJobsProbe:
    """``state_of`` asks YARN, in ``executor``."""

    def __init__(
        self,
        state_of: Callable[[str], JobState | None],
        executor: SerialExecutor,
        clock: Clock,
        inbox: Inbox,
        settings: AmSettings,
        draw: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._state_of = state_of
        self._executor = executor
        self._clock = clock
        self._inbox = inbox
        self._settings = settings
        self._draw = draw
        self._sleep = sleep
        self.trouble = ""
        """Why the states of the jobs are not known now."""

    async def run(self, gang: Callable[[], Gang]) -> None:
        """Sends ``AwaitedJobsSeen`` at first, and when a state has changed, until the gang waits
        for no job."""
        sent: tuple[AwaitedJob, ...] = ()
        while (awaited := gang().awaited) and gang().verdict is None:
            try:
                found = await self._executor.call(partial(self._seen, awaited))
            except YarnamError as error:
                self.trouble = f"cannot ask YARN about other jobs: {error.message}"
                log.warning("%s", self.trouble)
            except Exception:  # It would wait for ever without this task.
                self.trouble = "cannot ask YARN about other jobs: see the ApplicationMaster's log"
                log.exception("cannot ask YARN about other jobs")
            else:
                self.trouble = ""
                if found != sent:
                    sent = found
                    self._inbox(AwaitedJobsSeen(self._clock.now_s(), found))
            period_s = self._settings.awaited_jobs_period_s
            await self._sleep(period_s * (0.75 + 0.5 * self._draw()))
        self.trouble = ""

    def _seen(self, awaited: Sequence[AwaitedJob]) -> tuple[AwaitedJob, ...]:
        """In the executor's thread. The end of a job stays as it was seen: YARN forgets it."""
        return tuple(job if job.has_ended else self._asked(job) for job in awaited)

    def _asked(self, job: AwaitedJob) -> AwaitedJob:
        state = self._state_of(job.application)
        return replace(job, state=state, is_forgotten=state is None)

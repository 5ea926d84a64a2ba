"""The statuses of running jobs, read again and again: no job waits for another one's answer."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from yarnam.adapters.yarn.rest_parse import YarnApplication
from yarnam.client.monitor import lookup
from yarnam.client.monitor.job_sources import JobSources
from yarnam.client.monitor.yarn_status import yarn_status
from yarnam.client.site import Site
from yarnam.client.user_paths import key_in
from yarnam.core.fits.predicted_end import StepPace
from yarnam.core.model.job_status import JobStatus
from yarnam.errors import Unavailable, YarnamError

log = logging.getLogger("yarnam.client")

MOST_JOBS = 200
"""Jobs that are read, the newest: a reading of each takes milliseconds, and a terminal has fewer
rows."""

READERS = 16
"""Jobs that are read at a time."""

SILENT_READERS = 4
"""How many of these may be jobs whose last reading failed: such a one takes seconds."""


@dataclass(frozen=True, slots=True)
class LiveJob:
    """The newest that is known of one job."""

    status: JobStatus
    read_at_s: float
    """When that was read; for what is only the last known, when it was true. 0 if never."""
    paces: Mapping[str, StepPace] = field(default_factory=dict[str, StepPace])
    """The steps of the whole job, under an empty name, and of each task."""
    attempt: int = 0

    def heard(self, status: JobStatus, now_s: float) -> LiveJob:
        """With a newer status. A new attempt counts its steps anew."""
        if status.is_last_known or not status.at_s:
            return replace(self, status=status, read_at_s=status.at_s)
        steps = {"": status.step, **{task.name: task.step for task in status.tasks}}
        before = self.paces if self.attempt == status.attempt else {}
        paces = {
            name: before.get(name, StepPace()).add(step, status.at_s)
            for name, step in steps.items()
            if step is not None
        }
        return LiveJob(status, now_s, paces, status.attempt)

    def failed(self, why: str) -> LiveJob:
        """As it was last known, if it ever was."""
        if not self.read_at_s:
            return self
        return replace(self, status=replace(self.status, is_last_known=True, reason=why))


class LiveJobs:
    """Reads the jobs of this user that have not ended, or the one of ``application``, in threads of
    its own. ``refresh`` begins a reading and ``jobs`` has what is known by now: neither waits."""

    def __init__(self, site: Site, application: str = "") -> None:
        self._site = site
        self._application = application
        self._changed = threading.Condition()
        self._sources: dict[str, JobSources] = {}
        self._found: dict[str, LiveJob] = {}
        self._listed: tuple[YarnApplication, ...] = ()
        self._due: deque[YarnApplication] = deque()
        self._reading: set[str] = set()
        self._silent: dict[str, float] = {}
        """When the reading of a job that did not succeed began."""
        self._is_listing = self._is_listed = self._is_closed = False
        self.error: YarnamError | None = None
        """Why the list of jobs, or the one job, could not be read; ``None`` if it could."""
        self.unread_jobs = 0
        """Jobs beyond ``MOST_JOBS``."""

    def refresh(self) -> None:
        """Begin to read all that is not being read already."""
        with self._changed:
            if self._is_listing or self._is_closed:
                return
            self._is_listing = True
        threading.Thread(target=self._list, name="list-jobs", daemon=True).start()

    def wait(self, limit_s: float) -> None:
        """Until each job has been read since ``refresh``, for this long at most."""
        with self._changed:
            self._changed.wait_for(
                lambda: not (self._is_listing or self._due or self._reading), limit_s
            )

    @property
    def is_listed(self) -> bool:
        """Whether it is known which jobs there are."""
        return self._is_listed

    def jobs(self) -> tuple[LiveJob, ...]:
        """The newest first. One that has never been read is shown as YARN reports it."""
        with self._changed:
            listed, found = self._listed, dict(self._found)
        nothing = "its ApplicationMaster has not answered yet"
        return tuple(
            found.get(one.application) or LiveJob(yarn_status(one, nothing), 0.0) for one in listed
        )

    def close(self) -> None:
        """End the connections. What is still being read is left to its own time limit."""
        with self._changed:
            self._is_closed = True
            self._due.clear()
            sources = list(self._sources.values())
        for one in sources:
            one.close()

    def _list(self) -> None:
        error: YarnamError | None = None
        listed: Sequence[YarnApplication] = ()
        try:
            listed = self._applications()
        except YarnamError as failure:
            error = failure
        except Exception as failure:
            log.debug("a fault while the jobs were listed", exc_info=True)
            error = Unavailable(f"the jobs cannot be listed: {type(failure).__name__}")
        with self._changed:
            self.error = error
            if error is None:
                self._take(listed)
            self._is_listing = False
            self._changed.notify_all()

    def _applications(self) -> Sequence[YarnApplication]:
        if self._application:
            return [JobSources(self._site, self._application, "", "").look_up()]
        return lookup.jobs_on(self._site, user=self._site.user, states=lookup.LIVING)

    def _take(self, listed: Sequence[YarnApplication]) -> None:
        self.unread_jobs = max(0, len(listed) - MOST_JOBS)
        self._listed, self._is_listed = tuple(listed[:MOST_JOBS]), True
        names = {one.application for one in self._listed}
        for name in [name for name in self._sources if name not in names | self._reading]:
            self._sources.pop(name).close()
        for known in (self._found, self._silent):
            for name in [name for name in known if name not in names]:
                del known[name]
        self._due = deque(
            by_urgency(
                [one for one in self._listed if one.application not in self._reading],
                self._silent,
            )
        )
        self._start_due()

    def _start_due(self) -> None:
        """With the lock held."""
        while self._due and len(self._reading) < READERS:
            is_silent = self._due[0].application in self._silent
            if is_silent and len(self._reading & self._silent.keys()) >= SILENT_READERS:
                self._due.clear()  # Only silent ones are left: they come first the next time.
                return
            one = self._due.popleft()
            self._reading.add(one.application)
            threading.Thread(target=self._read, args=(one,), name="read-job", daemon=True).start()

    def _read(self, application: YarnApplication) -> None:
        name, began_s = application.application, time.monotonic()
        with self._changed:
            sources = self._sources.get(name)
            if sources is None:
                key = key_in(application.tags) or ""
                sources = JobSources(self._site, name, key, application.user)
                self._sources[name] = sources
        status, why = None, ""
        try:
            status = sources.status(application=application).status
        except YarnamError as error:
            why = error.message
        except Exception as error:
            log.debug("a fault while %s was read", name, exc_info=True)
            why = f"its status cannot be read: {type(error).__name__}"
        with self._changed:
            known = self._found.get(name) or LiveJob(yarn_status(application, why), 0.0)
            is_silent = status is None or status.is_last_known
            self._found[name] = (
                known.failed(why) if status is None else known.heard(status, time.time())
            )
            if is_silent:
                self._silent[name] = began_s
            else:
                self._silent.pop(name, None)
            self._reading.discard(name)
            if not self._is_closed:
                self._start_due()
            self._changed.notify_all()
        if self._is_closed:
            sources.close()


def by_urgency(
    applications: Sequence[YarnApplication], silent: Mapping[str, float]
) -> list[YarnApplication]:
    """Those that answer before those that did not, of these the one that has waited longest."""
    return sorted(applications, key=lambda one: silent.get(one.application, float("-inf")))

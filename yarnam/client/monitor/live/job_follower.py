"""Follow one job to its end, one poll at a time: the caller decides how to wait in between."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from yarnam.client.monitor.job_end import WaitTimeout, error_of
from yarnam.client.monitor.job_sources import JobSources
from yarnam.core.model.job_status import JobStatus
from yarnam.core.model.outcomes import Verdict
from yarnam.core.model.printable import duration
from yarnam.errors import Unavailable

HOLD_S = 10.0
"""The longest time that the AM keeps a status request open until something changes."""

RETIRE_LIMIT_S = 30.0
"""How long YARN may take to release everything after the verdict, or after its kill."""

OUTAGE_PATIENCE_S = 300.0
"""Following a job survives an outage of HDFS or the ResourceManager of this length, the same as the
ApplicationMaster."""


@dataclass(frozen=True, slots=True)
class Poll:
    """The result of one poll. ``status`` is the last one known, None if there never was any.
    ``is_new``: it differs from the one before. ``pause_s`` is the wait until the next poll.
    ``error`` is the reason for a failed poll."""

    status: JobStatus | None
    is_new: bool
    pause_s: float = 0.0
    error: Unavailable | None = None

    @property
    def verdict(self) -> Verdict | None:
        return self.status.verdict if self.status is not None else None


class JobFollower:
    """The polls of one job, and how long they have failed. For one thread at a time."""

    def __init__(self, sources: JobSources) -> None:
        self._sources = sources
        self._poll_s = sources.site.timing.poll_s
        self._seen = 0
        self._last: JobStatus | None = None
        self._outage_began_s = 0.0

    def poll(self, hold_s: float) -> Poll:
        """Poll once, for at most ``hold_s`` more than a reply takes. With the verdict it returns
        when YARN has released everything, or ``RETIRE_LIMIT_S`` later. Raises Unavailable after
        ``OUTAGE_PATIENCE_S`` without a reply."""
        try:
            found = self._sources.status(seen=self._seen, hold_s=hold_s)
        except Unavailable as error:
            return self._bear(error)
        self._outage_began_s = 0.0
        self._seen = found.number
        if found.status.verdict is not None:
            self._sources.retire(RETIRE_LIMIT_S)
            return Poll(found.status, is_new=True)
        # A new time of the poll alone does not count as new.
        last, self._last = self._last, found.status
        is_new = last is None or replace(last, at_s=found.status.at_s) != found.status
        return Poll(found.status, is_new, 0.0 if found.number else self._poll_s)

    def _bear(self, error: Unavailable) -> Poll:
        now = time.monotonic()
        is_first = not self._outage_began_s
        self._outage_began_s = self._outage_began_s or now
        if now - self._outage_began_s > OUTAGE_PATIENCE_S:
            raise error
        if self._last is None:
            return Poll(None, is_new=False, pause_s=self._poll_s, error=error)
        self._last = replace(self._last, reason=error.message, is_last_known=True)
        return Poll(self._last, is_first, self._poll_s, error)


class WaitLimit:
    """How long a caller waits for a job, and how that ends. ``timeout_s`` None: until its end."""

    def __init__(
        self, application: str, timeout_s: float | None, *, raise_on_failure: bool
    ) -> None:
        self._application = application
        self._timeout_s = timeout_s
        self._raise_on_failure = raise_on_failure
        self._deadline = None if timeout_s is None else time.monotonic() + timeout_s

    @property
    def left_s(self) -> float:
        """The rest of the given time; infinite without a limit, never negative."""
        return (
            float("inf") if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        )

    def verdict(self, poll: Poll) -> Verdict | None:
        """The verdict; ``None`` if the caller has to poll again. Raises WaitTimeout when the time
        is over, and on demand the verdict as an error."""
        if (verdict := poll.verdict) is not None:
            failure = error_of(verdict, self._application) if self._raise_on_failure else None
            if failure is not None:
                raise failure
            return verdict
        if self.left_s > 0:
            return None
        status = poll.status
        if status is None:
            words = poll.error.message if poll.error is not None else "nothing is known of it"
        else:
            age = (
                f" as of {duration(time.time() - status.at_s)} ago:" if status.is_last_known else ""
            )
            words = f"{status.state.value}{age} {status.reason}".rstrip()
        raise WaitTimeout(
            f"{self._application} has not ended after {self._timeout_s:g} s: {words}",
            hint=f"It goes on. To follow it: yarnam watch {self._application}",
            status=status,
        ) from poll.error

"""An array of jobs: one spec, many indices. Each member is a job of its own."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor

from hdfs_utils import HdfsError
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.client.functions.array_feed import ArrayAccess, ArrayFeed, not_submitted
from yarnam.client.functions.array_members import (
    ArrayIndices,
    checked,
    parse_indices,
    tag_of_array,
)
from yarnam.client.job import Job
from yarnam.client.monitor.job_end import WaitTimeout
from yarnam.client.site import Site
from yarnam.client.submit.idempotency import digest_of
from yarnam.core.model.job_status import JobStatus
from yarnam.core.model.outcomes import Verdict
from yarnam.errors import UsageError, YarnamError

PARALLEL_KILLS = 16

LIVING = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING")

OpenJob = Callable[[str], Job]
"""The handle of an application."""


class JobArray:
    """The members of one array. From ``Client.submit_array`` or ``Client.job_array``."""

    def __init__(
        self, site: Site, array_id: str, open_job: OpenJob, feed: ArrayFeed | None = None
    ) -> None:
        self.id = array_id
        """12 hexadecimal digits; the application tag ``yarnam-array-<id>`` has them."""
        self._site = site
        self._tag = tag_of_array(array_id)
        self._open_job = open_job
        self._feed = feed

    def __repr__(self) -> str:
        return f"JobArray({self.id!r})"

    @property
    def futures(self) -> Sequence[Future[Job]]:
        """In the order of the indices: each member's job once it is submitted, or why it is not.
        Empty for an array that another process has submitted."""
        return () if self._feed is None else self._feed.jobs

    def submitted(self) -> list[Job]:
        """Wait until the last member is submitted; with a cap that takes as long as the others run.
        Raises the first error of a submit; Cancelled after ``stop`` or ``kill``."""
        return [job_of(one) for one in self.futures]

    def jobs(self) -> list[Job]:
        """The members that YARN knows, in the order of their start. Raises Unavailable."""
        found = self._site.rm.applications(user=self._site.user, tags=[self._tag])
        rows = sorted(found, key=lambda app: (app.started_at_s, app.application))
        return [self._open_job(app.application) for app in rows]

    def wait(self, timeout_s: float | None = None) -> list[Verdict]:
        """Until every member has been submitted and has ended. Raises as ``submitted``;
        WaitTimeout if one has not ended ``timeout_s`` after the others were asked for."""
        return [job.wait(timeout_s) for job in self.submitted() or self.jobs()]

    def stop(self) -> None:
        """Submit no further member; those that run continue. Of this process's own array alone."""
        if self._feed is not None:
            self._feed.stop()

    def kill(self, reason: str = "") -> list[JobStatus]:
        """Cancel all members, and start no more of them: the client that keeps the cap hears of it
        within a second. Returns their final statuses. Raises the first error, after all others."""
        with hdfs_errors(f"stopping the array {self.id}"):
            self._site.files.write_atomic(stop_marker(self._site, self.id), reason.encode())
        self.stop()
        errors: list[YarnamError] = []

        def end(job: Job) -> JobStatus | None:
            try:
                return job.kill(reason)
            except YarnamError as error:
                errors.append(error)
                return None

        with ThreadPoolExecutor(PARALLEL_KILLS, thread_name_prefix="kill") as pool:
            ended = list(pool.map(end, self.jobs()))
        if errors:
            raise errors[0]
        return [status for status in ended if status is not None]


def job_of(future: Future[Job], timeout_s: float | None = None) -> Job:
    """Raises what its submit raised; Cancelled, WaitTimeout."""
    try:
        return future.result(timeout_s)
    except CancelledError:
        raise not_submitted("this member") from None
    except TimeoutError as error:
        if isinstance(error, WaitTimeout) or future.done():
            raise
        raise WaitTimeout(f"not submitted within {timeout_s:g} s: its turn is to come") from None


def new_array(
    site: Site,
    found: ArrayIndices,
    start: Callable[[str, int], Job],
    open_job: OpenJob,
    *,
    idempotency_key: str = "",
) -> JobArray:
    """``start`` gets the array's id and a position. With an idempotency key the id is always the
    same, and so are the members' own keys: they start once."""
    array_id = (
        digest_of(site.user, f"array\0{idempotency_key}")[:12]
        if idempotency_key
        else secrets.token_hex(6)
    )
    tag = tag_of_array(array_id)

    def living() -> set[str]:
        rows = site.rm.applications(user=site.user, tags=[tag], states=LIVING)
        return {row.application for row in rows}

    def is_stopped() -> bool:
        with hdfs_errors(f"looking after the array {array_id}"):
            return site.files.exists(stop_marker(site, array_id))

    try:
        # The user has changed their mind: who submits it again wants it.
        site.files.delete(stop_marker(site, array_id))
    except HdfsError:
        pass
    access = ArrayAccess(lambda position: start(array_id, position), living, is_stopped)
    feed = ArrayFeed(access, len(found.indices), found.most_at_once)
    return JobArray(site, array_id, open_job, feed)


def stop_marker(site: Site, array_id: str) -> str:
    """Its presence stops the client that submits the array's members."""
    return site.paths.array_stop(array_id)


def indices_of(indices: str | Iterable[int], most_at_once: int) -> ArrayIndices:
    """Raises UsageError."""
    if not isinstance(indices, str):
        return checked(ArrayIndices(tuple(indices), most_at_once))
    found = parse_indices(indices)
    if most_at_once and found.most_at_once:
        raise UsageError(f"{indices} has a cap already")
    return checked(ArrayIndices(found.indices, found.most_at_once or most_at_once))

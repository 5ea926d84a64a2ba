"""A call of a function as a job."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from yarnam.client.functions import call_results
from yarnam.client.functions.job_array import job_of
from yarnam.client.job import Job
from yarnam.client.monitor.job_end import error_of
from yarnam.client.site import Site
from yarnam.core.model.outcomes import Verdict


class FunctionJob:
    """The call of a function as a job, like a ``concurrent.futures.Future``."""

    def __init__(self, site: Site, future: Future[Job]) -> None:
        self._site = site
        self._future = future

    @property
    def job(self) -> Job:
        """Its job; waits until it is submitted. Raises what the submit raised."""
        return job_of(self._future)

    @property
    def future(self) -> Future[Job]:
        """Its job, once it is submitted."""
        return self._future

    def done(self) -> bool:
        """Whether the job has ended, or was not submitted."""
        if not self._future.done():
            return False
        if self._future.cancelled() or self._future.exception() is not None:
            return True
        return self.job.status().state.is_final

    def result(self, timeout_s: float | None = None) -> Any:
        """The function's return value in the process of rank 0. Raises the function's exception
        there, with its traceback as the cause; JobEnded if the job failed otherwise,
        WaitTimeout."""
        return self.results(timeout_s)[0]

    def results(self, timeout_s: float | None = None) -> list[Any]:
        """The function's return values in all processes, by rank. Raises as ``result``."""
        return self.results_after(job_of(self._future, timeout_s).wait(timeout_s))

    def results_after(self, verdict: Verdict) -> list[Any]:
        """``results`` of a job that has ended with this verdict."""
        return results_of(self._site, self.job, verdict)

    def exception(self, timeout_s: float | None = None) -> BaseException | None:
        """The exception that ``result`` would raise; ``None`` if it would return. Raises
        WaitTimeout."""
        verdict = job_of(self._future, timeout_s).wait(timeout_s)
        try:
            self.results_after(verdict)
        except Exception as error:  # noqa: BLE001 - this is what was asked for
            return error
        return None

    def kill(self, reason: str = "") -> None:
        """Cancel it; before it was submitted, it never is."""
        if not self._future.cancel():
            self.job.kill(reason)


def results_of(site: Site, job: Job, verdict: Verdict) -> list[Any]:
    """The results by rank, of a job that has ended. Raises as ``FunctionJob.result``; of several
    processes, the exception of the first that raised: the others may have raised because of it."""
    ranks = call_results.ranks_of(site, job.directory)
    error = error_of(verdict, job.id)
    values: dict[int, Any] = {}
    for rank in ranks:
        found = call_results.read_result(site, job.directory, rank)
        if found is not None and found.error is not None:
            call_results.note_fetched(site, job.directory)
            raise found.error
        if error is None and found is not None:
            values[rank] = found.value
    if ranks:
        call_results.note_fetched(site, job.directory)
    if error is not None:
        raise error
    if 0 not in values:
        raise call_results.missing(job.id, 0)
    return [values[rank] for rank in sorted(values)]

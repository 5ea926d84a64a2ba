"""``Client.executor``: Python functions as jobs."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from yarnam.client.functions import call_results
from yarnam.client.functions.array_members import ArrayIndices, checked, member_of
from yarnam.client.functions.call_package import CALL_FILE, name_of, pack_call
from yarnam.client.functions.job_array import JobArray, OpenJob, job_of, new_array
from yarnam.client.job import Job
from yarnam.client.monitor.job_end import error_of
from yarnam.client.site import Site
from yarnam.client.submit.abandoned import SCRATCH_PREFIX
from yarnam.client.user_paths import new_key
from yarnam.core.model.job_spec import JobSpec, ShippedFile
from yarnam.core.model.outcomes import Verdict
from yarnam.errors import BadSpec

RESULTS_VARIABLE = "YARNAM_RESULTS"
COMMAND = ("python", CALL_FILE)

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9._-]+")


class Start(Protocol):
    """Submits a job into the directory of this key; see ``Client.submit``."""

    def __call__(self, job: JobSpec, *, key: str) -> Job: ...


class Executor:
    """Runs functions as jobs of one spec. From ``Client.executor``. Thread-safe."""

    def __init__(self, site: Site, job: JobSpec, start: Start, open_job: OpenJob) -> None:
        if len(job.roles) != 1:
            raise BadSpec("a function needs a spec with one role")
        self._site = site
        self._job = job
        self._start = start
        self._open_job = open_job

    def submit(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> FunctionJob:
        """Submit ``function(*args, **kwargs)``; returns when YARN has accepted the job. Raises as
        ``Client.submit``; BadConfig without cloudpickle, BadSpec for what cannot be pickled."""
        call = pack_call(function, args, kwargs)
        return FunctionJob(self._site, _done(self._submit(self._named(function), call)))

    def map_array(
        self,
        function: Callable[..., Any],
        *iterables: Iterable[Any],
        most_at_once: int = 0,
        idempotency_key: str = "",
    ) -> FunctionArray:
        """A job for each tuple of arguments, as ``map`` makes them. Returns at once: the jobs are
        submitted in the background, with ``most_at_once`` never more than so many at a time. The
        interpreter stays until the last one is submitted.

        ``idempotency_key``: of several calls with this key, each index starts one job, also when
        the process that submits is lost in between. Raises as ``submit``.
        """
        calls = [pack_call(function, args, {}) for args in zip(*iterables)]  # noqa: B905 - as map
        found = checked(ArrayIndices(tuple(range(len(calls))), most_at_once))
        job = self._named(function)
        if idempotency_key:
            job = replace(job, idempotency_key=idempotency_key)
        member_of(job, "0" * 12, found, 0)  # What is wrong with it is said here, not once for each.

        def start(array_id: str, position: int) -> Job:
            return self._submit(member_of(job, array_id, found, position), calls[position])

        array = new_array(self._site, found, start, self._open_job, idempotency_key=idempotency_key)
        return FunctionArray(self._site, array)

    def _named(self, function: Callable[..., Any]) -> JobSpec:
        if self._job.name != DEFAULT_NAME:
            return self._job
        name = _NOT_IN_NAMES.sub("-", name_of(function)).strip("-")[:60]
        return replace(self._job, name=name or DEFAULT_NAME)

    def _submit(self, job: JobSpec, call: bytes) -> Job:
        key = new_key()
        results = call_results.results_directory(self._site.paths.job(key))
        (role,) = job.roles
        with tempfile.TemporaryDirectory(prefix=SCRATCH_PREFIX) as scratch:
            path = Path(scratch) / CALL_FILE
            path.write_bytes(call)
            whole = replace(
                job,
                roles=(replace(role, command=COMMAND),),
                files=(*job.files, ShippedFile(CALL_FILE, str(path))),
                env=(*job.env, (RESULTS_VARIABLE, results)),
            )
            return self._start(whole, key=key)


DEFAULT_NAME = "function"


def with_command(spec: Any) -> Any:
    """A mapping that is no whole spec as one: the executor brings command and name."""
    if not isinstance(spec, Mapping):
        return spec
    missing = {"version": 1, "name": DEFAULT_NAME}
    if "roles" not in spec:
        missing["command"] = list(COMMAND)
    return {**missing, **spec}


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
        """What the function has returned in the process of rank 0. Raises what it raised there,
        with its traceback as the cause; JobEnded where the job failed otherwise, WaitTimeout."""
        return self.results(timeout_s)[0]

    def results(self, timeout_s: float | None = None) -> list[Any]:
        """What the function has returned in each process, by rank. Raises as ``result``."""
        return self.results_after(job_of(self._future, timeout_s).wait(timeout_s))

    def results_after(self, verdict: Verdict) -> list[Any]:
        """``results`` of a job that has ended with this verdict."""
        return results_of(self._site, self.job, verdict)

    def exception(self, timeout_s: float | None = None) -> BaseException | None:
        """What ``result`` would raise; None: it would return. Raises WaitTimeout."""
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


class FunctionArray:
    """The calls of a function with many arguments."""

    def __init__(self, site: Site, array: JobArray) -> None:
        self.array = array
        """For its id, and to kill all."""
        self.calls = [FunctionJob(site, future) for future in array.futures]

    def __len__(self) -> int:
        return len(self.calls)

    def __getitem__(self, position: int) -> FunctionJob:
        return self.calls[position]

    def results(self, timeout_s: float | None = None) -> list[Any]:
        """What each call has returned, in their order. Raises what the first that failed raised."""
        return [call.result(timeout_s) for call in self.calls]


def results_of(site: Site, job: Job, verdict: Verdict) -> list[Any]:
    """By rank, of a job that has ended. Raises as ``FunctionJob.result``; of several processes what
    the first that has raised has: the others may have raised because of it."""
    ranks = call_results.ranks_of(site, job.directory)
    error = error_of(verdict, job.id)
    values: dict[int, Any] = {}
    for rank in ranks:
        found = call_results.read_result(site, job.directory, rank)
        if found is not None and found.error is not None:
            raise found.error
        if error is None and found is not None:
            values[rank] = found.value
    if error is not None:
        raise error
    if 0 not in values:
        raise call_results.missing(job.id, 0)
    return [values[rank] for rank in sorted(values)]


def _done(job: Job) -> Future[Job]:
    future: Future[Job] = Future()
    future.set_result(job)
    return future

"""``Client.executor``: Python functions as jobs."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from yarnam.client.functions import call_results
from yarnam.client.functions.array_members import ArrayIndices, checked, member_of
from yarnam.client.functions.call_package import CALL_FILE, name_of, pack_call
from yarnam.client.functions.function_job import FunctionJob
from yarnam.client.functions.job_array import JobArray, OpenJob, new_array
from yarnam.client.functions.packed_calls import PackedCall, PackedJob, one_after_another
from yarnam.client.job import Job
from yarnam.client.site import Site
from yarnam.client.submit.leftovers.abandoned import SCRATCH_PREFIX
from yarnam.client.user_paths import new_key
from yarnam.core.model.job_spec import JobSpec, ShippedFile
from yarnam.errors import BadSpec, UsageError
from yarnam.errors.full_disks import full_disk_named

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
        calls_per_job: int = 1,
        most_at_once: int = 0,
        idempotency_key: str = "",
    ) -> FunctionArray:
        """A job for each tuple of arguments, as ``map`` makes them. Returns immediately: the jobs
        are submitted in the background, with ``most_at_once`` never more than this many at a time.
        The interpreter stays until the last one is submitted.

        With ``calls_per_job`` a job makes up to this many calls, which its processes share, each
        one call after another: a short call costs no start of a job then. The array's indices are
        those of the jobs. A call that raises leaves the others alone; a job that starts again makes
        all of its calls again.

        Over several calls with one ``idempotency_key``, each index starts one job, even if the
        process that submits is lost in between. Raises as ``submit``.
        """
        if calls_per_job < 1:
            raise UsageError(f"{calls_per_job} calls per job are none")
        given = list(zip(*iterables))  # noqa: B905 - as map
        starts = range(0, len(given), calls_per_job)
        parts = [given[start : start + calls_per_job] for start in starts]
        calls = (
            [pack_call(function, args, {}) for args in given]
            if calls_per_job == 1
            else [pack_call(one_after_another(function, part), (), {}) for part in parts]
        )
        found = checked(ArrayIndices(tuple(range(len(calls))), most_at_once))
        job = self._named(function)
        if idempotency_key:
            job = replace(job, idempotency_key=idempotency_key)
        member_of(job, "0" * 12, found, 0)  # Report its problems here, not once for each member.

        def start(array_id: str, position: int) -> Job:
            return self._submit(member_of(job, array_id, found, position), calls[position])

        array = new_array(self._site, found, start, self._open_job, idempotency_key=idempotency_key)
        return FunctionArray(
            self._site, array, [len(p) for p in parts] if calls_per_job > 1 else ()
        )

    def _named(self, function: Callable[..., Any]) -> JobSpec:
        if self._job.name != DEFAULT_NAME:
            return self._job
        name = _NOT_IN_NAMES.sub("-", name_of(function)).strip("-")[:60]
        return replace(self._job, name=name or DEFAULT_NAME)

    def _submit(self, job: JobSpec, call: bytes) -> Job:
        key = new_key()
        results = call_results.results_directory(self._site.paths.job(key))
        (role,) = job.roles
        with (
            full_disk_named(os.environ.get("TMPDIR", "")),
            tempfile.TemporaryDirectory(prefix=SCRATCH_PREFIX) as scratch,
        ):
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
    """Complete a mapping that is not a whole spec: the executor adds command and name."""
    if not isinstance(spec, Mapping):
        return spec
    missing = {"version": 1, "name": DEFAULT_NAME}
    if "roles" not in spec:
        missing["command"] = list(COMMAND)
    return {**missing, **spec}


class FunctionArray:
    """The calls of a function with many arguments."""

    def __init__(self, site: Site, array: JobArray, packed: Sequence[int] = ()) -> None:
        """``packed``: how many calls each job makes; empty for one."""
        self.array = array
        """The array, for its id, and to kill all jobs."""
        self.calls: list[FunctionJob] = (
            [
                PackedCall(site, future, job, position)
                for future, count in zip(array.futures, packed, strict=True)
                for job in (PackedJob(site, future),)
                for position in range(count)
            ]
            if packed
            else [FunctionJob(site, future) for future in array.futures]
        )

    def __len__(self) -> int:
        return len(self.calls)

    def __getitem__(self, position: int) -> FunctionJob:
        return self.calls[position]

    def results(self, timeout_s: float | None = None) -> list[Any]:
        """The return values of all calls, in their order. Raises the exception of the first that
        failed."""
        return [call.result(timeout_s) for call in self.calls]


def _done(job: Job) -> Future[Job]:
    future: Future[Job] = Future()
    future.set_result(job)
    return future

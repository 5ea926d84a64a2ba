"""``yarnam.AsyncClient``: the client for asyncio. Every call is one of ``Client`` or ``Job``, in a
thread of a pool; while a job runs, no thread waits for it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from yarnam.client.api import Client, Spec
from yarnam.client.functions.function_executor import Executor, FunctionArray
from yarnam.client.functions.function_job import FunctionJob
from yarnam.client.functions.job_array import JobArray, job_of
from yarnam.client.job import Job
from yarnam.client.monitor.job_follower import Poll, WaitLimit
from yarnam.client.monitor.job_history import JobHistory, Listing
from yarnam.client.monitor.job_logs import LogPiece, LogSource
from yarnam.client.monitor.requested_size import RequestedSize
from yarnam.client.planning.outlook import Outlook
from yarnam.client.planning.queue_comparison import QueueOutlook
from yarnam.client.site import Site
from yarnam.client.submit.preflight import CheckedJob
from yarnam.core.accounting.history_record import HistoryRecord
from yarnam.core.accounting.job_summary import HistoryFilter, JobSummary
from yarnam.core.model.events import SUSPENSION_S, Event
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.job_status import JobState, JobStatus
from yarnam.core.model.outcomes import Verdict
from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.wire.records import JobRecord

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Self

    from yarnam.client.queues.chosen_policies import Choice, ChosenPolicies
    from yarnam.core.policies.chosen_policy import QueuePolicy
    from yarnam.core.policies.scheduling_policy import Policy

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 32
"""Calls under way at a time; each takes milliseconds, a submit seconds. A log that is followed has
a thread of its own."""

POLL_S = 2.0
"""Between two questions about a job that is awaited. No question is kept open, as ``Job.wait``
does: hundreds of jobs would need hundreds of threads."""


class AsyncClient:
    """A connection to one cluster, for asyncio::

        async with yarnam.AsyncClient() as client:
            jobs = [await client.submit(spec) for spec in specs]
            verdicts = await asyncio.gather(*(job.wait() for job in jobs))

    Arguments and errors are those of ``Client``. One event loop at a time.
    """

    def __init__(
        self,
        conf_dir: str | os.PathLike[str] | None = None,
        user: str | None = None,
        *,
        on_progress: Callable[[str], None] | None = None,
        site: Site | None = None,
    ) -> None:
        self._client = Client(conf_dir, user, on_progress=on_progress, site=site)
        self._threads = _Threads()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def submit(
        self,
        spec: Spec,
        *,
        queue: str | None = None,
        name: str | None = None,
        tags: Iterable[str] = (),
        idempotency_key: str | None = None,
    ) -> AsyncJob:
        """See ``Client.submit``. A cancelled call goes on in its thread, and its job with it: with
        an idempotency key, the next submit returns that job."""
        call = partial(
            self._client.submit,
            spec,
            queue=queue,
            name=name,
            tags=tags,
            idempotency_key=idempotency_key,
        )
        return AsyncJob(await self._threads.call(call), self._threads)

    async def submit_array(
        self,
        spec: Spec,
        indices: str | Iterable[int],
        *,
        most_at_once: int = 0,
        queue: str | None = None,
        name: str | None = None,
        tags: Iterable[str] = (),
        idempotency_key: str | None = None,
    ) -> AsyncArray:
        """See ``Client.submit_array``."""
        call = partial(
            self._client.submit_array,
            spec,
            indices,
            most_at_once=most_at_once,
            queue=queue,
            name=name,
            tags=tags,
            idempotency_key=idempotency_key,
        )
        return AsyncArray(await self._threads.call(call), self._threads)

    async def job_array(self, array_id: str) -> AsyncArray:
        """See ``Client.job_array``."""
        array = await self._threads.call(self._client.job_array, array_id)
        return AsyncArray(array, self._threads)

    async def executor(
        self, spec: Spec, *, queue: str | None = None, name: str | None = None
    ) -> AsyncExecutor:
        """See ``Client.executor``."""
        call = partial(self._client.executor, spec, queue=queue, name=name)
        return AsyncExecutor(await self._threads.call(call), self._threads)

    async def submitted(self, idempotency_key: str) -> AsyncJob | None:
        """See ``Client.submitted``."""
        job = await self._threads.call(self._client.submitted, idempotency_key)
        return None if job is None else AsyncJob(job, self._threads)

    async def parse(
        self, spec: Spec, *, queue: str | None = None, name: str | None = None
    ) -> JobSpec:
        """See ``Client.parse``."""
        return await self._threads.call(self._client.parse, spec, queue=queue, name=name)

    async def plan(
        self, spec: Spec, *, queue: str | None = None, name: str | None = None
    ) -> CheckedJob:
        """See ``Client.plan``."""
        return await self._threads.call(self._client.plan, spec, queue=queue, name=name)

    async def outlook(
        self, spec: Spec, *, queue: str | None = None, name: str | None = None
    ) -> Outlook:
        """See ``Client.outlook``."""
        return await self._threads.call(self._client.outlook, spec, queue=queue, name=name)

    async def compare_queues(
        self, spec: Spec, *, queue: str | None = None, name: str | None = None
    ) -> tuple[QueueOutlook, ...]:
        """See ``Client.compare_queues``."""
        return await self._threads.call(self._client.compare_queues, spec, queue=queue, name=name)

    async def nodes(self) -> ClusterSnapshot:
        """See ``Client.nodes``."""
        return await self._threads.call(self._client.nodes)

    async def job(self, reference: str) -> AsyncJob:
        """See ``Client.job``."""
        return AsyncJob(await self._threads.call(self._client.job, reference), self._threads)

    async def jobs(
        self,
        *,
        include_ended: bool = False,
        user: str | None = None,
        state: JobState | None = None,
        queue: str | None = None,
        name: str = "",
        tags: Iterable[str] = (),
        since_s: float | None = None,
    ) -> list[JobStatus]:
        """See ``Client.jobs``."""
        return await self._threads.call(
            self._client.jobs,
            include_ended=include_ended,
            user=user,
            state=state,
            queue=queue,
            name=name,
            tags=tags,
            since_s=since_s,
        )

    @property
    def history(self) -> AsyncHistory:
        """See ``Client.history``."""
        return AsyncHistory(self._client.history, self._threads)

    @property
    def policies(self) -> AsyncPolicies:
        """See ``Client.policies``."""
        return AsyncPolicies(self._client.policies, self._threads)

    async def close(self) -> None:
        """Close all connections. Idempotent; jobs continue."""
        await self._threads.close(self._client.close)


class AsyncPolicies:
    """The policies of the queues, for asyncio; see ``ChosenPolicies``."""

    def __init__(self, policies: ChosenPolicies, threads: _Threads) -> None:
        self._policies = policies
        self._threads = threads

    def known(self) -> tuple[Policy, ...]:
        """See ``ChosenPolicies.known``."""
        return self._policies.known()

    async def all(self) -> Mapping[str, QueuePolicy]:
        """See ``ChosenPolicies.all``."""
        return await self._threads.call(self._policies.all)

    async def of(self, queue: str) -> QueuePolicy:
        """See ``ChosenPolicies.of``."""
        return await self._threads.call(self._policies.of, queue)

    async def choose(
        self,
        queue: str,
        name: str,
        settings: Mapping[str, str] = MappingProxyType({}),
        *,
        version: int | None = None,
    ) -> Choice:
        """See ``ChosenPolicies.choose``."""
        choose = self._policies.choose
        return await self._threads.call(choose, queue, name, settings, version=version)


class AsyncHistory:
    """The jobs that have ended, for asyncio; see ``JobHistory``."""

    def __init__(self, history: JobHistory, threads: _Threads) -> None:
        self._history = history
        self._threads = threads

    async def jobs(self, chosen: HistoryFilter | None = None, user: str = "") -> Listing:
        """See ``JobHistory.jobs``."""
        return await self._threads.call(self._history.jobs, chosen, user)

    async def record(self, reference: str, user: str = "") -> HistoryRecord:
        """See ``JobHistory.record``."""
        return await self._threads.call(self._history.record, reference, user)

    async def records(self, rows: Sequence[JobSummary]) -> AsyncIterator[HistoryRecord]:
        """See ``JobHistory.records``."""
        async for record in _iterate(self._history.records(rows)):
            yield record

    async def repair(self) -> list[HistoryRecord]:
        """See ``JobHistory.repair``."""
        return await self._threads.call(self._history.repair)

    async def compact(self) -> int:
        """See ``JobHistory.compact``."""
        return await self._threads.call(self._history.compact)

    async def prune(self, *, before_s: float | None = None, keep: int | None = None) -> int:
        """See ``JobHistory.prune``."""
        return await self._threads.call(self._history.prune, before_s=before_s, keep=keep)


class AsyncJob:
    """One job, for asyncio; see ``Job``."""

    def __init__(self, job: Job, threads: _Threads) -> None:
        self._job = job
        self._threads = threads

    def __repr__(self) -> str:
        return f"AsyncJob({self.id!r})"

    @property
    def id(self) -> str:
        """YARN's application id."""
        return self._job.id

    @property
    def handle(self) -> Job:
        """The same job for code without asyncio, such as another process: it is picklable."""
        return self._job

    async def directory(self) -> str:
        """URI of the job's directory on HDFS."""
        return await self._threads.call(lambda: self._job.directory)

    async def record(self) -> JobRecord:
        """See ``Job.record``."""
        return await self._threads.call(self._job.record)

    async def status(self) -> JobStatus:
        """See ``Job.status``."""
        return await self._threads.call(self._job.status)

    async def tags(self) -> tuple[str, ...]:
        """See ``Job.tags``."""
        return await self._threads.call(self._job.tags)

    async def watch(self) -> AsyncIterator[JobStatus]:
        """See ``Job.watch``; looks every ``POLL_S``."""
        follower = self._job.follower()
        while True:
            poll = await self._threads.call(follower.poll, 0.0)
            if poll.status is None and poll.error is not None:
                raise poll.error
            if poll.is_new and poll.status is not None:
                yield poll.status
            if poll.verdict is not None:
                return
            await asyncio.sleep(_pause_s(poll))

    async def wait(
        self,
        timeout_s: float | None = None,
        *,
        raise_on_failure: bool = False,
        on_status: Callable[[JobStatus], object] | None = None,
    ) -> Verdict:
        """See ``Job.wait``. ``on_status`` is called in the event loop."""
        follower = self._job.follower()
        limit = WaitLimit(self.id, timeout_s, raise_on_failure=raise_on_failure)
        while True:
            poll = await self._threads.call(follower.poll, 0.0)
            if on_status is not None and poll.is_new and poll.status is not None:
                on_status(poll.status)
            if (verdict := limit.verdict(poll)) is not None:
                return verdict
            await asyncio.sleep(min(_pause_s(poll), limit.left_s))

    async def logs(
        self,
        task: str | None = None,
        *,
        rank: int | None = None,
        follow: bool = False,
        tail: int | None = None,
        source: LogSource | str = LogSource.PROCESSES,
    ) -> AsyncIterator[LogPiece]:
        """See ``Job.logs``."""
        found = self._job.logs(task, rank=rank, follow=follow, tail=tail, source=source)
        async for piece in _iterate(found):
            yield piece

    async def events(self) -> list[Event]:
        """See ``Job.events``."""
        return await self._threads.call(self._job.events)

    async def watch_events(self) -> AsyncIterator[Event]:
        """See ``Job.watch_events``."""
        async for event in _iterate(self._job.watch_events()):
            yield event

    async def metrics(self) -> pa.Table:
        """See ``Job.metrics``."""
        return await self._threads.call(self._job.metrics)

    async def scale(self, size: int | None) -> RequestedSize:
        """See ``Job.scale``."""
        return await self._threads.call(self._job.scale, size)

    async def suspend(
        self, reason: str = "", *, limit_s: float = SUSPENSION_S, force: bool = False
    ) -> JobStatus:
        """See ``Job.suspend``."""
        return await self._threads.call(self._job.suspend, reason, limit_s=limit_s, force=force)

    async def resume(self) -> JobStatus:
        """See ``Job.resume``."""
        return await self._threads.call(self._job.resume)

    async def interrupt(self) -> None:
        """See ``Job.interrupt``."""
        await self._threads.call(self._job.interrupt)

    async def refresh_tokens(self) -> float:
        """See ``Job.refresh_tokens``."""
        return await self._threads.call(self._job.refresh_tokens)

    async def kill(self, reason: str = "") -> JobStatus:
        """See ``Job.kill``."""
        return await self._threads.call(self._job.kill, reason)

    async def close(self) -> None:
        """Close the connections. Idempotent; the job continues."""
        await self._threads.call(self._job.close)


class AsyncArray:
    """An array of jobs, for asyncio; see ``JobArray``."""

    def __init__(self, array: JobArray, threads: _Threads) -> None:
        self._array = array
        self._threads = threads

    def __repr__(self) -> str:
        return f"AsyncArray({self.id!r})"

    @property
    def id(self) -> str:
        """See ``JobArray.id``."""
        return self._array.id

    async def submitted(self) -> list[AsyncJob]:
        """See ``JobArray.submitted``."""
        return [await _submitted(one, self._threads) for one in self._array.futures]

    async def jobs(self) -> list[AsyncJob]:
        """See ``JobArray.jobs``."""
        return [AsyncJob(job, self._threads) for job in await self._threads.call(self._array.jobs)]

    async def wait(self, timeout_s: float | None = None) -> list[Verdict]:
        """See ``JobArray.wait``."""
        jobs = await self.submitted() or await self.jobs()
        return list(await asyncio.gather(*(job.wait(timeout_s) for job in jobs)))

    async def stop(self) -> None:
        """See ``JobArray.stop``."""
        await self._threads.call(self._array.stop)

    async def kill(self, reason: str = "") -> list[JobStatus]:
        """See ``JobArray.kill``."""
        return await self._threads.call(self._array.kill, reason)


class AsyncExecutor:
    """Functions as jobs, for asyncio; see ``Executor``."""

    def __init__(self, executor: Executor, threads: _Threads) -> None:
        self._executor = executor
        self._threads = threads

    async def submit(
        self, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> AsyncFunctionJob:
        """See ``Executor.submit``."""
        call = partial(self._executor.submit, function, *args, **kwargs)
        return AsyncFunctionJob(await self._threads.call(call), self._threads)

    async def map_array(
        self,
        function: Callable[..., Any],
        *iterables: Iterable[Any],
        calls_per_job: int = 1,
        most_at_once: int = 0,
        idempotency_key: str = "",
    ) -> AsyncFunctionArray:
        """See ``Executor.map_array``."""
        call = partial(
            self._executor.map_array,
            function,
            *iterables,
            calls_per_job=calls_per_job,
            most_at_once=most_at_once,
            idempotency_key=idempotency_key,
        )
        return AsyncFunctionArray(await self._threads.call(call), self._threads)


class AsyncFunctionJob:
    """The call of a function, for asyncio; see ``FunctionJob``."""

    def __init__(self, call: FunctionJob, threads: _Threads) -> None:
        self._call = call
        self._threads = threads

    async def job(self) -> AsyncJob:
        """See ``FunctionJob.job``."""
        return await _submitted(self._call.future, self._threads)

    async def done(self) -> bool:
        """See ``FunctionJob.done``."""
        return await self._threads.call(self._call.done)

    async def result(self, timeout_s: float | None = None) -> Any:
        """See ``FunctionJob.result``."""
        return (await self.results(timeout_s))[0]

    async def results(self, timeout_s: float | None = None) -> list[Any]:
        """See ``FunctionJob.results``. ``timeout_s`` counts from the submit on."""
        verdict = await (await self.job()).wait(timeout_s)
        return await self._threads.call(self._call.results_after, verdict)

    async def exception(self, timeout_s: float | None = None) -> BaseException | None:
        """See ``FunctionJob.exception``."""
        verdict = await (await self.job()).wait(timeout_s)
        try:
            await self._threads.call(self._call.results_after, verdict)
        except Exception as error:  # noqa: BLE001 - this is what was asked for
            return error
        return None

    async def kill(self, reason: str = "") -> None:
        """See ``FunctionJob.kill``."""
        await self._threads.call(self._call.kill, reason)


class AsyncFunctionArray:
    """The calls of a function with many arguments, for asyncio; see ``FunctionArray``."""

    def __init__(self, calls: FunctionArray, threads: _Threads) -> None:
        self.array = AsyncArray(calls.array, threads)
        self.calls = [AsyncFunctionJob(call, threads) for call in calls.calls]

    async def results(self, timeout_s: float | None = None) -> list[Any]:
        """See ``FunctionArray.results``."""
        return list(await asyncio.gather(*(call.result(timeout_s) for call in self.calls)))


async def _submitted(future: Future[Job], threads: _Threads) -> AsyncJob:
    """Without a thread that waits. Raises what the submit raised."""
    # Shielded: who no longer waits for a member does not take it out of the array.
    await asyncio.wait([asyncio.shield(asyncio.wrap_future(future))])
    return AsyncJob(job_of(future), threads)


def _pause_s(poll: Poll) -> float:
    return max(POLL_S, poll.pause_s) if poll.status is not None else poll.pause_s


class _Threads:
    """Where the calls run. Threads come with the first call."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="yarnam")
        self._is_closed = False

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, partial(function, *args, **kwargs))

    async def close(self, last: Callable[[], None]) -> None:
        if not self._is_closed:
            self._is_closed = True
            await self.call(last)
            self._pool.shutdown(wait=False)


async def _iterate(items: Iterator[T]) -> AsyncIterator[T]:
    """Each item when it is there."""
    while (found := await _in_own_thread(partial(_next, items))) is not None:
        yield found[0]


def _next(items: Iterator[T]) -> tuple[T] | None:
    for item in items:
        return (item,)
    return None


async def _in_own_thread(function: Callable[[], T]) -> T:
    """For what may take hours: it keeps no thread of the pool, and no process from ending."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def finish(result: T | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(cast("T", result))

    def run() -> None:
        result, failure = None, None
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001 - it is raised where it is awaited
            failure = error
        with suppress(RuntimeError):  # The loop is over: nobody waits for it any more.
            loop.call_soon_threadsafe(finish, result, failure)

    threading.Thread(target=run, name="yarnam-follow", daemon=True).start()
    return await future

"""``yarnam.AsyncClient``: the client for asyncio. Every call is one of ``Client`` or ``Job``, in a
thread of a pool; while a job runs, no thread waits for it.

``_awaited``, ``_opened`` and ``_streamed`` make a coroutine or an asynchronous iterator of a
method, with its arguments, types and docstring. Only what differs is written out.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from yarnam.client.api import Client
from yarnam.client.functions.function_executor import Executor, FunctionArray
from yarnam.client.functions.function_job import FunctionJob
from yarnam.client.functions.job_array import JobArray, job_of
from yarnam.client.job import Job
from yarnam.client.monitor.job_history import JobHistory
from yarnam.client.monitor.live.job_follower import Poll, WaitLimit
from yarnam.client.monitor.sessions.task_choice import ChosenTask
from yarnam.client.queues.chosen_policies import ChosenPolicies
from yarnam.client.site import Site
from yarnam.core.model.job_status import JobStatus
from yarnam.core.model.outcomes import Verdict
from yarnam.core.model.session_parts import SessionKind, SessionPart, WindowSize
from yarnam.core.policies.scheduling_policy import Policy
from yarnam.ports.task_sessions import TaskSession

if TYPE_CHECKING:
    from typing_extensions import Self

P = ParamSpec("P")
T = TypeVar("T")
Plain = TypeVar("Plain")
Other = TypeVar("Other")

THREADS = 32
"""Calls under way at a time; each takes milliseconds, a submit seconds. A log that is followed has
a thread of its own."""

POLL_S = 2.0
"""The time between two polls for an awaited job. No poll is held open, as in ``Job.wait``: hundreds
of jobs would need hundreds of threads."""


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


class _Twin(Generic[Plain]):
    """The asynchronous view of a client, a job and so on, whose calls run in threads."""

    def __init__(self, plain: Plain, threads: _Threads) -> None:
        self._plain = plain
        self._threads = threads


def _awaited(
    method: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    @wraps(method)
    async def call(self: _Twin[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._threads.call(method, self._plain, *args, **kwargs)

    return call


def _opened(
    method: Callable[Concatenate[Any, P], T], twin: Callable[[T, _Threads], Other]
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, Other]]:
    """As ``_awaited``, with the twin of what the method returns."""

    @wraps(method)
    async def call(self: _Twin[Any], /, *args: P.args, **kwargs: P.kwargs) -> Other:
        found = await self._threads.call(method, self._plain, *args, **kwargs)
        return twin(found, self._threads)

    return call


def _streamed(
    method: Callable[Concatenate[Any, P], Iterator[T]],
) -> Callable[Concatenate[Any, P], AsyncIterator[T]]:
    @wraps(method)
    async def call(self: _Twin[Any], /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        async for item in _iterate(method(self._plain, *args, **kwargs)):
            yield item

    return call


class AsyncTaskSession(_Twin[TaskSession]):
    """A session in a task, for asyncio; see ``TaskSession``. ``async with`` closes it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[SessionPart]:
        return _iterate(iter(self._plain))

    async def send(self, data: bytes) -> bool:
        """As ``TaskSession.send``: waits as long as the task reads nothing."""
        return await _in_own_thread(partial(self._plain.send, data))

    async def end_data(self) -> None:
        await self._threads.call(self._plain.end_data)

    async def resize(self, window: WindowSize) -> None:
        await self._threads.call(self._plain.resize, window)

    async def send_signal(self, number: int) -> None:
        await self._threads.call(self._plain.send_signal, number)

    async def close(self) -> None:
        await self._threads.call(self._plain.close)


class AsyncJob(_Twin[Job]):
    """One job, for asyncio; see ``Job``."""

    def __repr__(self) -> str:
        return f"AsyncJob({self.id!r})"

    @property
    def id(self) -> str:
        """YARN's application id."""
        return self._plain.id

    @property
    def handle(self) -> Job:
        """The same job for code without asyncio, such as another process: it is picklable."""
        return self._plain

    async def directory(self) -> str:
        """URI of the job's directory on HDFS."""
        return await self._threads.call(lambda: self._plain.directory)

    async def watch(self) -> AsyncIterator[JobStatus]:
        """As ``Job.watch``, but polls every ``POLL_S``."""
        follower = self._plain.follower()
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
        """As ``Job.wait``; ``on_status`` is called in the event loop."""
        follower = self._plain.follower()
        limit = WaitLimit(self.id, timeout_s, raise_on_failure=raise_on_failure)
        while True:
            poll = await self._threads.call(follower.poll, 0.0)
            if on_status is not None and poll.is_new and poll.status is not None:
                on_status(poll.status)
            if (verdict := limit.verdict(poll)) is not None:
                return verdict
            await asyncio.sleep(min(_pause_s(poll), limit.left_s))

    async def open_session(
        self, task: ChosenTask, kind: SessionKind = SessionKind.EXEC, **more: Any
    ) -> AsyncTaskSession:
        """As ``Job.open_session``."""
        opened = await self._threads.call(partial(self._plain.open_session, task, kind, **more))
        return AsyncTaskSession(opened, self._threads)

    record = _awaited(Job.record)
    status = _awaited(Job.status)
    tags = _awaited(Job.tags)
    logs = _streamed(Job.logs)
    events = _awaited(Job.events)
    watch_events = _streamed(Job.watch_events)
    metrics = _awaited(Job.metrics)
    scale = _awaited(Job.scale)
    suspend = _awaited(Job.suspend)
    resume = _awaited(Job.resume)
    interrupt = _awaited(Job.interrupt)
    refresh_tokens = _awaited(Job.refresh_tokens)
    kill = _awaited(Job.kill)
    close = _awaited(Job.close)


class AsyncArray(_Twin[JobArray]):
    """An array of jobs, for asyncio; see ``JobArray``."""

    def __repr__(self) -> str:
        return f"AsyncArray({self.id!r})"

    @property
    def id(self) -> str:
        """See ``JobArray.id``."""
        return self._plain.id

    async def submitted(self) -> list[AsyncJob]:
        """See ``JobArray.submitted``."""
        return [await _submitted(one, self._threads) for one in self._plain.futures]

    async def wait(self, timeout_s: float | None = None) -> list[Verdict]:
        """See ``JobArray.wait``."""
        jobs = await self.submitted() or await self.jobs()
        return list(await asyncio.gather(*(job.wait(timeout_s) for job in jobs)))

    jobs = _opened(JobArray.jobs, lambda jobs, threads: [AsyncJob(job, threads) for job in jobs])
    stop = _awaited(JobArray.stop)
    kill = _awaited(JobArray.kill)


class AsyncFunctionJob(_Twin[FunctionJob]):
    """The call of a function, for asyncio; see ``FunctionJob``."""

    async def job(self) -> AsyncJob:
        """See ``FunctionJob.job``."""
        return await _submitted(self._plain.future, self._threads)

    async def result(self, timeout_s: float | None = None) -> Any:
        """See ``FunctionJob.result``."""
        return (await self.results(timeout_s))[0]

    async def results(self, timeout_s: float | None = None) -> list[Any]:
        """See ``FunctionJob.results``. ``timeout_s`` counts from the submit on."""
        verdict = await (await self.job()).wait(timeout_s)
        return await self._threads.call(self._plain.results_after, verdict)

    async def exception(self, timeout_s: float | None = None) -> BaseException | None:
        """See ``FunctionJob.exception``."""
        verdict = await (await self.job()).wait(timeout_s)
        try:
            await self._threads.call(self._plain.results_after, verdict)
        except Exception as error:  # noqa: BLE001 - this is what was asked for
            return error
        return None

    done = _awaited(FunctionJob.done)
    kill = _awaited(FunctionJob.kill)


class AsyncFunctionArray:
    """The calls of a function with many arguments, for asyncio; see ``FunctionArray``."""

    def __init__(self, calls: FunctionArray, threads: _Threads) -> None:
        self.array = AsyncArray(calls.array, threads)
        self.calls = [AsyncFunctionJob(call, threads) for call in calls.calls]

    async def results(self, timeout_s: float | None = None) -> list[Any]:
        """See ``FunctionArray.results``."""
        return list(await asyncio.gather(*(call.result(timeout_s) for call in self.calls)))


class AsyncExecutor(_Twin[Executor]):
    """Functions as jobs, for asyncio; see ``Executor``."""

    submit = _opened(Executor.submit, AsyncFunctionJob)
    map_array = _opened(Executor.map_array, AsyncFunctionArray)


class AsyncPolicies(_Twin[ChosenPolicies]):
    """The policies of the queues, for asyncio; see ``ChosenPolicies``."""

    def known(self) -> tuple[Policy, ...]:
        """See ``ChosenPolicies.known``."""
        return self._plain.known()

    all = _awaited(ChosenPolicies.all)
    of = _awaited(ChosenPolicies.of)
    choose = _awaited(ChosenPolicies.choose)


class AsyncHistory(_Twin[JobHistory]):
    """The jobs that have ended, for asyncio; see ``JobHistory``."""

    jobs = _awaited(JobHistory.jobs)
    record = _awaited(JobHistory.record)
    records = _streamed(JobHistory.records)
    repair = _awaited(JobHistory.repair)
    compact = _awaited(JobHistory.compact)
    prune = _awaited(JobHistory.prune)
    prune_files = _awaited(JobHistory.prune_files)


class AsyncClient(_Twin[Client]):
    """A connection to one cluster, for asyncio::

        async with yarnam.AsyncClient() as client:
            jobs = [await client.submit(spec) for spec in specs]
            verdicts = await asyncio.gather(*(job.wait() for job in jobs))

    Arguments and errors are those of ``Client``. One event loop at a time. A cancelled submit
    continues in its thread, and starts its job: with an idempotency key, the next submit returns
    that job.
    """

    def __init__(
        self,
        conf_dir: str | os.PathLike[str] | None = None,
        user: str | None = None,
        *,
        on_progress: Callable[[str], None] | None = None,
        site: Site | None = None,
    ) -> None:
        super().__init__(Client(conf_dir, user, on_progress=on_progress, site=site), _Threads())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def history(self) -> AsyncHistory:
        """See ``Client.history``."""
        return AsyncHistory(self._plain.history, self._threads)

    @property
    def policies(self) -> AsyncPolicies:
        """See ``Client.policies``."""
        return AsyncPolicies(self._plain.policies, self._threads)

    async def close(self) -> None:
        """Close all connections. Idempotent; jobs continue."""
        await self._threads.close(self._plain.close)

    submit = _opened(Client.submit, AsyncJob)
    submit_array = _opened(Client.submit_array, AsyncArray)
    job_array = _opened(Client.job_array, AsyncArray)
    executor = _opened(Client.executor, AsyncExecutor)
    submitted = _opened(
        Client.submitted, lambda job, threads: None if job is None else AsyncJob(job, threads)
    )
    parse = _awaited(Client.parse)
    plan = _awaited(Client.plan)
    outlook = _awaited(Client.outlook)
    compare_queues = _awaited(Client.compare_queues)
    advise = _awaited(Client.advise)
    nodes = _awaited(Client.nodes)
    job = _opened(Client.job, AsyncJob)
    jobs = _awaited(Client.jobs)


async def _submitted(future: Future[Job], threads: _Threads) -> AsyncJob:
    """Wait without a thread. Raises the exception of the submit."""
    # Shielded: who no longer waits for a member does not take it out of the array.
    await asyncio.wait([asyncio.shield(asyncio.wrap_future(future))])
    return AsyncJob(job_of(future), threads)


def _pause_s(poll: Poll) -> float:
    return max(POLL_S, poll.pause_s) if poll.status is not None else poll.pause_s


async def _iterate(items: Iterator[T]) -> AsyncIterator[T]:
    """Each item when it is there."""
    while (found := await _in_own_thread(partial(_next, items))) is not None:
        yield found[0]


def _next(items: Iterator[T]) -> tuple[T] | None:
    for item in items:
        return (item,)
    return None


async def _in_own_thread(function: Callable[[], T]) -> T:
    """Run a call that may take hours: it keeps no thread of the pool, and no process from
    ending."""
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
        with suppress(RuntimeError):  # the loop is over: the result is no longer awaited
            loop.call_soon_threadsafe(finish, result, failure)

    threading.Thread(target=run, name="yarnam-follow", daemon=True).start()
    return await future

"""Time limits for calls that have none of their own.

The native client blocks inside one call for as long as its own retries take, which is for ever
when a NameNode is frozen. Each call therefore runs on a worker thread, and the caller waits for
it only for its own limit. A call that overstays cannot be cancelled: its worker is abandoned and
goes away when the call returns, and its effect is unknown.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Generic, TypeVar, cast

T = TypeVar("T")

# Each abandoned call holds a thread. A caller that continues asking a frozen NameNode should not
# collect them without bound: beyond this many it is refused immediately.
MAX_ABANDONED = 32
# Idle workers kept for the next call; more than this leave when they are done.
MAX_IDLE = 16


class DeadlineExceeded(Exception):
    """The call did not return in time; it may still take effect."""


class TooManyStuckCalls(DeadlineExceeded):
    """The call was not started: too many earlier calls are still stuck."""


class Watched:
    """Since when a thread is in a call, and how long it may be; times of ``time.monotonic``."""

    __slots__ = ("doing", "limit_s", "since")

    def __init__(self) -> None:
        self.doing = ""
        self.since = 0.0
        self.limit_s = 0.0

    def is_overdue(self, now: float) -> bool:
        since = self.since
        return bool(since) and now - since > self.limit_s


_thread = threading.local()


@contextlib.contextmanager
def watched() -> Iterator[Watched]:
    """Run this thread's calls without a second thread: another thread watches the slot."""
    slot = Watched()
    _thread.slot = slot
    try:
        yield slot
    finally:
        _thread.slot = None


class _Task(Generic[T]):
    __slots__ = ("abandoned", "call", "done", "error", "is_finished", "result")

    def __init__(self, call: Callable[[], T]) -> None:
        self.call = call
        self.done = threading.Lock()
        self.done.acquire()
        self.result: T | None = None
        self.error: BaseException | None = None
        self.abandoned = False
        self.is_finished = False


class _Worker:
    def __init__(self, pool: DeadlinePool) -> None:
        self._pool = pool
        self.tasks: SimpleQueue[_Task[object]] = SimpleQueue()
        # A daemon: a call stuck in native code must not keep the process from ending.
        threading.Thread(target=self._work, name="hdfs-call", daemon=True).start()

    def _work(self) -> None:
        while True:
            task = self.tasks.get()
            try:
                task.result = task.call()
            except BaseException as error:  # noqa: BLE001 - carried to the caller's thread
                task.error = error
            keep = self._pool.finished(self, task)
            task.done.release()
            del task
            if not keep:
                return


class DeadlinePool:
    """Runs calls on daemon threads, each with a time limit. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._abandoned = 0

    def run(self, call: Callable[[], T], timeout_s: float) -> T:
        """Return what ``call`` returns, or raise what it raises.

        Raises:
            DeadlineExceeded: it took longer than ``timeout_s`` seconds.
            TooManyStuckCalls: it was not started.
        """
        slot: Watched | None = getattr(_thread, "slot", None)
        if slot is not None:
            slot.limit_s, slot.since = timeout_s, time.monotonic()
            try:
                return call()
            finally:
                slot.since = 0.0
        with self._lock:
            if self._abandoned >= MAX_ABANDONED:
                raise TooManyStuckCalls(f"{self._abandoned} earlier calls are still stuck")
            worker = self._idle.pop() if self._idle else None
        task: _Task[T] = _Task(call)
        (worker or _Worker(self)).tasks.put(cast("_Task[object]", task))
        if not task.done.acquire(timeout=timeout_s) and self._abandon(task):
            raise DeadlineExceeded(f"no answer within {timeout_s:g} s")
        if task.error is not None:
            raise task.error
        return cast("T", task.result)

    def _abandon(self, task: _Task[T]) -> bool:
        with self._lock:
            if task.is_finished:
                return False
            task.abandoned = True
            self._abandoned += 1
        return True

    def finished(self, worker: _Worker, task: _Task[object]) -> bool:
        """Called by a worker after each call; says whether it should wait for another."""
        with self._lock:
            task.is_finished = True
            if task.abandoned:
                self._abandoned -= 1
                return False
            if len(self._idle) >= MAX_IDLE:
                return False
            self._idle.append(worker)
            return True

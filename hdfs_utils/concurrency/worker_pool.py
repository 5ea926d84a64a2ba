"""One call for each item, on a few threads; a call that never returns ends the whole.

The native client's calls have no time limits of their own. Instead of a second thread for each call
(:mod:`hdfs_utils.concurrency.deadline`), each worker publishes since when it has been in a call and
how long it may be, and the thread that waits for the pool watches that. A stuck worker is a daemon
thread and is abandoned.

The standard library's executors refuse work while Python shuts down, which is when the last
checkpoint is often on its way; this pool does not.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sized
from typing import TypeVar

from hdfs_utils.concurrency.deadline import Watched, watched
from hdfs_utils.errors import Unavailable

T = TypeVar("T")
R = TypeVar("R")

THREADS = 8
"""Concurrent calls with which the native client is fast (docs/reference/hdfs-utils.md)."""

_log = logging.getLogger(__name__)
_POLL_S = 0.5


class Stopped(Exception):
    """Raised in a worker whose pool has been stopped."""


class WorkerPool:
    """A group of worker threads.

    Args:
        threads: how many; fewer start where there are fewer items.
        operation: what the calls do, for errors: ``read``, ``transfer``.
        stack: the size of each thread's stack in bytes; 0 means the system's default.
        abandon_after_s: the seconds that the other workers get to finish their call after an error
            or Ctrl-C, before they are abandoned.

    Attributes:
        stopping: set when no further item is to be begun.
    """

    def __init__(
        self,
        threads: int = THREADS,
        *,
        operation: str = "transfer",
        stack: int = 0,
        abandon_after_s: float = 5.0,
    ) -> None:
        self.stopping = threading.Event()
        self._threads = threads
        self._operation = operation
        self._stack = stack
        self._abandon_after_s = abandon_after_s
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._slots: list[Watched] = []
        self._running = 0
        self._error: BaseException | None = None

    def pause(self, seconds: float) -> None:
        """Wait, but no longer than until the rest is not to be done: then Stopped is raised."""
        if self.stopping.wait(seconds):
            raise Stopped

    def check(self) -> None:
        """Raise Stopped if the pool has been stopped; workers call it between pieces."""
        if self.stopping.is_set():
            raise Stopped

    def run(self, call: Callable[[T], None], items: Iterable[T]) -> None:
        """Call ``call`` for each item. The first error stops the pool and is raised here.

        Items are drawn one by one, so a generator need not fit into memory.

        Raises:
            Unavailable: a call to the storage did not return within its limit.
        """
        count = min(self._threads, len(items)) if isinstance(items, Sized) else self._threads
        rest = iter(items)
        workers = self._started(
            [
                threading.Thread(
                    target=self._work, args=(call, rest), name=self._operation, daemon=True
                )
                for _ in range(count)
            ]
        )
        try:
            self._wait()
        except BaseException:
            self.stopping.set()
            deadline = time.monotonic() + self._abandon_after_s
            for worker in workers:
                worker.join(max(0.0, deadline - time.monotonic()))
            raise
        if self._error is not None:
            raise self._error

    def map(self, call: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """``[call(item) for item in items]``; errors as in :meth:`run`."""
        results: dict[int, R] = {}

        def keep(numbered: tuple[int, T]) -> None:
            number, item = numbered
            results[number] = call(item)

        self.run(keep, list(enumerate(items)) if isinstance(items, Sized) else enumerate(items))
        return [results[number] for number in range(len(results))]

    def _started(self, workers: list[threading.Thread]) -> list[threading.Thread]:
        """The workers that the system allows. The first must start; others may not find room."""
        usual = threading.stack_size(self._stack) if self._stack else 0
        try:
            for number, worker in enumerate(workers):
                with self._lock:
                    self._running += 1
                try:
                    worker.start()
                except RuntimeError:
                    with self._lock:
                        self._running -= 1
                    if not number:
                        raise
                    _log.warning("the system allows only %d of %d threads", number, len(workers))
                    return workers[:number]
        finally:
            if self._stack:
                threading.stack_size(usual)
        return workers

    def _wait(self) -> None:
        with self._changed:
            while self._running:
                self._changed.wait(_POLL_S)
                now = time.monotonic()
                for slot in self._slots:
                    if slot.is_overdue(now):
                        message = f"a call to the storage did not return within {slot.limit_s:g} s"
                        raise Unavailable(message, operation=self._operation, outcome_unknown=True)

    def _work(self, call: Callable[[T], None], rest: Iterable[T]) -> None:
        with watched() as slot:
            with self._lock:
                self._slots.append(slot)
            try:
                while not self.stopping.is_set():
                    with self._lock:
                        item = next(rest, _END)  # type: ignore[call-overload]
                    if item is _END:
                        break
                    call(item)
            except Stopped:
                pass
            except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
                with self._lock:
                    self._error = self._error or error
                self.stopping.set()
            finally:
                with self._changed:
                    self._slots.remove(slot)
                    self._running -= 1
                    self._changed.notify_all()


_END = object()

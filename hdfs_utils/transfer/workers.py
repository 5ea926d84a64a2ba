"""Threads that do one call for each item, watched so that a stuck one ends the whole.

The calls of the native client have no time limits of their own. Instead of a second thread for
each call (:mod:`hdfs_utils.deadline`), these workers say since when and how long they may be in
one, and who waits for them looks. A stuck worker is a daemon and is left behind.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from hdfs_utils.deadline import Watched, watched
from hdfs_utils.errors import Unavailable

T = TypeVar("T")
_log = logging.getLogger(__name__)
_LOOK_S = 0.5
# After an error or Ctrl-C the others finish their piece; who does not within this is left behind.
_LEAVE_S = 5.0


class Stopped(Exception):
    """Raised in a worker whose transfer has ended."""


class Crew:
    """A group of workers.

    Args:
        threads: how many.
        stack: the size of each thread's stack, bytes; 0 for the system's.

    Attributes:
        stopping: set when the rest is not to be done any more.
    """

    def __init__(self, threads: int, stack: int = 0) -> None:
        self.stopping = threading.Event()
        self._threads = threads
        self._stack = stack
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._slots: list[Watched] = []
        self._running = 0
        self._error: BaseException | None = None

    def check(self) -> None:
        """Between pieces: raises Stopped when the transfer has ended."""
        if self.stopping.is_set():
            raise Stopped

    def run(self, call: Callable[[T], None], items: Iterable[T]) -> None:
        """Call for each item; the first error ends it and is raised here.

        Raises:
            Unavailable: a call of the client below did not return within its limit.
        """
        rest = iter(items)
        workers = [
            threading.Thread(target=self._work, args=(call, rest), name="transfer", daemon=True)
            for _ in range(self._threads)
        ]
        workers = self._started(workers)
        try:
            self._wait()
        except BaseException:
            self.stopping.set()
            deadline = time.monotonic() + _LEAVE_S
            for worker in workers:
                worker.join(max(0.0, deadline - time.monotonic()))
            raise
        if self._error is not None:
            raise self._error

    def _started(self, workers: list[threading.Thread]) -> list[threading.Thread]:
        """Those that the system allows: the first must be, for others there may be no room."""
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
                    _log.warning("only %d of %d threads can be had", number, len(workers))
                    return workers[:number]
        finally:
            if self._stack:
                threading.stack_size(usual)
        return workers

    def _wait(self) -> None:
        with self._changed:
            while self._running:
                self._changed.wait(_LOOK_S)
                now = time.monotonic()
                for slot in self._slots:
                    if slot.is_overdue(now):
                        message = f"{slot.doing}: no answer within {slot.limit_s:g} s"
                        raise Unavailable(message, outcome_unknown=True)

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
            except BaseException as error:  # noqa: BLE001 - raised by who waits
                with self._lock:
                    self._error = self._error or error
                self.stopping.set()
            finally:
                with self._changed:
                    self._slots.remove(slot)
                    self._running -= 1
                    self._changed.notify_all()


_END = object()

"""Starts the members of an array, this many at a time, in threads of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from yarnam.client.job import Job
from yarnam.errors import Cancelled, YarnamError

PARALLEL_SUBMITS = 8
"""A submit is mostly waiting: for HDFS and the ResourceManager."""

POLL_S = 1.0
"""The time between requests for the living members; one request covers the whole array."""


@dataclass(frozen=True)
class ArrayAccess:
    """The feed's access to the array and its jobs."""

    start: Callable[[int], Job]
    """Submits the member of this position. Raises YarnamError."""
    living: Callable[[], Collection[str]]
    """Application ids of the array's members that have not ended. Raises Unavailable."""
    is_stopped: Callable[[], bool]
    """A user has killed the array: no more members are to start. Raises Unavailable."""


class ArrayFeed:
    """The members' jobs as futures, in order. Its thread keeps the interpreter alive until the last
    is submitted, or ``stop``."""

    def __init__(self, access: ArrayAccess, count: int, most_at_once: int) -> None:
        self.jobs: Sequence[Future[Job]] = [Future() for _ in range(count)]
        self._access = access
        self._most_at_once = most_at_once
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="yarnam-array")
        self._thread.start()

    def stop(self) -> None:
        """Submit no more; those under way are waited for. The rest is cancelled. Idempotent."""
        self._stopped.set()
        self._thread.join()

    def join(self) -> None:
        """Until the last one is submitted, or has failed to be."""
        self._thread.join()

    def _run(self) -> None:
        try:
            self._submit_all()
        except BaseException as error:  # noqa: BLE001 - pass it to the callers that wait for a job
            for job in self.jobs:
                if not job.done() and not job.running():
                    job.set_exception(error)
            return
        for job in self.jobs:
            job.cancel()  # It has no effect on a job with a result.

    def _submit_all(self) -> None:
        under_way: set[Future[None]] = set()
        with ThreadPoolExecutor(PARALLEL_SUBMITS, thread_name_prefix="array") as pool:
            for position in range(len(self.jobs)):
                under_way = self._await_slot(under_way)
                if self._stopped.is_set():
                    break
                under_way.add(pool.submit(self._start, position))

    def _await_slot(self, under_way: set[Future[None]]) -> set[Future[None]]:
        """Until another member may start, with the submits that are still under way."""
        while not self._stopped.is_set():
            under_way = {one for one in under_way if not one.done()}
            if len(under_way) >= PARALLEL_SUBMITS:
                wait(under_way, POLL_S, FIRST_COMPLETED)
                continue
            if not self._most_at_once:
                break
            try:
                if self._access.is_stopped():
                    self._stopped.set()
                    break
                # One under way may be counted twice: the cap still holds.
                if len(under_way) + len(self._access.living()) < self._most_at_once:
                    break
            except YarnamError:
                pass  # An outage: later members wait for its end.
            self._stopped.wait(POLL_S)
        return under_way

    def _start(self, position: int) -> None:
        job = self.jobs[position]
        if self._stopped.is_set() or not job.set_running_or_notify_cancel():
            return
        try:
            job.set_result(self._access.start(position))
        except BaseException as error:  # noqa: BLE001 - it is raised where the job is asked for
            job.set_exception(error)


def not_submitted(what: str) -> Cancelled:
    return Cancelled(f"{what} was not submitted: the array was stopped before")

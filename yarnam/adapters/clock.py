"""``ports.Clock``: time that never goes back, and timers in one thread."""

from __future__ import annotations

import heapq
import threading
import time

from yarnam.core.model.events import TimerFired, TimerId
from yarnam.ports import Inbox


class SystemClock:
    """Seconds since the epoch as they were at the start, carried on by the monotonic clock: a
    wall clock that is set meanwhile neither stretches nor cuts a timer."""

    def __init__(self, inbox: Inbox = lambda event: None) -> None:
        self._inbox = inbox
        self._origin_s = time.time() - time.monotonic()
        self._changed = threading.Condition()
        self._due: dict[TimerId, float] = {}
        self._heap: list[tuple[float, int, TimerId]] = []
        self._count = 0
        self._closed = False
        self._thread: threading.Thread | None = None

    def now_s(self) -> float:
        return self._origin_s + time.monotonic()

    def start_timer(self, timer: TimerId, delay_s: float) -> None:
        with self._changed:
            due = time.monotonic() + max(0.0, delay_s)
            self._due[timer] = due
            self._count += 1
            heapq.heappush(self._heap, (due, self._count, timer))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="timers", daemon=True)
                self._thread.start()
            self._changed.notify()

    def cancel_timer(self, timer: TimerId) -> None:
        with self._changed:
            self._due.pop(timer, None)

    def close(self) -> None:
        """No timer fires any more. Idempotent."""
        with self._changed:
            self._closed = True
            self._due.clear()
            self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            while not self._closed:
                if not self._heap:
                    self._changed.wait()
                    continue
                due, _, timer = self._heap[0]
                if self._due.get(timer) != due:
                    heapq.heappop(self._heap)  # Cancelled, or moved: it is in the heap again.
                    continue
                left_s = due - time.monotonic()
                if left_s > 0:
                    self._changed.wait(left_s)
                    continue
                heapq.heappop(self._heap)
                del self._due[timer]
                self._inbox(TimerFired(self.now_s(), timer))

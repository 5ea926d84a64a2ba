"""A clock that a test moves by hand."""

from __future__ import annotations

import itertools

from yarnam.core.model.events import TimerFired, TimerId
from yarnam.ports import Inbox

START_S = 1_700_000_000.0


class FakeClock:
    """Timers fire during ``advance``, in the order of their deadlines, at their deadlines."""

    def __init__(self, inbox: Inbox = lambda event: None, start_s: float = START_S) -> None:
        self._inbox = inbox
        self._now_s = start_s
        self._count = itertools.count()
        self._due: dict[TimerId, tuple[float, int]] = {}

    def bound_to(self, inbox: Inbox) -> FakeClock:
        self._inbox = inbox
        return self

    @property
    def timers(self) -> dict[TimerId, float]:
        """Deadlines of the timers that run."""
        return {timer: due for timer, (due, _) in self._due.items()}

    def now_s(self) -> float:
        return self._now_s

    def start_timer(self, timer: TimerId, delay_s: float) -> None:
        self._due[timer] = (self._now_s + max(0.0, delay_s), next(self._count))

    def cancel_timer(self, timer: TimerId) -> None:
        self._due.pop(timer, None)

    def advance(self, seconds: float) -> None:
        end_s = self._now_s + seconds
        while self._due:
            timer = min(self._due, key=lambda one: self._due[one])
            due_s, _ = self._due[timer]
            if due_s > end_s:
                break
            del self._due[timer]
            self._now_s = max(self._now_s, due_s)
            self._inbox(TimerFired(self._now_s, timer))
        self._now_s = end_s

"""Virtual time: a heap of calls. Two calls of the same instant happen in the order in which they
were made, so a run depends on nothing but its inputs."""

from __future__ import annotations

import heapq
from collections.abc import Callable

Call = Callable[[], None]

LEAST_FORGOTTEN = 256


class Appointment:
    """A call to come; ``cancel`` makes it not come."""

    __slots__ = ("at_s", "call")

    def __init__(self, at_s: float, call: Call) -> None:
        self.at_s = at_s
        self.call: Call | None = call

    def cancel(self) -> None:
        self.call = None


class Timeline:
    """Now, and what is to come. Times in seconds since the start of the simulation."""

    __slots__ = ("_heap", "_most", "_number", "now_s")

    def __init__(self) -> None:
        self.now_s = 0.0
        self._heap: list[tuple[float, int, Appointment]] = []
        # By time, then by number, which differs: tuples compare without a call of Python.
        self._number = 0
        self._most = LEAST_FORGOTTEN
        """Above this number, cancelled timers are removed: most timers never fire."""

    def at(self, at_s: float, call: Call, number: int | None = None) -> Appointment:
        """Call at that time, or now if it is past. ``number``: one of those reserved."""
        if number is None:
            self._number = number = self._number + 1
        if len(self._heap) >= self._most:
            self._forget_cancelled()
        at_s = max(at_s, self.now_s)
        appointment = Appointment(at_s, call)
        heapq.heappush(self._heap, (at_s, number, appointment))
        return appointment

    def _forget_cancelled(self) -> None:
        heap = self._heap
        heap[:] = [entry for entry in heap if entry[2].call is not None]
        heapq.heapify(heap)
        self._most = max(LEAST_FORGOTTEN, 2 * len(heap))

    def reserve(self, many: int) -> int:
        """The first of this many numbers in a row, for calls that count as made now, whenever they
        are made."""
        first = self._number + 1
        self._number += many
        return first

    def after(self, delay_s: float, call: Call) -> Appointment:
        return self.at(self.now_s + delay_s, call)

    def run(self, until_s: float, most_calls: Callable[[], int] | None = None) -> bool:
        """Make all calls up to that time, and no more than ``most_calls`` returns by then. ``True``
        means nothing is left to come."""
        heap = self._heap
        made, most = 0, 0
        while heap and heap[0][0] <= until_s:
            if most_calls is not None and made >= most:
                most = most_calls()
                if made >= most:
                    break
            at_s, _, appointment = heapq.heappop(heap)
            if appointment.call is not None:
                self.now_s = at_s
                made += 1
                appointment.call()
        return not any(appointment.call is not None for _, _, appointment in heap)

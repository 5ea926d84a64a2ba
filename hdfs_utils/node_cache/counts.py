"""How far the bringing of inputs is."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

RATE_OVER_S = 10.0
"""The rate is that of so many last seconds: what came from a cache at once says nothing of it."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A moment of it. Sizes in bytes.

    Attributes:
        done: of ``size``, on the node by now.
        cached: of these, were there before.
        fetched: read from HDFS, also what had to be read twice.
        left_s: at the present rate; None: not known.
        trouble: why it does not go on now; empty: it does.
    """

    files: int = 0
    files_done: int = 0
    size: int = 0
    done: int = 0
    cached: int = 0
    fetched: int = 0
    left_s: float | None = None
    trouble: str = ""


class Counts:
    """A ``transfer.Progress`` that can be asked; safe between threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._files = self._files_done = 0
        self._size = self._done = self._cached = self._fetched = 0
        self._trouble = ""
        self._recent: deque[tuple[float, int]] = deque()

    def begin(self, files: int, size: int) -> None:
        """So much is wanted now; what was wanted before counts no more."""
        with self._lock:
            self._files, self._files_done = files, 0
            self._size, self._done, self._cached = size, 0, 0
            self._trouble = ""

    def add(self, size: int) -> None:
        """Bytes came from HDFS; negative where they have to be read again."""
        with self._lock:
            self._done += size
            if size > 0:
                self._fetched += size
            now = self._clock()
            self._recent.append((now, size))
            while self._recent and self._recent[0][0] < now - RATE_OVER_S:
                self._recent.popleft()

    def found(self, size: int, *, is_cached: bool = True) -> None:
        """A file was there already; not ``is_cached``: it was fetched for this container."""
        with self._lock:
            self._done += size
            self._cached += size if is_cached else 0
            self._files_done += 1

    def file_done(self) -> None:
        """A file is complete."""
        with self._lock:
            self._files_done += 1

    def phase(self, name: str) -> None:
        """See :class:`hdfs_utils.transfer.values.Progress`."""

    def end(self) -> None:
        """See :class:`hdfs_utils.transfer.values.Progress`."""

    def trouble(self, text: str) -> None:
        """Why it does not go on; empty: it does again."""
        with self._lock:
            self._trouble = text

    def standing(self) -> Standing:
        """Now."""
        with self._lock:
            return Standing(
                self._files,
                self._files_done,
                self._size,
                self._done,
                self._cached,
                self._fetched,
                self._left_s(),
                self._trouble,
            )

    def _left_s(self) -> float | None:
        left = self._size - self._done
        if left <= 0:
            return 0.0 if self._files_done >= self._files else None
        now = self._clock()
        recent = [(at, size) for at, size in self._recent if at >= now - RATE_OVER_S]
        if not recent:
            return None
        rate = sum(size for _, size in recent) / max(now - recent[0][0], 0.5)
        return left / rate if rate > 0 else None

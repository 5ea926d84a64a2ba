"""The progress of fetching inputs to a node."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from hdfs_utils.transfer.progress import NoProgress

RATE_OVER_S = 10.0
"""The rate is that of the last seconds: files that were in a cache do not count."""


@dataclass(frozen=True, slots=True)
class FetchSnapshot:
    """The progress at one moment. Sizes in bytes.

    Attributes:
        files, size: wanted.
        files_done, done: on the node by now.
        cached: bytes of ``done`` that the node had before.
        fetched: bytes read from HDFS, repeated reads included.
        left_s: seconds left at the present rate; ``None`` means unknown.
        trouble: why the fetch is stalled; empty means it is not.
    """

    files: int = 0
    files_done: int = 0
    size: int = 0
    done: int = 0
    cached: int = 0
    fetched: int = 0
    left_s: float | None = None
    trouble: str = ""


class FetchProgress(NoProgress):
    """A :class:`transfer.Progress` that can be polled. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._files = self._files_done = 0
        self._size = self._done = self._cached = self._fetched = 0
        self._trouble = ""
        self._recent: deque[tuple[float, int]] = deque()

    def begin(self, files: int, size: int) -> None:
        """Start over with new totals."""
        with self._lock:
            self._files, self._files_done = files, 0
            self._size, self._done, self._cached = size, 0, 0
            self._trouble = ""

    def add(self, size: int) -> None:
        """Count bytes read from HDFS; negative if they must be read again."""
        with self._lock:
            self._done += size
            if size > 0:
                self._fetched += size
            now = self._clock()
            self._recent.append((now, size))
            while self._recent and self._recent[0][0] < now - RATE_OVER_S:
                self._recent.popleft()

    def found(self, size: int, *, is_cached: bool = True) -> None:
        """Count a file that was there; not ``is_cached``: this container fetched it earlier."""
        with self._lock:
            self._done += size
            self._cached += size if is_cached else 0
            self._files_done += 1

    def file_done(self) -> None:
        with self._lock:
            self._files_done += 1

    def set_trouble(self, text: str) -> None:
        """Set why the fetch is stalled; empty means it continues."""
        with self._lock:
            self._trouble = text

    def snapshot(self) -> FetchSnapshot:
        with self._lock:
            return FetchSnapshot(
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

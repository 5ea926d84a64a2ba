"""Reporters of a cluster coming up that need no terminal."""

from __future__ import annotations

import sys
import threading
import time
from typing import Protocol, TextIO

from yarnam.cluster import fetch

_FETCH_NEWS_S = 5.0


class Reporter(fetch.Progress, Protocol):
    """Shown what happens while a cluster comes up or goes down."""

    def say(self, text: str) -> None: ...

    def waiting(self, daemon: str, what: str) -> None: ...

    def ready(self, daemon: str, seconds: float) -> None: ...

    def failed(self, daemon: str) -> None: ...


class Silent(fetch.NoProgress):
    """For programs."""

    def say(self, text: str) -> None: ...

    def waiting(self, daemon: str, what: str) -> None: ...

    def ready(self, daemon: str, seconds: float) -> None: ...

    def failed(self, daemon: str) -> None: ...


class PlainLines:
    """One line per event, for logs and pipes."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._lock = threading.Lock()
        self._total = 0
        self._done = 0
        self._next_news = 0.0

    def say(self, text: str) -> None:
        with self._lock:
            self._stream.write(f"{text}\n")
            self._stream.flush()

    def waiting(self, daemon: str, what: str) -> None:
        # A plain log wants results, not every stage of waiting.
        if what == "starting":
            self.say(f"{daemon}: starting")

    def ready(self, daemon: str, seconds: float) -> None:
        self.say(f"{daemon}: ready after {seconds:.1f} s")

    def failed(self, daemon: str) -> None:
        self.say(f"{daemon}: FAILED")

    def begin(self, files: int, total_bytes: int) -> None:
        self._total, self._done = total_bytes, 0
        self._next_news = time.monotonic() + _FETCH_NEWS_S
        self.say(f"fetching {files} files, {total_bytes / 1e6:.0f} MB")

    def advance(self, count: int) -> None:
        with self._lock:
            self._done += count
            due = time.monotonic() >= self._next_news
            if due:
                self._next_news = time.monotonic() + _FETCH_NEWS_S
        if due:
            self.say(f"fetched {self._done / 1e6:.0f} of {self._total / 1e6:.0f} MB")

    def finish(self) -> None:
        self.say(f"fetched {self._done / 1e6:.0f} MB")

"""Reporters of what a cluster does while it starts and stops, for logs, pipes and programs."""

from __future__ import annotations

import sys
import threading
import time
from typing import Protocol

from yarnam.cluster.software import download
from yarnam.core.model.printable import printable_lines

_FETCH_LINE_EVERY_S = 5.0


class Reporter(download.DownloadProgress, Protocol):
    """Shows what happens while a cluster starts or stops. Called from several threads."""

    def message(self, text: str) -> None: ...

    def waiting(self, daemon: str, what: str) -> None: ...

    def ready(self, daemon: str, seconds: float) -> None: ...

    def failed(self, daemon: str) -> None: ...


class SilentReporter:
    """Prints nothing, for programs."""

    def begin(self, files: int, total_bytes: int) -> None: ...

    def advance(self, count: int) -> None: ...

    def finish(self) -> None: ...

    def message(self, text: str) -> None: ...

    def waiting(self, daemon: str, what: str) -> None: ...

    def ready(self, daemon: str, seconds: float) -> None: ...

    def failed(self, daemon: str) -> None: ...


class PlainReporter:
    """One line per event, for logs and pipes."""

    def __init__(self) -> None:
        self._stream = sys.stderr
        self._lock = threading.Lock()
        self._total = 0
        self._done = 0
        self._next_line_at = 0.0

    def message(self, text: str) -> None:
        with self._lock:
            self._stream.write(f"{printable_lines(text)}\n")
            self._stream.flush()

    def waiting(self, daemon: str, what: str) -> None:
        # A plain log shows results, not each step of a daemon's start.
        if what == "starting":
            self.message(f"{daemon}: starting")

    def ready(self, daemon: str, seconds: float) -> None:
        self.message(f"{daemon}: ready after {seconds:.1f} s")

    def failed(self, daemon: str) -> None:
        self.message(f"{daemon}: FAILED")

    def begin(self, files: int, total_bytes: int) -> None:
        self._total, self._done = total_bytes, 0
        self._next_line_at = time.monotonic() + _FETCH_LINE_EVERY_S
        self.message(f"fetching {files} files, {total_bytes / 1e6:.0f} MB")

    def advance(self, count: int) -> None:
        with self._lock:
            self._done += count
            due = time.monotonic() >= self._next_line_at
            if due:
                self._next_line_at = time.monotonic() + _FETCH_LINE_EVERY_S
        if due:
            self.message(f"fetched {self._done / 1e6:.0f} of {self._total / 1e6:.0f} MB")

    def finish(self) -> None:
        self.message(f"fetched {self._done / 1e6:.0f} MB")

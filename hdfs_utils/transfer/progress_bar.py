"""Shows the progress of a transfer: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from hdfs_utils.filesystem import format_bytes
from hdfs_utils.transfer.progress import NoProgress

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

PLAIN_EVERY_S = 5.0
"""Seconds between two lines."""


class PlainProgress(NoProgress):
    """Prints lines with files, bytes, rate and time left; for logs and pipes. Thread-safe."""

    def __init__(
        self, label: str, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._label = label
        self._stream = stream or sys.stderr
        self._clock = clock
        self._lock = threading.Lock()
        self._files = self._size = self._all_files = self._all_size = 0
        self._began = self._printed = clock()

    def begin(self, files: int, size: int) -> None:
        self._all_files, self._all_size = files, size
        self._began = self._printed = self._clock()

    def add(self, size: int) -> None:
        with self._lock:
            self._size += size
            now = self._clock()
            if now - self._printed < PLAIN_EVERY_S:
                return
            self._printed = now
            text = self.text(now)
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def text(self, now: float) -> str:
        rate = self._size / max(now - self._began, 1e-9)
        left = f", {(self._all_size - self._size) / rate:.0f} s left" if rate > 0 else ""
        return (
            f"{self._label}: {format_bytes(self._size)} of {format_bytes(self._all_size)}, "
            f"{self._files} of {self._all_files} files, {format_bytes(rate)}/s{left}"
        )

    def file_done(self) -> None:
        with self._lock:
            self._files += 1


class ProgressBar(NoProgress):
    """Shows a progress bar on standard error. Thread-safe."""

    def __init__(self, label: str) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        self._files = self._all_files = 0
        self._lock = threading.Lock()
        self._inner: RichProgress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TextColumn("{task.fields[files]}", markup=False),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True, markup=False, emoji=False, highlight=False),
            transient=True,
        )
        self._task: TaskID = self._inner.add_task(label, total=None, files="")
        self._label = label
        self._inner.start()

    def begin(self, files: int, size: int) -> None:
        self._all_files = files
        self._inner.update(self._task, total=size, files=f"0/{files} files")

    def add(self, size: int) -> None:
        self._inner.advance(self._task, size)

    def file_done(self) -> None:
        with self._lock:
            self._files += 1
            shown = f"{self._files}/{self._all_files} files"
        self._inner.update(self._task, files=shown)

    def phase(self, name: str) -> None:
        self._inner.update(self._task, description=f"{self._label} ({name})")

    def end(self) -> None:
        self._inner.stop()

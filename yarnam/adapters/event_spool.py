"""The job's events so far, for clients that ask: kept in a local file, not in memory.

A job may look at a full cluster for days; its events are small, but many.
"""

from __future__ import annotations

import tempfile
import threading
from array import array
from collections.abc import Sequence

MAX_REPLY_BYTES = 4 * 1024 * 1024
"""Of one read; far below ``yarnam.wire.tls.MAX_MESSAGE_BYTES``."""


class EventSpool:
    """Append-only list of byte strings. Thread-safe."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="yarnam-events-")  # noqa: SIM115
        self._ends = array("Q")
        self._lock = threading.Lock()

    def __len__(self) -> int:
        with self._lock:
            return len(self._ends)

    def append(self, lines: Sequence[bytes]) -> None:
        with self._lock:
            end = self._ends[-1] if self._ends else 0
            self._file.seek(end)
            for line in lines:
                self._file.write(line)
                end += len(line)
                self._ends.append(end)

    def read(self, first: int) -> list[bytes]:
        """The lines from number ``first`` (from 0) on, as many as fit into one reply; empty: there
        is none yet."""
        with self._lock:
            found: list[bytes] = []
            size = 0
            for number in range(max(0, first), len(self._ends)):
                start = self._ends[number - 1] if number else 0
                size += self._ends[number] - start
                if found and size > MAX_REPLY_BYTES:
                    break
                self._file.seek(start)
                found.append(self._file.read(self._ends[number] - start))
            return found

    def close(self) -> None:
        with self._lock:
            self._file.close()

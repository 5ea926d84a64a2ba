"""Whether the job wants this process to stop: a signal, or the agent's stop file."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

_LOOK_S = 0.2
"""The stop file is looked for at most this often: the call belongs into every step."""


def should_stop() -> bool:
    """True once the process is asked to end (SIGTERM, or the stop file): save and leave the loop.

    The first call in the main thread installs a handler for SIGTERM that remembers it instead of
    dying of it, and passes it on to a handler that was there. Call it once before the loop, so
    that a stop during the first step is not missed. Outside a job it works with SIGTERM alone.
    """
    return _watch.look()


class _Watch:
    def __init__(self) -> None:
        self._is_asked = False
        self._is_installed = False
        self._looked_at_s = 0.0

    def look(self) -> bool:
        self._install()
        path = os.environ.get("YARNAM_STOP_FILE")
        now_s = time.monotonic()
        if path and not self._is_asked and now_s - self._looked_at_s >= _LOOK_S:
            self._looked_at_s = now_s
            self._is_asked = os.path.exists(path)  # noqa: PTH110 - pathlib is slow to load
        return self._is_asked

    def _install(self) -> None:
        # Python lets the main thread alone install handlers.
        if self._is_installed or threading.current_thread() is not threading.main_thread():
            return
        self._is_installed = True
        previous = signal.getsignal(signal.SIGTERM)

        def remember(number: int, frame: Any) -> None:
            self._is_asked = True
            if callable(previous):
                previous(number, frame)

        signal.signal(signal.SIGTERM, remember)


_watch = _Watch()

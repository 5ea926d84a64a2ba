"""Whether this process is asked to stop: by a signal, or by the agent's stop file."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from typing import Any, NamedTuple

_POLL_S = 0.2
"""The stop file is checked at most this often: the call belongs into every step."""


def should_stop() -> bool:
    """True once the process is asked to end (SIGTERM, or the stop file): save and leave the loop.

    The first call in the main thread installs a handler for SIGTERM that remembers it instead of
    dying of it, and passes it on to a handler that was there. Call it once before the loop, so
    that a stop during the first step is not missed. Outside a job it works with SIGTERM alone.
    """
    return _watch.poll()


class StopRequest(NamedTuple):
    """Why this process is asked to end, and how long it has to write a checkpoint and exit."""

    reason: str
    """A text for people; empty when the reason is not known (a plain SIGTERM)."""
    ends_at_s: float
    """Seconds since the epoch, when the process is killed. Infinite when it is not known."""

    def left_s(self) -> float:
        """Seconds until then, not negative."""
        return max(0.0, self.ends_at_s - time.time())


def stop_request() -> StopRequest | None:
    """None while this process is not asked to end; then the reason, and the time that is left to
    write a checkpoint and exit.

    A process is asked when its job is cancelled, when the gang changes its size or loses a task,
    and when YARN takes containers back. A process that exits with a checkpoint loses nothing: if
    the job continues, it continues from there. The long form of ``should_stop``.
    """
    if not should_stop():
        return None
    try:
        with open(os.environ["YARNAM_STOP_FILE"], encoding="utf-8") as stream:  # noqa: PTH123
            facts = json.load(stream)
        ends_at_s = float(facts["asked_at_s"]) + float(facts["grace_s"])
        return StopRequest(str(facts["reason"]), ends_at_s)
    except (OSError, ValueError, KeyError, TypeError):
        return StopRequest("", float("inf"))


class _Watch:
    def __init__(self) -> None:
        self._is_asked = False
        self._is_installed = False
        self._polled_at_s = 0.0

    def poll(self) -> bool:
        self._install()
        path = os.environ.get("YARNAM_STOP_FILE")
        now_s = time.monotonic()
        if path and not self._is_asked and now_s - self._polled_at_s >= _POLL_S:
            self._polled_at_s = now_s
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

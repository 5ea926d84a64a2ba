"""Whether the job wants this process to stop: a signal, or the agent's stop file."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from typing import Any, NamedTuple

_LOOK_S = 0.2
"""The stop file is looked for at most this often: the call belongs into every step."""


def should_stop() -> bool:
    """True once the process is asked to end (SIGTERM, or the stop file): save and leave the loop.

    The first call in the main thread installs a handler for SIGTERM that remembers it instead of
    dying of it, and passes it on to a handler that was there. Call it once before the loop, so
    that a stop during the first step is not missed. Outside a job it works with SIGTERM alone.
    """
    return _watch.look()


class StopRequest(NamedTuple):
    """Why this process is asked to end, and how long it has to write a checkpoint and leave."""

    reason: str
    """In words; empty when it is not known (a plain SIGTERM)."""
    ends_at_s: float
    """Seconds since the epoch: what is left then is killed. Infinite when it is not known."""

    def left_s(self) -> float:
        """Seconds until then, not negative."""
        return max(0.0, self.ends_at_s - time.time())


def stop_request() -> StopRequest | None:
    """None while nobody asks this process to end; then: checkpoint now and leave, and by when.

    A job is asked so when it is cancelled, when its gang changes its size, when a task of it is
    lost, when YARN wants its containers back. Whoever leaves with a checkpoint loses nothing: if
    the job goes on, it goes on from there. Like ``should_stop``, of which it is the long form.
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

"""Whether the job wants this process to stop: a signal, or the agent's stop file."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

_LOOK_S = 0.2
"""The stop file is looked for at most this often: the call belongs into every step."""

_was_signalled = False
_is_installed = False
_looked_at = 0.0
_file_was_there = False


def should_stop() -> bool:
    """True once the process is asked to end (SIGTERM, or the stop file): save and leave the loop.

    The first call in the main thread installs a handler for SIGTERM that remembers it instead of
    dying of it, and passes it on to a handler that was there. Call it once before the loop, so
    that a stop during the first step is not missed. Outside a job it works with SIGTERM alone.
    """
    global _looked_at, _file_was_there
    _install()
    if _was_signalled or _file_was_there:
        return True
    path = os.environ.get("YARNAM_STOP_FILE")
    now = time.monotonic()
    if path and now - _looked_at >= _LOOK_S:
        _looked_at = now
        _file_was_there = os.path.exists(path)  # noqa: PTH110 - light
    return _file_was_there


def _install() -> None:
    global _is_installed
    if _is_installed or threading.current_thread() is not threading.main_thread():
        return
    _is_installed = True
    previous = signal.getsignal(signal.SIGTERM)

    def remember(number: int, frame: Any) -> None:
        global _was_signalled
        _was_signalled = True
        if callable(previous):
            previous(number, frame)

    try:
        signal.signal(signal.SIGTERM, remember)
    except (ValueError, OSError):
        _is_installed = False

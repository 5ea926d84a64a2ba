"""Ends a command in order on Ctrl-C, SIGTERM and SIGHUP."""

from __future__ import annotations

import signal
from types import FrameType

INTERRUPTED = 128 + signal.SIGINT
"""Exit code after Ctrl-C, as shells have it."""


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP: like Ctrl-C, unfinished work is undone first."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


IMPORT_PAUSE_S = 0.02
IMPORT_LIMIT_S = 5.0
"""The longest time that a signal waits for the end of an import."""
_IMPORTING = "<frozen importlib._bootstrap>"


def end_cleanly_on_signals() -> None:
    """For the process's main thread. By default SIGTERM and SIGHUP end Python on the spot, and
    Ctrl-C raises wherever it comes: between two instructions of Python's import machinery that
    leaves its lock taken, and every other thread that imports waits for ever, and then so do we."""
    postponed = [0, 0]  # which signal, how often

    def handle(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGALRM:
            number = postponed[0]
        if _is_importing(frame) and postponed[1] * IMPORT_PAUSE_S < IMPORT_LIMIT_S:
            postponed[:] = number, postponed[1] + 1
            signal.setitimer(signal.ITIMER_REAL, IMPORT_PAUSE_S)
            return
        postponed[1] = 0
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        signal.signal(number, signal.SIG_IGN)  # once is enough
        raise Terminated(number)

    signal.signal(signal.SIGALRM, handle)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, handle)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, handle)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTING:
            return True
        frame = frame.f_back
    return False

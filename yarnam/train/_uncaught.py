"""Tells the agent of an exception that nothing has caught. The process may wait for others while it
exits, and they for it; then the agent ends it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from yarnam.train._report import report_raised

if TYPE_CHECKING:
    from types import TracebackType

_listening: list[object] = []


def listen() -> None:
    """In a job alone. Harmless when repeated."""
    if "YARNAM_RANK" not in os.environ or sys.excepthook in _listening:
        return
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        before(kind, error, trace)
        report_raised()

    _listening.append(hook)
    sys.excepthook = hook

"""The hooks that importing ``yarnam.train`` installs in a process of a job."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from typing import TYPE_CHECKING

from yarnam.train._reports.reporting import report_raised

if TYPE_CHECKING:
    from types import TracebackType

_STACK_SIGNAL = signal.SIGRTMIN + 9
"""As the agent sends it (``yarnam.agent.launch.stack_dump``)."""

_listening: list[object] = []


def install_hooks() -> None:
    if "YARNAM_RANK" in os.environ:
        _print_stacks_on_signal()
        _report_uncaught_exceptions()


def _print_stacks_on_signal() -> None:
    """The agent asks for the stacks of all threads, also while the process hangs in native code."""
    try:
        faulthandler.register(_STACK_SIGNAL, file=2, all_threads=True)
    except (OSError, RuntimeError, ValueError):
        pass  # stderr is closed


def _report_uncaught_exceptions() -> None:
    """The process may wait for others while it exits, and they for it; the agent that knows of the
    exception ends it then."""
    if sys.excepthook in _listening:
        return
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        before(kind, error, trace)
        report_raised()

    _listening.append(hook)
    sys.excepthook = hook

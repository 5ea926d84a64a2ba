"""Prints the stacks of all threads to stderr when the agent asks for it, also while the process
hangs in native code."""

from __future__ import annotations

import faulthandler
import os
import signal

_STACK_SIGNAL = signal.SIGRTMIN + 9
"""As the agent sends it (``yarnam.agent.launch.stack_dump``)."""


def listen() -> None:
    """In a job alone. Harmless when repeated."""
    if "YARNAM_RANK" not in os.environ:
        return
    try:
        faulthandler.register(_STACK_SIGNAL, file=2, all_threads=True)
    except (OSError, RuntimeError, ValueError):
        pass  # stderr is closed

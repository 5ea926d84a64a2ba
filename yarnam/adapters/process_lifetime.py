"""How the AM's Python process ends: with its parent, and at once on SIGTERM."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import threading
import time
from types import FrameType

from yarnam.errors import ExitCode, InternalError

log = logging.getLogger("yarnam.am")

_PR_SET_PDEATHSIG = 1
PARENT_PERIOD_S = 1.0
"""Between two polls of the parent, where the kernel's signal is not available."""


def end_with_parent() -> None:
    """When Skein's Java AM dies, so does this process: alone it could neither ask YARN for
    anything nor be seen, and the next AM attempt must not meet it.

    The kernel's signal comes when the *thread* that forked us ends (Java's main thread, which
    lives as long as the JVM), so a thread watches the parent's id as well.
    """
    parent = os.getppid()
    try:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
    except (OSError, AttributeError) as error:
        log.warning(
            "no death signal from the kernel (%s): polling every %g s", error, PARENT_PERIOD_S
        )
    if os.getppid() != parent:
        raise InternalError("the parent process has gone already")
    watcher = threading.Thread(target=_watch, args=(parent,), name="parent", daemon=True)
    watcher.start()


def leave_at_once_on_sigterm() -> None:
    """Skein and YARN send SIGTERM when the application is over for us; SIGKILL follows 250 ms
    later. What matters is on HDFS already."""
    signal.signal(signal.SIGTERM, _on_sigterm)


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    os.write(2, b"yarnam: SIGTERM: leaving\n")
    os._exit(int(ExitCode.UNAVAILABLE))


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_PERIOD_S)
    os.write(2, b"yarnam: Skein's ApplicationMaster is gone: leaving\n")
    os._exit(int(ExitCode.UNAVAILABLE))

"""How the AM's Python process ends: with Skein's Java AM, and immediately on SIGTERM."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from yarnam.errors import ExitCode


def end_with_stdin() -> None:
    """When Skein's Java AM dies, so does this process: alone it could neither ask YARN for
    anything nor be seen, and the next AM attempt must not meet it.

    Java holds the other end of our stdin (``ProcessBuilder``), and writes nothing to it. The shell
    between the two (``launch_am.sh``) outlives Java, so its end would tell nothing.
    """
    threading.Thread(target=_await_end_of_stdin, name="stdin", daemon=True).start()


def leave_at_once_on_sigterm() -> None:
    """Skein and YARN send SIGTERM when the application is over for us; SIGKILL follows 250 ms
    later. What matters is on HDFS already."""
    signal.signal(signal.SIGTERM, _on_sigterm)


def leave_at_once(reason: str) -> NoReturn:
    """What matters is on HDFS, and the next AM attempt continues from there."""
    _report(f"yarnam: {reason}: leaving")
    os._exit(int(ExitCode.UNAVAILABLE))


def _report(line: str) -> None:
    """Write to stderr, as far as the disk of the container's logs has room. Raises nothing: its
    caller is about to end this process."""
    with suppress(OSError):
        os.write(2, f"{line}\n".encode(errors="backslashreplace"))


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    leave_at_once("SIGTERM")


def _await_end_of_stdin() -> None:
    while os.read(0, 1024):
        pass
    leave_at_once("Skein's ApplicationMaster is gone")

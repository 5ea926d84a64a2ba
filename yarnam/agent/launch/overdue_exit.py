"""A process that an exception has ended, but that does not exit: it waits for the others of the
gang while it ends (jax's shutdown, the destructor of a process group), and they wait for it in a
collective; or a thread of it that is not a daemon never returns.

That an exception was not caught is known by the SDK (``sys.excepthook``), or by the framework's
error file.
"""

from __future__ import annotations

import time
from pathlib import Path

IDLE_LIMIT_S = 20.0
"""How long a process that has become idle has to exit."""

BUSY_LIMIT_S = 300.0
"""The same of one that does something: a thread may still send a checkpoint."""


class OverdueExit:
    """Tells when one process should have exited. ``error_file``: where its framework writes an
    exception."""

    def __init__(self, pid: int, error_file: Path | None) -> None:
        self._pid = pid
        self._error_file = error_file
        self._began_s = time.time()
        self._since_s: float | None = None

    def poll(
        self, raised_pid: int, idle_s: float, *, stepped_at_s: float = 0.0, is_paused: bool = False
    ) -> bool:
        """Whether it should have exited. ``raised_pid``: the process that has reported an
        exception, it or one that it has started; 0 if none has. ``stepped_at_s``: when it made its
        last step, by the clock of this node: an exception before that was survived."""
        is_written = self._error_at_s() > max(self._began_s, stepped_at_s)
        pid = raised_pid or (self._pid if is_written else 0)
        if not pid or not _lives(pid):
            self._since_s = None
            return False
        now_s = time.monotonic()
        if self._since_s is None:
            self._since_s = now_s
        since_s = now_s - self._since_s
        if is_paused:
            return False
        return since_s >= BUSY_LIMIT_S or min(since_s, idle_s) >= IDLE_LIMIT_S

    def _error_at_s(self) -> float:
        if self._error_file is None:
            return 0.0
        try:
            return self._error_file.stat().st_mtime
        except OSError:
            return 0.0


def _lives(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return text.rpartition(") ")[2][:1] not in ("Z", "X", "")

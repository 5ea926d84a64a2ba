"""Whether this process is asked to stop: by a signal, or by the agent's stop file."""

from __future__ import annotations

import json
import os
import signal
import struct
import threading
import time
from typing import Any, NamedTuple

_POLL_S = 0.2
"""The stop file is checked at most this often: the call belongs into every step."""

_AGREEMENT_S = 4.0
"""A process waits this long for the step that all stop after; the agent gives up before."""
_AGREEMENT_POLL_S = 0.005

_POSITION = struct.Struct("<qB")
"""The step, and one of these; ``yarnam.agent.launch.stop_agreement`` reads it."""
_GOES_ON, _WAITS, _STOPS = range(3)


def should_stop(step: int | None = None) -> bool:
    """True once the process is asked to end (SIGTERM, or the stop file): save and leave the loop.

    With ``step``, the number of steps that are done, all processes of the gang get True after the
    same step, so that their checkpoints fit together and none waits for another that has left. That
    needs every process to call it after every step, or after the same ones. If the gang cannot
    agree (a process is lost, or does not give its step), each gets True immediately.

    The first call in the main thread installs a handler for SIGTERM that remembers it instead of
    dying of it, and passes it on to a handler that was there. Call it once before the loop, so
    that a stop during the first step is not missed. Outside a job it works with SIGTERM alone.
    """
    return _watch.poll(step)


class StopRequest(NamedTuple):
    """Why this process is asked to end, and how long it has to write a checkpoint and exit."""

    reason: str
    """A text for people; empty when the reason is not known (a plain SIGTERM)."""
    ends_at_s: float
    """Seconds since the epoch, when the process is killed. Infinite when it is not known."""

    def left_s(self) -> float:
        """Seconds until then, not negative."""
        return max(0.0, self.ends_at_s - time.time())


def ask_to_stop(reason: str) -> None:
    """``should_stop`` is true from now on, for this reason."""
    _watch.ask(reason)


def stop_request(step: int | None = None) -> StopRequest | None:
    """None while this process is not asked to end; then the reason, and the time that is left to
    write a checkpoint and exit.

    A process is asked when its job is cancelled, when the gang changes its size or loses a task,
    and when YARN takes containers back. A process that exits with a checkpoint loses nothing: if
    the job continues, it continues from there. The long form of ``should_stop``.
    """
    if not should_stop(step):
        return None
    facts = _facts(os.environ.get("YARNAM_STOP_FILE", ""))
    try:
        ends_at_s = float(facts["asked_at_s"]) + float(facts["grace_s"])
        return StopRequest(str(facts["reason"]), ends_at_s)
    except (ValueError, KeyError, TypeError):
        return StopRequest(_watch.reason, float("inf"))


def _facts(path: str) -> dict[str, Any]:
    """The content of the stop file; empty if it does not exist, or has another format."""
    try:
        with open(path, encoding="utf-8") as stream:  # noqa: PTH123
            facts = json.load(stream)
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


class _Watch:
    def __init__(self) -> None:
        self._is_asked = False
        self._is_stopping = False
        self._is_installed = False
        self._polled_at_s = 0.0
        self._position = -1
        """Descriptor of the file that holds this process's position; -1 without one."""
        self._position_pid = 0
        self.reason = ""
        """The reason of this process's own wish to stop; empty if it has none."""

    def ask(self, reason: str) -> None:
        self._is_asked, self.reason = True, reason

    def poll(self, step: int | None = None) -> bool:
        if not self._is_installed:
            self._install()
        now_s = time.monotonic()
        # Check the environment last: reading it takes longer than all the rest.
        if step is None and (self._is_asked or now_s - self._polled_at_s < _POLL_S):
            return self._is_asked
        path = os.environ.get("YARNAM_STOP_FILE")
        if step is not None and path:
            return self._poll_at(path, step)
        if path and not self._is_asked:
            self._polled_at_s = now_s
            self._is_asked = os.access(path, os.F_OK)
        return self._is_asked

    def _poll_at(self, path: str, step: int) -> bool:
        if self._is_stopping:
            return True
        # Write the position before checking the stop file: the process that made the file then
        # knows where this one is, and that it gets no further than its next call.
        is_written = self._write_position(path, step, _GOES_ON)
        if not os.access(path, os.F_OK):  # half of what os.path.exists takes
            self._is_stopping = self._is_asked
            return self._is_stopping
        if is_written:
            self._write_position(path, step, _WAITS)
            at_step = self._agreed_step(path)
            if at_step is not None and step < at_step:
                self._write_position(path, step, _GOES_ON)
                return False
            self._write_position(path, step, _STOPS)
        self._is_stopping = True
        return True

    def _agreed_step(self, path: str) -> int | None:
        """The step that all stop after; None where each stops for itself."""
        ends_at_s = time.monotonic() + _AGREEMENT_S
        while time.monotonic() < ends_at_s:
            facts = _facts(path)
            if not facts.get("agree"):
                return None
            if isinstance(facts.get("at_step"), int):
                return int(facts["at_step"])
            time.sleep(_AGREEMENT_POLL_S)
        return None

    def _write_position(self, path: str, step: int, state: int) -> bool:
        # A forked child must not write over its parent's.
        if self._position_pid not in (0, os.getpid()):
            return False
        try:
            if self._position < 0:
                name = f"{path}.{os.environ.get('YARNAM_LOCAL_RANK', '0')}"
                self._position = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
                self._position_pid = os.getpid()
            os.pwrite(self._position, _POSITION.pack(step, state), 0)
        except (OSError, struct.error):
            return False
        return True

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

"""Which sessions an agent admits, and when one is over: pure, as the rest of the machine.

Times in seconds of the agent's clock.
"""

from __future__ import annotations

from typing import NamedTuple

from yarnam.core.model.session_parts import (
    MAX_COMMAND_BYTES,
    MAX_PORTS,
    SILENCE_S,
    SessionKind,
    SessionRequest,
)

MAX_SESSIONS = 32
"""Commands, shells, copies and port-forwards of one task at a time. Each costs the container some
memory, which the training needs."""

MAX_CONNECTIONS = 128
"""Forwarded connections of one task at a time: a browser opens six to each server."""

IDLE_LIMIT_S = 4 * 3600.0
"""A session in which no byte has moved for this long ends: the kubelet's default
(streamingConnectionIdleTimeout)."""

MAX_WINDOW = 10_000
"""Rows or columns of a terminal; the kernel keeps them as 16-bit numbers."""


class SessionCounts(NamedTuple):
    """The open sessions of the task."""

    sessions: int
    connections: int


class TaskFacts(NamedTuple):
    """The task as the admission sees it."""

    is_interactive: bool
    """The job's spec allows sessions."""
    processes: int
    """Processes that the task has been launched with; 0 if it has not, or they have ended."""


def refusal(request: SessionRequest, task: TaskFacts, open_now: SessionCounts) -> str:
    """Why the session is not admitted; empty if it is."""
    if not task.is_interactive:
        return "sessions are off for this job (interactive: false in its spec, or by the site)"
    if not task.processes:
        return "the task has no processes now: it has not been launched, or they have ended"
    if request.local_rank >= task.processes:
        return f"the task has {task.processes} processes, so there is no {request.local_rank}"
    is_connection = request.kind is SessionKind.CONNECT
    if is_connection and open_now.connections >= MAX_CONNECTIONS:
        return f"the task has {MAX_CONNECTIONS} forwarded connections already"
    if not is_connection and open_now.sessions >= MAX_SESSIONS:
        return f"the task has {MAX_SESSIONS} sessions already"
    return _malformed(request)


def _malformed(request: SessionRequest) -> str:
    if sum(map(len, request.command)) > MAX_COMMAND_BYTES or any(
        b"\0" in one for one in (*request.command, request.path)
    ):
        return f"the command is longer than {MAX_COMMAND_BYTES} bytes, or has a NUL"
    ports = (request.port,) if request.kind is SessionKind.CONNECT else request.ports
    if len(ports) > MAX_PORTS or not all(0 < port < 1 << 16 for port in ports):
        return f"a port is from 1 to 65535, and a port-forward has up to {MAX_PORTS} of them"
    window = request.window
    if window is not None and not (
        0 <= window.rows <= MAX_WINDOW and 0 <= window.columns <= MAX_WINDOW
    ):
        return f"a terminal has up to {MAX_WINDOW} rows and columns"
    return ""


class SessionClock(NamedTuple):
    """``heard_s``: the last sign of life of the client. ``moved_s``: the last byte, either way."""

    heard_s: float
    moved_s: float
    is_listening: bool
    """False while the agent reads nothing from the client, because the command does not."""


def over_because(clock: SessionClock, now_s: float) -> str:
    """Why the session has to end now; empty if it has not."""
    silent_s = now_s - clock.heard_s
    if clock.is_listening and silent_s >= SILENCE_S:
        return f"the client has been silent for {silent_s:.0f} s"
    if now_s - clock.moved_s >= IDLE_LIMIT_S:
        return f"no byte has moved for {IDLE_LIMIT_S / 3600:.0f} hours"
    return ""

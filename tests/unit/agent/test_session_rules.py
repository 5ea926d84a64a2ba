"""Which sessions an agent admits, and when they are over."""

from __future__ import annotations

from typing import Any

import pytest

from yarnam.agent.machine.session_rules import (
    IDLE_LIMIT_S,
    MAX_CONNECTIONS,
    MAX_SESSIONS,
    SessionClock,
    SessionCounts,
    TaskFacts,
    over_because,
    refusal,
)
from yarnam.core.model.session_parts import (
    MAX_COMMAND_BYTES,
    MAX_PORTS,
    SILENCE_S,
    SessionKind,
    SessionRequest,
    WindowSize,
)

TASK = TaskFacts(is_interactive=True, processes=2)
NONE_OPEN = SessionCounts(0, 0)


def request(kind: SessionKind = SessionKind.EXEC, **more: Any) -> SessionRequest:
    return SessionRequest(kind, "me", "a1.worker.0", **more)


CONNECT = request(SessionKind.CONNECT, port=80, forward="f")


@pytest.mark.parametrize(
    "admitted",
    [
        request(),
        request(local_rank=1, command=(b"x" * MAX_COMMAND_BYTES,), window=WindowSize(0, 0)),
        request(SessionKind.FORWARD, ports=tuple(range(1, MAX_PORTS + 1))),
        CONNECT,
    ],
)
def test_admitted(admitted: SessionRequest) -> None:
    assert refusal(admitted, TASK, NONE_OPEN) == ""


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (request(local_rank=2), "there is no 2"),
        (request(command=(b"x" * MAX_COMMAND_BYTES, b"x")), "longer than"),
        (request(command=(b"a\0b",)), "a NUL"),
        (request(SessionKind.READ, path=b"a\0b"), "a NUL"),
        (request(SessionKind.FORWARD, ports=(0,)), "a port is from 1"),
        (request(SessionKind.FORWARD, ports=(1 << 16,)), "a port is from 1"),
        (request(SessionKind.FORWARD, ports=(1,) * (MAX_PORTS + 1)), "up to 64 of them"),
        (request(SessionKind.CONNECT, port=0), "a port is from 1"),
        (request(window=WindowSize(1 << 31, 80)), "rows and columns"),
    ],
)
def test_malformed_requests_are_refused(refused: SessionRequest, why: str) -> None:
    assert why in refusal(refused, TASK, NONE_OPEN)


def test_the_task_decides_first() -> None:
    assert "interactive: false" in refusal(request(), TaskFacts(False, 1), NONE_OPEN)
    assert "has no processes now" in refusal(request(), TaskFacts(True, 0), NONE_OPEN)


def test_sessions_and_connections_have_limits_of_their_own() -> None:
    full = SessionCounts(MAX_SESSIONS, MAX_CONNECTIONS)
    assert f"{MAX_SESSIONS} sessions already" in refusal(request(), TASK, full)
    assert f"{MAX_CONNECTIONS} forwarded" in refusal(CONNECT, TASK, full)
    assert not refusal(request(), TASK, SessionCounts(MAX_SESSIONS - 1, MAX_CONNECTIONS))
    assert not refusal(CONNECT, TASK, SessionCounts(MAX_SESSIONS, MAX_CONNECTIONS - 1))


def test_a_session_ends_when_the_client_is_silent_or_nothing_moves() -> None:
    clock = SessionClock(heard_s=100.0, moved_s=100.0, is_listening=True)
    assert over_because(clock, 100.0 + SILENCE_S - 0.1) == ""
    assert "silent for 20 s" in over_because(clock, 100.0 + SILENCE_S)
    # While the command does not read, the agent does not listen: it has not heard, and cannot.
    deaf = clock._replace(is_listening=False)
    assert over_because(deaf, 100.0 + SILENCE_S) == ""
    assert "no byte has moved for 4 hours" in over_because(deaf, 100.0 + IDLE_LIMIT_S)
    heard = clock._replace(heard_s=100.0 + IDLE_LIMIT_S)
    assert "no byte has moved" in over_because(heard, 100.0 + IDLE_LIMIT_S)

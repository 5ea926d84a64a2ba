"""The client's end of a session in a running task. Errors are ``yarnam.errors``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from yarnam.core.model.session_parts import SessionPart, WindowSize


class TaskSession(Protocol):
    """The client's end of one session. Thread-safe: one thread iterates, others send."""

    def __iter__(self) -> Iterator[SessionPart]:
        """The parts as they come; the last one is a ``SessionEnd``, also where the connection was
        lost. Raises NoPermission and WireMismatch for a session that was not let in."""

    def send(self, data: bytes) -> bool:
        """Waits while ``IN_FLIGHT_BYTES`` are on their way. False if the session is over."""

    def end_data(self) -> None:
        """Nothing more will be sent."""

    def resize(self, window: WindowSize) -> None: ...

    def send_signal(self, number: int) -> None:
        """Send this signal to the command's process group."""

    def close(self) -> None:
        """End the session. Idempotent."""

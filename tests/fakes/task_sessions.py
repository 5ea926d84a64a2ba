"""A session whose parts are given, and which keeps what was sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from yarnam.core.model.session_parts import SessionPart, SessionRequest, WindowSize


class FakeTaskSession:
    def __init__(self, request: SessionRequest, parts: Sequence[SessionPart]) -> None:
        self.request = request
        self.parts = list(parts)
        self.sent = bytearray()
        self.windows: list[WindowSize] = []
        self.signals: list[int] = []
        self.has_ended_data = False
        self.closed = False

    def __iter__(self) -> Iterator[SessionPart]:
        while self.parts:
            yield self.parts.pop(0)

    def send(self, data: bytes) -> bool:
        self.sent += data
        return not self.closed

    def end_data(self) -> None:
        self.has_ended_data = True

    def resize(self, window: WindowSize) -> None:
        self.windows.append(window)

    def send_signal(self, number: int) -> None:
        self.signals.append(number)

    def close(self) -> None:
        self.closed = True

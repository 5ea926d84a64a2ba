"""Receivers of notifications that keep what they get."""

from __future__ import annotations

from collections.abc import Callable

from yarnam.ports.notifications import Notification


class FakeNotificationSender:
    """``fail`` is called before each send; what it raises, the receiver does not get."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, Notification]] = []
        self.fail: Callable[[], None] = lambda: None

    def describe(self, channel: int) -> str:
        return f"fake {channel}"

    def send(self, channel: int, notification: Notification) -> None:
        self.fail()
        self.sent.append((channel, notification))

    @property
    def states(self) -> list[tuple[int, str]]:
        return [(channel, one.state.value) for channel, one in self.sent]

"""The way out for notifications."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from yarnam.core.model.job_status import JobState


@dataclass(frozen=True, slots=True)
class Notification:
    """A job has reached a state. ``id`` is the same however often it is sent."""

    id: str
    application: str
    name: str
    user: str
    queue: str
    state: JobState
    at_s: float
    message: str = ""
    hint: str = ""
    exit_code: int | None = None
    tracking_url: str = ""

    @property
    def subject(self) -> str:
        """``digits (application_1_2) SUCCEEDED``."""
        return f"{self.name} ({self.application}) {self.state.value}"

    @property
    def text(self) -> str:
        """The subject and what there is to say of it, in lines."""
        lines = (
            f"{self.subject}, user {self.user}, queue {self.queue}",
            self.message,
            self.hint,
            self.tracking_url,
        )
        return "\n".join(line for line in lines if line)


class NotificationSender(Protocol):
    """Sends to the channels of one job, by their number in its spec."""

    def describe(self, channel: int) -> str:
        """The channel for logs: its kind and host, no part of its URL that may be secret."""

    def send(self, channel: int, notification: Notification) -> None:
        """Returns when the receiver has it; at most some 20 s. Raises Unavailable, whose message
        has no secret."""

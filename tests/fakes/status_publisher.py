"""What clients would have been shown."""

from __future__ import annotations

from collections.abc import Sequence

from yarnam.core.model.job_status import JobStatus
from yarnam.wire.codec import decode


class FakeStatusPublisher:
    def __init__(self) -> None:
        self.statuses: list[JobStatus] = []
        self.events: list[bytes] = []

    def publish(self, status_json: bytes) -> None:
        self.statuses.append(decode(status_json, JobStatus))

    def record(self, events_json: Sequence[bytes]) -> None:
        self.events.extend(events_json)

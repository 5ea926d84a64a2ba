"""What clients would have been shown."""

from __future__ import annotations

from collections.abc import Sequence

from yarnam.core.model.job_status import JobStatus
from yarnam.wire.codec import decode


class FakeStatusPublisher:
    def __init__(self) -> None:
        self.statuses: list[JobStatus] = []
        self.events: list[bytes] = []
        self.is_broken = False

    def publish(self, status_json: bytes) -> None:
        self._check()
        self.statuses.append(decode(status_json, JobStatus))

    def record(self, events_json: Sequence[bytes]) -> None:
        self._check()
        self.events.extend(events_json)

    def _check(self) -> None:
        if self.is_broken:
            raise OSError(28, "No space left on device")

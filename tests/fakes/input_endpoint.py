"""Agents that ask when a test wants them to."""

from __future__ import annotations

import threading

from yarnam.ports.job_inputs import InputService


class FakeInputEndpoint:
    """``service`` is None until somebody serves; ``wakes`` counts."""

    def __init__(self) -> None:
        self.service: InputService | None = None
        self.wakes = 0
        self.is_served = threading.Event()

    def serve(self, service: InputService) -> None:
        self.service = service
        self.is_served.set()

    def wake(self) -> None:
        self.wakes += 1

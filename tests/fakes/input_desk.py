"""Agents that ask when a test wants them to."""

from __future__ import annotations

import threading

from yarnam.ports.inputs import InputOffice


class FakeInputDesk:
    """``office`` is None until somebody serves; ``wakes`` counts."""

    def __init__(self) -> None:
        self.office: InputOffice | None = None
        self.wakes = 0
        self.is_served = threading.Event()

    def serve(self, office: InputOffice) -> None:
        self.office = office
        self.is_served.set()

    def wake(self) -> None:
        self.wakes += 1

"""The ResourceManager's list of living applications, of the test's making."""

from __future__ import annotations

from collections.abc import Collection

from yarnam.core.model.tickets import LiveApplication
from yarnam.ports.ticket_queue import Confirmation


class FakeLiveApplications:
    """``trouble``: the ResourceManager does not answer, and has not for long."""

    def __init__(self, *known: LiveApplication) -> None:
        self.known = {app.application: app for app in known}
        self.attempts: dict[str, int] = {}
        self.trouble = ""
        self.asked: list[frozenset[str]] = []

    def add(
        self,
        name: str,
        *,
        user: str = "",
        queue: str = "root.dl",
        started_at_s: float = 0.0,
        containers: int = 1,
        attempt: int = 1,
    ) -> None:
        self.known[name] = LiveApplication(name, user, queue, started_at_s, containers)
        self.attempts[name] = max(attempt, self.attempts.get(name, 0))

    # ---- the port ------------------------------------------------------------------------

    def confirm(self, names: Collection[str]) -> Confirmation:
        self.asked.append(frozenset(names))
        return Confirmation(None, self.trouble) if self.trouble else Confirmation(dict(self.known))

    def newest_attempt(self, application: str) -> int:
        return 0 if self.trouble else self.attempts.get(application, 0)

"""Stands in for Skein's driver: keeps what was submitted, or fails as told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from yarnam.core.model.ids import ApplicationId
from yarnam.core.model.job_spec import AmSpec


class FakeLauncher:
    """``on_submit`` is called with the application's spec before an id is given; what it raises is
    raised (after ``accept_first`` the fake ResourceManager has taken it all the same)."""

    def __init__(self, on_accept: Callable[[ApplicationId, Any], None] = lambda *_: None) -> None:
        self.submitted: list[Any] = []
        self.started = 0
        self.closed = threading.Event()
        self._lock = threading.Lock()
        self._given = 0
        self.on_submit: Callable[[Any], None] = lambda _: None
        self.accept_first = False
        self.ends_with_client = True
        self.tokens_end: float | None = None
        self.queue = ""
        self._on_accept = on_accept

    def start(self) -> None:
        self.started += 1

    def wait(self) -> str:
        self.start()
        return "the fake is ready"

    def new_security(self) -> Any:
        import skein

        return skein.Security(cert_bytes=b"certificate", key_bytes=b"key")

    def allot(self) -> bool:
        return self.ends_with_client

    def submit(
        self, application_spec: Any, am: AmSpec, *, keep_unknown: bool = False
    ) -> ApplicationId:
        with self._lock:
            self._given = max(self._given, len(self.submitted)) + 1
            application = ApplicationId(f"application_1700000000000_{self._given:04}")
        if self.accept_first:
            self._on_accept(application, application_spec)
        self.on_submit(application_spec)
        self.submitted.append(application_spec)
        if not self.accept_first:
            self._on_accept(application, application_spec)
        return application

    def accepted_queue(self) -> str:
        return self.queue

    def tokens_end_s(self) -> float | None:
        return self.tokens_end

    def close(self) -> None:
        self.closed.set()

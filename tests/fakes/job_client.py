"""The line to an AM that is not there: answers as told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tests.fakes.task_sessions import FakeTaskSession
from yarnam.core.model.events import Event
from yarnam.core.model.job_status import JobStatus
from yarnam.core.model.session_parts import EndKind, SessionEnd, SessionPart, SessionRequest
from yarnam.errors import Unavailable
from yarnam.ports.job_access import StatusVersion


class FakeJobClient:
    """``statuses`` are told one after the other, the last one for ever; ``failure`` is raised by
    every call when set."""

    def __init__(self, *statuses: JobStatus) -> None:
        self.statuses = list(statuses)
        self.failure: Unavailable | None = None
        self.cancelled: list[tuple[str, str]] = []
        self.on_cancel: Callable[[], None] = lambda: None
        self.scaled: list[tuple[str, int | None]] = []
        self.on_scale: Callable[[], None] = lambda: None
        self.suspended: list[tuple[str, float, str]] = []
        self.on_suspend: Callable[[], None] = lambda: None
        self.resumed: list[str] = []
        self.on_resume: Callable[[], None] = lambda: None
        self.interrupted: list[str] = []
        self.tokens: list[str] = []
        self.journal: list[Event] = []
        self.outputs: dict[tuple[str, int], list[bytes]] = {}
        self.tails: list[tuple[str, int, int | None, bool, bool]] = []
        self.session_parts: list[SessionPart] = [SessionEnd(EndKind.EXITED)]
        self.sessions: list[FakeTaskSession] = []
        self.closed = False
        self._next = 0

    def status(self, *, seen: int = 0, hold_s: float = 0.0) -> StatusVersion:
        self._enter()
        self._next = min(self._next + 1, len(self.statuses))
        return StatusVersion(self._next, self.statuses[self._next - 1])

    def cancel(self, *, by: str, reason: str) -> None:
        self._enter()
        self.cancelled.append((by, reason))
        self.on_cancel()

    def scale(self, *, by: str, tasks: int | None) -> None:
        self._enter()
        self.scaled.append((by, tasks))
        self.on_scale()

    def suspend(self, *, by: str, limit_s: float, reason: str) -> None:
        self._enter()
        self.suspended.append((by, limit_s, reason))
        self.on_suspend()

    def resume(self, *, by: str) -> None:
        self._enter()
        self.resumed.append(by)
        self.on_resume()

    def interrupt(self, *, by: str) -> None:
        self._enter()
        self.interrupted.append(by)

    def replace_tokens(self, tokens: Sequence[str]) -> None:
        self._enter()
        self.tokens = list(tokens)

    def events(self, first: int = 0) -> Sequence[Event]:
        self._enter()
        return self.journal[first:]

    def tail(
        self,
        log_address: str,
        local_rank: int,
        *,
        last_lines: int | None = None,
        follow: bool = False,
        agent_log: bool = False,
    ) -> Iterator[bytes]:
        self._enter()
        self.tails.append((log_address, local_rank, last_lines, follow, agent_log))
        if not self.closed:
            yield from self.outputs.get((log_address, local_rank), [])

    def open_session(self, request: SessionRequest) -> FakeTaskSession:
        self._enter()
        self.sessions.append(FakeTaskSession(request, self.session_parts))
        return self.sessions[-1]

    def close(self) -> None:
        self.closed = True

    def _enter(self) -> None:
        if self.failure is not None:
            raise self.failure

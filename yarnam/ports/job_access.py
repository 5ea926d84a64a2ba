"""A client's access to the outside world beyond the file system (``hdfs_utils.FileSystem``).

The way into YARN and the connection to a job's AM and agents. Errors are ``yarnam.errors``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from yarnam.core.model.events import Event
from yarnam.core.model.ids import ApplicationId
from yarnam.core.model.job_spec import AmSpec
from yarnam.core.model.job_status import JobStatus
from yarnam.core.model.session_parts import SessionRequest
from yarnam.ports.task_sessions import TaskSession


class Launcher(Protocol):
    """The way into YARN: its REST API, or Skein's driver."""

    def start(self) -> None:
        """Begin to get ready, in the background; returns immediately."""

    def wait(self) -> str:
        """Return when it is ready, with words for who asked; at most 65 s. Raises BadConfig,
        Unavailable."""

    def new_security(self) -> Any:
        """Fresh ``skein.Security`` for one job."""

    def allot(self) -> bool:
        """Get an application's id for the next submit, where this way in has them ahead. Whether
        that submit ends with this process: nothing of it continues in another one. At most 75 s.
        Raises as ``wait``."""

    def submit(
        self, application_spec: Any, am: AmSpec, *, keep_unknown: bool = False
    ) -> ApplicationId:
        """Submit. ``am`` has how long a failed AM attempt counts, and whether the containers
        outlive their AM, where this way in can ask for that. ``keep_unknown``: after an error that
        leaves open whether YARN has the application, leave its files, so that it can run. Raises
        Unavailable, BadConfig, NoPermission, BadSpec; at most 120 s."""

    def tokens_end_s(self) -> float | None:
        """When the delegation tokens of the last submitted application end, in seconds since 1970;
        ``None`` if it has none, or that is unknown."""

    def accepted_queue(self) -> str:
        """The queue that YARN has put the last submitted application into; empty if unknown."""

    def close(self) -> None:
        """Let go of everything, a start under way included. Idempotent; at most 5 s."""


@dataclass(frozen=True, slots=True)
class StatusVersion:
    """A status with the number that a later question names as seen."""

    number: int
    status: JobStatus


class JobClient(Protocol):
    """Calls to one job's AM and agents."""

    def status(self, *, seen: int = 0, hold_s: float = 0.0) -> StatusVersion:
        """The AM's status; waits up to ``hold_s`` for one that differs from ``seen``. Raises
        Unavailable when the AM does not answer."""

    def cancel(self, *, by: str, reason: str) -> None:
        """Ask the AM to cancel the job. Raises Unavailable."""

    def scale(self, *, by: str, tasks: int | None) -> None:
        """Request this many tasks of the elastic role; with ``None`` the job chooses on its own
        again. Raises Unavailable."""

    def suspend(self, *, by: str, limit_s: float, reason: str) -> None:
        """Ask the AM to suspend the job, for this many seconds at most. Raises Unavailable."""

    def resume(self, *, by: str) -> None:
        """Ask the AM to resume the job. Raises Unavailable."""

    def interrupt(self, *, by: str) -> None:
        """Ask the AM to treat the gang as YARN's announcement of a preemption would. Raises
        Unavailable."""

    def replace_tokens(self, tokens: Sequence[str]) -> None:
        """Let the job use these delegation tokens (as Hadoop's REST interfaces write them) in
        place of those of the same kind and service. Raises Unavailable."""

    def events(self, first: int = 0) -> Sequence[Event]:
        """The journal from event number ``first`` on. Raises Unavailable."""

    def tail(
        self,
        log_address: str,
        local_rank: int,
        *,
        last_lines: int | None = None,
        follow: bool = False,
        agent_log: bool = False,
    ) -> Iterator[bytes]:
        """Read the output of a process (or of the agent itself) from the agent. Raises
        Unavailable."""

    def open_session(self, request: SessionRequest) -> TaskSession:
        """Open a session in a task, through the AM. Returns immediately; the session's own parts
        say how that went. Raises Unavailable."""

    def close(self) -> None:
        """Idempotent; ends tails and sessions under way."""

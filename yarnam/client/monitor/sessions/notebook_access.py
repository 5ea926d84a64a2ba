"""The way to the server of a notebook that runs: its port, its secret, and whether it listens."""

from __future__ import annotations

import http.client
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from yarnam.client.monitor.sessions.port_forwarding import LOOPBACK
from yarnam.core.model.job_spec import NOTEBOOK_PORT, NOTEBOOK_TOKEN, JobSpec
from yarnam.core.model.job_status import JobState, JobStatus
from yarnam.core.model.session_parts import EndKind, SessionData, SessionEnd
from yarnam.errors import Unavailable, UsageError
from yarnam.ports.task_sessions import TaskSession

READ = f'printf "%s %s" "$YARNAM_PORT_{NOTEBOOK_PORT.upper()}" "${NOTEBOOK_TOKEN}"'
"""Prints the port and the secret; the words of a command are in the job's events."""
COMMAND = (b"/bin/sh", b"-c", READ.encode())
MAX_BYTES = 1000
_ANSWER = re.compile(r"(\d{1,5}) ([0-9a-f]{16,128})", re.ASCII)

LISTEN_S = 300.0
"""Until the server answers: as long as the program beside it waits."""
ASK_S, POLL_S = 5.0, 0.5
HINT = "See: yarnam docs notebooks"


@dataclass(frozen=True, slots=True)
class NotebookServer:
    """A server in a task."""

    kind: str
    port: int
    token: str = field(repr=False)

    def url(self, local: int) -> str:
        """The address in a browser of this machine. code-server asks for the secret as its
        password."""
        address = f"http://{LOOPBACK}:{local}/"
        return address if self.kind == "code-server" else f"{address}lab?token={self.token}"


def require_notebook(job: JobSpec, name: str) -> str:
    """Its kind of server. Raises UsageError."""
    if job.notebook is None:
        raise UsageError(
            f"{name} is not a notebook: its spec has no section notebook",
            hint="For a server in another job: yarnam port-forward JOB PORT",
        )
    return job.notebook.server


def is_there(status: JobStatus) -> bool:
    """Whether its process runs, or the job has ended."""
    is_running = status.state is JobState.RUNNING and any(task.ranks for task in status.tasks)
    return status.state.is_final or is_running


def read_server(kind: str, task: str, session: TaskSession) -> NotebookServer:
    """``session`` runs ``COMMAND`` in the task. Raises UsageError (no sessions), Unavailable."""
    content, end = b"", SessionEnd(EndKind.CUT)
    try:
        session.end_data()
        for part in session:
            if isinstance(part, SessionData) and not part.is_error:
                content += part.data
            elif isinstance(part, SessionEnd):
                end = part
            if len(content) > MAX_BYTES:
                break
    finally:
        session.close()
    if end.kind is EndKind.REFUSED:
        raise UsageError(f"the notebook in {task}: {end.reason}", hint=HINT)
    found = _ANSWER.fullmatch(content.decode("ascii", "replace"))
    if end.kind is not EndKind.EXITED or found is None:
        raise Unavailable(
            f"the session in {task} does not give the notebook's port: {end.reason or 'no reason'}"
        )
    return NotebookServer(kind, int(found[1]), found[2])


def await_listening(local: int, is_over: Callable[[], bool]) -> None:
    """Until the server answers at this port, ``is_over``, or ``LISTEN_S``. Raises Unavailable."""
    limit_s = time.monotonic() + LISTEN_S
    while not is_over():
        connection = http.client.HTTPConnection(LOOPBACK, local, timeout=ASK_S)
        try:
            connection.request("GET", "/api")
            connection.getresponse().read(MAX_BYTES)
        except (OSError, http.client.HTTPException):
            if time.monotonic() > limit_s:
                raise Unavailable(
                    f"the notebook's server does not answer after {LISTEN_S:g} s",
                    hint="Its output says why: yarnam logs",
                ) from None
            time.sleep(POLL_S)
        else:
            return
        finally:
            connection.close()

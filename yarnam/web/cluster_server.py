"""``yarnam ui``'s requests: which page, from which of the client's answers, how fresh."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from yarnam.core.accounting.job_summary import JobSummary
from yarnam.core.model.job_status import JobStatus
from yarnam.core.queues.queues_now import QueuesNow
from yarnam.errors import Blame, YarnamError
from yarnam.web.cluster_pages import (
    JobFilter,
    JobsView,
    jobs_page,
    problem_page,
    queues_page,
)
from yarnam.web.http.http_messages import Request, Response, text_response
from yarnam.web.http.local_peers import is_loopback_name
from yarnam.web.job_page import JobView, job_page
from yarnam.web.log_page import LogChoice, LogsView, log_choice, log_page
from yarnam.web.rendering import content_security_policy

ACTIVE_FOR_S = 2.0
"""So long an answer of the ResourceManager is shown, to any number of readers."""
ENDED_FOR_S = 15.0
"""The same of the history, which is read from HDFS."""

_JOB = re.compile(r"/jobs/(application_[0-9]{1,20}_[0-9]{1,10})(/logs)?")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """The sources of the pages. Each may raise YarnamError, and is called from any thread."""

    active: Callable[[], Sequence[JobStatus]]
    ended: Callable[[], Sequence[JobSummary]]
    queues: Callable[[], QueuesNow]
    job: Callable[[str], JobView]
    """The job with this application id."""
    logs: Callable[[str, LogChoice], LogsView]


class ClusterServer:
    """Answers requests for all jobs and queues."""

    def __init__(self, source: ClusterSource, now_s: Callable[[], float] = time.time) -> None:
        self._source = source
        self._now_s = now_s
        self._active = _Kept(source.active, ACTIVE_FOR_S)
        self._ended = _Kept(source.ended, ENDED_FOR_S)
        self._queues = _Kept(source.queues, ACTIVE_FOR_S)

    def respond(self, request: Request) -> Response:
        """The response to a request of any path."""
        if not is_loopback_name(request.host):
            return text_response(403, "Open this page as http://127.0.0.1:PORT/ or localhost.")
        try:
            body = self._body(request)
        except YarnamError as error:
            status = 404 if error.blame is Blame.USER else 502
            page = problem_page(error.message, error.hint)
            return Response(page, status=status, policy=content_security_policy())
        if body is None:
            return text_response(404, "There is no such page here.")
        return Response(body, policy=content_security_policy())

    def _body(self, request: Request) -> bytes | None:
        path = request.path.rstrip("/")
        if path == "":
            return jobs_page(self._jobs(request))
        if path == "/queues":
            return queues_page(self._queues.get())
        found = _JOB.fullmatch(path)
        if found is None:
            return None
        if not found[2]:
            return job_page(self._source.job(found[1]))
        chosen = log_choice(request.query)
        return None if chosen is None else log_page(self._source.logs(found[1], chosen))

    def _jobs(self, request: Request) -> JobsView:
        troubles: list[str] = []

        def read(kept: _Kept[Sequence[Any]], what: str) -> Sequence[Any]:
            try:
                return kept.get()
            except YarnamError as error:
                troubles.append(f"{what} cannot be read: {error.message}")
                return ()

        active = read(self._active, "The active jobs")
        ended = read(self._ended, "The history")
        given = request.query
        chosen = JobFilter(
            given.get("queue", "").strip(), given.get("user", "").strip(), given.get("state", "")
        )
        return JobsView(self._now_s(), active, ended, chosen, troubles)


class _Kept(Generic[T]):
    """The newest answer, for a while. One thread asks at a time; the others wait for its answer."""

    def __init__(self, ask: Callable[[], T], for_s: float) -> None:
        self._ask = ask
        self._for_s = for_s
        self._lock = threading.Lock()
        self._kept: tuple[float, T] | None = None

    def get(self) -> T:
        with self._lock:
            if self._kept is None or time.monotonic() - self._kept[0] >= self._for_s:
                found = self._ask()
                self._kept = (time.monotonic(), found)
            return self._kept[1]

"""``yarnam ui``'s requests: which page, from which of the client's answers, how fresh."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Generic, TypeVar

from yarnam.core.accounting.job_summary import JobSummary
from yarnam.core.model.job_status import JobStatus
from yarnam.core.model.printable import duration
from yarnam.core.model.snapshot import ClusterSnapshot, NodeStrike
from yarnam.core.queues.overview.alerts import (
    NO_ALERTS,
    Alert,
    AlertState,
    observe,
    step_alerts,
)
from yarnam.core.queues.overview.cluster_overview import ClusterInfo
from yarnam.core.queues.queues_now import QueuesNow
from yarnam.errors import Blame, Unavailable, YarnamError
from yarnam.web.cluster_pages import (
    JobFilter,
    JobsView,
    UseView,
    jobs_page,
    problem_page,
    queues_page,
)
from yarnam.web.http.http_messages import Request, Response, text_response
from yarnam.web.http.local_peers import is_loopback_name
from yarnam.web.job_page import JobView, job_page
from yarnam.web.log_page import LogChoice, LogsView, log_choice, log_page
from yarnam.web.overview_pages import ClusterView, NodesView, nodes_page
from yarnam.web.rendering import content_security_policy

ACTIVE_FOR_S = 2.0
"""So long an answer of the ResourceManager is shown, to any number of readers."""
STRIKES_FOR_S = 5.0
"""The same of strikes, from ZooKeeper."""
ENDED_FOR_S = 15.0
"""The same of the history, which is read from HDFS."""
USE_FOR_S = 60.0
"""The same of the use over time, which is of quarters of an hour."""
INFO_FOR_S = 30.0
"""The same of the ResourceManager's word on itself."""
JOB_FOR_S = 1.0
"""The same of one job, of which the newest is wanted."""

ANSWER_LIMIT_S = 1.6
"""A page waits this long for what it shows, and then says what is missing: readers expect a page
within two seconds. The reading continues for the next page."""

SHOWN_FOR_S = 600.0
"""An answer that cannot be renewed is shown for this long, with its age."""

SLOW_S = 10.0
"""An answer that is older, while a new one is waited for, is shown with its age."""

MOST_JOBS_KEPT = 16
"""Jobs whose last answer is kept."""

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
    info: Callable[[], ClusterInfo]
    nodes: Callable[[], ClusterSnapshot]
    strikes: Callable[[], tuple[NodeStrike, ...]]
    use: Callable[[], UseView]


class ClusterServer:
    """Answers requests for all jobs, nodes and queues. ``alerts``: those that are known already."""

    def __init__(
        self,
        source: ClusterSource,
        now_s: Callable[[], float] = time.time,
        alerts: AlertState = NO_ALERTS,
        limit_s: float = ANSWER_LIMIT_S,
    ) -> None:
        self._source = source
        self._now_s = now_s
        self._limit_s = limit_s
        self._active = _Kept("The statuses of jobs", source.active, ACTIVE_FOR_S)
        self._ended = _Kept("The history", source.ended, ENDED_FOR_S)
        self._queues = _Kept("Queues, nodes and jobs", source.queues, ACTIVE_FOR_S)
        self._info = _Kept("The ResourceManager's state", source.info, INFO_FOR_S)
        self._nodes = _Kept("The nodes", source.nodes, ACTIVE_FOR_S)
        self._strikes = _Kept("Strikes against nodes", source.strikes, STRIKES_FOR_S)
        self._use = _Kept("Use over time", source.use, USE_FOR_S)
        self._lock = threading.Lock()
        self._jobs: dict[str, _Kept[JobView]] = {}
        self._alerts = alerts
        self._observed_s = -inf

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
        parts = _PageParts(time.monotonic() + self._limit_s)
        if path == "":
            return jobs_page(self._jobs_view(request, parts))
        if path == "/queues":
            parts.begin(self._queues, self._use)
            now, use = parts.must(self._queues), parts.at(self._use)
            return queues_page(now, parts.troubles_with(now), use)
        if path == "/nodes":
            return nodes_page(self._nodes_view(request, parts))
        found = _JOB.fullmatch(path)
        if found is None:
            return None
        if not found[2]:
            view = parts.must(self._job(found[1]))
            if parts.troubles:
                raise Unavailable(parts.troubles[0], hint="The page retries automatically.")
            return job_page(view)
        chosen = log_choice(request.query)
        return None if chosen is None else log_page(self._source.logs(found[1], chosen))

    def _job(self, application: str) -> _Kept[JobView]:
        with self._lock:
            kept = self._jobs.pop(application, None) or _Kept(
                "The job", lambda: self._source.job(application), JOB_FOR_S
            )
            self._jobs[application] = kept
            if len(self._jobs) > MOST_JOBS_KEPT:
                self._jobs.pop(next(iter(self._jobs)))
            return kept

    def _nodes_view(self, request: Request, parts: _PageParts) -> NodesView:
        parts.begin(self._nodes, self._queues, self._strikes)
        taken, now = parts.at(self._nodes), parts.at(self._queues)
        strikes = parts.at(self._strikes)
        if taken is not None:
            nodes = taken.nodes
        else:  # Then without the models of their GPUs.
            nodes = now.all_nodes or now.nodes if now is not None else parts.must(self._nodes).nodes
        kind = request.query.get("kind", "")
        return NodesView(self._now_s(), nodes, now, strikes or (), kind, parts.troubles_with(now))

    def _jobs_view(self, request: Request, parts: _PageParts) -> JobsView:
        parts.begin(self._info, self._queues, self._strikes, self._active, self._ended)
        info, now = parts.at(self._info), parts.at(self._queues)
        strikes = parts.at(self._strikes)
        active, ended = parts.at(self._active), parts.at(self._ended)
        given = request.query
        chosen = JobFilter(
            given.get("queue", "").strip(), given.get("user", "").strip(), given.get("state", "")
        )
        alerts = self._observed(now, strikes)
        cluster = ClusterView(info, now, strikes or (), alerts)
        troubles = parts.troubles_with(now)
        return JobsView(self._now_s(), active or (), ended or (), chosen, troubles, cluster)

    def _observed(
        self, now: QueuesNow | None, strikes: tuple[NodeStrike, ...] | None
    ) -> tuple[Alert, ...]:
        with self._lock:
            # An answer that could not be renewed says nothing new.
            if now is not None and now.taken_at_s > self._observed_s:
                self._observed_s = now.taken_at_s
                step = step_alerts(self._alerts, observe(now, strikes), now.taken_at_s)
                self._alerts = step.state
            return self._alerts.active


class _Kept(Generic[T]):
    """The newest answer, for a while. One thread asks at a time, however many wait for its
    answer."""

    def __init__(self, what: str, ask: Callable[[], T], for_s: float) -> None:
        self.what = what
        self._ask = ask
        self._for_s = for_s
        self._changed = threading.Condition()
        self._is_asking = False
        self._asked_s = -inf
        self._error: Exception | None = None
        self._answer: tuple[float, T] | None = None

    def begin(self) -> None:
        """Start a reading, unless the last answer is fresh enough or one is under way."""
        with self._changed:
            if self._is_asking or time.monotonic() - self._asked_s < self._for_s:
                return
            self._is_asking = True
        threading.Thread(target=self._run, name="page-part", daemon=True).start()

    def get(self, until_s: float) -> tuple[T, str]:
        """The answer, and why it is not a new one (empty: it is). Raises what the source raised,
        and Unavailable while nothing is known."""
        self.begin()
        with self._changed:
            # After a failure the next answer may take as long: what is known is shown meanwhile.
            has_just_failed = self._error is not None and time.monotonic() - self._asked_s < SLOW_S
            if self._answer is None or not has_just_failed:
                left_s = max(0.0, until_s - time.monotonic())
                self._changed.wait_for(lambda: not self._is_asking, left_s)
            error = self._error
            if error is None and self._is_asking:
                error = Unavailable(
                    f"{self.what}: no answer yet", hint="The page retries automatically."
                )
            if self._answer is None:
                raise error or AssertionError("an answer or an error")
            return self._answer[1], self._why_old(error, time.monotonic() - self._answer[0])

    def _why_old(self, error: Exception | None, age_s: float) -> str:
        """Raises the error if the last answer is too old, or there is none of another kind."""
        if error is None:
            return ""
        if not isinstance(error, YarnamError) or error.blame is Blame.USER or age_s > SHOWN_FOR_S:
            raise error
        if self._error is None and age_s < SLOW_S:
            return ""  # A reading may take longer than a page waits.
        why = error.message.removeprefix(f"{self.what}: ")
        return f"{self.what}: as of {duration(age_s)} ago: {why}"

    def _run(self) -> None:
        answer = self._answer
        error: Exception | None = None
        try:
            found = self._ask()
            answer = time.monotonic(), found
        except Exception as raised:  # noqa: BLE001 - raised again in the threads that wait
            error = raised
        with self._changed:
            now_s, self._answer = time.monotonic(), answer
            self._error, self._asked_s, self._is_asking = error, now_s, False
            self._changed.notify_all()


class _PageParts:
    """What one page asks for, all of it by one time."""

    def __init__(self, until_s: float) -> None:
        self._until_s = until_s
        self.troubles: list[str] = []

    def begin(self, *parts: _Kept[Any]) -> None:
        for part in parts:
            part.begin()

    def must(self, part: _Kept[T]) -> T:
        """Raises YarnamError."""
        found, trouble = part.get(self._until_s)
        self.troubles += [trouble] if trouble else []
        return found

    def at(self, part: _Kept[T]) -> T | None:
        """``None``, and a trouble, where it cannot be read."""
        try:
            return self.must(part)
        except YarnamError as error:
            why = error.message.removeprefix(f"{part.what}: ")
            self.troubles.append(f"{part.what} cannot be read: {why}")
            return None

    def troubles_with(self, now: QueuesNow | None) -> list[str]:
        """Everything that the page lacks."""
        more = now.troubles if now is not None else ()
        return [*self.troubles, *(f"Missing: {trouble}" for trouble in more)]

"""The job page, ``/api/v1`` and ``/metrics`` of a running ApplicationMaster.

Nothing here knows more than the AM has published: the status and the events that clients get by
gRPC, and the reports of the agents. Only YARN's proxy and this node itself are let in.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from yarnam._light_imports import on_first_use
from yarnam.core.model.events import Event
from yarnam.core.model.ids import AskId, distinct_names, parse_ask_id
from yarnam.core.model.job_status import JobStatus
from yarnam.core.model.metrics import AgentMetrics
from yarnam.core.model.printable import printable_json
from yarnam.web.http.http_messages import JSON, Address, Request, Response, text_response
from yarnam.web.http.http_server import HttpServer
from yarnam.web.page_access import PageAccess
from yarnam.web.training_series import Series, TrainingSeries
from yarnam.wire.codec import decode, decode_event

with on_first_use():
    from yarnam.web import job_page, metrics_text, openapi, rendering

log = logging.getLogger("yarnam.web")

NOT_PUBLISHED = b"{}"
"""The status before the AM has published one."""
EVENTS_SHOWN = 60
MAX_EVENTS = 500
"""In one response."""
MAX_DIGITS = 12
SAMPLE_PERIOD_S = 2.0
RESOLVED_FOR_S = 60.0
"""The addresses of the proxy's hosts are looked up again after this."""


@dataclass(frozen=True, slots=True)
class JobSource:
    """The AM's data on its job. The server's threads call all of it."""

    status_json: Callable[[], bytes]
    events_json: Callable[[int, int], tuple[int, Sequence[bytes]]]
    """Return at most this many events, from this number or the oldest kept event on, and the number
    of the first."""
    event_count: Callable[[], int]
    metrics: Callable[[], Sequence[AgentMetrics]]
    event_text: Callable[[Event, Mapping[AskId, str]], str]


class JobServer:
    """Answers requests for one job's page. ``sample`` is to be called periodically. ``node_scheme``
    is that of the NodeManagers' pages. ``access`` decides who may read; ``None`` is everybody."""

    def __init__(
        self,
        source: JobSource,
        now_s: Callable[[], float] = time.time,
        node_scheme: str = "http",
        access: PageAccess | None = None,
    ) -> None:
        self._source = source
        self._access = access
        self._node_scheme = node_scheme
        self._now_s = now_s
        self.series = TrainingSeries()
        self._sampled_at_s = 0.0
        self._status: tuple[bytes, JobStatus] | None = None
        self._recent: deque[Event] = deque(maxlen=EVENTS_SHOWN)
        self._names: dict[AskId, str] = {}
        """The tasks' names, of those that were published while this page was read."""
        self._next_event = 0
        self._lock = threading.Lock()

    @property
    def is_access_checked(self) -> bool:
        return self._access is not None and self._access.is_checked

    def sample(self) -> None:
        """Take a sample of what the agents report, every ``SAMPLE_PERIOD_S`` at most."""
        now_s = self._now_s()
        if not 0 <= now_s - self._sampled_at_s < SAMPLE_PERIOD_S:
            self._sampled_at_s = now_s
            is_published = self._source.status_json() != NOT_PUBLISHED
            history = self._read().history if is_published else ()
            tried = {one.attempt for one in history if one.is_pre_run}
            # A pre-run's progress is not the job's.
            own = [one for one in self._source.metrics() if one.attempt not in tried]
            self.series.sample(own)

    def respond(self, request: Request) -> Response:
        """The response to a request of any path."""
        path = request.path.rstrip("/")
        if refusal := self._access.refusal(request.cookie) if self._access else "":
            return text_response(403, refusal)
        if self._source.status_json() == NOT_PUBLISHED:
            return text_response(503, "The ApplicationMaster is starting. Try again in a second.")
        if path == "":
            policy = rendering.content_security_policy()
            return Response(job_page.job_page(self.view()), policy=policy)
        if path == "/metrics":
            body = metrics_text.metrics_text(self._read(), self.series.step_times())
            return Response(body, metrics_text.KIND)
        if path.startswith("/api/v1/"):
            return self._api(path.removeprefix("/api/v1/"), request)
        return text_response(404, "There is no such page here.")

    def view(self) -> job_page.JobView:
        """The content of the page now."""
        status = self._read()
        return job_page.JobView(
            status=status,
            now_s=self._now_s(),
            events=self._events(),
            series=self.series.series(),
            step_times=self.series.step_times(),
            saved_step=self.series.saved_step,
            has_api=True,
            node_scheme=self._node_scheme,
        )

    def _events(self) -> list[tuple[float, str]]:
        """The newest first. Each is decoded once: a plan for a large gang is long."""
        with self._lock:
            count = self._source.event_count()
            self._next_event = max(self._next_event, count - EVENTS_SHOWN)
            first, lines = self._source.events_json(self._next_event, count - self._next_event)
            self._next_event = first
            for line in lines:
                self._recent.append(decode_event(line))
                self._next_event += 1
            for task in self._read().tasks:
                with suppress(ValueError):
                    if task.task != task.ask:
                        self._names[parse_ask_id(task.ask)] = task.task
            names = distinct_names(self._names)
            recent = [*reversed(self._recent)]
            return [(event.at_s, self._source.event_text(event, names)) for event in recent]

    def _read(self) -> JobStatus:
        """The published status; the status of a large gang is decoded once."""
        plain, known = self._source.status_json(), self._status
        if known is None or known[0] is not plain:
            known = self._status = (plain, decode(plain, JobStatus))
        return known[1]

    def _api(self, name: str, request: Request) -> Response:
        match name:
            case "job":
                body = self._source.status_json()
            case "events":
                first = _first_event(request.query.get("from", "0"))
                if first is None:
                    return text_response(400, "from: the number of an event, 0 or more")
                first, lines = self._source.events_json(first, MAX_EVENTS)
                body = _events_body(lines, first)
            case "series":
                body = _series_body(self.series.series(), self.series.step_times())
            case "openapi.json":
                body = openapi.openapi()
            case _:
                return text_response(404, "There is no such resource here.")
        return Response(body, JSON)


class ProxyOnly:
    """Lets in the hosts of YARN's proxy, and this node: Skein's own proxy runs on it. ``is_strict``
    keeps programs of this node out, which could say that they are the proxy for anybody.

    ``refresh`` looks the hosts up, which may take long; a judgement never waits for it."""

    def __init__(
        self,
        hosts: Sequence[str],
        resolve: Callable[[str], Sequence[str]] | None = None,
        now_s: Callable[[], float] = time.monotonic,
        *,
        is_strict: bool = False,
    ) -> None:
        self._is_strict = is_strict
        self._hosts = tuple(dict.fromkeys(hosts))
        self._resolve = resolve or _addresses
        self._now_s = now_s
        self._known: frozenset[str] = frozenset()
        self._has_refused = True
        self._until_s = float("-inf")

    def __call__(self, peer: Address, own_end: Address) -> bool:
        plain = peer[0].removeprefix("::ffff:")
        # A proxy on this machine may come from any of loopback's addresses.
        is_open = not self._is_strict or any(map(_is_loopback, self._known))
        if plain in self._known or (is_open and _is_loopback(plain)):
            return True
        self._has_refused = True
        return False

    def refresh(self) -> None:
        """Look the hosts up at first, and again after a refusal: a host may have a new address."""
        if self._has_refused and self._now_s() >= self._until_s:
            self._has_refused = False
            found = (one for host in self._hosts for one in self._resolve(host))
            self._known, self._until_s = frozenset(found), self._now_s() + RESOLVED_FOR_S


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def _addresses(host: str) -> Sequence[str]:
    try:
        rows: list[Any] = socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)
    except OSError as error:
        log.warning(
            "%s cannot be resolved: its requests for the job page are refused: %s", host, error
        )
        return ()
    return [str(row[4][0]) for row in rows]


def open_job_server(
    server: JobServer,
    listener: socket.socket,
    proxy_hosts: Sequence[str],
    announce: Callable[[int], None],
) -> HttpServer:
    """Serve in a thread of its own. ``announce(port)`` is called there once, and may block."""
    is_announced = False

    proxy = ProxyOnly(proxy_hosts, is_strict=server.is_access_checked)

    def tick() -> None:
        nonlocal is_announced
        proxy.refresh()
        if not is_announced:
            is_announced = True
            announce(http.port)
        server.sample()

    http = HttpServer(listener, server.respond, proxy, tick, SAMPLE_PERIOD_S)
    http.start()
    return http


# ---- bodies of /api/v1, which ``openapi`` describes ----------------------------------------------


def _first_event(text: str) -> int | None:
    """The number in a query, or ``None`` for anything else."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS
    return int(text) if is_number else None


def _events_body(lines: Sequence[bytes], first: int) -> bytes:
    """``next`` is the number to ask from next."""
    head = f'{{"first":{first},"next":{first + len(lines)},"events":['.encode()
    return head + b",".join(lines) + b"]}"


def _series_body(series: Sequence[Series], step_times: Mapping[int, float]) -> bytes:
    """Series of the lowest rank that reports, and each rank's step time in seconds."""
    plain = {
        "series": [{"name": one.name, "unit": one.unit, "points": one.points} for one in series],
        "step_times": [{"rank": rank, "step_s": step_times[rank]} for rank in sorted(step_times)],
    }
    return printable_json(json.dumps(plain, ensure_ascii=False, allow_nan=False)).encode(
        "utf-8", "replace"
    )

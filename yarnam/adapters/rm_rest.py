"""The ResourceManager through its REST API: nodes, queues, applications.

Several addresses are tried in turn (HA); the one that answered last is asked first. Proxies of the
environment are ignored: the ResourceManager is inside.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from http.client import HTTPException
from typing import Any
from urllib.parse import quote, urlencode

from yarnam.adapters.hadoop_site import rm_web_urls
from yarnam.adapters.rm_parse import (
    YarnApplication,
    application_of,
    nodes_of,
    queue_of,
    queues_of,
    settings_of,
    steps_of,
)
from yarnam.errors import NoPermission, Unavailable, UsageError
from yarnam.model.resources import Resources
from yarnam.model.snapshot import AllocationSteps, ClusterSnapshot, QueueView

REQUEST_TIMEOUT_S = 4.0
"""For one address to connect, and between bytes. A healthy RM answers in milliseconds."""
SUBMIT_TIMEOUT_S = 30.0
"""For handing an application in: the RM writes it to its state store first."""
TOTAL_TIMEOUT_S = 10.0
"""For one call over all addresses (the promise of ``ports.ClusterView``)."""


class ResourceManager:
    """Calls to the RM's REST API. Thread-safe; also a ``ports.ClusterView``.

    ``user`` is sent as ``user.name``, which simple authentication believes. A cluster that wants
    Kerberos answers 401, which raises NoPermission.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        user: str = "",
        request_timeout_s: float = REQUEST_TIMEOUT_S,
        total_timeout_s: float = TOTAL_TIMEOUT_S,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        if not urls:
            raise ValueError("at least one URL")
        self._urls = [url.rstrip("/") for url in urls]
        self._user = user
        self._request_timeout_s = request_timeout_s
        self._total_timeout_s = total_timeout_s
        self._lock = threading.Lock()
        self._known_steps: AllocationSteps | None = None
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if any(url.startswith("https:") for url in self._urls):
            context = ssl_context or ssl.create_default_context()
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)

    @classmethod
    def from_conf(cls, conf_dir: str, *, user: str = "") -> ResourceManager:
        """The ResourceManagers that yarn-site.xml names. Raises BadConfig."""
        return cls(rm_web_urls(conf_dir), user=user)

    @property
    def url(self) -> str:
        """The address that answered last, or the first one."""
        with self._lock:
            return self._urls[0]

    def snapshot(self, queue: str) -> ClusterSnapshot:
        """Nodes and the queue, now. A queue that is not there (yet) has no limits.

        Raises Unavailable when no ResourceManager answers within 10 s.
        """
        deadline = time.monotonic() + self._total_timeout_s
        scheduler = self._get("/ws/v1/cluster/scheduler", deadline=deadline)
        nodes = nodes_of(self._get("/ws/v1/cluster/nodes", deadline=deadline))
        view = queue_of(scheduler, queue) or QueueView(name=queue)
        steps = self._steps(deadline)
        return ClusterSnapshot(
            taken_at_s=time.time(),
            nodes=nodes,
            queue=view,
            max_container=view.max_container,
            queues=queues_of(scheduler),
            steps=steps,
        )

    def _steps(self, deadline: float) -> AllocationSteps:
        """How the scheduler rounds. Asked for once: it changes with a restart of the RM only. A
        site that does not show its configuration is taken to round nothing."""
        with self._lock:
            known = self._known_steps
        if known is not None:
            return known
        try:
            found = steps_of(self._get("/conf", deadline=deadline))
        except (NoPermission, UsageError):
            found = AllocationSteps()
        except Unavailable:
            return AllocationSteps()
        with self._lock:
            self._known_steps = found
        return found

    def settings(self) -> Mapping[str, str]:
        """The ResourceManager's own configuration, as far as it shows it. Raises NoPermission."""
        return settings_of(self._get("/conf"))

    def info(self) -> Mapping[str, Any]:
        """``clusterInfo`` as it comes: state, haState, resourceManagerVersion, startedOn (ms)."""
        found: Mapping[str, Any] = self._get("/ws/v1/cluster/info").get("clusterInfo") or {}
        return found

    def queues(self) -> tuple[QueueView, ...]:
        """All leaf queues by their full names."""
        return queues_of(self._get("/ws/v1/cluster/scheduler"))

    def max_container(self, queue: str) -> Resources | None:
        """The largest container that this queue may get, where the scheduler tells."""
        found = queue_of(self._get("/ws/v1/cluster/scheduler"), queue)
        return found.max_container if found else None

    def queue_access(self, queue: str, user: str) -> bool | None:
        """Whether this user may submit to this queue; None when the ResourceManager does not tell
        (it tells only those who administer the queue)."""
        query = {"user": user, "queue-acl-type": "SUBMIT_APPLICATIONS"}
        try:
            reply = self._get(f"/ws/v1/cluster/queues/{quote(queue)}/access", query)
        except (NoPermission, UsageError):
            return None
        allowed = reply.get("allowed")
        return None if allowed is None else str(allowed).lower() == "true"

    def application(self, app_id: str) -> YarnApplication | None:
        """None: the ResourceManager does not know it (never there, or forgotten)."""
        try:
            reply = self._get(f"/ws/v1/cluster/apps/{quote(app_id)}")
        except UsageError:
            return None
        return application_of(reply.get("app") or {})

    def applications(
        self,
        *,
        user: str = "",
        queue: str = "",
        tags: Iterable[str] = (),
        states: Iterable[str] = (),
        limit: int = 0,
    ) -> tuple[YarnApplication, ...]:
        """Applications that match all of what is given, newest first; 0: no limit."""
        query = {
            "user": user,
            "queue": queue,
            "applicationTags": ",".join(tags),
            "states": ",".join(states),
            "limit": str(limit) if limit else "",
        }
        reply = self._get("/ws/v1/cluster/apps", {key: val for key, val in query.items() if val})
        rows = (reply.get("apps") or {}).get("app") or []
        found = (application_of(row) for row in rows)
        return tuple(sorted(found, key=lambda app: (app.started_at_s, app.application))[::-1])

    def kill(self, app_id: str, user: str = "") -> None:
        """Kill the application as ``user`` (default: this client's). Killing one that is over is
        harmless. Raises NoPermission, UsageError (no such application), Unavailable."""
        self._call(
            "PUT",
            f"/ws/v1/cluster/apps/{quote(app_id)}/state",
            {"user.name": user or self._user},
            body={"state": "KILLED"},
        )

    def new_application(self) -> str:
        """The id of an application that may be submitted; one that never is leaves no trace.
        Raises NoPermission, UsageError, Unavailable."""
        reply = self._call("POST", "/ws/v1/cluster/apps/new-application", {}, body={})
        return str(reply["application-id"])

    def submit_application(self, context: Mapping[str, Any]) -> None:
        """Hand an ApplicationSubmissionContext in; the same one again is harmless. YARN decides
        on it afterwards: look at its state. Raises NoPermission, UsageError, Unavailable."""
        deadline = time.monotonic() + SUBMIT_TIMEOUT_S
        self._call("POST", "/ws/v1/cluster/apps", {}, body=context, deadline=deadline)

    def _get(
        self, path: str, query: Mapping[str, str] | None = None, *, deadline: float | None = None
    ) -> Mapping[str, Any]:
        return self._call("GET", path, query or {}, deadline=deadline)

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        *,
        body: Mapping[str, Any] | None = None,
        deadline: float | None = None,
    ) -> Mapping[str, Any]:
        """Ask each address until one answers with JSON."""
        deadline = deadline or time.monotonic() + self._total_timeout_s
        with self._lock:
            urls = list(self._urls)
        failures: list[str] = []
        cause: Exception | None = None
        for url in urls:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                failures.append(f"{url}: not asked, {self._total_timeout_s:g} s are over")
                continue
            request = self._request(method, url + path, query, body)
            try:
                # Whoever gives a call more time wants its answer more than another address.
                limit_s = max(self._request_timeout_s, left_s - self._total_timeout_s)
                reply = self._answer(request, min(limit_s, left_s))
            except (OSError, HTTPException, ValueError) as error:
                failures.append(f"{url}: {_words(error)}")
                cause = error
                continue
            with self._lock:
                if self._urls[0] != url:
                    self._urls.sort(key=lambda other: other != url)
            return reply
        raise Unavailable(
            f"no answer from the ResourceManager: {'; '.join(failures)}",
            hint="Check that it runs and that yarn.resourcemanager.webapp.address is right.",
        ) from cause

    def _request(
        self, method: str, url: str, query: Mapping[str, str], body: Mapping[str, Any] | None
    ) -> urllib.request.Request:
        full = {"user.name": self._user, **query} if self._user else dict(query)
        headers = {"Accept": "application/json"}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        suffix = f"?{urlencode(full)}" if full else ""
        return urllib.request.Request(url + suffix, data=data, headers=headers, method=method)  # noqa: S310 - http(s) only, from the site's configuration

    def _answer(self, request: urllib.request.Request, timeout_s: float) -> Mapping[str, Any]:
        """The JSON object. Raises OSError or ValueError when another address should be asked."""
        try:
            with self._opener.open(request, timeout=timeout_s) as response:
                content = response.read()
        except urllib.error.HTTPError as error:
            with error:
                content = error.read()
            _raise_refusal(error.code, content, request.selector)
            raise OSError(f"HTTP {error.code}: {_remote_message(content)}") from error
        reply = json.loads(content or b"{}")
        if not isinstance(reply, dict):
            raise ValueError(f"not a JSON object: {content[:80]!r}")
        return reply


def _raise_refusal(status: int, content: bytes, path: str) -> None:
    """Answers that no other address would give differently."""
    if status == 401:
        raise NoPermission(
            "the ResourceManager's REST API wants Kerberos (SPNEGO)",
            hint="yarnam speaks simple authentication to it so far.",
        )
    if status == 403:
        raise NoPermission(f"the ResourceManager refuses {path}: {_remote_message(content)}")
    if status in {400, 404}:
        raise UsageError(f"the ResourceManager: {_remote_message(content)} ({path})")


def _remote_message(content: bytes) -> str:
    try:
        remote = json.loads(content).get("RemoteException", {})
        return str(remote.get("message") or remote)
    except (ValueError, AttributeError):
        return content[:200].decode(errors="replace").strip()


def _words(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return f"{type(error).__name__}: {reason or error}"

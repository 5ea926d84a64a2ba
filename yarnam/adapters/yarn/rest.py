"""The ResourceManager through its REST API: nodes, queues, applications.

Several addresses are tried in turn (HA); the one that answered last is asked first. Proxies of the
environment are ignored: the ResourceManager is inside.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from hdfs_utils.concurrency.retry import Backoff, retry
from hdfs_utils.config import delegation_tokens
from hdfs_utils.config.delegation_tokens import DelegationToken
from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.kerberos_errors import advice
from hdfs_utils.protocols.rejections import Rejections
from yarnam._light_imports import on_first_use
from yarnam.adapters.http_identity import HttpIdentity
from yarnam.adapters.yarn import rest_parse
from yarnam.adapters.yarn.addresses import rm_web_urls
from yarnam.adapters.yarn.json_values import object_of, text_of, whole_of
from yarnam.adapters.yarn.request_budget import RequestBudget
from yarnam.core.model.ids import NodeId
from yarnam.core.model.snapshot import AllocationSteps, ClusterSnapshot, QueueView
from yarnam.core.queues.queue_state import QueueReport
from yarnam.errors import NoPermission, Unavailable, UsageError
from yarnam.wire.http_request import HttpError, remote_message, request

if TYPE_CHECKING:
    from yarnam.core.queues.capacity.capacity_file import CapacityConfig

with on_first_use():
    from yarnam.adapters.yarn import queue_tree

log = logging.getLogger("yarnam.yarn")

R = TypeVar("R")

REQUEST_TIMEOUT_S = 4.0
"""For one address to connect, and between bytes. A healthy RM answers in milliseconds."""
SUBMIT_TIMEOUT_S = 30.0
"""For handing an application in: the RM writes it to its state store first."""
TOTAL_TIMEOUT_S = 10.0
"""For one call over all addresses (the promise of ``ports.ClusterView``)."""

FAILOVER_LIMIT_S = 45.0
"""How long a client waits while none of several ResourceManagers is active: one that has died is
believed in for 10 s (``hadoop.zk.timeout-ms``), and the other then reads its state store."""
_FAILOVER_PAUSE_S = 0.5

NODE_STATES = "NEW,RUNNING,UNHEALTHY,LOST,REBOOTED,DECOMMISSIONING,SHUTDOWN"
"""All but DECOMMISSIONED: they do not come back, and a ResourceManager lists them for long."""

UNUSED_PARTS = "resourceRequests,timeouts,resourceInfo,appNodeLabelExpression,amNodeLabelExpression"
"""Parts of an application's report that yarnam does not read: two thirds of it (``deSelects``,
YARN-6280 and YARN-6871, Hadoop 3.0)."""

_HINT = "Check that it runs and that yarn.resourcemanager.webapp.address is right."
_GATEWAY_HINT = "Check that the gateway runs and that YARNAM_GATEWAY is right."


class ResourceManager:
    """Calls to the RM's REST API. Thread-safe; also a ``ports.ClusterView``. ``who`` is the
    caller's identity, by default ``user`` with simple authentication. ``partitions``: the node
    labels whose parts of the queues are shown, the first of them first (Capacity Scheduler;
    empty means the nodes without a label). ``budget``: how often it may ask; ``None`` means
    without a limit. ``failover_s``: how much longer a call may take while none of several
    ResourceManagers is active."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        user: str = "",
        who: HttpIdentity | None = None,
        partitions: Sequence[str] = ("",),
        budget: RequestBudget | None = None,
        failover_s: float = 0.0,
    ) -> None:
        if not urls:
            raise ValueError("at least one URL")
        self._urls = [url.rstrip("/") for url in urls]
        self._who = who or HttpIdentity(user)
        self._budget = budget
        self._failover_s = failover_s if len(self._urls) > 1 else 0.0
        self._partitions = partitions
        self._lock = threading.Lock()
        self._known_rules: tuple[AllocationSteps, bool] | None = None
        self._rejections = Rejections(
            log, "is left out", "See what the ResourceManager's own pages say about it."
        )
        is_https = any(url.startswith("https:") for url in self._urls)
        self._tls = self._who.tls if is_https or self._who.gateway is not None else None

    @classmethod
    def from_conf(
        cls,
        conf_dir: str,
        *,
        user: str = "",
        who: HttpIdentity | None = None,
        failover_s: float = 0.0,
    ) -> ResourceManager:
        """The ResourceManagers that yarn-site.xml names; behind a gateway that finds the active one
        on its own, the first of them. Raises BadConfig."""
        urls = rm_web_urls(conf_dir)
        if who is not None and who.gateway is not None:
            urls = urls[:1]
        return cls(urls, user=user, who=who, failover_s=failover_s)

    @property
    def url(self) -> str:
        """The address that answered last, or the first one."""
        with self._lock:
            return self._urls[0]

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts of all ResourceManagers: after a failover another one answers."""
        with self._lock:
            return frozenset(urlsplit(url).hostname or "" for url in self._urls)

    def snapshot(
        self, queue: str, partitions: Sequence[str] = (), *, max_age_s: float | None = None
    ) -> ClusterSnapshot:
        """All nodes and the queue (its part of these ``partitions``), always as they are now. A
        queue that is not there (yet) has no limits. Raises Unavailable when no ResourceManager
        answers within 10 s."""
        partitions = partitions or self._partitions
        deadline = time.monotonic() + TOTAL_TIMEOUT_S
        scheduler = self._get("/ws/v1/cluster/scheduler", deadline=deadline)
        reply = self._get("/ws/v1/cluster/nodes", {"states": NODE_STATES}, deadline=deadline)
        nodes = self._understood(lambda: rest_parse.nodes_of(reply, self._reject))
        by_label = [
            (label, self._understood(partial(rest_parse.queues_of, scheduler, label)))
            for label in partitions
        ]
        views = [
            (label, next((one for one in queues if one.name == queue), QueueView(name=queue)))
            for label, queues in by_label
        ]
        view, queues = views[0][1], by_label[0][1]
        steps, preempts = self._rules(deadline)
        return ClusterSnapshot(
            taken_at_s=time.time(),
            nodes=nodes,
            queue=view,
            max_container=view.max_container,
            queues=queues,
            steps=steps,
            preempts=preempts,
            scheduler=self._understood(lambda: rest_parse.scheduler_of(scheduler)),
            partitions=tuple(views) if len(views) > 1 else (),
        )

    def queue_report(self, node_label: str = "") -> QueueReport | None:
        """The queues, as they are in one partition, and all nodes, now; ``None`` means the
        scheduler has no such queues. Raises Unavailable when no ResourceManager answers within 10
        s."""
        deadline = time.monotonic() + TOTAL_TIMEOUT_S
        scheduler = self._get("/ws/v1/cluster/scheduler", deadline=deadline)
        reply = self._get("/ws/v1/cluster/nodes", {"states": NODE_STATES}, deadline=deadline)
        tree = self._understood(lambda: queue_tree.queue_tree_of(scheduler, node_label))
        nodes = self._understood(lambda: rest_parse.nodes_of(reply, self._reject))
        if tree is None:
            return None
        kind = self._understood(lambda: rest_parse.scheduler_of(scheduler))
        leaves = self._understood(lambda: rest_parse.queues_of(scheduler, node_label))
        steps, preempts = self._rules(deadline)
        return QueueReport(tree, nodes, steps, preempts, kind, leaves)

    def capacity_config(self) -> CapacityConfig | None:
        """The Capacity Scheduler's settings, or ``None`` for another scheduler. Raises
        Unavailable."""
        reply = self._get("/ws/v1/cluster/scheduler")
        return self._understood(lambda: queue_tree.capacity_config_of(reply))

    def _rules(self, deadline: float) -> tuple[AllocationSteps, bool]:
        """How the scheduler rounds, and whether it preempts. Asked for once: it changes with a
        restart of the RM only. A site that does not show its configuration is taken to do
        neither."""
        with self._lock:
            known = self._known_rules
        if known is not None:
            return known
        try:
            reply = self._conf(deadline=deadline)
            found = self._understood(
                lambda: (rest_parse.steps_of(reply), rest_parse.preempts(reply))
            )
        except (NoPermission, UsageError):
            found = AllocationSteps(), False
        except Unavailable:
            return AllocationSteps(), False
        with self._lock:
            self._known_rules = found
        return found

    def settings(self) -> Mapping[str, str]:
        """The ResourceManager's own configuration, as far as it shows it. Raises NoPermission."""
        reply = self._conf()
        return self._understood(lambda: rest_parse.settings_of(reply))

    def _conf(self, *, deadline: float | None = None) -> Mapping[str, Any]:
        if self._who.gateway is not None:
            raise NoPermission(
                f"the gateway {self._who.gateway.url} does not show the ResourceManager's"
                " configuration"
            )
        return self._get("/conf", deadline=deadline)

    def info(self) -> Mapping[str, Any]:
        """``clusterInfo`` as it comes: state, haState, resourceManagerVersion, startedOn (ms)."""
        reply = self._get("/ws/v1/cluster/info")
        return self._understood(lambda: object_of(reply, "clusterInfo"))

    def started_at_s(self) -> float:
        """When the ResourceManager started, in seconds since 1970, by its clock."""
        return self._understood(lambda: rest_parse.started_at_s(self.info()))

    def queues(self) -> tuple[QueueView, ...]:
        """All leaf queues by their full names."""
        reply = self._get("/ws/v1/cluster/scheduler")
        return self._understood(lambda: rest_parse.queues_of(reply, self._partitions[0]))

    def queue_access(self, queue: str, user: str) -> bool | None:
        """Whether this user may submit to this queue; None when the ResourceManager does not tell
        (it tells only those who administer the queue)."""
        try:
            return self._has_access(queue, user, "SUBMIT_APPLICATIONS")
        except NoPermission:
            return None

    def administers(self, queue: str, user: str) -> bool | None:
        """Whether this user administers this queue, by the access control lists of the queue and of
        those above it; ``None`` means the ResourceManager does not tell. It tells nobody else's
        rights to those who do not, so its refusal is the answer for the client's own user."""
        try:
            return self._has_access(queue, user, "ADMINISTER_QUEUE")
        except NoPermission as error:
            return False if "access to queue" in error.message else None

    def _has_access(self, queue: str, user: str, right: str) -> bool | None:
        """Hadoop 3.1 and newer. ``None`` means an older one, or it knows no such queue."""
        query = {"user": user, "queue-acl-type": right}
        try:
            reply = self._get(f"/ws/v1/cluster/queues/{quote(queue)}/access", query)
        except UsageError:
            return None
        allowed = reply.get("allowed")
        return None if allowed is None else str(allowed).lower() == "true"

    def application(self, app_id: str) -> rest_parse.YarnApplication | None:
        """``None`` means the ResourceManager does not know it (never there, or forgotten)."""
        try:
            reply = self._get(f"/ws/v1/cluster/apps/{quote(app_id)}")
        except UsageError:
            return None
        return self._understood(lambda: rest_parse.application_of(reply))

    def applications(
        self,
        *,
        user: str = "",
        tags: Iterable[str] = (),
        states: Iterable[str] = (),
        most: int = 0,
        limit_s: float = TOTAL_TIMEOUT_S,
    ) -> tuple[rest_parse.YarnApplication, ...]:
        """Applications of the user, with one of the tags and in one of the states, newest first; at
        most ``most``, if it is not 0."""
        query = {
            "user": user,
            "applicationTags": ",".join(tags),
            "states": ",".join(states),
            "limit": str(most) if most else "",
            "deSelects": UNUSED_PARTS,
        }
        given = {key: val for key, val in query.items() if val}
        deadline = time.monotonic() + limit_s
        reply = self._get("/ws/v1/cluster/apps", given, deadline=deadline)
        return self._understood(lambda: rest_parse.applications_of(reply, self._reject))

    def newest_attempt(self, app_id: str, *, limit_s: float = TOTAL_TIMEOUT_S) -> int:
        """The number of its newest AM attempt; 0 means the ResourceManager does not know it."""
        try:
            return max(self.attempt_ends(app_id, limit_s=limit_s), default=0)
        except UsageError:
            return 0

    def attempt_ends(self, app_id: str, *, limit_s: float = TOTAL_TIMEOUT_S) -> Mapping[int, float]:
        """When its AM attempts ended, by number, in seconds since 1970; 0 means that one lives.
        Raises NoPermission, UsageError (no such application), Unavailable."""
        path = f"/ws/v1/cluster/apps/{quote(app_id)}/appattempts"
        reply = self._get(path, deadline=time.monotonic() + limit_s)
        return self._understood(lambda: rest_parse.attempt_ends_of(reply))

    def tasks_by_node(self, app_id: str, am_attempt: int) -> Counter[NodeId]:
        """How many containers this AM attempt has been granted on each node, but for the
        ApplicationMaster's own, as the scheduler has it now. Raises NoPermission, UsageError (no
        such attempt), Unavailable."""
        attempt = f"appattempt_{app_id.removeprefix('application_')}_{am_attempt:06d}"
        path = f"/ws/v1/cluster/apps/{quote(app_id)}/appattempts/{quote(attempt)}/containers"
        reply = self._get(path, deadline=time.monotonic() + TOTAL_TIMEOUT_S)
        return self._understood(lambda: rest_parse.tasks_by_node(reply))

    def kill(self, app_id: str, user: str = "") -> None:
        """Kill the application as ``user`` (default: this client's). Killing one that is over is
        harmless. Raises NoPermission, UsageError (no such application), Unavailable."""
        self._call(
            "PUT",
            f"/ws/v1/cluster/apps/{quote(app_id)}/state",
            {"user.name": user} if user and self._who.is_simple else {},
            body={"state": "KILLED"},
        )

    def delegation_token(self, renewer: str) -> tuple[DelegationToken, float]:
        """A token with which a job asks without a ticket, and when it ends unless it is renewed, in
        seconds since 1970; ``renewer`` (a short name, or a principal) may renew it. Raises
        NoPermission, UsageError, Unavailable."""
        path = "/ws/v1/cluster/delegation-token"
        reply = self._call("POST", path, {}, body={"renewer": renewer})
        return self._understood(
            lambda: (
                delegation_tokens.from_url(text_of(reply, "token")),
                whole_of(reply, "expiration-time") / 1000,
            )
        )

    def new_application(self) -> str:
        """The id of an application that may be submitted; one that never is leaves no trace.
        Raises NoPermission, UsageError, Unavailable."""
        reply = self._call("POST", "/ws/v1/cluster/apps/new-application", {}, body={})
        found = self._understood(lambda: text_of(reply, "application-id"))
        if not found:
            raise Unavailable("the ResourceManager gives no application id", hint=_HINT)
        return found

    def submit_application(self, context: Mapping[str, Any]) -> None:
        """Hand an ApplicationSubmissionContext in; the same one again is harmless. YARN decides
        on it afterwards: poll its state. Raises NoPermission, UsageError, Unavailable."""
        deadline = time.monotonic() + SUBMIT_TIMEOUT_S
        self._call("POST", "/ws/v1/cluster/apps", {}, body=context, deadline=deadline)

    def _reject(self, name: str, error: MalformedData) -> None:
        """One row of a reply counts for nothing; the others do."""
        self._rejections.add(f"{name} in the reply of {self.url}", error)

    def _understood(self, parse: Callable[[], R]) -> R:
        """Raises Unavailable for a reply that makes no sense as a whole."""
        try:
            return parse()
        except MalformedData as error:
            raise Unavailable(
                f"the reply of the ResourceManager at {self.url} makes no sense: {error.message}",
                hint=_HINT,
            ) from error

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
        """Ask each address until one answers with JSON, once more where there is a failover."""
        until_s = deadline or time.monotonic() + TOTAL_TIMEOUT_S

        def give_more_time(*_: object) -> None:
            nonlocal until_s
            until_s = max(until_s, time.monotonic() + _FAILOVER_PAUSE_S + TOTAL_TIMEOUT_S)

        return retry(
            lambda: self._ask_each(method, path, query, body, until_s),
            self._failover_s,
            is_retriable=lambda error: isinstance(error, Unavailable),
            on_failure=give_more_time,
            backoff=Backoff(_FAILOVER_PAUSE_S, _FAILOVER_PAUSE_S, is_jittered=False),
        )

    def _ask_each(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, Any] | None,
        deadline: float,
    ) -> Mapping[str, Any]:
        """Within the budget."""
        if self._budget is not None and not self._budget.take(deadline - time.monotonic()):
            raise Unavailable(self._budget.trouble, hint="yarnam docs cluster-cost")
        with self._lock:
            urls = list(self._urls)
        failures: list[str] = []
        cause: HttpError | None = None
        for later, url in reversed(list(enumerate(reversed(urls)))):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                failures.append(f"{url}: not asked, {TOTAL_TIMEOUT_S:g} s are over")
                continue
            try:
                # Whoever gives a call more time wants its answer more than another address. The
                # last address has all of it: a report of 10,000 nodes takes seconds to make.
                limit_s = max(REQUEST_TIMEOUT_S, left_s - TOTAL_TIMEOUT_S) if later else left_s
                reply = self._ask(method, url, path, query, body, min(limit_s, left_s))
            except HttpError as error:
                failures.append(f"{self._who.gateway.url if self._who.gateway else url}: {error}")
                cause = error
                continue
            with self._lock:
                if self._urls[0] != url:
                    self._urls.sort(key=lambda other: other != url)
            return reply
        raise Unavailable(
            f"no answer from the ResourceManager: {'; '.join(failures)}",
            hint=_HINT if self._who.gateway is None else _GATEWAY_HINT,
        ) from cause

    def _ask(
        self,
        method: str,
        url: str,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, Any] | None,
        timeout_s: float,
    ) -> Mapping[str, Any]:
        """The JSON object. Raises HttpError when another address should be asked."""
        full = {**self._who.query(), **query}
        suffix = f"?{urlencode(full)}" if full else ""
        way = self._who.way_to(url + path)
        try:
            answer = request(
                way + suffix,
                method=method,
                body=body,
                timeout_s=timeout_s,
                tls=self._tls,
                who=self._who.rm_headers(way),
            )
        except HttpError as error:
            _raise_refusal(error, path + suffix, self._who)
            raise
        return answer.json()


def _raise_refusal(error: HttpError, path: str, who: HttpIdentity) -> None:
    """Raise for answers that no other address would give differently."""
    said = remote_message(error.body)
    if error.status == 401 and who.gateway is not None:
        raise NoPermission(
            f"the gateway {who.gateway.url} does not accept the caller's identity (HTTP 401)",
            hint="Check the name and the password in ~/.netrc, or the token: yarnam docs gateway.",
        )
    if error.status == 404 and who.gateway is not None and b"RemoteException" not in error.body:
        raise UsageError(
            f"the gateway {who.gateway.url} has no {path.partition('?')[0]} (HTTP 404)",
            hint="Is the topology right that YARNAM_GATEWAY names, and does it have the service"
            " RESOURCEMANAGER?",
        )
    if error.status == 401 and who.is_kerberos:
        raise NoPermission(
            "the ResourceManager does not accept this Kerberos identity (HTTP 401)",
            hint="yarnam docs kerberos has what to do about each of Kerberos's errors.",
        )
    if error.status == 401:
        raise NoPermission(
            "the ResourceManager's REST API requires Kerberos (SPNEGO)",
            hint="hadoop.security.authentication in core-site.xml is simple: is it this cluster's?",
        )
    if error.status == 403 and (help_ := advice(said)):
        raise NoPermission(f"the ResourceManager refuses {path}: {said}", hint=help_)
    if error.status == 403:
        raise NoPermission(f"the ResourceManager refuses {path}: {said}")
    if error.status in {400, 404}:
        raise UsageError(f"the ResourceManager: {said} ({path})")

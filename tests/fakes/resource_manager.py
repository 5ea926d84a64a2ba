"""A ResourceManager in memory: applications, queues and nodes, as its REST API shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hdfs_utils.config.delegation_tokens import DelegationToken
from yarnam.adapters.yarn.rest_parse import YarnApplication
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, Node, NodeState, QueueView, Scheduler
from yarnam.core.queues.capacity.capacity_file import CapacityConfig
from yarnam.core.queues.queue_state import QueueReport, QueueState
from yarnam.errors import NoPermission, Unavailable, YarnamError

NODE = Resources(memory_mib=262144, vcores=64, gpus=8)


def node(name: str, rack: str = "/rack1") -> Node:
    return Node(NodeId(name), RackId(rack), NodeState.RUNNING, NODE, Resources())


class FakeResourceManager:
    """``failure``, when set, is raised by every call."""

    def __init__(self) -> None:
        self.url = "http://rm.example:8088"
        self.hosts = frozenset({"rm.example", "rm2.example"})
        self.nodes: tuple[Node, ...] = (
            node("n1"), node("n2"), node("n3", "/rack2"), node("n4", "/rack2"),
        )  # fmt: skip
        self.began_s = 0.0
        self.tokens_end_s = 0.0
        self.queue_names = ["root.dl", "root.research"]
        self.queue_tree: QueueState | None = None
        self.scheduler = Scheduler.FAIR
        self.node_label = ""
        self.access: dict[str, bool | None] = {}
        self.admin_rights: dict[str, bool | None] = {}
        self.apps: dict[str, YarnApplication] = {}
        self.attempts: dict[str, int] = {}
        self.killed: list[str] = []
        self.kill_takes = True
        self.configuration: dict[str, str] = {}
        self.failure: YarnamError | None = None
        self.asked = 0
        self.on_look: Callable[[YarnApplication], None] = lambda _: None
        self.takes_by_http = True
        self.sent: list[Mapping[str, Any]] = []
        self.answers_submit = True

    def add(self, application: str, *, state: str = "RUNNING", **facts: Any) -> YarnApplication:
        values: dict[str, Any] = {
            "name": "hello",
            "user": "me",
            "queue": "root.dl",
            "final_status": "UNDEFINED",
            "started_at_s": 1000.0 + len(self.apps),
            "tags": ("yarnam",),
        }
        if state in {"RUNNING", "FINISHED", "FAILED"}:
            values["am_log_url"] = "http://n1:8042/node/containerlogs/container_1/me"
        row = YarnApplication(application=application, state=state, **{**values, **facts})
        self.apps[application] = row
        return row

    def change(self, application: str, **facts: Any) -> None:
        self.apps[application] = replace(self.apps[application], **facts)

    def application(self, app_id: str) -> YarnApplication | None:
        self._enter()
        found = self.apps.get(app_id)
        if found is not None:
            self.on_look(found)
        return self.apps.get(app_id)

    def applications(
        self,
        *,
        user: str = "",
        tags: Iterable[str] = (),
        states: Iterable[str] = (),
        most: int = 0,
        limit_s: float = 10.0,
    ) -> Sequence[YarnApplication]:
        self._enter()
        wanted, allowed = set(tags), set(states)
        found = [
            app
            for app in list(self.apps.values())  # Other threads submit meanwhile.
            if user in ("", app.user)
            and (not wanted or not wanted.isdisjoint(app.tags))
            and (not allowed or app.state in allowed)
        ]
        newest = sorted(found, key=lambda app: app.started_at_s, reverse=True)
        return newest[:most] if most else newest

    def newest_attempt(self, app_id: str, *, limit_s: float = 10.0) -> int:
        self._enter()
        return self.attempts.get(app_id, 1 if app_id in self.apps else 0)

    def kill(self, app_id: str, user: str = "") -> None:
        self._enter()
        self.killed.append(app_id)
        if self.kill_takes:
            self.change(app_id, state="KILLED", final_status="KILLED", diagnostics="killed by user")

    def delegation_token(self, renewer: str) -> tuple[DelegationToken, float]:
        token = DelegationToken("RM_DELEGATION_TOKEN", "", renewer.encode(), b"secret")
        return token, self.tokens_end_s

    def new_application(self) -> str:
        self._enter()
        if not self.takes_by_http:
            raise refusing("submit by HTTP")
        return f"application_1700000000000_{len(self.sent) + 1:04}"

    def submit_application(self, context: Mapping[str, Any]) -> None:
        self._enter()
        self.sent.append(context)
        tags = tuple(context["application-tags"]["tag"])
        name = str(context["application-name"])
        self.add(str(context["application-id"]), state="NEW", tags=tags, name=name)
        if not self.answers_submit:
            raise Unavailable("no answer from the ResourceManager")

    def queues(self) -> Sequence[QueueView]:
        self._enter()
        return [QueueView(name) for name in self.queue_names]

    def queue_report(self, node_label: str = "") -> QueueReport | None:
        self._enter()
        self.node_label = node_label
        whole = Resources()
        for one in self.nodes:
            whole = whole.plus(one.total)
        leaves = tuple(
            QueueState(name, "drf", fair_share=whole, maximum=whole) for name in self.queue_names
        )
        root = QueueState(
            "root", "drf", whole, whole, maximum=whole, children=leaves, is_leaf=False
        )
        return QueueReport(self.queue_tree or root, self.nodes, scheduler=self.scheduler)

    def capacity_config(self) -> CapacityConfig | None:
        self._enter()
        return None

    def queue_access(self, queue: str, user: str) -> bool | None:
        self._enter()
        return self.access.get(queue, True)

    def administers(self, queue: str, user: str) -> bool | None:
        self._enter()
        return self.admin_rights.get(user, True)

    def snapshot(
        self, queue: str, partitions: Sequence[str] = (), *, max_age_s: float | None = None
    ) -> ClusterSnapshot:
        self._enter()
        return ClusterSnapshot(1000.0, self.nodes, QueueView(queue))

    def info(self) -> Mapping[str, Any]:
        self._enter()
        return {"state": "STARTED", "resourceManagerVersion": "3.4.1"}

    def started_at_s(self) -> float:
        self._enter()
        return self.began_s

    def settings(self) -> Mapping[str, str]:
        self._enter()
        return {"yarn.resourcemanager.scheduler.class": "a.b.FairScheduler", **self.configuration}

    def _enter(self) -> None:
        self.asked += 1
        if self.failure is not None:
            raise self.failure


def refusing(what: str) -> NoPermission:
    return NoPermission(f"no permission to {what}")

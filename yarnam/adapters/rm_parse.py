"""From the ResourceManager's JSON to our values. Pure; tolerant of keys that are not there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from yarnam.model.ids import NodeId, RackId
from yarnam.model.resources import Resources
from yarnam.model.snapshot import Node, NodeState, QueueView

Json = Mapping[str, Any]

UNLIMITED = 2**31 - 1
"""The Fair Scheduler writes Integer.MAX_VALUE or Long.MAX_VALUE for "no limit"."""

GPU_RESOURCE = "yarn.io/gpu"
GPU_MODEL_ATTRIBUTE = "gpu-model"
"""Node attribute from which a node's GPU model is read."""

_NODE_STATES = {
    "RUNNING": NodeState.RUNNING,
    "UNHEALTHY": NodeState.UNHEALTHY,
    "DECOMMISSIONING": NodeState.DECOMMISSIONING,
}


@dataclass(frozen=True, slots=True)
class YarnApplication:
    """What the ResourceManager knows of one application. Times in seconds since the epoch."""

    application: str
    name: str
    user: str
    queue: str
    state: str
    """YARN's: NEW, NEW_SAVING, SUBMITTED, ACCEPTED, RUNNING, FINISHED, FAILED, KILLED."""
    final_status: str
    """YARN's: UNDEFINED, SUCCEEDED, FAILED, KILLED."""
    diagnostics: str = ""
    progress: float = 0.0
    tracking_url: str = ""
    tags: tuple[str, ...] = ()
    started_at_s: float = 0.0
    finished_at_s: float | None = None
    running_containers: int = 0
    am_log_url: str = ""
    log_aggregation: str = ""
    """YARN's: DISABLED, NOT_START, RUNNING, SUCCEEDED, ...; empty where it is not told."""

    @property
    def is_over(self) -> bool:
        return self.state in {"FINISHED", "FAILED", "KILLED"}


def resources_of(json: Json | None) -> Resources:
    """From YARN's ResourceInfo; amounts beyond ``UNLIMITED`` are cut to it."""
    if not json:
        return Resources()
    gpus = 0
    rows = (json.get("resourceInformations") or {}).get("resourceInformation", [])
    for row in rows:
        if row.get("name") == GPU_RESOURCE:
            gpus = int(row.get("value", 0))
    return Resources(
        memory_mib=min(int(json.get("memory", 0)), UNLIMITED),
        vcores=min(int(json.get("vCores", 0)), UNLIMITED),
        gpus=min(gpus, UNLIMITED),
    )


def limit_of(json: Json | None) -> Resources | None:
    """Like ``resources_of``, but None when nothing in it is a limit."""
    if not json:
        return None
    limit = resources_of(json)
    if min(limit.memory_mib, limit.vcores, limit.gpus) >= UNLIMITED:
        return None
    return limit


def nodes_of(json: Json) -> tuple[Node, ...]:
    """All nodes, sorted by id. Of several rows for one host (a NodeManager that came back under
    another id) the running ones count, else the newest."""
    rows = (json.get("nodes") or {}).get("node") or []
    by_address: dict[str, Json] = {}
    for row in sorted(rows, key=lambda row: int(row.get("lastHealthUpdate", 0))):
        address = str(row.get("nodeHTTPAddress") or row.get("id", ""))
        known = by_address.get(address)
        if known is None or known.get("state") != "RUNNING" or row.get("state") == "RUNNING":
            by_address[address] = row
    nodes = [_node(row) for row in by_address.values()]
    running_hosts = {node.node_id for node in nodes if node.is_usable}
    return tuple(
        sorted(
            (node for node in nodes if node.is_usable or node.node_id not in running_hosts),
            key=lambda node: (node.node_id, node.http_address),
        )
    )


def _node(row: Json) -> Node:
    attributes = (row.get("nodeAttributesInfo") or {}).get("nodeAttributeInfo") or []
    model = next(
        (str(item.get("value", "")) for item in attributes
         if item.get("name") == GPU_MODEL_ATTRIBUTE),
        "",
    )  # fmt: skip
    total = row.get("totalResource") or {
        "memory": int(row.get("usedMemoryMB", 0)) + int(row.get("availMemoryMB", 0)),
        "vCores": int(row.get("usedVirtualCores", 0)) + int(row.get("availableVirtualCores", 0)),
    }
    used = row.get("usedResource") or {
        "memory": row.get("usedMemoryMB", 0),
        "vCores": row.get("usedVirtualCores", 0),
    }
    return Node(
        node_id=NodeId(str(row.get("nodeHostName") or str(row.get("id", "")).split(":")[0])),
        rack=RackId(str(row.get("rack", ""))),
        state=_NODE_STATES.get(str(row.get("state")), NodeState.LOST),
        total=resources_of(total),
        used=resources_of(used),
        http_address=str(row.get("nodeHTTPAddress", "")),
        gpu_model=model,
        labels=tuple(row.get("nodeLabels") or ()),
    )


def queues_of(json: Json) -> tuple[QueueView, ...]:
    """The leaf queues, by full name. Of the Capacity Scheduler only names and use are read."""
    info = (json.get("scheduler") or {}).get("schedulerInfo") or {}
    if info.get("type") == "fairScheduler":
        return tuple(_fair_leaves(info.get("rootQueue") or {}, None))
    return tuple(_capacity_leaves(info, ""))


def queue_of(json: Json, name: str) -> QueueView | None:
    return next((queue for queue in queues_of(json) if queue.name == name), None)


def _fair_leaves(row: Json, above: Resources | None) -> Iterable[QueueView]:
    """``above``: the tightest limit of the queues above, which binds this one too."""
    maximum = _tighter(above, limit_of(row.get("maxResources")))
    children = (row.get("childQueues") or {}).get("queue")
    if row.get("type") != "fairSchedulerLeafQueueInfo":
        for child in _listed(children):
            yield from _fair_leaves(child, maximum)
        return
    max_apps = int(row.get("maxApps", UNLIMITED))
    yield QueueView(
        name=str(row.get("queueName", "")),
        used=resources_of(row.get("usedResources")),
        steady_share=resources_of(row.get("steadyFairResources")),
        fair_share=resources_of(row.get("fairResources")),
        maximum=maximum,
        max_container=limit_of(row.get("maxContainerAllocation")),
        running_jobs=int(row.get("numActiveApps", 0)),
        pending_jobs=int(row.get("numPendingApps", 0)),
        max_running_jobs=max_apps if max_apps < UNLIMITED else None,
    )


def _capacity_leaves(row: Json, path: str) -> Iterable[QueueView]:
    name = str(row.get("queuePath") or (f"{path}.{row.get('queueName', 'root')}".lstrip(".")))
    children = _listed((row.get("queues") or {}).get("queue"))
    for child in children:
        yield from _capacity_leaves(child, name)
    if not children and row.get("queueName"):
        yield QueueView(
            name=name,
            used=resources_of(row.get("resourcesUsed")),
            running_jobs=int(row.get("numActiveApplications", 0)),
            pending_jobs=int(row.get("numPendingApplications", 0)),
        )


def _listed(value: Any) -> list[Json]:
    """Some YARN versions write a single child as an object instead of a list."""
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]


def _tighter(left: Resources | None, right: Resources | None) -> Resources | None:
    if left is None or right is None:
        return left or right
    return Resources(
        memory_mib=min(left.memory_mib, right.memory_mib),
        vcores=min(left.vcores, right.vcores),
        gpus=min(left.gpus, right.gpus),
    )


def application_of(row: Json) -> YarnApplication:
    finished_ms = int(row.get("finishedTime", 0))
    return YarnApplication(
        application=str(row.get("id", "")),
        name=str(row.get("name", "")),
        user=str(row.get("user", "")),
        queue=str(row.get("queue", "")),
        state=str(row.get("state", "")),
        final_status=str(row.get("finalStatus", "UNDEFINED")),
        diagnostics=str(row.get("diagnostics") or "").strip(),
        progress=float(row.get("progress", 0.0)) / 100.0,
        tracking_url=str(row.get("trackingUrl") or ""),
        tags=tuple(tag for tag in str(row.get("applicationTags") or "").split(",") if tag),
        started_at_s=int(row.get("startedTime", 0)) / 1000.0,
        finished_at_s=finished_ms / 1000.0 if finished_ms else None,
        running_containers=max(0, int(row.get("runningContainers", 0))),
        am_log_url=str(row.get("amContainerLogs") or ""),
        log_aggregation=str(row.get("logAggregationStatus") or ""),
    )

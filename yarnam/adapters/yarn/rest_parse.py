"""From the ResourceManager's JSON to our values. Pure; tolerant of keys that are not there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import AllocationSteps, Node, NodeState, QueueView

Json = Mapping[str, Any]

UNLIMITED = 2**31 - 1
"""The Fair Scheduler writes Integer.MAX_VALUE or Long.MAX_VALUE for "no limit"."""

GPU_RESOURCE = "yarn.io/gpu"
GPU_MODEL_ATTRIBUTE = "gpu-model"
"""Node attribute from which a node's GPU model is read."""

_AMOUNT = re.compile(r"\s*(\d+)\s*([A-Za-z]*)\s*$")
_UNITS = {"gi": 1024, "g": 1024}
"""Of memory, in MiB: ``2Gi``; YARN's units for the rest of them are 1."""

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
    """YARN's: DISABLED, NOT_START, RUNNING, SUCCEEDED, ...; empty where it is not reported."""

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
    # Thousands of nodes have a few sizes: equal amounts share one value, which a planner that
    # reads all of them feels (a third of its time on 10,000 nodes).
    seen: dict[Resources, Resources] = {}
    racks: dict[str, RackId] = {}
    nodes = [_node(row, seen, racks) for row in by_address.values()]
    running_hosts = {node.node_id for node in nodes if node.is_usable}
    return tuple(
        sorted(
            (node for node in nodes if node.is_usable or node.node_id not in running_hosts),
            key=lambda node: (node.node_id, node.http_address),
        )
    )


def _node(row: Json, seen: dict[Resources, Resources], racks: dict[str, RackId]) -> Node:
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
    name = str(row.get("rack", ""))
    all_of_it, in_use = resources_of(total), resources_of(used)
    return Node(
        node_id=NodeId(str(row.get("nodeHostName") or str(row.get("id", "")).split(":")[0])),
        rack=racks.setdefault(name, RackId(name)),
        state=_NODE_STATES.get(str(row.get("state")), NodeState.LOST),
        total=seen.setdefault(all_of_it, all_of_it),
        used=seen.setdefault(in_use, in_use),
        http_address=str(row.get("nodeHTTPAddress", "")),
        gpu_model=model,
        labels=tuple(row.get("nodeLabels") or ()),
    )


def queues_of(json: Json) -> tuple[QueueView, ...]:
    """The leaf queues, by full name. Of the Capacity Scheduler only names and use are read."""
    info = (json.get("scheduler") or {}).get("schedulerInfo") or {}
    if info.get("type") == "fairScheduler":
        root = info.get("rootQueue") or {}
        return tuple(_fair_leaves(root, None, None, limit_of(root.get("maxResources"))))
    return tuple(_capacity_leaves(info, ""))


def queue_of(json: Json, name: str) -> QueueView | None:
    return next((queue for queue in queues_of(json) if queue.name == name), None)


def _fair_leaves(
    row: Json, above: Resources | None, left_above: Resources | None, cluster: Resources | None
) -> Iterable[QueueView]:
    """``above``: the tightest limit of the queues above, which binds this one too;
    ``left_above``: what the queues below have left of it."""
    own = _own_limit(limit_of(row.get("maxResources")), cluster)
    maximum = _tighter(above, own)
    left = None
    if own is not None:
        left = own.minus(resources_of(row.get("usedResources")))
    left = _tighter(left_above, left)
    children = (row.get("childQueues") or {}).get("queue")
    if row.get("type") != "fairSchedulerLeafQueueInfo":
        for child in _listed(children):
            yield from _fair_leaves(child, maximum, left, cluster)
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
        headroom=left,
    )


def _own_limit(shown: Resources | None, cluster: Resources | None) -> Resources | None:
    """The Fair Scheduler cuts what it shows to the whole ``cluster`` (FairSchedulerQueueInfo): as
    much of a resource as the cluster has is no limit of the queue's."""
    if shown is None or cluster is None:
        return shown
    own = Resources(
        shown.memory_mib if shown.memory_mib < cluster.memory_mib else UNLIMITED,
        shown.vcores if shown.vcores < cluster.vcores else UNLIMITED,
        shown.gpus if shown.gpus < cluster.gpus else UNLIMITED,
    )
    return None if min(own.memory_mib, own.vcores, own.gpus) >= UNLIMITED else own


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


def settings_of(json: Json) -> dict[str, str]:
    """The RM's ``/conf``: empty for what has no value."""
    rows = json.get("properties") or []
    return {str(row.get("key")): str(row.get("value") or "") for row in rows}


def steps_of(json: Json) -> AllocationSteps:
    """How the scheduler rounds, from the RM's ``/conf``. The Fair Scheduler has increments apart
    from its minimum (FairSchedulerConfiguration.getIncrementAllocation: 1024 MiB and 1 vcore
    unless configured); the Capacity Scheduler's steps are its minimum."""
    settings = settings_of(json)

    def amount(default: int, *names: str) -> int:
        for name in names:
            digits = _AMOUNT.match(settings.get(name, ""))
            if digits:
                return int(digits[1]) * _UNITS.get(digits[2].lower(), 1)
        return default

    prefix = "yarn.scheduler"
    minimum = Resources(
        amount(1024, f"{prefix}.minimum-allocation-mb"),
        amount(1, f"{prefix}.minimum-allocation-vcores"),
    )
    if "fair" not in str(settings.get("yarn.resourcemanager.scheduler.class", "")).lower():
        return AllocationSteps(minimum, Resources(minimum.memory_mib, minimum.vcores, 1))
    increment = "increment-allocation"
    return AllocationSteps(
        minimum,
        Resources(
            amount(1024, f"yarn.resource-types.memory-mb.{increment}", f"{prefix}.{increment}-mb"),
            amount(1, f"yarn.resource-types.vcores.{increment}", f"{prefix}.{increment}-vcores"),
            amount(1, f"yarn.resource-types.{GPU_RESOURCE}.{increment}"),
        ),
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

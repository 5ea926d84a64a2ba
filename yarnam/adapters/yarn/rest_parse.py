"""From the ResourceManager's JSON to our values. Pure; tolerant of keys that are not there.

What is there and makes no sense raises MalformedData. Of nodes and of applications, each row stands
for itself: one that makes no sense is handed to ``rejected``, and the others count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeVar

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import INT64, is_encodable, shown
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import AllocationSteps, Node, NodeState, QueueView

Json = Mapping[str, Any]
Rejected = Callable[[str, MalformedData], None]
"""Takes the name of a row, and what is wrong with it."""

R = TypeVar("R")

UNLIMITED = 2**31 - 1
"""The Fair Scheduler writes Integer.MAX_VALUE or Long.MAX_VALUE for "no limit"."""

GPU_RESOURCE = "yarn.io/gpu"
GPU_MODEL_ATTRIBUTE = "gpu-model"
"""Node attribute from which a node's GPU model is read."""

_AMOUNT = re.compile(r"\s*([0-9]{1,18})\s*([A-Za-z]*)\s*$")
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
    for row in _rows(json, "resourceInformations", "resourceInformation"):
        if row.get("name") == GPU_RESOURCE:
            gpus = _whole(row, "value")
    return Resources(
        memory_mib=min(_whole(json, "memory"), UNLIMITED),
        vcores=min(_whole(json, "vCores"), UNLIMITED),
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


def _raise(_name: str, error: MalformedData) -> None:
    raise error


def nodes_of(json: Json, rejected: Rejected = _raise) -> tuple[Node, ...]:
    """All nodes, sorted by id. Of several rows for one host (a NodeManager that came back under
    another id) the running ones count, else the newest."""
    dated = _each(
        _rows(json, "nodes", "node"),
        lambda row: (
            _whole(row, "lastHealthUpdate"),
            text_of(row, "nodeHTTPAddress") or text_of(row, "id"),
            row,
        ),
        rejected,
    )
    by_address: dict[str, Json] = {}
    for _, address, row in sorted(dated, key=lambda found: found[0]):
        known = by_address.get(address)
        if known is None or known.get("state") != "RUNNING" or row.get("state") == "RUNNING":
            by_address[address] = row
    # Thousands of nodes have a few sizes: equal amounts share one value, which a planner that
    # reads all of them feels (a third of its time on 10,000 nodes).
    seen: dict[Resources, Resources] = {}
    racks: dict[str, RackId] = {}
    nodes = list(_each(by_address.values(), lambda row: _node(row, seen, racks), rejected))
    running_hosts = {node.node_id for node in nodes if node.is_usable}
    return tuple(
        sorted(
            (node for node in nodes if node.is_usable or node.node_id not in running_hosts),
            key=lambda node: (node.node_id, node.http_address),
        )
    )


def _node(row: Json, seen: dict[Resources, Resources], racks: dict[str, RackId]) -> Node:
    model = next(
        (
            text_of(item, "value")
            for item in _rows(row, "nodeAttributesInfo", "nodeAttributeInfo")
            if item.get("name") == GPU_MODEL_ATTRIBUTE
        ),
        "",
    )
    total = object_of(row, "totalResource") or {
        "memory": _whole(row, "usedMemoryMB") + _whole(row, "availMemoryMB"),
        "vCores": _whole(row, "usedVirtualCores") + _whole(row, "availableVirtualCores"),
    }
    used = object_of(row, "usedResource") or {
        "memory": row.get("usedMemoryMB", 0),
        "vCores": row.get("usedVirtualCores", 0),
    }
    name = text_of(row, "rack")
    all_of_it, in_use = resources_of(total), resources_of(used)
    return Node(
        node_id=NodeId(text_of(row, "nodeHostName") or text_of(row, "id").split(":")[0]),
        rack=racks.setdefault(name, RackId(name)),
        state=_NODE_STATES.get(text_of(row, "state"), NodeState.LOST),
        total=seen.setdefault(all_of_it, all_of_it),
        used=seen.setdefault(in_use, in_use),
        http_address=text_of(row, "nodeHTTPAddress"),
        gpu_model=model,
        labels=_texts(row, "nodeLabels"),
    )


def queues_of(json: Json) -> tuple[QueueView, ...]:
    """The leaf queues, by full name. Of the Capacity Scheduler only names and use are read."""
    info = object_of(object_of(json, "scheduler"), "schedulerInfo")
    if info.get("type") == "fairScheduler":
        root = object_of(info, "rootQueue")
        return tuple(_fair_leaves(root, None, None, limit_of(object_of(root, "maxResources"))))
    return tuple(_capacity_leaves(info, ""))


def _fair_leaves(
    row: Json, above: Resources | None, left_above: Resources | None, cluster: Resources | None
) -> Iterable[QueueView]:
    """``above``: the tightest limit of the queues above, which binds this one too;
    ``left_above``: what the queues below have left of it."""
    own = _own_limit(limit_of(object_of(row, "maxResources")), cluster)
    maximum = _tighter(above, own)
    left = None
    if own is not None:
        left = own.minus(resources_of(object_of(row, "usedResources")))
    left = _tighter(left_above, left)
    if row.get("type") != "fairSchedulerLeafQueueInfo":
        for child in _rows(row, "childQueues", "queue"):
            yield from _fair_leaves(child, maximum, left, cluster)
        return
    max_apps = _whole(row, "maxApps", UNLIMITED)
    yield QueueView(
        name=text_of(row, "queueName"),
        used=resources_of(object_of(row, "usedResources")),
        steady_share=resources_of(object_of(row, "steadyFairResources")),
        fair_share=resources_of(object_of(row, "fairResources")),
        minimum=resources_of(object_of(row, "minResources")),
        maximum=maximum,
        max_container=limit_of(object_of(row, "maxContainerAllocation")),
        running_jobs=_whole(row, "numActiveApps"),
        pending_jobs=_whole(row, "numPendingApps"),
        max_running_jobs=max_apps if max_apps < UNLIMITED else None,
        headroom=left,
        is_preemptable=row.get("preemptable") is not False,
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
    own = text_of(row, "queueName") or "root"
    name = text_of(row, "queuePath") or f"{path}.{own}".lstrip(".")
    children = list(_rows(row, "queues", "queue"))
    for child in children:
        yield from _capacity_leaves(child, name)
    if not children and row.get("queueName"):
        yield QueueView(
            name=name,
            used=resources_of(object_of(row, "resourcesUsed")),
            running_jobs=_whole(row, "numActiveApplications"),
            pending_jobs=_whole(row, "numPendingApplications"),
        )


def _rows(json: Json, outer: str, inner: str) -> Iterator[Json]:
    """The objects of ``{outer: {inner: [...]}}``. Some YARN versions write a single one instead of
    a list."""
    value = object_of(json, outer).get(inner)
    for row in value if isinstance(value, list) else [value]:
        if isinstance(row, dict):
            yield row
        elif row is not None:
            raise MalformedData(f"{outer}.{inner} has {shown(row)} where an object belongs")


def _each(rows: Iterable[Json], parse: Callable[[Json], R], rejected: Rejected) -> Iterator[R]:
    for row in rows:
        try:
            yield parse(row)
        except MalformedData as error:
            rejected(shown(row.get("id")), error)


def object_of(json: Json, key: str) -> Json:
    """An object within another; empty where there is none."""
    value = json.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedData(f"{key} is no object: {shown(value)}")
    return value


def text_of(json: Json, key: str) -> str:
    """A text; empty where there is none. Some YARN versions write one that looks like a number as a
    number."""
    value = json.get(key)
    if value is None:
        return ""
    if not isinstance(value, (str, int, float)):
        raise MalformedData(f"{key} is no text: {shown(value)}")
    text = str(value)
    if not is_encodable(text):
        raise MalformedData(f"{key} is no text: {shown(value)}")
    return text


def _texts(json: Json, key: str) -> tuple[str, ...]:
    value = json.get(key)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise MalformedData(f"{key} are no texts: {shown(value)}")
    return tuple(value)


def _whole(json: Json, key: str, default: int = 0) -> int:
    """An integer of 64 bits: what is beyond is cut."""
    value = json.get(key)
    if value is None:
        return default
    try:
        return max(-INT64, min(INT64, int(value)))
    except (TypeError, ValueError, OverflowError):
        raise MalformedData(f"{key} is no number: {shown(value)}") from None


def _number(json: Json, key: str) -> float:
    value = json.get(key)
    if value is None:
        return 0.0
    if type(value) not in (int, float) or abs(value) > INT64 or not isfinite(value):
        raise MalformedData(f"{key} is no number: {shown(value)}")
    return float(value)


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
    rows = _rows({"conf": json}, "conf", "properties")
    return {text_of(row, "key"): text_of(row, "value") for row in rows}


def steps_of(json: Json) -> AllocationSteps:
    """How the scheduler rounds, from the RM's ``/conf``. The Fair Scheduler has increments apart
    from its minimum (FairSchedulerConfiguration.getIncrementAllocation: 1024 MiB and 1 vcore
    unless configured); the Capacity Scheduler's steps are its minimum."""
    settings = settings_of(json)

    def amount(default: int, *names: str) -> int:
        for name in names:
            digits = _AMOUNT.match(settings.get(name, ""))
            if digits:
                amount = int(digits[1]) * _UNITS.get(digits[2].lower(), 1)
                return min(amount, UNLIMITED)
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


def preempts(json: Json) -> bool:
    """Whether the Fair Scheduler preempts, from the RM's ``/conf``. The Capacity Scheduler's
    shares are not read, so its preemption would help nobody who asks here."""
    settings = settings_of(json)
    if "fair" not in str(settings.get("yarn.resourcemanager.scheduler.class", "")).lower():
        return False
    return str(settings.get("yarn.scheduler.fair.preemption", "")).strip().lower() == "true"


def newest_attempt_of(json: Json) -> int:
    """The largest number of an application's AM attempts; 0: there is none."""
    return max((_whole(row, "id") for row in _rows(json, "appAttempts", "appAttempt")), default=0)


def application_of(json: Json) -> YarnApplication:
    """From ``{"app": {...}}``."""
    return _application(object_of(json, "app"))


def applications_of(json: Json, rejected: Rejected = _raise) -> tuple[YarnApplication, ...]:
    """Newest first."""
    found = _each(_rows(json, "apps", "app"), _application, rejected)
    return tuple(sorted(found, key=lambda app: (app.started_at_s, app.application))[::-1])


def _application(row: Json) -> YarnApplication:
    finished_ms = _whole(row, "finishedTime")
    return YarnApplication(
        application=text_of(row, "id"),
        name=text_of(row, "name"),
        user=text_of(row, "user"),
        queue=text_of(row, "queue"),
        state=text_of(row, "state"),
        final_status=text_of(row, "finalStatus") or "UNDEFINED",
        diagnostics=text_of(row, "diagnostics").strip(),
        progress=_number(row, "progress") / 100.0,
        tracking_url=text_of(row, "trackingUrl"),
        tags=tuple(tag for tag in text_of(row, "applicationTags").split(",") if tag),
        started_at_s=_whole(row, "startedTime") / 1000.0,
        finished_at_s=finished_ms / 1000.0 if finished_ms else None,
        running_containers=max(0, _whole(row, "runningContainers")),
        am_log_url=text_of(row, "amContainerLogs"),
        log_aggregation=text_of(row, "logAggregationStatus"),
    )

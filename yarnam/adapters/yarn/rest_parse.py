"""From the ResourceManager's JSON to our values. Pure; tolerant of keys that are not there.

What is there and makes no sense raises MalformedData. Of nodes and of applications, each row stands
for itself: one that makes no sense is handed to ``rejected``, and the others count.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import shown
from yarnam.adapters.yarn.capacity_queues import capacity_leaves
from yarnam.adapters.yarn.json_values import (
    GPU_RESOURCE,
    UNLIMITED,
    Json,
    limit_of,
    number_of,
    object_of,
    own_limit,
    resources_of,
    rows_of,
    text_of,
    tighter,
    whole_of,
)
from yarnam.core.model.ids import NodeId, RackId, node_of_address
from yarnam.core.model.job_status import JobState
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import AllocationSteps, Node, NodeState, QueueView, Scheduler

Rejected = Callable[[str, MalformedData], None]
"""Takes the name of a row, and what is wrong with it."""

R = TypeVar("R")

GPU_MODEL_ATTRIBUTE = "gpu-model"
"""Node attribute from which a node's GPU model is read."""

AM_PRIORITY = "0"
"""Priority of the ApplicationMaster's container (``RMAppAttemptImpl.AM_CONTAINER_PRIORITY``).
Skein's others begin at 1."""

_AMOUNT = re.compile(r"\s*([0-9]{1,18})\s*([A-Za-z]*)\s*$")
_UNITS = {"gi": 1024, "g": 1024}
"""Of memory, in MiB: ``2Gi``; YARN's units for the rest of them are 1."""

_NODE_STATES = {
    "RUNNING": NodeState.RUNNING,
    "UNHEALTHY": NodeState.UNHEALTHY,
    "DECOMMISSIONING": NodeState.DECOMMISSIONING,
}


_SCHEDULERS = {"fairScheduler": Scheduler.FAIR, "capacityScheduler": Scheduler.CAPACITY}


@dataclass(frozen=True, slots=True)
class YarnApplication:
    """An application as the ResourceManager reports it. Times in seconds since the epoch."""

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
    gpu_s: float = 0.0
    """GPU-seconds that it has been charged so far; 0 means none, or it is not reported."""
    am_log_url: str = ""
    log_aggregation: str = ""
    """YARN's: DISABLED, NOT_START, RUNNING, SUCCEEDED, ...; empty where it is not reported."""

    @property
    def is_over(self) -> bool:
        return self.state in {"FINISHED", "FAILED", "KILLED"}

    @property
    def job_state(self) -> JobState:
        """The state of an application of any kind: QUEUED until its ApplicationMaster runs."""
        if not self.is_over:
            return JobState.RUNNING if self.state == "RUNNING" else JobState.QUEUED
        if "KILLED" in {self.state, self.final_status}:
            return JobState.CANCELLED
        is_well = self.final_status == "SUCCEEDED"
        return JobState.SUCCEEDED if is_well else JobState.FAILED


def _raise(_name: str, error: MalformedData) -> None:
    raise error


def nodes_of(json: Json, rejected: Rejected = _raise) -> tuple[Node, ...]:
    """All nodes, sorted by id. Of several rows for one host (a NodeManager that came back under
    another id) the running ones count, else the newest."""
    dated = _each(
        rows_of(json, "nodes", "node"),
        lambda row: (
            whole_of(row, "lastHealthUpdate"),
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
    numbers = count(1)
    nodes = list(
        _each(
            by_address.values(),
            lambda row: _node(row, seen, racks, f"hidden-{next(numbers):04d}"),
            rejected,
        )
    )
    running_hosts = {node.node_id for node in nodes if node.is_usable}
    return tuple(
        sorted(
            (node for node in nodes if node.is_usable or node.node_id not in running_hosts),
            key=lambda node: (node.node_id, node.http_address),
        )
    )


MOST_HEALTH = 500
"""Characters of a node's health report; a script of the site writes it."""


def _node(
    row: Json, seen: dict[Resources, Resources], racks: dict[str, RackId], unnamed: str
) -> Node:
    """``unnamed``: what to call it where its name is not told."""
    model = next(
        (
            text_of(item, "value")
            for item in rows_of(row, "nodeAttributesInfo", "nodeAttributeInfo")
            if item.get("name") == GPU_MODEL_ATTRIBUTE
        ),
        "",
    )
    used = object_of(row, "usedResource") or {
        "memory": row.get("usedMemoryMB", 0),
        "vCores": row.get("usedVirtualCores", 0),
    }
    in_use = resources_of(used)
    total = object_of(row, "totalResource")
    if total:
        all_of_it = resources_of(total)
    else:  # Hadoop 3.1 and 3.2
        available = object_of(row, "availableResource") or {
            "memory": row.get("availMemoryMB", 0),
            "vCores": row.get("availableVirtualCores", 0),
        }
        all_of_it = in_use.plus(resources_of(available))
    name = text_of(row, "rack")
    host, address = text_of(row, "nodeHostName"), text_of(row, "nodeHTTPAddress")
    # A gateway that hides the nodes (Knox's rules for RESOURCEMANAGER) empties both, and encrypts
    # the id anew in each reply.
    is_named = bool(host or address) or ":" in text_of(row, "id")
    own = node_of_address(text_of(row, "id")) if is_named else unnamed
    state = _NODE_STATES.get(text_of(row, "state"), NodeState.LOST)
    return Node(
        node_id=NodeId(host.strip("[]") or own),
        rack=racks.setdefault(name, RackId(name)),
        state=state,
        total=seen.setdefault(all_of_it, all_of_it),
        used=seen.setdefault(in_use, in_use),
        http_address=address,
        gpu_model=model,
        labels=_texts(row, "nodeLabels"),
        is_named=is_named,
        # A node that runs reports its health at every heartbeat: no part of a snapshot.
        health="" if state is NodeState.RUNNING else text_of(row, "healthReport")[:MOST_HEALTH],
    )


def scheduler_of(json: Json) -> Scheduler:
    """From the scheduler page."""
    info = object_of(object_of(json, "scheduler"), "schedulerInfo")
    return _SCHEDULERS.get(text_of(info, "type"), Scheduler.OTHER)


def queues_of(json: Json, partition: str = "") -> tuple[QueueView, ...]:
    """The leaf queues, by full name. Those of the Capacity Scheduler have capacities in each
    partition (nodes with this label; empty means those without one)."""
    info = object_of(object_of(json, "scheduler"), "schedulerInfo")
    if scheduler_of(json) is Scheduler.FAIR:
        root = object_of(info, "rootQueue")
        return tuple(_fair_leaves(root, None, None, limit_of(object_of(root, "maxResources"))))
    return tuple(capacity_leaves(info, partition))


def _fair_leaves(
    row: Json, above: Resources | None, left_above: Resources | None, cluster: Resources | None
) -> Iterable[QueueView]:
    """``above``: the tightest limit of the queues above, which binds this one too;
    ``left_above``: what the queues below have left of it."""
    own = own_limit(limit_of(object_of(row, "maxResources")), cluster)
    maximum = tighter(above, own)
    left = None
    if own is not None:
        left = own.minus(resources_of(object_of(row, "usedResources")))
    left = tighter(left_above, left)
    if row.get("type") != "fairSchedulerLeafQueueInfo":
        for child in rows_of(row, "childQueues", "queue"):
            yield from _fair_leaves(child, maximum, left, cluster)
        return
    max_apps = whole_of(row, "maxApps", UNLIMITED)
    yield QueueView(
        name=text_of(row, "queueName"),
        used=resources_of(object_of(row, "usedResources")),
        steady_share=resources_of(object_of(row, "steadyFairResources")),
        fair_share=resources_of(object_of(row, "fairResources")),
        minimum=resources_of(object_of(row, "minResources")),
        maximum=maximum,
        max_container=limit_of(object_of(row, "maxContainerAllocation")),
        running_jobs=whole_of(row, "numActiveApps"),
        pending_jobs=whole_of(row, "numPendingApps"),
        max_running_jobs=max_apps if max_apps < UNLIMITED else None,
        headroom=left,
        is_preemptable=row.get("preemptable") is not False,
    )


def _each(rows: Iterable[Json], parse: Callable[[Json], R], rejected: Rejected) -> Iterator[R]:
    for row in rows:
        try:
            yield parse(row)
        except MalformedData as error:
            rejected(shown(row.get("id")), error)


def _texts(json: Json, key: str) -> tuple[str, ...]:
    value = json.get(key)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise MalformedData(f"{key} are not strings: {shown(value)}")
    return tuple(value)


def started_at_s(info: Json) -> float:
    """Of ``clusterInfo``: the daemon's start, in seconds since 1970; 0 means it does not tell."""
    return number_of(info, "startedOn") / 1000.0


def settings_of(json: Json) -> dict[str, str]:
    """The RM's ``/conf``: empty for what has no value."""
    rows = rows_of({"conf": json}, "conf", "properties")
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
    """Whether the scheduler preempts, from the RM's ``/conf``. The Capacity Scheduler does where
    its monitor runs (by default with the one policy that there is,
    ProportionalCapacityPreemptionPolicy)."""
    settings = settings_of(json)
    is_fair = "fair" in settings.get("yarn.resourcemanager.scheduler.class", "").lower()
    key = "scheduler.fair.preemption" if is_fair else "resourcemanager.scheduler.monitor.enable"
    return settings.get(f"yarn.{key}", "").strip().lower() == "true"


def attempt_ends_of(json: Json) -> dict[int, float]:
    """When an application's AM attempts ended, by number, in seconds since 1970; 0 means it
    lives."""
    rows = rows_of(json, "appAttempts", "appAttempt")
    return {whole_of(row, "id"): whole_of(row, "finishedTime") / 1000.0 for row in rows}


def tasks_by_node(json: Json) -> Counter[NodeId]:
    """How many containers an AM attempt has on each node, but for the ApplicationMaster's own."""
    rows = rows_of({"containers": json}, "containers", "container")
    return Counter(
        node_of_address(text_of(row, "assignedNodeId"))
        for row in rows
        if text_of(row, "priority") != AM_PRIORITY
    )


def application_of(json: Json) -> YarnApplication:
    """From ``{"app": {...}}``."""
    return _application(object_of(json, "app"))


def applications_of(json: Json, rejected: Rejected = _raise) -> tuple[YarnApplication, ...]:
    """Newest first."""
    found = _each(rows_of(json, "apps", "app"), _application, rejected)
    return tuple(sorted(found, key=lambda app: (app.started_at_s, app.application))[::-1])


def _gpu_seconds(row: Json) -> float:
    """From ``resourceSecondsMap``: one entry or several, by name (Hadoop 3.1)."""
    for entry in rows_of(row, "resourceSecondsMap", "entry"):
        if text_of(entry, "key") == GPU_RESOURCE:
            return float(max(0, whole_of(entry, "value")))
    return 0.0


def _application(row: Json) -> YarnApplication:
    finished_ms = whole_of(row, "finishedTime")
    return YarnApplication(
        application=text_of(row, "id"),
        name=text_of(row, "name"),
        user=text_of(row, "user"),
        queue=text_of(row, "queue"),
        state=text_of(row, "state"),
        final_status=text_of(row, "finalStatus") or "UNDEFINED",
        diagnostics=text_of(row, "diagnostics").strip(),
        progress=number_of(row, "progress") / 100.0,
        tracking_url=text_of(row, "trackingUrl"),
        tags=tuple(tag for tag in text_of(row, "applicationTags").split(",") if tag),
        started_at_s=whole_of(row, "startedTime") / 1000.0,
        finished_at_s=finished_ms / 1000.0 if finished_ms else None,
        running_containers=max(0, whole_of(row, "runningContainers")),
        gpu_s=_gpu_seconds(row),
        am_log_url=text_of(row, "amContainerLogs"),
        log_aggregation=text_of(row, "logAggregationStatus"),
    )

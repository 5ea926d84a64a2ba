"""The effect of the ResourceManager's scheduler settings on gangs."""

from __future__ import annotations

from collections.abc import Mapping

from yarnam.client.doctor.finding import Finding, ok, warn
from yarnam.core.model.snapshot import Node
from yarnam.core.queues.capacity import CapacityInput, lint_capacity
from yarnam.core.queues.capacity.capacity_file import CapacityConfig

MOST_SHOWN = 3
"""The most findings on the queues' settings in one line of the doctor."""

_FAIR = "yarn.scheduler.fair"
_CAPACITY = "yarn.scheduler.capacity"
_MONITOR = "yarn.resourcemanager.scheduler.monitor.enable"


def check_scheduler(settings: Mapping[str, str]) -> Finding:
    """``settings``: the ResourceManager's own."""
    name = settings.get("yarn.resourcemanager.scheduler.class", "").lower()
    if "fairscheduler" in name:
        return _check_fair(settings)
    # It is Hadoop's default too.
    if not name or "capacityscheduler" in name:
        return _check_capacity(settings)
    return warn(
        f"{name.rpartition('.')[2]} has no queues with shares of GPUs",
        "yarnam is made for the Fair Scheduler and the Capacity Scheduler.",
    )


def _check_capacity(settings: Mapping[str, str]) -> Finding:
    """The Capacity Scheduler counts memory alone unless told otherwise. Containers that are asked
    for anywhere come one per node heartbeat (``maximum-offswitch-assignments``), those on named
    nodes as many as fit. Its own settings are in capacity-scheduler.xml, which not every
    ResourceManager shows: only what it shows is judged."""
    calculator = settings.get(f"{_CAPACITY}.resource-calculator")
    if calculator is not None and "dominant" not in calculator.lower():
        return warn(
            "Capacity Scheduler: it counts memory alone, so no queue has a limit of GPUs",
            f"Have {_CAPACITY}.resource-calculator set to the DominantResourceCalculator.",
        )
    if settings.get(_MONITOR, "false").strip().lower() != "true":
        return ok(
            "Capacity Scheduler without preemption: a queue gets its capacity back when others end "
            f"({_MONITOR})"
        )
    return ok("Capacity Scheduler with preemption")


def check_capacity(
    config: CapacityConfig, settings: Mapping[str, str], nodes: tuple[Node, ...]
) -> Finding | None:
    """The findings of ``yarnam queues lint`` on the queues that the ResourceManager reports;
    ``None`` if there are none. ``settings`` are the ResourceManager's own."""
    given = CapacityInput(config, settings, nodes)
    # The GPU resource type is a check of its own.
    found = [one for one in lint_capacity(given) if one.rule != "gpus-not-in-site"]
    if not found:
        return None
    first = sorted(found, key=lambda one: one.severity.value)[:MOST_SHOWN]
    more = f"; and {len(found) - len(first)} more" if len(found) > len(first) else ""
    return warn(
        "Capacity Scheduler: " + "; ".join(one.message for one in first) + more,
        "For the reasons, and what to write instead: yarnam queues lint capacity-scheduler.xml, on "
        "the ResourceManager's machine.",
    )


def _check_fair(settings: Mapping[str, str]) -> Finding:
    """Tell from the ResourceManager's own settings how soon the nodes of a gang are filled.

    The Fair Scheduler gives one container per node heartbeat unless ``assignmultiple`` is set; then
    as many as fit in half of what the node has free (``dynamic.max.assign``, on by default), or
    ``max.assign``, -1 for no limit (FairScheduler.shouldContinueAssigning, Hadoop 3.1 to 3.4).
    """
    if settings.get(f"{_FAIR}.assignmultiple") != "true":
        return warn(
            "one container per node heartbeat: a gang that fills a node of 8 GPUs waits for eight",
            f"Have {_FAIR}.assignmultiple = true set. See yarnam docs prepare-a-cluster.",
        )
    if settings.get(f"{_FAIR}.dynamic.max.assign", "true") != "false":
        message = (
            "half of what a node has free per heartbeat: 8 GPUs of a node come in three "
            f"({_FAIR}.dynamic.max.assign = false makes it one)"
        )
        return ok(message)
    limit = settings.get(f"{_FAIR}.max.assign", "-1")
    if limit.startswith("-"):
        return ok("as many containers per node heartbeat as fit")
    return ok(f"at most {limit} containers per node heartbeat")

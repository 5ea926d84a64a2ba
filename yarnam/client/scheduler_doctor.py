"""What the doctor says of how the scheduler hands containers out."""

from __future__ import annotations

from collections.abc import Mapping

from yarnam.client.finding import Finding, ok, warn

_FAIR = "yarn.scheduler.fair"
_HOW_TO = "See docs/how-to/real-cluster.md."


def hands_out(settings: Mapping[str, str]) -> Finding:
    """From the ResourceManager's own settings: how soon the nodes of a gang are filled.

    The Fair Scheduler gives one container per node heartbeat unless ``assignmultiple`` is set; then
    as many as fit in half of what the node has free (``dynamic.max.assign``, on by default), or
    ``max.assign``, -1 for no limit (FairScheduler.shouldContinueAssigning, Hadoop 3.1 to 3.4).
    """
    if "fair" not in settings.get("yarn.resourcemanager.scheduler.class", "").lower():
        message = "not the Fair Scheduler: queues and shares are read, not its preemption"
        return ok(message)
    if settings.get(f"{_FAIR}.assignmultiple") != "true":
        return warn(
            "one container per node heartbeat: a gang that fills a node of 8 GPUs waits for eight",
            f"Have {_FAIR}.assignmultiple = true set. {_HOW_TO}",
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

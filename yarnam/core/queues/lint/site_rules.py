"""The site's settings, as far as they decide what the file can do. Silent where none are given."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from yarnam.core.queues.amounts import GPU
from yarnam.core.queues.lint.lint_values import (
    FAIR,
    Finding,
    LintInput,
    SiteFacts,
    about_gpus,
    error,
    site_xml,
    warning,
)


def other_scheduler(given: LintInput) -> Iterator[Finding]:
    """Nobody reads the file then."""
    key = "yarn.resourcemanager.scheduler.class"
    if given.settings is not None and "fair" not in given.setting(key):
        yield error(
            None,
            "the site does not run the Fair Scheduler",
            f"{key} is {given.setting(key) or 'not set, which means the Capacity Scheduler'}",
            site_xml(
                key,
                "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fair.FairScheduler",
            ),
        )


def gpu_type_missing(given: SiteFacts) -> Iterator[Finding]:
    """In resource-types.xml of the ResourceManager, the NodeManagers and the clients."""
    if given.settings is None:
        return
    if GPU not in given.setting("yarn.resource-types").split(","):
        yield about_gpus(
            error(
                None,
                f"yarn.resource-types does not have {GPU}",
                "no queue and no container can have GPUs; the file is refused where it names them",
                site_xml("yarn.resource-types", GPU),
            )
        )
    plugins = given.setting("yarn.nodemanager.resource-plugins")
    if "yarn.nodemanager.resource-plugins" in given.settings and GPU not in plugins.split(","):
        yield about_gpus(
            error(
                None,
                f"yarn.nodemanager.resource-plugins does not have {GPU}",
                "the NodeManagers report no GPUs",
                site_xml("yarn.nodemanager.resource-plugins", GPU),
            )
        )


def gpu_allocation_below_node(given: SiteFacts) -> Iterator[Finding]:
    """The largest container of the scheduler."""
    key = f"yarn.resource-types.{GPU}.maximum-allocation"
    largest = max((node.total.gpus for node in given.nodes), default=1)
    if given.settings is not None and given.number(key, largest) < largest:
        yield about_gpus(
            error(
                None,
                f"a container has at most {given.number(key, largest):g} GPUs",
                f"a node has {largest}: no task can have a whole one",
                site_xml(key, largest),
            )
        )


def one_container_per_heartbeat(given: LintInput) -> Iterator[Finding]:
    """How fast the nodes of a gang are filled (FairScheduler.shouldContinueAssigning)."""
    if given.settings is None:
        return
    if given.setting(f"{FAIR}.assignmultiple") != "true":
        yield warning(
            None,
            "a node gets one container per heartbeat",
            "a gang that fills a node of 8 GPUs waits for eight, and holds what it has meanwhile",
            site_xml(f"{FAIR}.assignmultiple", "true"),
        )
    elif given.setting(f"{FAIR}.dynamic.max.assign", "true") != "false":
        yield warning(
            None,
            "a heartbeat assigns at most half of what a node has free",
            "8 GPUs of a node come in three heartbeats instead of one",
            site_xml(f"{FAIR}.dynamic.max.assign", "false"),
        )
    elif 0 <= given.number(f"{FAIR}.max.assign", -1) < 8:
        yield warning(
            None,
            f"a heartbeat assigns at most {given.number(f'{FAIR}.max.assign', -1):g} containers",
            "a node of 8 GPUs is not filled at once",
            site_xml(f"{FAIR}.max.assign", -1),
        )


def locality_thresholds(given: LintInput) -> Iterator[Finding]:
    """FSAppAttempt.getAllowedLocalityLevel: outside of 0 to 1 a request may land anywhere."""
    for level in ("node", "rack"):
        key = f"{FAIR}.locality.threshold.{level}"
        if given.settings is not None and not 0.0 < given.number(key, -1.0) <= 1.0:
            yield warning(
                None,
                f"{key} is {given.number(key, -1.0):g}",
                f"a request that prefers a {level} is granted anywhere at once",
                site_xml(key, "0.5"),
            )


def few_reservable_nodes(given: LintInput) -> Iterator[Finding]:
    """FSAppAttempt.reservationExceedsThreshold."""
    key = f"{FAIR}.reservable-nodes"
    nodes = len([node for node in given.nodes if node.is_usable])
    reservable = ceil(given.number(key, 0.05) * nodes)
    if given.settings is not None and nodes > 1 and reservable < 2:
        yield warning(
            None,
            f"a job may reserve {reservable} of {nodes} nodes at a time",
            "large containers come one after the other while small ones take what comes free",
            site_xml(key, f"{min(1.0, 2 / nodes + 0.01):.2f}"),
        )


def placement_processor(given: LintInput) -> Iterator[Finding]:
    """Seen on a real ResourceManager (3.4.1)."""
    key = "yarn.resourcemanager.placement-constraints.handler"
    if given.setting(key) == "placement-processor":
        yield error(
            None,
            "placement-processor is on with the Fair Scheduler",
            "it accepts requests with constraints and rejects all of them two seconds later",
            site_xml(key, "disabled"),
        )


def weight_by_size(given: LintInput) -> Iterator[Finding]:
    """yarn.scheduler.fair.sizebasedweight"""
    if given.setting(f"{FAIR}.sizebasedweight") == "true":
        yield warning(
            None,
            "jobs with more memory have a larger weight",
            "a job's share follows the memory that it asks for, not its GPUs",
            site_xml(f"{FAIR}.sizebasedweight", "false"),
        )


def continuous_scheduling(given: LintInput) -> Iterator[Finding]:
    """Deprecated since 3.1."""
    if given.setting(f"{FAIR}.continuous-scheduling-enabled") == "true":
        yield warning(
            None,
            "continuous scheduling is on",
            "it is deprecated: on a large cluster its lock makes heartbeats wait",
            site_xml(f"{FAIR}.continuous-scheduling-enabled", "false"),
        )


RULES = (
    other_scheduler,
    gpu_type_missing,
    gpu_allocation_below_node,
    one_container_per_heartbeat,
    locality_thresholds,
    few_reservable_nodes,
    placement_processor,
    weight_by_size,
    continuous_scheduling,
)

"""Settings that YARN does not know, does not take, or reads otherwise than written."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from yarnam.core.queues.capacity.capacity_file import CAPACITY, Setting, read_share
from yarnam.core.queues.capacity.capacity_values import REFUSED, CapacityInput, error, warning
from yarnam.core.queues.lint.lint_values import Finding, site_xml
from yarnam.core.queues.lint.meant_names import meant_name, value_of_kind

_NUMBERS = ("user-limit-factor", "minimum-user-limit-percent", "maximum-am-resource-percent")
_COUNTS = (
    "maximum-applications", "max-parallel-apps", "maximum-allocation-mb",
    "maximum-allocation-vcores", "default-application-priority", "priority",
)  # fmt: skip
_QUEUE_KEYS = frozenset(
    (*_NUMBERS, *_COUNTS, "capacity", "maximum-capacity", "queues", "state", "ordering-policy",
     "acl_submit_applications", "acl_administer_queue", "acl_application_max_priority",
     "acl_administer_reservations", "acl_list_reservations", "acl_submit_reservations",
     "disable_preemption", "accessible-node-labels", "default-node-label-expression",
     "maximum-allocation", "maximum-application-lifetime", "default-application-lifetime",
     "allow-zero-capacity-sum", "multi-node-sorting.policy", "reservable", "reservation-agent",
     "reservation-enforcement-window", "reservation-move-on-expiry", "reservation-planner",
     "reservation-policy", "reservation-window", "average-capacity", "instantaneous-max-capacity",
     "show-reservations-as-queues", "min-resource", "max-resource")
)  # fmt: skip
_QUEUE_FAMILIES = (
    "accessible-node-labels.", "user-settings.", "auto-create-child-queue.",
    "leaf-queue-template.", "auto-queue-creation-v2.", "ordering-policy.",
    "intra-queue-preemption.", "multi-node-sorting.policy.",
)  # fmt: skip
_KEYS = frozenset(
    (*_NUMBERS, "maximum-applications", "max-parallel-apps", "resource-calculator",
     "node-locality-delay", "rack-locality-additional-delay", "rack-locality-full-reset",
     "reservations-continue-look-all-nodes", "skip-allocate-on-nodes-with-reserved-containers",
     "user-metrics.enable", "application.fail-fast", "queue-mappings",
     "queue-mappings-override.enable", "workflow-priority-mappings",
     "workflow-priority-mappings-override.enable", "lazy-preemption-enabled",
     "global-queue-max-application", "legacy-queue-mode.enabled", "mapping-rule-format",
     "mapping-rule-json", "mapping-rule-json-file", "multi-node-placement-enabled",
     "multi-node-sorting.policy", "queue.auto.refresh.monitoring-interval",
     "per-node-heartbeat.maximum-container-assignments",
     "per-node-heartbeat.maximum-offswitch-assignments",
     "per-node-heartbeat.multiple-assignments-enabled",
     "schedule-asynchronously.enable", "schedule-asynchronously.maximum-pending-backlogs",
     "schedule-asynchronously.maximum-threads",
     "schedule-asynchronously.scheduling-interval-ms")
)  # fmt: skip
_FAMILIES = (
    "user.", "multi-node-sorting.policy.", "auto-queue-creation-v2.", "ordering-policy.",
    "queue-management.", "underutilized-preemption.",
)  # fmt: skip
_RENAMED = {
    "acl_submit_jobs": "acl_submit_applications", "acl_administer_jobs": "acl_administer_queue",
    "maximum-system-applications": "maximum-applications",
}  # fmt: skip
"""Settings of older versions and distributions."""
_STATES = ("RUNNING", "STOPPED", "DRAINING")
_LEAF_POLICIES = ("fifo", "fair", "fifo-with-partitions", "fifo-for-pending-apps")
_PARENT_POLICIES = ("utilization", "priority-utilization")


def unknown_setting(given: CapacityInput) -> Iterator[Finding]:
    """They are ignored in silence."""
    owned = {one.name for queue in given.queues() for one in queue.settings.values()}
    for name, setting in given.config.settings.items():
        if name.startswith("yarn.scheduler.fair."):
            yield warning(
                setting.line,
                f"{name} is a setting of the Fair Scheduler",
                "the Capacity Scheduler does not read it",
            )
        elif name.startswith(f"{CAPACITY}.") and name not in owned:
            key = name[len(CAPACITY) + 1 :]
            if not key.startswith("root.") and key not in _KEYS and not key.startswith(_FAMILIES):
                yield _unknown(setting, key, _KEYS)
    for queue in given.queues():
        for key, setting in queue.settings.items():
            is_below = any(key.endswith(f".{one}") for one in _QUEUE_KEYS)
            if key in _QUEUE_KEYS or key.startswith(_QUEUE_FAMILIES) or is_below:
                continue
            yield _unknown(setting, key, _QUEUE_KEYS)


def _unknown(setting: Setting, key: str, known: frozenset[str]) -> Finding:
    meant = meant_name(key, known, _RENAMED)
    name = setting.name[: -len(key)] + meant
    # HDP's own file has acl_administer_jobs of old, with the value that holds without it.
    found = warning if key in _RENAMED and setting.value.strip() == "*" else error
    return found(
        setting.line,
        f"{setting.name} is not known to YARN",
        "YARN ignores it, so the setting has no effect",
        site_xml(name, value_of_kind(setting.value, _kind(meant))) if meant else "",
    )


def _kind(key: str) -> Callable[[str], object] | None:
    if key in ("capacity", "maximum-capacity"):
        return read_share
    if key in _NUMBERS:
        return float
    return int if key in _COUNTS else None


def undeclared_queue(given: CapacityInput) -> Iterator[Finding]:
    """Settings of a queue that no list names. Queues that YARN makes on its own have templates."""
    seen: set[str] = set()
    for queue in given.queues():
        if any(key.startswith("auto-") for key in queue.settings):
            continue
        for key, setting in queue.settings.items():
            below, _, last = key.rpartition(".")
            if not below or last not in _QUEUE_KEYS or key.startswith(_QUEUE_FAMILIES):
                continue
            name = below.partition(".")[0]
            path = f"{queue.path}.{name}"
            if key in _QUEUE_KEYS or path in seen:
                continue
            seen.add(path)
            listed = [one.path.rpartition(".")[2] for one in queue.children]
            yield error(
                setting.line,
                f"{queue.full_name('queues')} does not list {name}",
                f"there is no queue {path}: its settings are ignored",
                site_xml(queue.full_name("queues"), ",".join([*listed, name])),
            )


def setting_twice(given: CapacityInput) -> Iterator[Finding]:
    """Configuration.loadResource"""
    for setting in given.config.repeated:
        yield warning(
            setting.line,
            f"{setting.name} is set again further down",
            "the last one counts",
        )


def value_not_read(given: CapacityInput) -> Iterator[Finding]:
    """Held against a real CapacityScheduler (3.4.1)."""
    checks: list[tuple[Setting, Callable[[str], object]]] = []
    for queue in given.queues():
        own = queue.settings
        checks += [(own[key], float) for key in _NUMBERS if key in own]
        checks += [(own[key], int) for key in _COUNTS if key in own]
        keys = ("capacity", "maximum-capacity")
        checks += [(own[key], read_share) for key in keys if key in own]
        checks += [(own["state"], _state)] if "state" in own else []
        policy = own.get("ordering-policy")
        checks += [(policy, _leaf_policy if queue.is_leaf else _parent_policy)] if policy else []
    for key in (*_NUMBERS, "maximum-applications", "max-parallel-apps", "node-locality-delay"):
        setting = given.config.settings.get(f"{CAPACITY}.{key}")
        checks += [(setting, float if key in _NUMBERS else int)] if setting is not None else []
    for setting, parse in checks:
        if not setting.value:
            continue  # as if it were not there
        try:
            parse(setting.value.strip())
        except ValueError:
            percent = setting.value.rstrip("% ")
            yield error(
                setting.line,
                f"{setting.name} cannot be {setting.value!r}",
                REFUSED,
                site_xml(setting.name, percent) if percent != setting.value else "",
            )


def _state(text: str) -> None:
    if text.upper() not in _STATES:
        raise ValueError(text)


def _leaf_policy(text: str) -> None:
    if text not in _LEAF_POLICIES and "." not in text:
        raise ValueError(text)


def _parent_policy(text: str) -> None:
    if text not in _PARENT_POLICIES and "." not in text:
        raise ValueError(text)


RULES = (unknown_setting, undeclared_queue, setting_twice, value_not_read)

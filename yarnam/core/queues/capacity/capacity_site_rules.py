"""The scheduler as a whole and the site's settings. Silent on what is not given."""

from __future__ import annotations

from collections.abc import Iterator

from yarnam.core.queues.capacity.capacity_file import CAPACITY, DOMINANT
from yarnam.core.queues.capacity.capacity_values import CapacityInput, error, warning
from yarnam.core.queues.lint.lint_values import Finding, about_gpus, site_xml
from yarnam.core.queues.lint.preemption_rules import CHECKPOINT_MS
from yarnam.core.queues.lint.site_rules import gpu_allocation_below_node, gpu_type_missing

_PREEMPTION = "yarn.resourcemanager.monitor.capacity.preemption"
_MONITOR = "yarn.resourcemanager.scheduler.monitor.enable"


def _value(given: CapacityInput, name: str, default: str) -> str:
    """The setting from the file, which the preemption monitor reads too, or else from the site."""
    found = given.config.settings.get(name)
    return found.value.strip().lower() if found else given.setting(name, default)


def _line_number(given: CapacityInput, name: str) -> int:
    found = given.config.settings.get(name)
    return found.line if found is not None else 0


def memory_alone_counts(given: CapacityInput) -> Iterator[Finding]:
    """CapacityScheduler.initScheduler"""
    name = f"{CAPACITY}.resource-calculator"
    calculator = given.scheduler("resource-calculator")
    if "dominant" not in calculator.lower():
        yield about_gpus(
            error(
                _line_number(given, name),
                "the resource calculator is "
                + (calculator.rpartition(".")[2] or "not set: the DefaultResourceCalculator"),
                "it counts memory alone, so no queue has a limit of GPUs; where the site has the "
                "GPU resource type, the ResourceManager does not start with it",
                site_xml(name, DOMINANT),
            )
        )


def not_this_scheduler(given: CapacityInput) -> Iterator[Finding]:
    """Nobody reads the file then. The Capacity Scheduler is Hadoop's default."""
    key = "yarn.resourcemanager.scheduler.class"
    if given.settings is not None and "capacity" not in given.setting(key, "capacity"):
        yield error(
            0,
            "the site does not run the Capacity Scheduler",
            f"{key} is {given.setting(key)}",
            site_xml(
                key,
                "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity."
                "CapacityScheduler",
            ),
        )


def gpus_not_in_site(given: CapacityInput) -> Iterator[Finding]:
    """The same for each scheduler."""
    yield from gpu_type_missing(given)
    yield from gpu_allocation_below_node(given)


def labels_not_in_site(given: CapacityInput) -> Iterator[Finding]:
    """Queues have labels, and the site has none."""
    names = [name for name in given.config.settings if ".accessible-node-labels." in name]
    key = "yarn.node-labels.enabled"
    if names and given.settings is not None and given.setting(key) != "true":
        yield error(
            _line_number(given, names[0]),
            "queues have capacities of labels, and the site has no node labels",
            f"{key} is not true: a job that asks for a label is refused",
            site_xml(key, "true"),
        )


def no_preemption(given: CapacityInput) -> Iterator[Finding]:
    """The monitor is off by default."""
    if given.settings is not None and _value(given, _MONITOR, "false") != "true":
        yield warning(
            _line_number(given, _MONITOR),
            "the preemption monitor is off",
            "a queue gets its capacity back only as the gangs of others end, which may be days",
            site_xml(_MONITOR, "true"),
        )


def preemption_in_crumbs(given: CapacityInput) -> Iterator[Finding]:
    """ProportionalCapacityPreemptionPolicy: a tenth of the cluster in each round by default, of
    which a fifth is left to end on its own."""
    name = f"{_PREEMPTION}.total_preemption_per_round"
    try:
        part = float(_value(given, name, "0.1"))
    except ValueError:
        return
    if given.settings is not None and _value(given, _MONITOR, "false") == "true" and part < 0.5:
        yield warning(
            _line_number(given, name),
            f"a round of preemption takes {part:.0%} of the cluster at most",
            "a gang that is owed more gets it in rounds, each of which breaks further gangs",
            site_xml(name, "1.0"),
        )


def kill_before_a_checkpoint(given: CapacityInput) -> Iterator[Finding]:
    """Between the notice and the kill."""
    name = f"{_PREEMPTION}.max_wait_before_kill"
    text = _value(given, name, "15000")
    is_on = given.settings is not None and _value(given, _MONITOR, "false") == "true"
    if is_on and text.isdigit() and int(text) < CHECKPOINT_MS:
        yield warning(
            _line_number(given, name),
            f"a preempted container is killed {int(text) / 1000:g} s after the notice",
            "that is shorter than most last checkpoints",
            site_xml(name, CHECKPOINT_MS),
        )


def few_containers_per_heartbeat(given: CapacityInput) -> Iterator[Finding]:
    """CapacityScheduler.canAllocateMore. Of containers that may be anywhere a node gets one in a
    heartbeat by default."""
    prefix = "per-node-heartbeat"
    many = f"{prefix}.multiple-assignments-enabled"
    most = f"{prefix}.maximum-container-assignments"
    anywhere = f"{prefix}.maximum-offswitch-assignments"
    limit = given.scheduler(most, "100")
    if given.scheduler(many, "true") == "false":
        yield warning(
            _line_number(given, f"{CAPACITY}.{many}"),
            "a node gets one container per heartbeat",
            "a gang that fills a node of 8 GPUs waits for eight, and holds what it has meanwhile",
            site_xml(f"{CAPACITY}.{many}", "true"),
        )
    elif limit.isdigit() and int(limit) < 8:
        yield warning(
            _line_number(given, f"{CAPACITY}.{most}"),
            f"a heartbeat assigns at most {limit} containers",
            "a node of 8 GPUs is not filled at once",
            site_xml(f"{CAPACITY}.{most}", "100"),
        )
    elif f"{CAPACITY}.{anywhere}" in given.config.settings:
        text = given.config.value(anywhere)
        if text.isdigit() and int(text) < 1:
            yield warning(
                _line_number(given, f"{CAPACITY}.{anywhere}"),
                f"a heartbeat assigns {text} containers that may be anywhere",
                "YARN reads 1: such containers of a gang come one per node and heartbeat",
                site_xml(f"{CAPACITY}.{anywhere}", "8"),
            )


RULES = (
    memory_alone_counts,
    not_this_scheduler,
    gpus_not_in_site,
    labels_not_in_site,
    no_preemption,
    preemption_in_crumbs,
    kill_before_a_checkpoint,
    few_containers_per_heartbeat,
)

"""The queues and their capacities. What YARN refuses was held against a real CapacityScheduler
(3.4.1), and what it reads of capacities that it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from yarnam.core.queues.amounts import GPU
from yarnam.core.queues.capacity.capacity_file import CAPACITY, CapacityQueue, Kind, Share
from yarnam.core.queues.capacity.capacity_reading_rules import mended_amounts
from yarnam.core.queues.capacity.capacity_values import REFUSED, CapacityInput, error, warning
from yarnam.core.queues.lint.lint_values import Finding, about_gpus, site_xml

PRECISION = 0.05
"""Of 100: by how much the sum of capacities may be off (``ParentQueue.PRECISION``)."""
_LABELS = "accessible-node-labels"


def no_queues(given: CapacityInput) -> Iterator[Finding]:
    """CapacitySchedulerQueueManager.parseQueue"""
    root = given.config.root
    if root.is_leaf:
        yield error(
            root.where("queues"),
            f"{root.full_name('queues')} lists no queue",
            REFUSED,
            site_xml(root.full_name("queues"), "default"),
        )


def queue_twice(given: CapacityInput) -> Iterator[Finding]:
    """Its capacity is counted as often."""
    for setting in given.config.listed_twice:
        names = dict.fromkeys(piece.strip() for piece in setting.value.split(","))
        yield error(
            setting.line,
            f"{setting.name} lists a queue twice",
            f"its capacity is counted twice. {REFUSED}",
            site_xml(setting.name, ",".join(names)),
        )


def capacity_out_of_range(given: CapacityInput) -> Iterator[Finding]:
    """CapacitySchedulerConfiguration.getNonLabeledQueueCapacity, getNonLabeledQueueWeight"""
    for queue in given.queues():
        share = queue.share()
        if queue.path == "root" or share is None:
            continue
        most = 10_000 if share.kind is Kind.WEIGHT else 100
        if share.kind is not Kind.ABSOLUTE and not 0 <= share.number <= most:
            yield error(
                queue.where("capacity"),
                f"the capacity of {queue.path} is {share.number:g}: 0 to {most} is possible",
                REFUSED,
            )


def capacities_not_100(given: CapacityInput) -> Iterator[Finding]:
    """AbstractParentQueue.setChildQueues: a capacity that is not set is 0."""
    for queue in given.queues():
        if queue.is_leaf or not given.is_legacy:
            continue
        shares = {one.path: one.share() or Share(Kind.PERCENT) for one in queue.children}
        if all(share.kind is Kind.PERCENT for share in shares.values()):
            yield from _off(given, queue, {path: one.number for path, one in shares.items()})


def _off(
    given: CapacityInput, queue: CapacityQueue, parts: Mapping[str, float]
) -> Iterator[Finding]:
    own = queue.share()
    is_nothing = (
        queue.path != "root"
        and own is not None
        and own.kind is not Kind.ABSOLUTE
        and own.number == 0
    )
    total = sum(parts.values())
    allows_zero = queue.settings.get("allow-zero-capacity-sum")
    may_be_zero = is_nothing or (allows_zero is not None and allows_zero.value == "true")
    if any(part < 0 or part > 100 for part in parts.values()):
        return  # another rule's
    if is_nothing and total > 0:
        yield error(
            queue.where("capacity"),
            f"{queue.path} has no capacity, and its queues have",
            REFUSED,
            site_xml(queue.full_name("capacity"), "10"),
        )
    elif abs(total - 100) > PRECISION and not (total == 0 and may_be_zero):
        last = queue.children[-1]
        left = 100 - total + parts[last.path]
        yield error(
            last.where("capacity") or queue.where("queues"),
            f"the capacities below {queue.path} add up to {total:g}, not to 100",
            REFUSED,
            site_xml(last.full_name("capacity"), f"{left:g}") if left >= 0 else "",
        )


def capacities_of_two_kinds(given: CapacityInput) -> Iterator[Finding]:
    """AbstractParentQueue.getCapacityConfigurationTypeForQueues"""
    for queue in given.queues():
        kinds = {one.kind for one in (child.share() for child in queue.children) if one}
        own = queue.share()
        names = " and ".join(sorted(kind.value for kind in kinds))
        if len(kinds) > 1:
            yield error(
                queue.children[-1].where("capacity"),
                f"the capacities below {queue.path} are {names}",
                f"all have to be of one kind. {REFUSED}",
            )
        elif queue.path != "root" and own is not None and kinds:
            (kind,) = kinds
            if (own.kind is Kind.ABSOLUTE) is not (kind is Kind.ABSOLUTE):
                yield error(
                    queue.children[0].where("capacity"),
                    f"the capacity of {queue.path} is in {own.kind.value}, below it in {names}",
                    f"amounts above want amounts below. {REFUSED}",
                )


def amounts_without_gpus(given: CapacityInput) -> Iterator[Finding]:
    """Find absolute capacities without GPUs: an unnamed resource is 0."""
    for queue in given.queues():
        for key in ("capacity", "maximum-capacity"):
            share = queue.share(key)
            if share is None or share.kind is not Kind.ABSOLUTE or GPU in share.amounts:
                continue
            text = queue.settings[key].value.strip()
            text = mended_amounts(given, text) or text
            if GPU not in text:
                text = f"{text[:-1]},{GPU}={given.largest_node or 8}]"
            yield about_gpus(
                error(
                    queue.where(key),
                    f"the {key} of {queue.path} has no GPUs",
                    "what is not named is 0: memory and cores alone start no gang",
                    site_xml(queue.full_name(key), text),
                )
            )


def maximum_of_another_kind(given: CapacityInput) -> Iterator[Finding]:
    """AbstractCSQueue.setupConfigurableCapacities takes amounts for all or for nothing."""
    for queue in given.queues():
        share, most = queue.share(), queue.share("maximum-capacity")
        if share is None or most is None or most.kind is not Kind.ABSOLUTE:
            continue
        if share.kind is not Kind.ABSOLUTE:
            yield error(
                queue.where("maximum-capacity"),
                f"the maximum of {queue.path} is in amounts, its capacity in {share.kind.value}",
                "YARN ignores the maximum: the queue may use the whole cluster",
                site_xml(queue.full_name("maximum-capacity"), _percent_of(most, given)),
            )


def _percent_of(most: Share, given: CapacityInput) -> str:
    whole = given.cluster.gpus
    return f"{min(100.0, 100 * most.gpus / whole):g}" if whole else "100"


def maximum_below_capacity(given: CapacityInput) -> Iterator[Finding]:
    """YARN takes it, and keeps to the maximum."""
    for queue in given.queues():
        share, most = queue.share(), queue.share("maximum-capacity")
        if most is None or most.kind is not Kind.PERCENT or most.number == -1:
            continue
        least = share.number if share is not None and share.kind is Kind.PERCENT else 0.0
        if most.number <= 0:
            yield error(
                queue.where("maximum-capacity"),
                f"the maximum of {queue.path} is {most.number:g}",
                "no job ever starts there",
                site_xml(queue.full_name("maximum-capacity"), "100"),
            )
        elif most.number < least or most.number > 100:
            yield error(
                queue.where("maximum-capacity"),
                f"the maximum of {queue.path} is {most.number:g}, its capacity {least:g}",
                "the queue never gets the GPUs that it is guaranteed, and others may not count on "
                "them"
                if most.number < least
                else "there is no more than 100",
                site_xml(queue.full_name("maximum-capacity"), f"{min(100.0, max(least, 1)):g}"),
            )


def amounts_above_cluster(given: CapacityInput) -> Iterator[Finding]:
    """AbsoluteResourceCapacityCalculator scales them down."""
    if not given.nodes:
        return
    for queue in given.queues():
        shares = [one.share() for one in queue.children]
        total = sum(one.gpus for one in shares if one and one.kind is Kind.ABSOLUTE)
        if total > given.cluster.gpus:
            yield warning(
                queue.children[-1].where("capacity"),
                f"the capacities below {queue.path} add up to {total} GPUs; there are "
                f"{given.cluster.gpus}",
                "YARN scales all of them down, and no queue has what is written",
            )


def label_without_access(given: CapacityInput) -> Iterator[Finding]:
    """SchedulerUtils.checkQueueLabelExpression, AbstractCSQueue.setupQueueConfigs"""
    yield from _labels(given.config.root, None)


def _labels(queue: CapacityQueue, above: frozenset[str] | None) -> Iterator[Finding]:
    """``above``: what the parent may use; ``None`` means everything (``*``)."""
    setting = queue.settings.get(_LABELS)
    own = above
    if setting is not None:
        names = frozenset(filter(None, (piece.strip() for piece in setting.value.split(","))))
        own = None if "*" in names else names
        more = sorted((own or frozenset()) - (above or frozenset()))
        if queue.path.count(".") > 1 and above is not None and more:
            yield error(
                setting.line,
                f"{queue.path} may use the label {more[0]}, the queue above it may not",
                REFUSED,
            )
    default = queue.settings.get("default-node-label-expression")
    wanted = default.value.strip() if default is not None else ""
    if default is not None and wanted and own is not None and wanted not in own:
        yield error(
            default.line,
            f"jobs of {queue.path} get the label {wanted}, and it may not use it",
            REFUSED,
            site_xml(queue.full_name(_LABELS), ",".join(sorted({*own, wanted}))),
        )
    for name in sorted(own or ()):
        key = f"{_LABELS}.{name}.capacity"
        if key not in queue.settings and queue.path != "root":
            yield warning(
                queue.where(_LABELS),
                f"{queue.path} has no capacity of the nodes with the label {name}",
                "without one it is 0: its jobs wait there until all other queues are served",
                site_xml(f"{CAPACITY}.{queue.path}.{key}", "100"),
            )
    for child in queue.children:
        yield from _labels(child, own)


def label_capacities_not_100(given: CapacityInput) -> Iterator[Finding]:
    """As without a label, in each partition on its own."""
    for queue in given.queues():
        sums: dict[str, float] = {}
        lines: dict[str, int] = {}
        for child in queue.children:
            for key, setting in child.settings.items():
                label = key[len(_LABELS) + 1 : -len(".capacity")]
                if key == f"{_LABELS}.{label}.capacity" and _is_number(setting.value):
                    sums[label] = sums.get(label, 0.0) + float(setting.value)
                    lines[label] = setting.line
        for label, total in sums.items():
            if total and abs(total - 100) > PRECISION:
                yield error(
                    lines[label],
                    f"below {queue.path} the capacities of the label {label} add up to {total:g}, "
                    "not to 100",
                    REFUSED,
                )


def _is_number(text: str) -> bool:
    try:
        return float(text) >= 0
    except ValueError:
        return False


RULES = (
    no_queues,
    queue_twice,
    capacity_out_of_range,
    capacities_not_100,
    capacities_of_two_kinds,
    amounts_without_gpus,
    maximum_of_another_kind,
    maximum_below_capacity,
    amounts_above_cluster,
    label_without_access,
    label_capacities_not_100,
)

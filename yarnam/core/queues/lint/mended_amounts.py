"""The amounts to write instead of those of a file: one text for each element, whichever rules find
fault with it, so that two findings never contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from yarnam.core.model.resources import Resources
from yarnam.core.queues.allocations import Element, QueueConfig
from yarnam.core.queues.amounts import GPU, NAMES, UNLIMITED, BadAmount, Limit, Part, parse_amounts
from yarnam.core.queues.lint.lint_values import AM, LintInput, xml
from yarnam.core.queues.lint.meant_names import meant_name

LEAST = AM.plus(Resources(1, 1, 1))
"""The smallest gang: an ApplicationMaster and one task with one GPU."""
_MAXIMUMS = ("maxResources", "queueMaxResourcesDefault", "maxContainerAllocation")
_NO_LIMIT = 2**31 - 1
_NODE_GPUS = 8
"""The GPUs of a node where the cluster is not given."""


@dataclass(frozen=True, slots=True)
class MendedAmounts:
    """By element, the XML to write instead; not of elements that cannot be mended."""

    by_element: dict[int, str]

    def of(self, element: Element | None) -> str:
        """Empty where nothing can be written instead."""
        return self.by_element.get(id(element), "")


def is_old(text: str) -> bool:
    """``1024 mb, 4 vcores`` or ``50% memory, 50% cpu``; a single percentage is of everything."""
    return "=" not in text and "," in text


def meant_text(text: str) -> str:
    """The amounts with misspelt resources (``yarn.io/gpus``) by the names that YARN knows."""
    pieces: list[str] = []
    for piece in text.split(","):
        name, equals, amount = piece.partition("=")
        bare = name.strip()
        if equals and bare not in (*NAMES, "memory") and (meant := meant_name(bare, NAMES, {})):
            piece = f"{name.replace(bare, meant)}{equals}{amount}"
        pieces.append(piece)
    return ",".join(pieces)


def is_closed(element: Element | None) -> bool:
    """Whether a maximum of no memory or no cores is written: it shuts the queue on purpose."""
    limit = _parsed(element)
    if element is None or limit is None:
        return False
    names_vcores = "=" not in element.text or "vcores" in element.text
    return limit.memory_mib == 0 or (limit.vcores == 0 and names_vcores)


def mended_amounts(given: LintInput) -> MendedAmounts:
    """Mends the whole file. Before Hadoop 3.2 no notation can say GPUs: nothing is mended then."""
    found: dict[int, str] = {}
    if given.hadoop >= (3, 2):
        default = given.allocations.document.child("queueMaxResourcesDefault")
        _mend_maximum(given, default, LEAST, found)
        whole = given.cluster.gpus if given.nodes else UNLIMITED
        _mend_queues(given, [given.root], whole, found)
    return MendedAmounts(found)


def _mend_queues(
    given: LintInput, siblings: list[QueueConfig], above: int, found: dict[int, str]
) -> None:
    """``above``: the GPUs that they may have together."""
    open_ones = [one for one in siblings if not is_closed(one.element.child("maxResources"))]
    without = [one for one in open_ones if one.element.child("minResources") and not _gpus(one)]
    left = above - sum(_gpus(one) for one in siblings)
    for queue in siblings:
        element = queue.element.child("maxResources")
        most = min(above, _maximum_gpus(given, element))
        minimum = Resources()
        if queue in open_ones:
            share = min(_NODE_GPUS, left // len(without), most) if without else 0
            minimum = _mend_minimum(given, queue, share, found)
            _mend_maximum(given, element, _larger(LEAST, minimum), found)
        elif queue.element.child("minResources") is not None:
            nothing = xml("minResources", _amounts_text(given, Resources()))
            found[id(queue.element.child("minResources"))] = nothing
        container = queue.element.child("maxContainerAllocation")
        node = max((one.total.gpus for one in given.nodes), default=1)
        _mend_maximum(given, container, Resources(0, 0, node), found)
        _mend_queues(given, list(queue.children), max(most, minimum.gpus), found)


def _names(given: LintInput) -> tuple[str, ...]:
    """The resources to name: a site without GPUs refuses theirs."""
    return tuple(name for name in NAMES if name != GPU or given.has_gpus)


def _amounts_text(given: LintInput, amounts: Resources) -> str:
    parts = (amounts.memory_mib, amounts.vcores, amounts.gpus)
    return ", ".join(
        f"{name}={part}" for name, part in zip(NAMES, parts, strict=True) if name in _names(given)
    )


def _gpus(queue: QueueConfig) -> int:
    return queue.minimum.gpus


def _mend_minimum(
    given: LintInput, queue: QueueConfig, gpus: int, found: dict[int, str]
) -> Resources:
    """``gpus``: for a minimum that has none. Returns the minimum as mended."""
    element = queue.element.child("minResources")
    limit = _parsed(element)
    is_percent = limit is not None and isinstance(limit.memory_mib, float)
    if element is None or limit is None or (is_percent and not given.nodes):
        return queue.minimum
    amounts = limit.of(given.cluster)
    amounts = Resources(amounts.memory_mib, amounts.vcores, amounts.gpus or max(0, gpus))
    if not amounts.gpus:
        return queue.minimum
    text = ", ".join([_amounts_text(given, amounts), *_others(element.text)])
    found[id(element)] = xml("minResources", text)
    return amounts


def _maximum_gpus(given: LintInput, element: Element | None) -> int:
    """Counts the GPUs that a maximum lets through once it is mended; at least one."""
    limit = _parsed(element)
    if element is None or limit is None or is_old(element.text):
        return UNLIMITED
    if isinstance(limit.gpus, float) and not given.nodes:
        return UNLIMITED
    return max(1, limit.of(given.cluster).gpus)


def _mend_maximum(
    given: LintInput, element: Element | None, least: Resources, found: dict[int, str]
) -> None:
    """With GPUs and cores, and with room for ``least``."""
    if element is None or not element.text.strip():
        return
    limit = _parsed(element)
    if limit is None:
        if is_old(element.text):
            found[id(element)] = xml(
                element.tag, ", ".join(f"{name}=100%" for name in _names(given))
            )
        return
    parts = [limit.memory_mib, limit.vcores, limit.gpus]
    is_percent = isinstance(limit.memory_mib, float)
    if is_old(element.text):
        parts[2] = 1.0 if is_percent else None
    if "=" in element.text and not is_percent and "vcores" not in element.text:
        parts[1] = None
    whole = given.cluster if given.nodes else Resources()
    wanted = (
        (least.memory_mib, whole.memory_mib),
        (least.vcores, whole.vcores),
        (least.gpus, whole.gpus),
    )
    texts = [
        f"{name}={_text(_raised(part, *pair))}"
        for name, part, pair in zip(NAMES, parts, wanted, strict=True)
        if name in _names(given)
    ]
    found[id(element)] = xml(element.tag, ", ".join([*texts, *_others(element.text)]))


def _raised(part: Part, least: int, whole: int) -> Part:
    """``whole``: what the cluster has; 0 where it is not known."""
    if part is None or least <= 0:
        return part
    if isinstance(part, float):
        if whole and int(whole * part) < least:
            return min(1.0, ceil(100 * least / whole) / 100)
        return part or 1.0
    return max(part, least)


def _text(part: Part) -> str:
    if part is None:
        return str(_NO_LIMIT)
    return f"{100 * part:g}%" if isinstance(part, float) else str(part)


def _larger(one: Resources, other: Resources) -> Resources:
    return Resources(
        max(one.memory_mib, other.memory_mib),
        max(one.vcores, other.vcores),
        max(one.gpus, other.gpus),
    )


def _others(text: str) -> Iterator[str]:
    """The amounts of further resource types, as they are written."""
    for piece in meant_text(text).split(",") if "=" in text else ():
        if piece.partition("=")[0].strip() not in (*NAMES, "memory"):
            yield piece.strip()


def _parsed(element: Element | None) -> Limit | None:
    """``None``: not there, or nothing that YARN takes."""
    try:
        missing = None if element is not None and element.tag in _MAXIMUMS else 0
        if element is None:
            return None
        return parse_amounts(meant_text(element.text), missing=missing)
    except BadAmount:
        return None

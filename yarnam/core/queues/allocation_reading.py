"""From an allocation file's XML to its values, with the defaults and the inheritance of YARN.

After ``AllocationFileParser``, ``AllocationFileQueueParser`` and ``FSQueue`` of Hadoop 3.4. What
makes the Fair Scheduler refuse the file is a ``Refusal``; all else is read as it reads it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from yarnam.core.model.resources import Resources
from yarnam.core.queues.allocations import Allocations, Element, Policy, QueueConfig, Refusal
from yarnam.core.queues.amounts import Limit, parse_amounts

T = TypeVar("T")

QUEUE_TAGS = ("queue", "pool")
POLICY_TAGS = ("schedulingPolicy", "schedulingMode")
DEFAULT_POLICY_TAGS = ("defaultQueueSchedulingPolicy", "defaultQueueSchedulingMode")

_CLASSES = {
    "FairSharePolicy": Policy.FAIR,
    "FifoPolicy": Policy.FIFO,
    "DominantResourceFairnessPolicy": Policy.DRF,
}
"""Alternative names of a policy, which may have a package before them."""

MOST_QUEUES = 20_000
"""A file with more is not read: no cluster has them, and each costs memory."""


@dataclass
class _Reader:
    """Collects what is refused while the values are read."""

    refusals: list[Refusal] = field(default_factory=list["Refusal"])
    queues: int = 0

    def refuse(self, element: Element, message: str) -> None:
        self.refusals.append(Refusal(element.line, message))

    def value(
        self, parent: Element, tags: tuple[str, ...], parse: Callable[[str], T], default: T
    ) -> T:
        """The parsed text of the child that counts; ``default`` if there is none."""
        found = parent.child(*tags)
        if found is None:
            return default
        try:
            return parse(found.text.strip())
        except ValueError as error:
            self.refuse(found, f"<{found.tag}>: {error}")
            return default


@dataclass(frozen=True)
class _Inherited:
    """The settings that a queue takes from its parent, or from the file's defaults."""

    policy: Policy
    maximum: Limit
    max_apps: int | None
    am_share: float
    min_timeout_s: int | None
    fair_timeout_s: int | None
    threshold: float
    is_preemptable: bool = True


def read_allocations(document: Element) -> tuple[Allocations, tuple[Refusal, ...]]:
    """The values of the file, and why YARN would refuse it (empty: it would not)."""
    reader = _Reader()
    if document.tag != "allocations":
        reader.refuse(document, f"the outermost element is <{document.tag}>, not <allocations>")
    defaults = _defaults(reader, document)
    for user in document.children:
        if user.tag == "user":
            reader.value(user, ("maxRunningApps",), _integer, None)
    elements = [child for child in document.children if child.tag in QUEUE_TAGS]
    named_root = [one for one in elements if one.attributes.get("name", "").lower() == "root"]
    if named_root and len(elements) > 1:
        reader.refuse(named_root[0], "other queues stand beside root: they belong inside it")
    above = named_root[0] if named_root else Element("queue", document.line, {"name": "root"})
    own = tuple(one for one in elements if one not in named_root)
    root = _queue(reader, above, "", defaults, own)
    policy = next((one for one in document.children if one.tag == "queuePlacementPolicy"), None)
    rules = tuple(one for one in policy.children) if policy is not None else ()
    return Allocations(document, root, defaults.policy, rules), tuple(reader.refusals)


def _defaults(reader: _Reader, document: Element) -> _Inherited:
    fair_tags = ("defaultFairSharePreemptionTimeout",)
    if document.child(*fair_tags) is None:
        fair_tags = ("fairSharePreemptionTimeout",)
    policy = reader.value(document, DEFAULT_POLICY_TAGS, _policy, Policy.FAIR)
    if policy is Policy.FIFO:
        found = document.child(*DEFAULT_POLICY_TAGS)
        reader.refuse(found or document, "the default policy cannot be fifo")
        policy = Policy.FAIR
    return _Inherited(
        policy=policy,
        maximum=reader.value(document, ("queueMaxResourcesDefault",), _maximum, Limit()),
        max_apps=reader.value(document, ("queueMaxAppsDefault",), _integer, None),
        am_share=reader.value(document, ("queueMaxAMShareDefault",), _am_share, 0.5),
        min_timeout_s=reader.value(document, ("defaultMinSharePreemptionTimeout",), _integer, None),
        fair_timeout_s=reader.value(document, fair_tags, _integer, None),
        threshold=reader.value(document, ("defaultFairSharePreemptionThreshold",), _threshold, 0.5),
    )


def _queue(
    reader: _Reader,
    element: Element,
    above: str,
    given: _Inherited,
    siblings: tuple[Element, ...] = (),
) -> QueueConfig:
    """``siblings``: queues that belong into this one, though they stand outside of it (root's)."""
    own_name = element.attributes.get("name", "").strip()
    if "." in own_name or not own_name:
        fault = "a queue's name has a period" if own_name else "a queue has no name"
        reader.refuse(element, f"{fault}: {own_name!r}" if own_name else fault)
    name = f"{above}.{own_name}" if above else "root"
    below = (*(child for child in element.children if child.tag in QUEUE_TAGS), *siblings)
    is_parent = bool(below) or element.attributes.get("type") == "parent" or name == "root"
    if is_parent and element.child("reservation") is not None:
        reader.refuse(element, f"{name} has a reservation and queues below it")
    policy = reader.value(element, POLICY_TAGS, _policy, given.policy)
    if is_parent and policy is Policy.FIFO:
        reader.refuse(element.child(*POLICY_TAGS) or element, "fifo is for leaf queues only")
    preemptable = reader.value(element, ("allowPreemptionFrom",), _boolean, default=True)
    held = _Inherited(
        policy=given.policy,
        maximum=given.maximum,
        max_apps=given.max_apps,
        am_share=given.am_share,
        min_timeout_s=reader.value(
            element, ("minSharePreemptionTimeout",), _integer, given.min_timeout_s
        ),
        fair_timeout_s=reader.value(
            element, ("fairSharePreemptionTimeout",), _integer, given.fair_timeout_s
        ),
        threshold=reader.value(
            element, ("fairSharePreemptionThreshold",), _threshold, given.threshold
        ),
        is_preemptable=given.is_preemptable and preemptable,
    )
    reader.queues += len(below)
    if reader.queues > MOST_QUEUES:
        reader.refuse(element, f"more than {MOST_QUEUES} queues")
        below = ()
    return QueueConfig(
        name=name,
        element=element,
        weight=reader.value(element, ("weight",), _number, 1.0),
        minimum=reader.value(element, ("minResources",), _minimum, Resources()),
        # The default limit is for queues below root.
        maximum=reader.value(
            element, ("maxResources",), _maximum, given.maximum if above else Limit()
        ),
        max_container=reader.value(element, ("maxContainerAllocation",), _maximum, Limit()),
        max_apps=reader.value(element, ("maxRunningApps",), _integer, given.max_apps),
        max_am_share=reader.value(element, ("maxAMShare",), _am_share, given.am_share),
        policy=policy,
        min_share_timeout_s=held.min_timeout_s,
        fair_share_timeout_s=held.fair_timeout_s,
        fair_share_threshold=held.threshold,
        is_preemptable=held.is_preemptable,
        is_parent=is_parent,
        children=tuple(_queue(reader, child, name, held) for child in below),
    )


def _policy(text: str) -> Policy:
    try:
        return _CLASSES.get(text.rpartition(".")[2]) or Policy(text.lower())
    except ValueError:
        raise ValueError(f"{text!r} is not a policy; expected fair, fifo or drf") from None


def _maximum(text: str) -> Limit:
    return parse_amounts(text, missing=None)


def _minimum(text: str) -> Resources:
    found = parse_amounts(text, missing=0)
    if any(isinstance(part, float) for part in (found.memory_mib, found.vcores, found.gpus)):
        # ConfigurableResource.getResource() of percentages is null: there is no minimum then.
        return Resources()
    return found.of(Resources())


def _integer(text: str) -> int:
    if not text.lstrip("+-").isdigit() or len(text) > 18:
        raise ValueError(f"{text!r} is not an integer")
    return int(text)


def _number(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None
    if not math.isfinite(found):
        raise ValueError(f"{text!r} is not a number")
    return found


def _am_share(text: str) -> float:
    return min(_number(text), 1.0)


def _threshold(text: str) -> float:
    return max(0.0, min(_number(text), 1.0))


def _boolean(text: str) -> bool:
    """Java's parseBoolean: everything but ``true`` is false."""
    return text.lower() == "true"

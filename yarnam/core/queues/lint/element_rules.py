"""Elements that YARN does not know, or reads otherwise than written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator

from yarnam.core.queues.allocation_reading import DEFAULT_POLICY_TAGS, POLICY_TAGS, QUEUE_TAGS
from yarnam.core.queues.allocations import Element
from yarnam.core.queues.amounts import BadAmount, parse_amounts
from yarnam.core.queues.lint.lint_values import Finding, LintInput, error, warning, xml
from yarnam.core.queues.lint.meant_names import meant_name, value_of_kind
from yarnam.core.queues.lint.mended_amounts import meant_text, mended_amounts

_AMOUNTS = ("minResources", "maxResources", "maxChildResources", "maxContainerAllocation")
_ACLS = ("aclSubmitApps", "aclAdministerApps", "aclAdministerReservations", "aclListReservations",
         "aclSubmitReservations")  # fmt: skip
_QUEUE_FIELDS = frozenset(
    (*QUEUE_TAGS, *POLICY_TAGS, *_AMOUNTS, *_ACLS, "maxRunningApps", "maxAMShare", "weight",
     "minSharePreemptionTimeout", "fairSharePreemptionTimeout", "fairSharePreemptionThreshold",
     "reservation", "allowPreemptionFrom")
)  # fmt: skip
_FILE_FIELDS = frozenset(
    (*QUEUE_TAGS, *DEFAULT_POLICY_TAGS, "queueMaxResourcesDefault", "userMaxAppsDefault",
     "defaultFairSharePreemptionTimeout", "fairSharePreemptionTimeout",
     "defaultMinSharePreemptionTimeout", "queueMaxAppsDefault",
     "defaultFairSharePreemptionThreshold", "queueMaxAMShareDefault", "reservation-planner",
     "reservation-agent", "reservation-policy", "queuePlacementPolicy", "user")
)  # fmt: skip
_CONTAINERS = frozenset((*QUEUE_TAGS, "queuePlacementPolicy", "user", "reservation"))
_USER_FIELDS = frozenset(("maxRunningApps",))
_RENAMED = {
    "maxRunningJobs": "maxRunningApps", "userMaxJobsDefault": "userMaxAppsDefault",
    "poolMaxJobsDefault": "queueMaxAppsDefault",
    "defaultPoolSchedulingMode": "defaultQueueSchedulingPolicy",
    "minShare": "minResources", "maxShare": "maxResources",
}  # fmt: skip
"""Elements of the Fair Scheduler of Hadoop 1, and words of the ResourceManager's pages. Those of
slots (``minMaps``, ``maxReduces``) have no meaning any more."""
_KINDS: dict[str, Callable[[str], object]] = {
    **dict.fromkeys(_AMOUNTS, lambda text: parse_amounts(text, missing=0)),
    "queueMaxResourcesDefault": lambda text: parse_amounts(text, missing=0),
    **dict.fromkeys(
        ("maxRunningApps", "userMaxAppsDefault", "queueMaxAppsDefault",
         "minSharePreemptionTimeout", "fairSharePreemptionTimeout",
         "defaultMinSharePreemptionTimeout", "defaultFairSharePreemptionTimeout"), int
    ),
    **dict.fromkeys(
        ("weight", "maxAMShare", "queueMaxAMShareDefault", "fairSharePreemptionThreshold",
         "defaultFairSharePreemptionThreshold"), float
    ),
}  # fmt: skip
"""What reads the text of an element, where not every text will do."""
_SINCE = {"maxContainerAllocation": (3, 3)}
"""Elements by the first version that knows them (YARN-9808)."""


def unknown_element(given: LintInput) -> Iterator[Finding]:
    """They are ignored in silence, or with a line in the ResourceManager's log."""
    for parent, element in _elements(given):
        known = _QUEUE_FIELDS
        if parent is given.allocations.document:
            known = _FILE_FIELDS
        elif parent.tag == "user":
            known = _USER_FIELDS
        if element.tag in known:
            continue
        meant = meant_name(element.tag, known, _RENAMED)
        elsewhere = element.tag in (_QUEUE_FIELDS | _FILE_FIELDS)
        yield error(
            element,
            f"<{element.tag}> is not known {'here' if elsewhere else 'to YARN'}",
            "YARN ignores it, so the setting has no effect",
            xml(meant, value_of_kind(element.text, _KINDS.get(meant))) if meant else "",
        )


def empty_element(given: LintInput) -> Iterator[Finding]:
    """AllocationFileParser.getTrimmedTextData of an element without text."""
    for _, element in _elements(given):
        if element.tag not in _CONTAINERS and not element.text and not element.children:
            yield error(
                element,
                f"<{element.tag}> is empty",
                "YARN fails with a NullPointerException and keeps its last queues",
            )


def element_twice(given: LintInput) -> Iterator[Finding]:
    """The last one counts."""
    for parent in _parents(given):
        counts = Counter(child.tag for child in parent.children if child.tag not in _CONTAINERS)
        for tag, count in counts.items():
            last = parent.child(tag)
            if count > 1 and last is not None:
                yield warning(last, f"<{tag}> is there {count} times", "only the last one counts")


def queue_twice(given: LintInput) -> Iterator[Finding]:
    """Their settings are mixed."""
    seen: set[str] = set()
    for queue in given.queues():
        if queue.name in seen:
            yield error(
                queue.element,
                f"the queue {queue.name} occurs twice",
                "YARN makes one queue of both, with the later settings",
            )
        seen.add(queue.name)


def amount_read_otherwise(given: LintInput) -> Iterator[Finding]:
    """Amounts with fractions or of unknown resources."""
    types = given.setting("yarn.resource-types")
    mended = mended_amounts(given)
    for queue in given.queues():
        for tag in _AMOUNTS:
            found = queue.element.child(tag)
            if found is None:
                continue
            cut = re.search(r"\d+\.\d+\s*(mb|vcores)", found.text, re.IGNORECASE)
            if cut is not None:
                yield warning(
                    found,
                    f"<{tag}> of {queue.name} has the fraction {cut[0]!r}",
                    "YARN cuts it off",
                    mended.of(found) or xml(tag, re.sub(r"(\d+)\.\d+", r"\1", found.text.strip())),
                )
            for name in _unknown(found.text):
                if name not in types.split(","):
                    yield error(
                        found,
                        f"<{tag}> of {queue.name} names the resource {name!r}",
                        "YARN refuses the file unless yarn.resource-types has it",
                        mended.of(found) if meant_text(found.text) != found.text else "",
                    )


def _unknown(text: str) -> tuple[str, ...]:
    try:
        return parse_amounts(text, missing=0).unknown
    except BadAmount:
        return ()


def number_read_otherwise(given: LintInput) -> Iterator[Finding]:
    """AM shares above one, and truths that are none."""
    for parent in (given.allocations.document, *(queue.element for queue in given.queues())):
        share = parent.child("maxAMShare", "queueMaxAMShareDefault")
        try:
            value = float(share.text) if share is not None else 0.5
        except ValueError:
            value = 0.5
        if share is not None and (value > 1.0 or (value < 0 and value != -1.0)):
            yield warning(
                share,
                f"<{share.tag}> is {value:g}",
                "YARN reads 1: it is a part of the fair share, not a percentage"
                if value > 1
                else "only -1 means no limit: other negative values start no ApplicationMaster",
                xml(share.tag, f"{value / 100:g}" if 1 < value <= 100 else "-1.0"),
            )
        allowed = parent.child("allowPreemptionFrom")
        text = allowed.text.strip().lower() if allowed is not None else "true"
        if allowed is not None and text not in ("true", "false"):
            yield warning(
                allowed,
                f"<allowPreemptionFrom> is {text!r}",
                "YARN reads false: nothing is ever preempted from the queue",
                xml("allowPreemptionFrom", "true"),
            )


def setting_of_the_other_kind(given: LintInput) -> Iterator[Finding]:
    """Settings that a parent or a leaf does not use, or must not have."""
    for queue in given.queues():
        unused = queue.element.child("maxChildResources")
        if queue.is_leaf and unused is not None:
            yield warning(
                unused,
                f"<maxChildResources> has no effect in {queue.name}",
                "it is for queues with queues below",
            )
        for tag in ("maxAMShare", "reservation") if queue.is_parent else ():
            if (refused := queue.element.child(tag)) is not None:
                yield error(
                    refused,
                    f"<{tag}> in {queue.name}, which has queues below or type='parent'",
                    "it is for leaf queues: YARN refuses the file",
                )


def newer_than_hadoop(given: LintInput) -> Iterator[Finding]:
    """Elements that the given version does not read."""
    version = ".".join(str(part) for part in given.hadoop)
    for _, element in _elements(given):
        since = _SINCE.get(element.tag)
        if since is not None and given.hadoop < since:
            yield error(
                element,
                f"<{element.tag}> is not known to Hadoop {version}",
                f"it came with {since[0]}.{since[1]}; before, it is ignored",
            )
        is_amount = element.tag in (*_AMOUNTS, "queueMaxResourcesDefault")
        if is_amount and "=" in element.text and given.hadoop < (3, 2):
            yield error(
                element,
                f"<{element.tag}> names resources with '=', which Hadoop {version} does not read",
                "it refuses the file (Missing resource: mb); a limit there cannot have GPUs, so "
                "leave it out",
            )


def _elements(given: LintInput) -> Iterator[tuple[Element, Element]]:
    """The fields of the file, of its queues and of its users, each with its parent."""
    for parent in _parents(given):
        for child in parent.children:
            yield parent, child


def _parents(given: LintInput) -> Iterator[Element]:
    document = given.allocations.document
    yield document
    yield from (queue.element for queue in given.queues())
    yield from (one for one in document.children if one.tag == "user")


RULES = (
    unknown_element,
    empty_element,
    element_twice,
    queue_twice,
    amount_read_otherwise,
    number_read_otherwise,
    setting_of_the_other_kind,
    newer_than_hadoop,
)

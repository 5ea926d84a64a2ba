"""What lint says to write instead: one text for each element, and it passes lint."""

from __future__ import annotations

import pytest

from tests.unit.queues.test_lint import GOOD_SITE, NODES
from yarnam.adapters.yarn.allocation_xml import parse_xml
from yarnam.core.model.snapshot import Node
from yarnam.core.queues.allocation_reading import read_allocations
from yarnam.core.queues.lint import Finding, LintInput, lint

AMOUNTS = {
    "maximum-without-gpus", "maximum-without-vcores", "minimum-without-gpus",
    "minimum-above-maximum", "minimums-above-capacity", "maximum-below-one-task",
    "container-below-node", "amount-read-otherwise", "newer-than-hadoop", "refused",
}  # fmt: skip


def findings(
    inside: str, nodes: tuple[Node, ...] = (), hadoop: tuple[int, int] = (3, 4)
) -> list[Finding]:
    text = f"""<allocations>
<defaultQueueSchedulingPolicy>drf</defaultQueueSchedulingPolicy>
{inside}
<queuePlacementPolicy><rule name="specified" create="false"/><rule name="reject"/>
</queuePlacementPolicy></allocations>"""
    given, refusals = read_allocations(parse_xml(text.encode()))
    return list(lint(LintInput(given, GOOD_SITE, nodes, hadoop), refusals))


def rules(found: list[Finding]) -> set[str]:
    return {one.rule for one in found}


def queue(**amounts: str) -> str:
    """A queue with these elements."""
    return f'<queue name="a">{"".join(f"<{k}>{v}</{k}>" for k, v in amounts.items())}</queue>'


OLD_MIN, OLD_MAX = "32768 mb, 8 vcores", "20480 mb, 8 vcores"
NINE = "9 mb, 9 vcores"
TWO_GPUS = "memory-mb=99999, vcores=99, yarn.io/gpu=2"
SMALL = "memory-mb=1024, vcores=1, yarn.io/gpu=4"


@pytest.mark.parametrize("nodes", [(), NODES])
@pytest.mark.parametrize(
    "inside",
    [
        queue(minResources=OLD_MIN, maxResources=OLD_MAX),
        queue(minResources="40960 mb, 8 vcores", maxResources="memory-mb=99999, yarn.io/gpu=4"),
        queue(minResources="memory-mb=9999, vcores=9, yarn.io/gpu=9", maxResources=SMALL),
        queue(minResources="99.5 mb, 4 vcores", maxResources="50% memory, 50% cpu"),
        queue(maxContainerAllocation="yarn.io/gpu=2, memory-mb=9999"),
        queue(minResources="memory-mb=9, vcores=9, yarn.io/gpu=9",
              maxResources="memory-mb=50%, vcores=50%, yarn.io/gpu=0%"),
        queue(maxResources="10.5 mb, 1.5 vcores", minResources="9 mb, 9 vcores"),
        queue(maxResources=OLD_MAX) + f"<queueMaxResourcesDefault>{OLD_MAX}"
        "</queueMaxResourcesDefault>",
        queue(maxResources=TWO_GPUS).replace("</queue>", queue(minResources=NINE) + "</queue>"),
    ],
)  # fmt: skip
def test_one_text_for_each_element_and_it_passes_lint(inside: str, nodes: tuple[Node, ...]) -> None:
    found = [one for one in findings(inside, nodes) if one.rule in AMOUNTS]
    instead: dict[str, set[str]] = {}
    for one in found:
        if one.mended:
            instead.setdefault(one.mended.partition(">")[0][1:], set()).add(one.mended)
    assert found
    assert instead
    mended = inside
    for tag, texts in instead.items():
        (text,) = texts
        before, _, after = mended.rpartition(f"<{tag}>")
        assert after, "it is about another element"
        mended = before + text + after.partition(f"</{tag}>")[2]
    again = findings(mended, nodes)
    assert not rules(again) & AMOUNTS, again


@pytest.mark.parametrize(
    "inside",
    [
        queue(minResources="memory-mb=9999, vcores=9, yarn.io/gpu=4"),
        queue(maxResources="memory-mb=99999, vcores=99, yarn.io/gpu=4"),
        queue(maxResources="50%"),
    ],
)
def test_good_amounts_have_no_finding(inside: str) -> None:
    assert not rules(findings(inside)) & AMOUNTS


def test_before_hadoop_3_2_there_is_nothing_to_write_instead() -> None:
    found = findings(queue(minResources=OLD_MIN, maxResources=OLD_MAX), hadoop=(3, 1))
    assert "maximum-without-gpus" in rules(found)
    assert not [one.mended for one in found if "yarn.io/gpu" in one.mended]


def test_amounts_of_other_resources_stay() -> None:
    text = "memory-mb=99999, yarn.io/gpu=4, x/fpga=2"
    (found,) = [one for one in findings(queue(maxResources=text))
                if one.rule == "maximum-without-vcores"]  # fmt: skip
    assert "x/fpga=2" in found.mended


@pytest.mark.parametrize(
    "maximum",
    [
        "0 mb, 0 vcores",
        "0 mb, 8 vcores",
        "0% memory, 0% cpu",
        "0%",
        "memory-mb=0, vcores=0",
        "memory-mb=0",
        "memory-mb=0, vcores=0, yarn.io/gpu=0",
    ],
)
def test_a_queue_that_is_closed_stays_so(maximum: str) -> None:
    found = findings(queue(maxResources=maximum))
    assert rules(found) == {"maximum-below-one-task"}
    assert found[0].mended == ""
    found = findings(queue(maxResources=maximum, minResources="9 mb, 9 vcores"))
    assert {one.mended for one in found if one.mended} == {
        "<minResources>memory-mb=0, vcores=0, yarn.io/gpu=0</minResources>"
    }


@pytest.mark.parametrize(
    "maximum",
    [
        "1 mb, 1 vcores",
        "memory-mb=99, vcores=1, yarn.io/gpu=1",
        "memory-mb=9999, vcores=9, yarn.io/gpu=0",
    ],
)
def test_other_small_maximums_are_not_taken_for_closed(maximum: str) -> None:
    found = findings(queue(maxResources=maximum))
    assert rules(found) & {"maximum-without-gpus", "maximum-below-one-task"}
    assert all(one.mended for one in found if one.rule in AMOUNTS)

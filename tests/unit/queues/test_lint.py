"""Seeded faults are found, each by its rule and on its line; good files have no finding."""

from __future__ import annotations

import pytest

from yarnam.adapters.yarn.allocation_xml import parse_xml
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import Node, NodeState
from yarnam.core.queues.allocation_reading import read_allocations
from yarnam.core.queues.lint import RULES, Finding, LintInput, lint

FAIR = "yarn.scheduler.fair"
NODES = tuple(
    Node(NodeId(f"n{number}"), RackId(f"/r{number // 8}"), NodeState.RUNNING,
         Resources(512_000, 96, 8), Resources())
    for number in range(32)
)  # fmt: skip

GOOD = """\
<?xml version="1.0"?>
<allocations>
  <defaultQueueSchedulingPolicy>drf</defaultQueueSchedulingPolicy>
  <queue name="root">
    <aclSubmitApps> </aclSubmitApps>
    <aclAdministerApps> </aclAdministerApps>
    <queue name="vision">
      <weight>3.0</weight>
      <minResources>memory-mb=4096000, vcores=768, yarn.io/gpu=64</minResources>
      <maxResources>memory-mb=12288000, vcores=2304, yarn.io/gpu=192</maxResources>
      <maxContainerAllocation>memory-mb=512000, vcores=96, yarn.io/gpu=8</maxContainerAllocation>
      <minSharePreemptionTimeout>120</minSharePreemptionTimeout>
      <fairSharePreemptionThreshold>0.5</fairSharePreemptionThreshold>
      <maxAMShare>0.3</maxAMShare>
      <maxRunningApps>50</maxRunningApps>
      <aclSubmitApps>ada,bob vision</aclSubmitApps>
    </queue>
    <queue name="speech" type="parent">
      <allowPreemptionFrom>true</allowPreemptionFrom>
      <queue name="train"><aclSubmitApps>*</aclSubmitApps></queue>
      <queue name="trial"><schedulingPolicy>fifo</schedulingPolicy></queue>
    </queue>
  </queue>
  <queuePlacementPolicy>
    <rule name="specified" create="false"/>
    <rule name="default" queue="root.speech.train"/>
  </queuePlacementPolicy>
</allocations>
"""

GOOD_SITE = {
    "yarn.resourcemanager.scheduler.class": "org.x.fair.FairScheduler",
    "yarn.resource-types": "yarn.io/gpu",
    "yarn.nodemanager.resource-plugins": "yarn.io/gpu",
    f"{FAIR}.assignmultiple": "true",
    f"{FAIR}.dynamic.max.assign": "false",
    f"{FAIR}.preemption": "true",
    f"{FAIR}.preemption.cluster-utilization-threshold": "0.0",
    f"{FAIR}.am.preemption": "false",
    f"{FAIR}.waitTimeBeforeKill": "90000",
    f"{FAIR}.locality.threshold.node": "0.5",
    f"{FAIR}.locality.threshold.rack": "0.5",
}

TRIAL = '<queue name="trial"><schedulingPolicy>fifo</schedulingPolicy></queue>'
VISION_MAX = "<maxResources>memory-mb=12288000, vcores=2304, yarn.io/gpu=192</maxResources>"
VISION_MIN = "<minResources>memory-mb=4096000, vcores=768, yarn.io/gpu=64</minResources>"
DEFAULT_RULE = '<rule name="default" queue="root.speech.train"/>'

NO_VCORES = (
    '<queue name="trial"><maxContainerAllocation>memory-mb=9999, yarn.io/gpu=8'
    "</maxContainerAllocation></queue>"
)
LARGE_MINIMUM = (
    '<queue name="train"><minResources>memory-mb=1,vcores=1,yarn.io/gpu=300</minResources>'
    "<minSharePreemptionTimeout>60</minSharePreemptionTimeout>"
)
TINY = (
    '<queue name="trial"><maxResources>memory-mb=1024, vcores=1, yarn.io/gpu=8</maxResources>'
    "</queue>"
)
A_DEFAULT = 'name="trial"/></queue><queue name="default"><queue name="x"'
MISPLACED = "<queueMaxAMShareDefault>0.3</queueMaxAMShareDefault>"

# fmt: off
FAULTS: list[tuple[str, str, str]] = [
    ("parent-policy-not-drf", "Policy>drf<", "Policy>fair<"),
    ("leaf-policy-fair", "Policy>fifo<", "Policy>fair<"),
    ("drf-below-fair", '<queue name="speech" type="parent">',
     '<queue name="speech"><schedulingPolicy>fair</schedulingPolicy>'),
    ("weight-not-positive", "<weight>3.0<", "<weight>-1<"),
    ("weight-not-positive", TRIAL, '<queue name="trial"><weight>0</weight></queue>'),
    ("maximum-without-gpus", VISION_MAX, "<maxResources>99 mb, 4 vcores</maxResources>"),
    ("maximum-without-gpus", VISION_MAX, "<maxResources>50% memory, 50% cpu</maxResources>"),
    ("maximum-without-vcores", VISION_MAX, "<maxResources>yarn.io/gpu=99</maxResources>"),
    ("maximum-without-vcores", TRIAL,
     NO_VCORES),
    ("minimum-without-gpus", VISION_MIN, "<minResources>50%</minResources>"),
    ("minimum-without-gpus", VISION_MIN, "<minResources>4096000 mb, 768 vcores</minResources>"),
    ("minimum-above-maximum", "yarn.io/gpu=64", "yarn.io/gpu=193"),
    ("minimums-above-capacity", "yarn.io/gpu=64", "yarn.io/gpu=300"),
    ("minimums-above-capacity", '<queue name="train">',
     LARGE_MINIMUM),
    ("maximum-below-one-task", TRIAL,
     TINY),
    ("container-below-node", "vcores=96, yarn.io/gpu=8", "vcores=96, yarn.io/gpu=4"),
    ("am-share-too-small", "<maxAMShare>0.3<", "<maxAMShare>0.0<"),
    ("am-share-too-small", "<maxAMShare>0.3<", "<maxAMShare>0.0005<"),
    ("no-running-jobs", "<maxRunningApps>50<", "<maxRunningApps>0<"),
    ("preemption-without-timeout",
     "<minSharePreemptionTimeout>120</minSharePreemptionTimeout>", ""),
    ("timeouts-that-thrash", "PreemptionTimeout>120<", "PreemptionTimeout>5<"),
    ("timeouts-that-thrash", "PreemptionTimeout>120<", "PreemptionTimeout>120000<"),
    ("timeouts-that-thrash", "PreemptionTimeout>120<", "PreemptionTimeout>60000<"),
    ("threshold-of-everything", "Threshold>0.5<", "Threshold>1.0<"),
    ("threshold-of-everything", "Threshold>0.5<", "Threshold>50<"),
    ("unknown-rule", 'name="specified"', 'name="specfied"'),
    ("unknown-rule", '<rule name="specified" create="false"/>',
     '<rule name="nestedUserQueue" create="false"/>'),
    ("unreachable-rule", DEFAULT_RULE, f'<rule name="user"/>{DEFAULT_RULE}'),
    ("no-last-rule", DEFAULT_RULE, ""),
    ("shadowed-rule", DEFAULT_RULE, f'<rule name="specified" create="false"/>{DEFAULT_RULE}'),
    ("default-rule-without-queue", "root.speech.train", "root.speech"),
    ("default-rule-without-queue", "root.speech.train", "root.speech.trian"),
    ("amount-read-otherwise", "yarn.io/gpu=64", "yarn.io/gpus=64"),
    ("default-rule-without-queue", DEFAULT_RULE,
     '<rule name="default" create="false" queue="root.gone"/><rule name="reject"/>'),
    ("queue-named-default", 'name="trial"', A_DEFAULT),
    ("undeclared-queues", 'name="specified" create="false"', 'name="specified"'),
    ("acl-without-effect", "<aclSubmitApps> </aclSubmitApps>", ""),
    ("unknown-element", "<weight>3.0</weight>", "<Weight>3.0</Weight>"),
    ("unknown-element", "<maxAMShare>0.3</maxAMShare>", MISPLACED),
    ("empty-element", "<aclAdministerApps> </aclAdministerApps>", "<aclAdministerApps/>"),
    ("element-twice", "<weight>3.0</weight>", "<weight>3.0</weight><weight>4.0</weight>"),
    ("queue-twice", 'name="trial"', 'name="train"'),
    ("amount-read-otherwise", VISION_MIN, "<minResources>99.5 mb, 4 vcores</minResources>"),
    ("amount-read-otherwise", VISION_MIN,
     "<minResources>memory-mb=9,vcores=9,yarn.io/gpu=8,x/fpga=1</minResources>"),
    ("number-read-otherwise", "<maxAMShare>0.3<", "<maxAMShare>30<"),
    ("number-read-otherwise", "<maxAMShare>0.3<", "<maxAMShare>-0.5<"),
    ("number-read-otherwise", "PreemptionFrom>true<", "PreemptionFrom>yes<"),
    ("setting-of-the-other-kind", "<allowPreemptionFrom>true</allowPreemptionFrom>",
     "<maxAMShare>0.4</maxAMShare>"),
    ("setting-of-the-other-kind", "<aclSubmitApps> </aclSubmitApps>",
     "<aclSubmitApps> </aclSubmitApps><maxAMShare>0.4</maxAMShare>"),
    ("setting-of-the-other-kind", "<allowPreemptionFrom>true</allowPreemptionFrom>",
     "<reservation/>"),
    ("setting-of-the-other-kind", "<weight>3.0</weight>",
     "<weight>3.0</weight><maxChildResources>99 mb, 4 vcores</maxChildResources>"),
    ("refused", "<weight>3.0<", "<weight>three<"),
    ("refused", 'name="vision"', 'name="vision.team"'),
]
# fmt: on
"""The rule, and what is written in place of what."""

SITE_FAULTS: list[tuple[str, dict[str, str]]] = [
    ("other-scheduler", {"yarn.resourcemanager.scheduler.class": "CapacityScheduler"}),
    ("gpu-type-missing", {"yarn.resource-types": ""}),
    ("gpu-type-missing", {"yarn.nodemanager.resource-plugins": "yarn.io/fpga"}),
    ("gpu-allocation-below-node", {"yarn.resource-types.yarn.io/gpu.maximum-allocation": "4"}),
    ("one-container-per-heartbeat", {f"{FAIR}.assignmultiple": "false"}),
    ("one-container-per-heartbeat", {f"{FAIR}.dynamic.max.assign": "true"}),
    ("one-container-per-heartbeat", {f"{FAIR}.max.assign": "2"}),
    ("locality-thresholds", {f"{FAIR}.locality.threshold.node": "-1"}),
    ("few-reservable-nodes", {f"{FAIR}.reservable-nodes": "0.01"}),
    (
        "placement-processor",
        {"yarn.resourcemanager.placement-constraints.handler": "placement-processor"},
    ),
    ("weight-by-size", {f"{FAIR}.sizebasedweight": "true"}),
    ("continuous-scheduling", {f"{FAIR}.continuous-scheduling-enabled": "true"}),
    ("preemption-off", {f"{FAIR}.preemption": "false"}),
    ("am-preemption-on", {f"{FAIR}.am.preemption": "true"}),
    ("kill-before-checkpoint", {f"{FAIR}.waitTimeBeforeKill": "15000"}),
    ("utilization-blind-to-gpus", {f"{FAIR}.preemption.cluster-utilization-threshold": "0.8"}),
]


def findings(
    text: str, site: dict[str, str] | None = None, hadoop: tuple[int, int] = (3, 4)
) -> tuple[Finding, ...]:
    given, refusals = read_allocations(parse_xml(text.encode()))
    settings = GOOD_SITE if site is None else site
    return lint(LintInput(given, settings, NODES, hadoop), refusals)


def test_the_good_file_on_the_good_site_has_no_finding() -> None:
    assert findings(GOOD) == ()


def test_there_are_at_least_thirty_faults_and_one_for_each_rule() -> None:
    assert len(FAULTS) + len(SITE_FAULTS) >= 30
    tried = {rule for rule, *_ in (*FAULTS, *SITE_FAULTS)} | {"newer-than-hadoop"}
    assert tried - {"refused"} == set(RULES)


@pytest.mark.parametrize(("rule", "old", "new"), FAULTS)
def test_a_seeded_fault_is_found_on_its_line(rule: str, old: str, new: str) -> None:
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    found = [one for one in findings(text) if one.rule == rule]
    assert found, [one.rule for one in findings(text)]
    assert all(1 <= one.line <= GOOD.count("\n") for one in found)
    assert found[0].message
    assert found[0].why


@pytest.mark.parametrize(("rule", "changes"), SITE_FAULTS)
def test_a_fault_of_the_site_is_found(rule: str, changes: dict[str, str]) -> None:
    found = findings(GOOD, {**GOOD_SITE, **changes})
    assert [one.rule for one in found] == [rule]
    assert found[0].mended


def test_older_versions_of_hadoop_read_less() -> None:
    assert not findings(GOOD, hadoop=(3, 3))
    assert {one.rule for one in findings(GOOD, hadoop=(3, 2))} == {"newer-than-hadoop"}
    old = [one.message for one in findings(GOOD, hadoop=(3, 1))]
    assert any("names resources with '='" in message for message in old)


def test_without_site_and_cluster_only_the_file_is_judged() -> None:
    given, refusals = read_allocations(parse_xml(GOOD.encode()))
    assert lint(LintInput(given), refusals) == ()


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("9999999 mb, 900 vcores", "memory-mb=9999999, vcores=900, yarn.io/gpu=2147483647"),
        ("50% memory, 25% cpu", "memory-mb=50%, vcores=25%, yarn.io/gpu=100%"),
    ],
)
def test_a_limit_is_mended_with_its_own_amounts(text: str, mended: str) -> None:
    bad = GOOD.replace(VISION_MAX, f"<maxResources>{text}</maxResources>")
    found = next(one for one in findings(bad) if one.rule == "maximum-without-gpus")
    assert found.mended == f"<maxResources>{mended}</maxResources>"


def test_what_is_mended_is_good() -> None:
    """The policy of a queue, put in place as the finding says."""
    text = GOOD.replace("Policy>drf<", "Policy>fair<")
    found = next(one for one in findings(text) if one.rule == "parent-policy-not-drf")
    lines = text.split("\n")
    lines[found.line - 1] += found.mended
    again = findings("\n".join(lines))
    assert found.message not in {one.message for one in again}

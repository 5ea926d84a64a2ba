"""Faults seeded into a file of the Capacity Scheduler are found, each by its rule and on its line;
a good file has no finding."""

from __future__ import annotations

import pytest

from tests.unit.queues.test_lint import NODES
from yarnam.adapters.yarn.allocation_xml import parse_xml
from yarnam.core.queues.capacity import CAPACITY_RULES, CapacityInput, lint_capacity
from yarnam.core.queues.capacity.capacity_file import CapacityConfig, read_settings_of
from yarnam.core.queues.capacity.capacity_values import REFUSED
from yarnam.core.queues.lint import Finding, Severity

PREFIX = "yarn.scheduler.capacity"
LABELS = "accessible-node-labels"
GOOD: dict[str, str] = {
    "resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
    "maximum-am-resource-percent": "0.5",
    "node-locality-delay": "40",
    "root.queues": "vision,speech",
    "root.vision.capacity": "60",
    "root.vision.maximum-capacity": "90",
    "root.vision.user-limit-factor": "2",
    "root.vision.maximum-allocation": "memory-mb=65536,vcores=64,yarn.io/gpu=8",
    "root.vision.ordering-policy": "fifo",
    "root.speech.capacity": "40",
    "root.speech.queues": "train,trial",
    "root.speech.train.capacity": "50",
    "root.speech.train.user-limit-factor": "5",
    "root.speech.train.minimum-user-limit-percent": "50",
    "root.speech.trial.capacity": "50",
    "root.speech.trial.user-limit-factor": "-1",
    "root.speech.trial.state": "RUNNING",
}
"""Ends of names, and values."""

GOOD_SITE = {
    "yarn.resourcemanager.scheduler.class": "org.x.capacity.CapacityScheduler",
    "yarn.resource-types": "yarn.io/gpu",
    "yarn.resourcemanager.scheduler.monitor.enable": "true",
    "yarn.resourcemanager.monitor.capacity.preemption.total_preemption_per_round": "1.0",
    "yarn.resourcemanager.monitor.capacity.preemption.max_wait_before_kill": "90000",
    "yarn.scheduler.maximum-allocation-mb": "65536",
    "yarn.scheduler.maximum-allocation-vcores": "64",
    "yarn.node-labels.enabled": "true",
}

AMOUNTS = "[memory=131072,vcores=128,yarn.io/gpu=8]"
Changes = dict[str, "str | None"]

# fmt: off
FAULTS: list[tuple[str, Changes]] = [
    ("unknown-setting", {"root.vision.max-capacity": "50"}),
    ("unknown-setting", {"node-local-delay": "50"}),
    ("undeclared-queue", {"root.video.capacity": "10"}),
    ("value-not-read", {"root.vision.capacity": "sixty"}),
    ("value-not-read", {"root.vision.capacity": "60%"}),
    ("value-not-read", {"maximum-am-resource-percent": "half"}),
    ("value-not-read", {"root.vision.user-limit-factor": "x"}),
    ("value-not-read", {"node-locality-delay": "x"}),
    ("value-not-read", {"root.speech.trial.state": "PAUSED"}),
    ("value-not-read", {"root.vision.ordering-policy": "drf"}),
    ("value-not-read", {"root.ordering-policy": "fair"}),
    ("queue-twice", {"root.queues": "vision,speech,speech"}),
    ("capacity-out-of-range", {"root.vision.capacity": "-10", "root.speech.capacity": "110"}),
    ("capacity-out-of-range", {"root.vision.capacity": "-3w", "root.speech.capacity": "1w"}),
    ("capacities-not-100", {"root.speech.capacity": "30"}),
    ("capacities-not-100", {"root.speech.capacity": "50"}),
    ("capacities-not-100", {"root.speech.capacity": None}),
    ("capacities-not-100", {"root.vision.capacity": "33.3", "root.speech.capacity": "66.6"}),
    ("capacities-not-100", {"root.speech.train.capacity": "0", "root.speech.trial.capacity": "0"}),
    ("capacities-not-100", {"root.vision.capacity": "100", "root.speech.capacity": "0"}),
    ("capacities-of-two-kinds", {"root.speech.capacity": "4w"}),
    ("capacities-of-two-kinds", {"root.vision.capacity": AMOUNTS, "root.speech.capacity": AMOUNTS}),
    ("amounts-without-gpus", {"root.speech.queues": None, "root.vision.capacity": AMOUNTS,
                              "root.speech.capacity": "[memory=131072,vcores=128]"}),
    ("maximum-of-another-kind", {"root.vision.maximum-capacity": AMOUNTS}),
    ("maximum-below-capacity", {"root.vision.maximum-capacity": "30"}),
    ("maximum-below-capacity", {"root.vision.maximum-capacity": "101"}),
    ("maximum-below-capacity", {"root.vision.maximum-capacity": "0"}),
    ("amounts-above-cluster", {"root.speech.queues": None, "root.vision.capacity": AMOUNTS,
                               "root.speech.capacity": AMOUNTS.replace("=8", "=999")}),
    ("label-without-access", {f"root.speech.{LABELS}": " ", f"root.speech.train.{LABELS}": "gpu"}),
    ("label-without-access", {"root.vision.default-node-label-expression": "gpu",
                              f"root.vision.{LABELS}": " "}),
    ("label-without-access", {f"root.vision.{LABELS}": "gpu"}),
    ("label-capacities-not-100", {f"root.{LABELS}.gpu.capacity": "100",
                                  f"root.vision.{LABELS}": "gpu",
                                  f"root.vision.{LABELS}.gpu.capacity": "50"}),
    ("amount-left-out", {"root.speech.queues": None, "root.vision.capacity": AMOUNTS,
                         "root.speech.capacity": AMOUNTS.replace("memory", "memroy")}),
    ("mapping-of-another-form", {"queue-mappings": "x:y"}),
    ("mapping-to-no-queue", {"queue-mappings": "u:ada:video"}),
    ("acl-without-effect", {"root.vision.acl_submit_applications": "ada"}),
    ("label-capacity-out-of-range", {f"root.{LABELS}.gpu.capacity": "-1"}),
    ("am-percent-too-small", {"maximum-am-resource-percent": "0"}),
    ("am-percent-too-small", {"maximum-am-resource-percent": "50"}),
    ("am-percent-too-small", {"root.vision.maximum-am-resource-percent": "0.0001"}),
    ("user-limit-below-maximum", {"root.vision.user-limit-factor": None}),
    ("user-limit-below-maximum", {"root.vision.user-limit-factor": "0"}),
    ("users-cut-gangs", {"root.speech.train.minimum-user-limit-percent": "10"}),
    ("container-without-gpus", {"root.vision.maximum-allocation": "memory-mb=65536,vcores=64"}),
    ("container-without-gpus", {"root.vision.maximum-allocation":
                                "memory-mb=65536,vcores=64,yarn.io/gpu=2"}),
    ("container-without-gpus", {"root.vision.maximum-allocation": "[memory-mb=32768,vcores=16]"}),
    ("container-below-task", {"root.speech.train.maximum-allocation-mb": "1024"}),
    ("container-below-task", {"root.speech.train.maximum-allocation-mb": "999999"}),
    ("no-jobs", {"root.vision.maximum-applications": "0"}),
    ("no-jobs", {"root.speech.trial.state": "STOPPED"}),
    ("dealt-by-container", {"root.vision.ordering-policy": "fair"}),
    ("memory-alone-counts", {"resource-calculator":
                             "org.apache.hadoop.yarn.util.resource.DefaultResourceCalculator"}),
    ("few-containers-per-heartbeat", {"per-node-heartbeat.multiple-assignments-enabled": "false"}),
    ("few-containers-per-heartbeat", {"per-node-heartbeat.maximum-container-assignments": "1"}),
    ("few-containers-per-heartbeat", {"per-node-heartbeat.maximum-offswitch-assignments": "0"}),
]
# fmt: on
"""The rule, and what is set otherwise; None: not at all."""

SITE_FAULTS: list[tuple[str, dict[str, str]]] = [
    ("not-this-scheduler", {"yarn.resourcemanager.scheduler.class": "x.FairScheduler"}),
    ("gpus-not-in-site", {"yarn.resource-types": ""}),
    ("gpus-not-in-site", {"yarn.resource-types.yarn.io/gpu.maximum-allocation": "4"}),
    ("no-preemption", {"yarn.resourcemanager.scheduler.monitor.enable": "false"}),
    (
        "preemption-in-crumbs",
        {"yarn.resourcemanager.monitor.capacity.preemption.total_preemption_per_round": "0.1"},
    ),
    (
        "kill-before-a-checkpoint",
        {"yarn.resourcemanager.monitor.capacity.preemption.max_wait_before_kill": "15000"},
    ),
]


def text_of(changes: Changes) -> str:
    """The good file with these settings."""
    rows = "".join(
        f"  <property>\n    <name>{PREFIX}.{name}</name><value>{value}</value>\n  </property>\n"
        for name, value in {**GOOD, **changes}.items()
        if value is not None
    )
    return f'<?xml version="1.0"?>\n<configuration>\n{rows}</configuration>\n'


def config(text: str) -> CapacityConfig:
    return read_settings_of(parse_xml(text.encode()))


def findings(changes: Changes, site: dict[str, str] | None = None) -> tuple[Finding, ...]:
    settings = {**GOOD_SITE, **(site or {})}
    return lint_capacity(CapacityInput(config(text_of(changes)), settings, NODES))


def test_the_good_file_on_the_good_site_has_no_finding() -> None:
    assert findings({}) == ()
    assert lint_capacity(CapacityInput(config(text_of({})))) == ()


def test_each_rule_has_a_fault() -> None:
    tried = {rule for rule, _ in (*FAULTS, *SITE_FAULTS)}
    others = {"no-queues", "setting-twice", "labels-not-in-site", "newer-than-hadoop"}
    assert tried | others == set(CAPACITY_RULES)


@pytest.mark.parametrize(("rule", "changes"), FAULTS)
def test_a_seeded_fault_is_found_on_its_line(rule: str, changes: Changes) -> None:
    found = [one for one in findings(changes) if one.rule == rule]
    assert found, [one.rule for one in findings(changes)]
    lines = text_of(changes).split("\n")
    for one in found:
        assert f"<name>{PREFIX}." in lines[one.line - 1]
        assert one.why


@pytest.mark.parametrize(("rule", "changes"), SITE_FAULTS)
def test_a_fault_of_the_site_is_found(rule: str, changes: dict[str, str]) -> None:
    found = findings({}, changes)
    assert [one.rule for one in found] == [rule]
    assert found[0].mended


def test_a_file_without_queues_and_one_with_a_name_twice() -> None:
    assert {one.rule for one in findings({"root.queues": None})} >= {"no-queues"}
    row = (
        f"<property><name>{PREFIX}.maximum-am-resource-percent</name><value>0.4</value></property>"
    )
    given = config(text_of({}).replace("<configuration>", f"<configuration>{row}"))
    (found,) = lint_capacity(CapacityInput(given))
    assert (found.rule, found.line, found.severity) == ("setting-twice", 2, Severity.WARNING)


def test_labels_want_a_site_with_labels() -> None:
    changes: Changes = {
        f"root.{LABELS}.gpu.capacity": "100",
        f"root.vision.{LABELS}": "gpu",
        f"root.vision.{LABELS}.gpu.capacity": "100",
    }
    assert findings(changes) == ()
    found = findings(changes, {"yarn.node-labels.enabled": "false"})
    assert [one.rule for one in found] == ["labels-not-in-site"]


@pytest.mark.parametrize(
    "changes",
    [
        {"root.vision.capacity": "3w", "root.speech.capacity": "1w"},
        {"root.vision.capacity": "33.33", "root.speech.capacity": "66.66"},
        {"root.speech.queues": None, "root.vision.capacity": AMOUNTS,
         "root.speech.capacity": AMOUNTS, "root.vision.maximum-capacity": AMOUNTS},
        {"root.speech.auto-queue-creation-v2.enabled": "true"},
        {"root.vision.user-limit-factor": ""},
        {"root.vision.maximum-allocation-mb": "999999"},
    ],
)  # fmt: skip
def test_what_yarn_takes_is_not_called_refused(changes: Changes) -> None:
    assert not [one for one in findings(changes) if REFUSED in one.why]


@pytest.mark.parametrize(("rule", "changes"), FAULTS)
def test_what_is_mended_is_good(rule: str, changes: Changes) -> None:
    """The property, put in place as the finding says."""
    found = [one for one in findings(changes) if one.rule == rule and one.mended]
    for one in found:
        name, _, value = one.mended[len("<property><name>") :].partition("</name><value>")
        end = name[len(PREFIX) + 1 :]
        mended = {**changes, end: value.removesuffix("</value></property>")}
        if rule == "unknown-setting":
            mended = {key: text for key, text in mended.items() if key not in changes}
        again = {other.message for other in findings(mended)}
        assert one.message not in again

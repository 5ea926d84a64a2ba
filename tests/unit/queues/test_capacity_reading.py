"""Capacities, mappings and lists as the Capacity Scheduler reads them, and as older versions do."""

from __future__ import annotations

import pytest

from tests.unit.queues.test_capacity_lint import (
    AMOUNTS,
    GOOD_SITE,
    LABELS,
    Changes,
    config,
    findings,
    text_of,
)
from tests.unit.queues.test_lint import NODES
from yarnam.core.queues.capacity import CapacityInput, lint_capacity
from yarnam.core.queues.lint import Finding, Severity


def of(rule: str, changes: Changes, site: dict[str, str] | None = None) -> list[Finding]:
    return [one for one in findings(changes, site) if one.rule == rule]


def amounts(text: str) -> Changes:
    """Two queues with amounts, one of them with this."""
    return {
        "root.speech.queues": None,
        "root.vision.capacity": text,
        "root.vision.maximum-capacity": None,
        "root.speech.capacity": AMOUNTS,
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[memroy=102400,vcores=20,yarn.io/gpu=2]", "memroy"),
        ("[memory=102400,vcores=20,gpu=2]", "gpu"),
        ("[Memory=102400,vcores=20,yarn.io/gpu=2]", "Memory"),
        ("[memory=100GB,vcores=20,yarn.io/gpu=2]", "memory=100GB"),
        ("[memory=100gi,vcores=20,yarn.io/gpu=2]", "memory=100gi"),
        ("[memory=100.5,vcores=20,yarn.io/gpu=2]", "whole number"),
        ("[memory= 100,vcores=20,yarn.io/gpu=2]", "without spaces"),
        ("[vcores=20,yarn.io/gpu=2]", "no memory"),
        ("[memory=0,vcores=20,yarn.io/gpu=2]", "no memory"),
        ("[memory,vcores=20,yarn.io/gpu=2]", "no memory"),
    ],
)
def test_an_amount_that_yarn_leaves_out_or_refuses(text: str, words: str) -> None:
    label: Changes = {f"root.vision.{LABELS}.gpu.maximum-capacity": text}
    for changes in (amounts(text), label):
        found = of("amount-left-out", changes)
        assert any(words in f"{one.message} {one.why}" for one in found), found
        assert all(one.severity is Severity.ERROR for one in found)


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("[memory=100GB,vcores=20,yarn.io/gpu=2]", "[memory=100G,vcores=20,yarn.io/gpu=2]"),
        ("[memory=1,vcore=20,yarn.io/gpu=2]", "[memory=1,vcores=20,yarn.io/gpu=2]"),
        ("[memory=1,vcores=20,gpu=2]", "[memory=1,vcores=20,yarn.io/gpu=2]"),
        ("[memory= 1,vcores=20,yarn.io/gpu=2]", "[memory=1,vcores=20,yarn.io/gpu=2]"),
        ("[mem=1gb,cores=20,gpu=2]", "[memory=1G,vcores=20,yarn.io/gpu=2]"),
    ],
)
def test_an_amount_is_mended(text: str, good: str) -> None:
    rules = ("amount-left-out", "amounts-without-gpus")
    found = [one for rule in rules for one in of(rule, amounts(text))]
    assert {one.mended.partition("</name>")[2] for one in found} == {
        f"<value>{good}</value></property>"
    }
    assert not of("amount-left-out", amounts(good))


@pytest.mark.parametrize(
    "text",
    [
        AMOUNTS,
        "[memory=100Gi,vcores=20,yarn.io/gpu=2]",
        "[memory-mb=102400, vcores=20, yarn.io/gpu=2]",
        "[memory=50%,vcores=50%,yarn.io/gpu=50%]",
        "[memory=102400,vcores=20,yarn.io/gpu=2,x/fpga=1]",
    ],
)
def test_good_amounts_have_no_finding(text: str) -> None:
    site = {"yarn.resource-types": "yarn.io/gpu, x/fpga"}
    assert not of("amount-left-out", amounts(text), site)


@pytest.mark.parametrize(
    ("rule", "changes"),
    [
        ("mapping-of-another-form", {"queue-mappings": "x:y"}),
        ("mapping-of-another-form", {"queue-mappings": "u:ada:vision,x:ada:vision"}),
        ("mapping-of-another-form", {"queue-mappings": "u:ada:"}),
        ("mapping-of-another-form", {"queue-mappings": "ada=vision"}),
        ("mapping-of-another-form", {"workflow-priority-mappings": "a:vision:high"}),
        ("mapping-of-another-form", {"mapping-rule-format": "xml"}),
        ("mapping-to-no-queue", {"queue-mappings": "u:ada:video"}),
        ("mapping-to-no-queue", {"queue-mappings": "g:team:root.speech"}),
        ("mapping-to-no-queue", {"queue-mappings": "u:ada:root.speech.gone"}),
        ("mapping-to-no-queue", {"queue-mappings": "u:%user:root.vision.%user"}),
        ("mapping-to-no-queue", {"queue-mappings": "u:%user:%usr"}),
        ("mapping-to-no-queue",
         {"queue-mappings": "u:ada:trial", "root.queues": "vision,speech,trial",
          "root.trial.capacity": "0"}),
        ("mapping-to-no-queue", {"workflow-priority-mappings": "a:gone:3"}),
    ],
)  # fmt: skip
def test_a_mapping_that_yarn_refuses(rule: str, changes: Changes) -> None:
    assert [one.severity for one in of(rule, changes)] == [Severity.ERROR]


@pytest.mark.parametrize(
    "changes",
    [
        {"queue-mappings": "u:ada:vision, g:team:root.speech.trial"},
        {"queue-mappings": "u:ada:speech.train,u:%user:%user"},
        {"queue-mappings": "u:%user:root.speech.%primary_group"},
        {"queue-mappings": "x:y", "mapping-rule-format": "json", "mapping-rule-json": "{}"},
        {"queue-mappings": "u:ada:speech.ada",
         "root.speech.auto-queue-creation-v2.enabled": "true"},
        {"workflow-priority-mappings": "a:vision:3"},
        {"queue-mappings": ""},
    ],
)  # fmt: skip
def test_good_mappings_have_no_finding(changes: Changes) -> None:
    assert not [one for one in findings(changes) if one.rule.startswith("mapping")]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"root.vision.acl_submit_applications": "ada"}, "acl_submit_applications of root.vision"),
        ({"root.vision.acl_administer_queue": " ops"}, "acl_administer_queue of root.vision"),
        ({"root.acl_submit_applications": "*", "root.speech.trial.acl_submit_applications": ""},
         "acl_submit_applications of root.speech.trial"),
        ({"root.acl_submit_applications": " ", "root.acl_administer_queue": " ",
          "root.speech.acl_submit_applications": "*",
          "root.speech.trial.acl_submit_applications": "ada"}, "root.speech lets everybody in"),
        ({"root.acl_submit_applications": " "}, "root lets everybody administer"),
    ],
)  # fmt: skip
def test_a_list_that_shuts_nobody_out(changes: Changes, words: str) -> None:
    (found,) = of("acl-without-effect", changes)
    assert words in f"{found.message} {found.why}"
    assert found.severity is Severity.WARNING


@pytest.mark.parametrize(
    "changes",
    [
        {"root.acl_submit_applications": " ", "root.acl_administer_queue": "ops",
         "root.vision.acl_submit_applications": "ada"},
        {"root.vision.acl_submit_applications": "*"},
        {"root.acl_administer_queue": "ops"},
    ],
)  # fmt: skip
def test_lists_with_an_effect_have_no_finding(changes: Changes) -> None:
    assert not of("acl-without-effect", changes)


def label(value: str, queue: str = "root.vision", key: str = "capacity") -> Changes:
    return {f"{queue}.{LABELS}.gpu.{key}": value}


@pytest.mark.parametrize(
    "changes",
    [
        label("-1", "root"),
        label("-1"),
        label("101"),
        label("120", key="maximum-capacity"),
        label("-1", key="maximum-capacity"),
        label("-2w"),
        label("all"),
    ],
)
def test_a_capacity_of_a_label_out_of_range(changes: Changes) -> None:
    assert [one.severity for one in of("label-capacity-out-of-range", changes)] == [Severity.ERROR]


@pytest.mark.parametrize(
    "changes",
    [label("0"), label("100", "root"), label("33.3", key="maximum-capacity"), label("500w"),
     label(AMOUNTS)],
)  # fmt: skip
def test_capacities_of_labels_in_their_range(changes: Changes) -> None:
    assert not of("label-capacity-out-of-range", changes)


def judged(changes: Changes, hadoop: tuple[int, int]) -> list[Finding]:
    given = config(text_of(changes))
    return list(lint_capacity(CapacityInput(given, GOOD_SITE, NODES, hadoop)))


@pytest.mark.parametrize(
    ("changes", "since"),
    [
        ({"user-limit-factor": "10"}, (3, 4)),
        ({"minimum-user-limit-percent": "100"}, (3, 4)),
        ({"mapping-rule-format": "json"}, (3, 4)),
        ({"root.speech.auto-queue-creation-v2.enabled": "true"}, (3, 4)),
        ({"root.vision.capacity": "3w", "root.speech.capacity": "1w"}, (3, 4)),
        ({"multi-node-placement-enabled": "true"}, (3, 2)),
        ({"max-parallel-apps": "50"}, (3, 3)),
        ({"root.vision.max-parallel-apps": "50"}, (3, 3)),
        (amounts(AMOUNTS), (3, 1)),
    ],
)
def test_what_older_versions_do_not_read(changes: Changes, since: tuple[int, int]) -> None:
    older = (since[0], since[1] - 1)
    assert "newer-than-hadoop" in {one.rule for one in judged(changes, older)}
    assert "newer-than-hadoop" not in {one.rule for one in judged(changes, since)}


def test_a_limit_of_users_that_is_not_read_does_not_count() -> None:
    changes: Changes = {"user-limit-factor": "10", "root.vision.user-limit-factor": None}
    assert "user-limit-below-maximum" in {one.rule for one in judged(changes, (3, 3))}
    assert judged(changes, (3, 4)) == []


@pytest.mark.parametrize("hadoop", [(3, 1), (3, 2), (3, 4)])
def test_settings_that_all_versions_read(hadoop: tuple[int, int]) -> None:
    assert judged({}, hadoop) == []

"""The shipped rules, and what is made of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from yarnam.core.failures.rule_matching import rules_of
from yarnam.core.failures.shipped_rules import SHIPPED_RULES
from yarnam.core.model.outcomes import FailureClass, FailureRule, RetryAction
from yarnam.errors import BadConfig
from yarnam.spec import failure_rules as spec_rules
from yarnam.spec.sections.failure_sections import FailureRuleEntry
from yarnam.wire.codec import from_plain, to_plain

ROOT = Path(__file__).parents[3]


def test_what_the_containers_read_is_what_the_file_says() -> None:
    """When this fails: python tools/generate_failure_rules.py"""
    assert spec_rules.shipped_rules() == SHIPPED_RULES
    tool = ROOT / "tools/generate_failure_rules.py"
    subprocess.run([sys.executable, str(tool), "--check"], check=True, timeout=60)


def test_every_class_says_what_it_means_and_has_a_rule() -> None:
    classes = set(FailureClass) - {FailureClass.UNKNOWN}
    assert set(spec_rules.class_defaults()) == classes
    assert {rule.failure for rule in spec_rules.shipped_rules()} == classes


def test_ids_are_unique() -> None:
    ids = [rule.id for rule in spec_rules.shipped_rules()]
    assert len(ids) == len(set(ids))


def test_a_rule_reads_back_from_the_jobs_record_without_structuring() -> None:
    rules = spec_rules.shipped_rules()
    plain = [to_plain(rule) for rule in rules]
    assert rules_of(plain) == rules
    assert from_plain(plain[0], FailureRule) == rules[0]


def test_what_an_entry_leaves_out_is_its_classs() -> None:
    entry = FailureRuleEntry.model_validate(
        {"id": "a", "class": "port-in-use", "patterns": ["port busy"], "action": "never"}
    )
    rule = spec_rules.rule_of(entry)
    assert (rule.action.value, rule.blame.value) == ("never", "infra")
    assert rule.hint == "Take ports from yarnam (ports of the role) instead of fixed numbers."


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"class": "port-in-use"}, "needs `patterns`, `exit_codes`, `signals` or `raised_in`"),
        ({"class": "bad-luck", "exit_codes": [1]}, "bad-luck"),
        ({"class": "unknown", "patterns": ["*"]}, "at least three characters"),
        ({"class": "unknown", "exit_codes": [256]}, "255"),
        ({"class": "unknown", "exit_codes": [1], "regex": "x"}, "regex"),
    ],
)
def test_a_wrong_rule_is_refused(wrong: dict[str, object], word: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(word)):
        FailureRuleEntry.model_validate({"id": "a", **wrong})


SITE_RULES = """
rules:
  - id: licences
    class: communication-error
    patterns: ["no licence is free"]
    action: retry-free
"""


def test_administrators_have_rules_of_their_own(tmp_path: Path) -> None:
    assert spec_rules.site_rules(tmp_path, {}) == ()
    assert spec_rules.site_rules(None, {}) == ()
    (tmp_path / "failure-rules.yaml").write_text(SITE_RULES)
    (rule,) = spec_rules.site_rules(tmp_path, {})
    assert (rule.id, rule.action) == ("licences", RetryAction.FREE)
    other = tmp_path / "other.yaml"
    other.write_text(SITE_RULES.replace("licences", "others"))
    (rule,) = spec_rules.site_rules(tmp_path, {"YARNAM_FAILURE_RULES": str(other)})
    assert rule.id == "others"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rules: [", "not valid YAML"),
        ("rules:\n  - id: a\n    class: no-such\n    patterns: [x]\n", "rules.0.class"),
        ("rules:\n  - {id: a, class: killed}\n", "needs `patterns`"),
        ("rule: []\n", "rule"),
        ("- 1\n", "failure-rules.yaml"),
    ],
)
def test_wrong_rules_of_administrators_are_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "failure-rules.yaml").write_text(text)
    with pytest.raises(BadConfig, match=said):
        spec_rules.site_rules(tmp_path, {})


def test_a_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="YARNAM_FAILURE_RULES"):
        spec_rules.site_rules(None, {"YARNAM_FAILURE_RULES": str(tmp_path / "none.yaml")})

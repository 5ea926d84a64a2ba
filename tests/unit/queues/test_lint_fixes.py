"""``yarnam queues lint --fix``: a new file that passes, and whose comments stay."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.queues.test_lint import FAULTS, GOOD
from yarnam.client.queues.lint_file import fixed_file, lint_file
from yarnam.client.queues.lint_fixes import with_fixes
from yarnam.core.queues.lint import Finding, Severity

XML = """\
<?xml version="1.0"?>
<!-- the queues of the <cluster> -->
<allocations>
  <defaultQueueSchedulingPolicy>drf</defaultQueueSchedulingPolicy>
  <queue name="dl"> <!-- ours -->
    <minResources>memory-mb=81920, vcores=40, yarn.io/gpus=8</minResources>
    <maxResources>memory-mb=40960, vcores=80, yarn.io/gpu=4</maxResources>
  </queue>
  <queue name="a > b"/>
  <queuePlacementPolicy>
    <rule name="specified" create="false"/>
    <rule name="default" queue="root.d1"/>
  </queuePlacementPolicy>
</allocations>
"""


def finding(line: int, mended: str) -> Finding:
    return Finding(Severity.ERROR, line, "wrong", "why", mended)


def test_a_proposal_stands_in_the_place_of_its_element() -> None:
    new = '<rule name="default" queue="root.dl"/>'
    text, count = with_fixes(XML.encode(), [finding(12, new), finding(12, new)])
    assert count == 1
    assert text.decode() == XML.replace('<rule name="default" queue="root.d1"/>', new)


def test_what_is_missing_is_put_into_its_queue() -> None:
    new = "<minSharePreemptionTimeout>120</minSharePreemptionTimeout>"
    text, _ = with_fixes(XML.encode(), [finding(5, new)])
    assert f'  <queue name="dl">\n    {new} <!-- ours -->\n' in text.decode()


@pytest.mark.parametrize(
    "mended", ["", "<aclSubmitApps> </aclSubmitApps> in root", "<a>...</a>", "<a/><b/>", "<a"]
)
def test_what_is_no_single_element_is_left(mended: str) -> None:
    assert with_fixes(XML.encode(), [finding(7, mended)]) == (XML.encode(), 0)


def test_another_rule_of_the_same_line_stays() -> None:
    line = '<rule name="specified"/><rule name="default" queue="x"/>'
    source = f"<allocations>\n<queuePlacementPolicy>{line}</queuePlacementPolicy></allocations>"
    new = '<rule name="specified" create="false"/>'
    text, _ = with_fixes(source.encode(), [finding(2, new)])
    assert f'{new}<rule name="default" queue="x"/>' in text.decode()


def test_a_whole_file_passes_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "fair-scheduler.xml"
    path.write_text(XML)
    text, count, left = fixed_file(str(path))
    assert count >= 4
    assert left == ()
    assert path.read_text() == XML
    assert re.findall("<!--.*?-->", text.decode()) == re.findall("<!--.*?-->", XML)


@pytest.mark.parametrize(("rule", "was", "becomes"), FAULTS, ids=lambda value: str(value)[:24])
def test_no_fix_makes_a_file_worse(rule: str, was: str, becomes: str, tmp_path: Path) -> None:
    path = tmp_path / "fair-scheduler.xml"
    path.write_text(GOOD.replace(was, becomes))
    before = lint_file(str(path))
    _, _, after = fixed_file(str(path))
    assert {one.rule for one in after} <= {one.rule for one in before}
    assert len(after) <= len(before)

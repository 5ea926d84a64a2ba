"""Settings that YARN does not know: where they are found, and what lint says to write instead."""

from __future__ import annotations

import pytest

from tests.unit.queues.test_capacity_lint import findings as capacity_findings
from tests.unit.queues.test_lint_mended import findings, queue


@pytest.mark.parametrize(
    ("element", "instead"),
    [
        ("<minReduces>5</minReduces>", ""),
        ("<maxMaps>5</maxMaps>", ""),
        ("<maxShare>9 mb</maxShare>", "<maxResources>...</maxResources>"),
        ("<maxRunningJobs>5</maxRunningJobs>", "<maxRunningApps>5</maxRunningApps>"),
        ("<minResource>5</minResource>", "<minResources>...</minResources>"),
        ("<maxRunningApp>many</maxRunningApp>", "<maxRunningApps>...</maxRunningApps>"),
        # As before.
        ("<wieght>2</wieght>", "<weight>2</weight>"),
        ("<Weight>2</Weight>", "<weight>2</weight>"),
        ("<maxResource>50%</maxResource>", "<maxResources>50%</maxResources>"),
        ("<schedulingPolcy>drf</schedulingPolcy>", "<schedulingPolicy>drf</schedulingPolicy>"),
    ],
)  # fmt: skip
def test_an_element_is_not_taken_for_one_of_another_meaning(element: str, instead: str) -> None:
    inside = f'<queue name="a">{element}</queue>'
    (found,) = [one for one in findings(inside) if one.rule == "unknown-element"]
    assert found.mended == instead


@pytest.mark.parametrize(
    ("key", "value", "instead"),
    [
        ("acl_administer_jobs", "*", "acl_administer_queue</name><value>*"),
        ("minimum-user-limit", "x", ""),
        ("maximum-capacit", "much", "maximum-capacity</name><value>..."),
        ("max-apps", "5", ""),
        # As before.
        ("max-capacity", "50", "maximum-capacity</name><value>50"),
        ("user-limit-facter", "2", "user-limit-factor</name><value>2"),
        ("acl_submit_application", "a b", "acl_submit_applications</name><value>a b"),
    ],
)
def test_a_setting_is_not_taken_for_one_of_another_meaning(
    key: str, value: str, instead: str
) -> None:
    given = capacity_findings({f"root.vision.{key}": value})
    (found,) = [one for one in given if one.rule == "unknown-setting"]
    assert instead in found.mended
    assert bool(instead) == bool(found.mended)


@pytest.mark.parametrize(
    ("inside", "rule"),
    [
        ("<maxRunningJobs>5</maxRunningJobs>", "unknown-element"),
        ("<maxApps>5</maxApps>", "unknown-element"),
        ("<weight>5</weight>", "unknown-element"),
        ("<maxResources>9 mb, 9 vcores</maxResources>", "unknown-element"),
        ("<maxRunningApps/>", "empty-element"),
        ("<maxRunningApps>5</maxRunningApps><maxRunningApps>6</maxRunningApps>", "element-twice"),
        ("<maxRunningApps>five</maxRunningApps>", "refused"),
    ],
)
def test_elements_of_a_user_are_read_too(inside: str, rule: str) -> None:
    found = findings(f'{queue()}<user name="bob">{inside}</user>')
    assert rule in {one.rule for one in found}


@pytest.mark.parametrize(
    "user",
    [
        '<user name="bob"><maxRunningApps>5</maxRunningApps></user>',
        '<user name="bob"/>',
        "<userMaxAppsDefault>5</userMaxAppsDefault>",
    ],
)
def test_good_users_have_no_finding(user: str) -> None:
    assert findings(f"{queue()}{user}") == []

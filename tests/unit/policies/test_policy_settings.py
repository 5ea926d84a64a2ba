"""Names, settings, and jobs that disagree on them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.policies.policy_worlds import run_by, running, view, waiting
from yarnam.core.policies import policy_registry
from yarnam.core.policies.policy_registry import NAMES, decide, policy_named
from yarnam.core.policies.policy_settings import read_settings
from yarnam.core.policies.policy_ticket import believed
from yarnam.errors import UsageError


@pytest.mark.parametrize("name", NAMES)
def test_each_policy_bears_its_name_and_its_defaults_are_in_range(name: str) -> None:
    policy = policy_named(name)
    assert policy.name == name
    for setting in policy.settings:
        assert all(setting.least <= number <= setting.most for number in setting.default)
        assert read_settings(name, policy.settings, {setting.name: setting.shown or ""})


def test_an_unknown_policy_is_told_with_the_ones_there_are() -> None:
    with pytest.raises(UsageError, match="unknown policy 'tiresas'") as caught:
        policy_named("tiresas")
    assert caught.value.hint is not None
    assert "Did you mean tiresias?" in caught.value.hint


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"slice": "0"}, "slice is '0'"),
        ({"slice": "nan"}, "slice is 'nan'"),
        ({"slice": "1e9"}, "slice is '1e9'"),
        ({"slice": "long"}, "slice is 'long'"),
        ({"slize": "60"}, "has no setting 'slize'"),
    ],
)
def test_a_setting_that_is_wrong_is_told_with_its_range(
    given: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        read_settings("gandiva", policy_named("gandiva").settings, given)
    assert caught.value.hint


def test_limits_must_ascend() -> None:
    known = policy_named("tiresias").settings
    assert read_settings("tiresias", known, {"limits": "10,20"})["limits"] == (10.0, 20.0)
    with pytest.raises(UsageError, match="larger than the one before"):
        read_settings("tiresias", known, {"limits": "20,10"})


def test_jobs_of_two_versions_or_settings_fall_back_to_arrival_visibly() -> None:
    tickets = [running("r1", 4, remaining_s=1e6), waiting("s2", 4, 5.0, remaining_s=1.0)]
    policy = policy_named("srtf")
    usual = read_settings("srtf", policy.settings, {"least_run": "0"})
    assert run_by(decide(policy, view(tickets, 4, 9.0), usual)) == {"s2"}
    old = [tickets[0], replace(tickets[1], rules=policy_registry.POLICY_RULES + 1)]
    found = decide(policy, view(old, 4, 9.0), usual)
    assert run_by(found) == {"r1"}
    assert "several versions" in found.of("s2").why
    found = decide(policy, view(tickets, 4, 9.0), usual, settings_version=2)
    assert run_by(found) == {"r1"}
    assert "new policy" in found.of("r1").why


def test_a_job_cannot_understate_its_service() -> None:
    liar = replace(running("l1", 4, 0.0), service_gpu_s=0.0)
    assert believed(liar, {"l1": 900.0}, 100.0).service(100.0) == 900.0
    assert believed(liar, {"l1": 900.0}, 100.0).counted(100.0) == 900.0
    assert believed(liar, {"l1": 100.0}, 100.0) == liar
    assert believed(liar, {}, 100.0) == liar

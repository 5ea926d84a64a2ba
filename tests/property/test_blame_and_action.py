"""Blame and action of a failure never contradict each other, in the shipped rules and in those that
jobs and sites write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from yarnam.core.failures.process_failure import UNKNOWN
from yarnam.core.failures.retry_decision import RetryBudget, RetryState, decide_retry
from yarnam.core.failures.shipped_rules import SHIPPED_RULES
from yarnam.core.model.outcomes import FailureClass, FailureRule, RetryAction
from yarnam.errors import Blame
from yarnam.spec.failure_rules import class_defaults, rule_of
from yarnam.spec.sections.failure_sections import FailureRuleEntry

A = RetryAction

FREE = RetryBudget.FREE, RetryBudget.RESTARTS

states = st.builds(
    RetryState,
    restarts_left=st.integers(0, 3),
    user_retries_left=st.integers(0, 3),
    free_left_s=st.sampled_from([0.0, 60.0]),
    stuck=st.integers(0, 4),
    step=st.none() | st.integers(0, 9),
    leaves_out_inputs=st.just(False),
    has_more_memory=st.booleans(),
)


@pytest.mark.parametrize("rule", SHIPPED_RULES, ids=lambda rule: rule.id)
@given(state=states)
def test_a_mistake_of_the_user_is_paid_by_the_user(rule: FailureRule, state: RetryState) -> None:
    budget = decide_retry(rule.action, state).budget
    if rule.blame is Blame.USER:
        assert budget not in FREE, rule.id
        assert rule.action is not A.ELSEWHERE, f"{rule.id}: a strike against the node"
    else:
        assert rule.action in {A.RETRY, A.ELSEWHERE, A.FREE}, rule.id
        assert budget is not RetryBudget.USER, rule.id


def test_a_failure_that_no_rule_knows_is_paid_by_the_user() -> None:
    assert (UNKNOWN.blame, UNKNOWN.action) == (Blame.USER, A.ALLOWED)


def test_what_is_retried_says_what_to_do_meanwhile() -> None:
    for rule in SHIPPED_RULES:
        assert rule.hint, rule.id


@given(
    failure=st.sampled_from(FailureClass),
    action=st.none() | st.sampled_from(RetryAction),
    blame=st.sampled_from([None, Blame.USER, Blame.INFRA]),
)
def test_rules_of_jobs_and_sites(
    failure: FailureClass, action: RetryAction | None, blame: Blame | None
) -> None:
    entry = {
        "id": "mine", "class": failure.value, "exit_codes": [3],
        "action": action and action.value, "blame": blame and blame.value,
    }  # fmt: skip
    try:
        rule = rule_of(FailureRuleEntry.model_validate(entry))
    except ValidationError:
        assert blame is Blame.USER
        assert action in {A.ELSEWHERE, A.FREE}
        return
    assert blame in {None, rule.blame}
    assert action in {None, rule.action}
    if action is blame is None and failure in class_defaults():
        assert rule.blame.value == class_defaults()[failure].blame
    if rule.blame is Blame.USER and (action, blame) != (A.RETRY, Blame.USER):
        assert rule.action not in {A.RETRY, A.ELSEWHERE, A.FREE}

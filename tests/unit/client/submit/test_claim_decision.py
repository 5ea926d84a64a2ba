"""Whether the claim of another job still holds, from facts alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from yarnam.adapters.yarn.rest_parse import YarnApplication
from yarnam.client.submit.claims.claim_decision import (
    GONE_LIMIT_S,
    UNDER_WAY_LIMIT_S,
    ClaimFacts,
    ClaimState,
    state_of,
)

UNKNOWN = ClaimFacts(None, is_of_this_cluster=True)


@pytest.mark.parametrize(
    ("yarn", "state"),
    [
        ("NEW", ClaimState.HELD),
        ("ACCEPTED", ClaimState.HELD),
        ("RUNNING", ClaimState.HELD),
        ("FINISHED", ClaimState.ENDED),
        ("FAILED", ClaimState.ENDED),
        ("KILLED", ClaimState.ENDED),
    ],
)
def test_what_yarn_says_of_the_application_decides(yarn: str, state: ClaimState) -> None:
    application = YarnApplication("application_1_1", "a", "me", "root.dl", yarn, "UNDEFINED")
    facts = replace(
        UNKNOWN,
        application=application,
        has_started=True,
        is_submitter_gone=True,
        age_s=10 * UNDER_WAY_LIMIT_S,
    )
    assert state_of(facts) is state


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, ClaimState.UNDER_WAY),
        ({"age_s": UNDER_WAY_LIMIT_S - 1}, ClaimState.UNDER_WAY),
        ({"age_s": UNDER_WAY_LIMIT_S}, ClaimState.ENDED),
        # A clock that was set back makes no claim outdated.
        ({"age_s": -UNDER_WAY_LIMIT_S}, ClaimState.UNDER_WAY),
        ({"has_started": True}, ClaimState.ENDED),
        ({"is_submitter_gone": True}, ClaimState.UNSETTLED),
        ({"is_submitter_gone": True, "waited_s": GONE_LIMIT_S}, ClaimState.ENDED),
        # Nothing proves the end of a job that this ResourceManager does not show.
        ({"is_of_this_cluster": False, "age_s": 1e9}, ClaimState.ELSEWHERE),
        ({"is_hidden": True, "age_s": 1e9}, ClaimState.HIDDEN),
    ],
)
def test_an_application_that_yarn_does_not_know(
    changes: dict[str, float | bool], state: ClaimState
) -> None:
    assert state_of(replace(UNKNOWN, **changes)) is state  # type: ignore[arg-type]

"""Which directories of ended jobs may be removed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from yarnam.core.accounting.job_retention import KEPT_S, JobDirectory, why_kept
from yarnam.core.model.job_status import JobState

NOW_S = 1e9
OLD = JobDirectory(
    changed_at_s=NOW_S - KEPT_S,
    is_over=True,
    is_of_this_cluster=True,
    is_in_history=True,
    has_verdict=True,
    state=JobState.SUCCEEDED,
)


def test_an_old_directory_of_an_ended_job_goes() -> None:
    assert why_kept(OLD, NOW_S) == ""
    assert why_kept(replace(OLD, is_over=None), NOW_S) == "", "YARN has forgotten it"
    killed = replace(OLD, has_verdict=False, state=JobState.RUNNING)
    assert why_kept(killed, NOW_S) == "", "YARN has the end of it"
    assert why_kept(replace(OLD, is_over=True, is_of_this_cluster=False), NOW_S) == ""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"is_kept_forever": True}, "keep: forever"),
        ({"is_over": False}, "YARN still runs it"),
        ({"is_over": None, "is_of_this_cluster": False}, "another cluster"),
        ({"is_over": None, "has_verdict": False}, "no verdict"),
        ({"has_verdict": False, "state": JobState.SUSPENDED}, "suspended"),
        ({"is_over": None, "has_verdict": False, "state": JobState.SUSPENDED}, "suspended"),
        ({"is_in_history": False}, "history has no record"),
        ({"is_output_missing": True}, "output is not stored"),
        ({"has_unfetched_results": True}, "results"),
        ({"foreign_names": ("checkpoints",)}, "checkpoints"),
        ({"changed_at_s": NOW_S - KEPT_S + 1}, "a short time ago"),
        ({"changed_at_s": NOW_S + 86400.0}, "a short time ago"),
    ],
)
def test_all_others_stay(changes: dict[str, Any], reason: str) -> None:
    assert reason in why_kept(replace(OLD, **changes), NOW_S)

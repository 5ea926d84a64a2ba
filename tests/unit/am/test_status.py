"""What the AM adds to what the gang knows."""

from __future__ import annotations

from yarnam.am.status import addressed
from yarnam.model.outcomes import Verdict, VerdictKind


def test_a_hint_names_the_job_itself() -> None:
    hint = "Read all of its output with: yarnam logs JOB --task JOB-1"
    verdict = Verdict(VerdictKind.FAILED, 90, "JOB failed", hint)
    told = addressed(verdict, "application_1_0002")
    assert told.hint == ("Read all of its output with: yarnam logs application_1_0002 --task JOB-1")
    assert told.message == "JOB failed"

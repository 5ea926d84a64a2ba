"""Which failed AM attempts count."""

from __future__ import annotations

import pytest

from yarnam.core.gang.am_attempts import ends_the_job
from yarnam.core.model.job_spec import AmSpec

NOW_S = 1_000_000.0
LIVES = 0.0


@pytest.mark.parametrize(
    ("attempts", "ago_s", "expected"),
    [
        (1, [], True),
        (2, [], False),
        (2, [30.0], True),
        (2, [59.0], True),
        (2, [61.0], False),
        (2, [3600.0] * 50, False),
        (3, [3600.0, 30.0], False),
        (3, [40.0, 30.0], True),
    ],
)
def test_only_those_of_the_interval_count(
    attempts: int, ago_s: list[float], expected: bool
) -> None:
    am = AmSpec(attempts=attempts, attempts_interval_s=60.0)
    ends_s = [*(NOW_S - ago for ago in ago_s), LIVES]
    assert ends_the_job(am, ends_s, NOW_S) is expected

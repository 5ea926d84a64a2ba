"""Which failed AM attempts count."""

from __future__ import annotations

import pytest

from yarnam.core.gang.am_attempts import ends_the_job, replaced_from_s
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


@pytest.mark.parametrize(
    ("attempts", "ends_s", "from_s"),
    [
        (1, (), None),
        (2, (), 0.0),
        (2, (100.0, 0.0), 160.0),
        (3, (100.0, 0.0), 0.0),
        (3, (100.0, 130.0, 0.0), 160.0),
        (3, (100.0, 130.0, 170.0, 0.0), 190.0),
    ],
)
def test_from_when_on_another_attempt_follows(
    attempts: int, ends_s: tuple[float, ...], from_s: float | None
) -> None:
    """As ``ends_the_job`` has it at any time."""
    am = AmSpec(attempts=attempts, attempts_interval_s=60.0)
    assert replaced_from_s(am, ends_s) == from_s
    for now_s in (171.0, 189.0, 191.0, 300.0):
        follows = from_s is not None and now_s >= from_s
        assert follows != ends_the_job(am, [end_s for end_s in ends_s if end_s], now_s)

"""No rank of a healthy gang is called a straggler, however noisy its steps; a slow one is."""

from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yarnam.core.failures.straggler_detection import (
    WINDOW_STEPS,
    RankPace,
    StragglerWatch,
    find_stragglers,
    watch_stragglers,
)
from yarnam.core.model.job_spec import StragglerSpec

SPEC = StragglerSpec()


def windows(
    dice: random.Random, ranks: int, noise: float, slow: dict[int, float], count: int
) -> int:
    """How many reports ``count`` windows of a gang lead to. ``noise``: the standard deviation of
    the logarithm of each step's time."""
    watch, reports = StragglerWatch(), 0
    for number in range(1, count + 1):
        own = [
            statistics.median(
                slow.get(rank, 1.0) * dice.lognormvariate(0.0, noise) for _ in range(WINDOW_STEPS)
            )
            for rank in range(ranks)
        ]
        step_s = max(own)
        paces = [
            RankPace(rank, f"n{rank}", number * WINDOW_STEPS, step_s, own_s)
            for rank, own_s in enumerate(own)
        ]
        watch, found = watch_stragglers(watch, paces, SPEC, number * 60.0)
        reports += bool(found)
        assert len(watch.slow) + len(watch.healthy) <= 2 * ranks
    return reports


@pytest.mark.parametrize("ranks", [2, 8, 64])
def test_false_alarms_are_rare_even_with_much_noise(ranks: int) -> None:
    """A third of the usual time of noise in every step: at most two alarms in 1,000 windows, which
    are 16,000 steps; with a tenth, none."""
    dice = random.Random(ranks)
    assert windows(dice, ranks, 0.3, {}, 1000) <= 2
    assert windows(dice, ranks, 0.1, {}, 300) == 0


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1 << 32),
    ranks=st.integers(2, 24),
    noise=st.floats(0.0, 0.15),
    factor=st.floats(1.7, 20.0),
)
def test_a_slow_rank_is_named_within_ten_windows(
    seed: int, ranks: int, noise: float, factor: float
) -> None:
    dice = random.Random(seed)
    assert windows(dice, ranks, noise, {dice.randrange(ranks): factor}, 10) >= 1


@settings(max_examples=200, deadline=None)
@given(
    own=st.lists(st.floats(0.0, 1e6), min_size=0, max_size=20),
    step_s=st.floats(1e-6, 1e6),
    slowdown=st.floats(1.05, 10.0),
)
def test_what_is_promised_is_what_the_gang_would_gain(
    own: list[float], step_s: float, slowdown: float
) -> None:
    paces = [RankPace(rank, "n", 99, step_s, own_s) for rank, own_s in enumerate(own)]
    found = find_stragglers(paces, slowdown)
    assert len({one.rank for one in found}) == len(found)
    for one in found:
        assert one.slowdown >= slowdown
        assert one.compute_s > one.usual_s
        assert one.compute_s == max(own) or found[0].compute_s == max(own)

"""Trying again, and what it leaves alone."""

from __future__ import annotations

import random

from hdfs_utils.checkpoints.insist import FIRST_PAUSE_S, MAX_PAUSE_S, pause_s


def test_waits_grow_up_to_a_cap() -> None:
    assert all(0.0 <= pause_s(1) <= FIRST_PAUSE_S for _ in range(50))
    assert all(0.0 <= pause_s(100) <= MAX_PAUSE_S for _ in range(50))
    assert max(pause_s(100) for _ in range(200)) > FIRST_PAUSE_S


def test_the_training_programs_own_dice_are_left_alone() -> None:
    random.seed(7)
    before = random.getstate()
    pause_s(3)
    assert random.getstate() == before

"""Grow, shrink or keep: each rule by itself, and what no look may ever lead to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarnam.gang.sizing import (
    Grow,
    Keep,
    Shrink,
    SizeFacts,
    SizePolicy,
    SizeReason,
    Sizing,
    Surroundings,
    Waiter,
    excess_tasks,
    next_look_s,
    resize,
)
from yarnam.model.resources import Resources
from yarnam.model.snapshot import QueueView

POLICY = SizePolicy(
    role="worker", least=2, most=8, patience_s=60.0, grow=True, grow_interval_s=60.0,
    min_run_s=300.0, shrink_after_s=60.0, checkpoint_grace_s=30.0,
)  # fmt: skip
R = SizeReason


def look(
    tasks: int = 4, *, ran_s: float = 1000.0, wish: int | None = None, over_s: float | None = None,
    policy: SizePolicy = POLICY, **seen: int,
) -> Sizing:  # fmt: skip
    now_s = 10_000.0
    over_since_s = None if over_s is None else now_s - over_s
    facts = SizeFacts(tasks, now_s - ran_s, wish, over_since_s)
    return resize(facts, Surroundings(**{"spare": 0, **seen}), policy, now_s)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        # Idle GPUs.
        (look(spare=2), Grow(6, R.IDLE_GPUS)),
        (look(spare=20), Grow(8, R.IDLE_GPUS)),
        (look(8, spare=2), Keep(R.AT_MOST)),
        (look(spare=0), Keep(R.NO_ROOM)),
        (look(spare=2, waiting=1), Keep(R.OTHERS_WAIT)),
        (look(spare=2, ran_s=299.0), Keep(R.RAN_TOO_SHORT)),
        (look(spare=2, policy=replace(POLICY, grow=False)), Keep(R.GROWS_ON_DEMAND)),
        # Over the share.
        (look(excess=1, waiting=1, over_s=60.0), Shrink(3, R.OVER_SHARE)),
        (look(excess=9, waiting=1, over_s=60.0), Shrink(2, R.OVER_SHARE)),
        (look(excess=1, waiting=1, over_s=59.0), Keep(R.NOT_FOR_LONG)),
        (look(excess=1, waiting=1), Keep(R.NOT_FOR_LONG)),
        (look(2, excess=1, waiting=1, over_s=600.0), Keep(R.AT_LEAST)),
        # A user's wish: no waiting, no look at others.
        (look(wish=6, spare=4, ran_s=0.0, waiting=5), Grow(6, R.WISH)),
        (look(wish=8, spare=2), Grow(6, R.WISH)),
        (look(wish=8, spare=0), Keep(R.NO_ROOM)),
        (look(wish=3, ran_s=0.0), Shrink(3, R.WISH)),
        (look(wish=4, spare=4, excess=2, over_s=600.0), Keep(R.AT_WISH)),
        (look(wish=6, spare=4, policy=replace(POLICY, grow=False)), Grow(6, R.WISH)),
    ],
)  # fmt: skip
def test_one_look(found: Sizing, expected: Sizing) -> None:
    assert found == expected


SIZES = st.integers(2, 8)


@given(
    tasks=SIZES,
    wish=st.none() | st.integers(-3, 20),
    since_s=st.floats(0, 1e4),
    over_since_s=st.none() | st.floats(0, 1e4),
    spare=st.integers(0, 30),
    excess=st.integers(0, 30),
    waiting=st.integers(0, 3),
    grow=st.booleans(),
)
def test_never_outside_of_the_range_never_beyond_the_room(
    tasks: int, wish: int | None, since_s: float, over_since_s: float | None,
    spare: int, excess: int, waiting: int, grow: bool,
) -> None:  # fmt: skip
    facts = SizeFacts(tasks, since_s, wish, over_since_s)
    seen = Surroundings(spare, excess, waiting)
    found = resize(facts, seen, replace(POLICY, grow=grow), 1e4)
    if isinstance(found, Grow):
        assert tasks < found.to <= min(8, tasks + spare)
        assert wish is not None or (grow and not waiting and not excess)
    elif isinstance(found, Shrink):
        assert 2 <= found.to < tasks
        assert wish is not None or excess


@given(st.floats(0, 1, exclude_max=True))
def test_looks_are_bounded_and_not_in_step(u: float) -> None:
    assert 45.0 <= next_look_s(POLICY, u) <= 60.0


QUEUE = QueueView("root.a", used=Resources(0, 0, 16), fair_share=Resources(0, 0, 8))
TASK = Resources(1024, 1, 2)
OTHER = (Waiter("root.b", 4),)


@pytest.mark.parametrize(
    ("queue", "waiters", "tasks", "excess"),
    [
        (QUEUE, OTHER, 8, 4),  # it has all of the queue's
        (QUEUE, OTHER, 4, 2),  # half of it: another job gives back the other half
        (QUEUE, (), 8, 0),
        (QUEUE, (Waiter("root.a", 4),), 8, 0),  # the same queue has the same share
        (replace(QUEUE, fair_share=None), OTHER, 8, 0),
        (replace(QUEUE, fair_share=Resources()), OTHER, 8, 0),
        (replace(QUEUE, used=Resources(0, 0, 8)), OTHER, 4, 0),
        (replace(QUEUE, used=Resources(0, 0, 2)), OTHER, 4, 0),
    ],
)
def test_its_part_of_what_the_queue_is_over(
    queue: QueueView, waiters: tuple[Waiter, ...], tasks: int, excess: int
) -> None:
    assert excess_tasks(queue, waiters, tasks, TASK) == excess

"""Grow, shrink or keep: each rule by itself, and what no probe may ever lead to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarnam.core.gang.elastic.sizing import (
    ClusterProbe,
    Grow,
    Keep,
    Shrink,
    SizeDecision,
    SizeFacts,
    SizeReason,
    WaitingJob,
    decide_size,
    excess_tasks,
    next_probe_s,
    outranking,
)
from yarnam.core.gang.policy import SizePolicy
from yarnam.core.model.job_spec import ElasticSpec
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import QueueView

RULES = ElasticSpec(
    patience_s=60.0, grow=True, grow_interval_s=60.0, min_run_s=300.0, shrink_after_s=60.0,
    checkpoint_grace_s=30.0,
)  # fmt: skip
POLICY = SizePolicy(role="worker", least=2, most=8, rules=RULES)
ON_DEMAND = replace(POLICY, rules=replace(RULES, grow=False))
R = SizeReason


def decided(
    tasks: int = 4, *, ran_s: float = 1000.0, requested: int | None = None,
    over_s: float | None = None, policy: SizePolicy = POLICY, firm: bool = True, **seen: int,
) -> SizeDecision:  # fmt: skip
    now_s = 10_000.0
    over_since_s = None if over_s is None else now_s - over_s
    facts = SizeFacts(tasks, now_s - ran_s, requested, over_since_s, firm)
    return decide_size(facts, ClusterProbe(**{"spare": 0, **seen}), policy, now_s)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        # Idle GPUs.
        (decided(spare=2), Grow(6, R.IDLE_GPUS)),
        (decided(spare=20), Grow(8, R.IDLE_GPUS)),
        (decided(8, spare=2), Keep(R.AT_MOST)),
        (decided(spare=0), Keep(R.NO_FREE_CAPACITY)),
        (decided(spare=2, waiting=1), Keep(R.OTHERS_WAIT)),
        (decided(spare=2, ran_s=299.0), Keep(R.RAN_TOO_SHORT)),
        (decided(spare=2, policy=ON_DEMAND), Keep(R.GROWS_ON_DEMAND)),
        # Over the share.
        (decided(excess=1, waiting=1, over_s=60.0), Shrink(3, R.OVER_SHARE)),
        (decided(excess=9, waiting=1, over_s=60.0), Shrink(2, R.OVER_SHARE)),
        (decided(excess=1, waiting=1, over_s=59.0), Keep(R.NOT_FOR_LONG)),
        (decided(excess=1, waiting=1), Keep(R.NOT_FOR_LONG)),
        (decided(2, excess=1, waiting=1, over_s=600.0), Keep(R.AT_LEAST)),
        # As a user asked: no waiting, no regard to others.
        (decided(requested=6, spare=4, ran_s=0.0, waiting=5), Grow(6, R.REQUESTED)),
        (decided(requested=8, spare=2), Grow(6, R.REQUESTED)),
        (decided(requested=8, spare=0), Keep(R.NO_FREE_CAPACITY)),
        (decided(requested=3, ran_s=0.0), Shrink(3, R.REQUESTED)),
        (decided(requested=4, spare=4, excess=2, over_s=600.0), Keep(R.AT_REQUESTED)),
        (decided(requested=6, spare=4, policy=ON_DEMAND), Grow(6, R.REQUESTED)),
        # A job of its queue with a higher priority waits: to the least, unless a user asked.
        (decided(6, outranked=1, waiting=1, over_s=60.0), Shrink(2, R.OUTRANKED)),
        (decided(6, outranked=1, waiting=1, over_s=59.0), Keep(R.NOT_FOR_LONG)),
        (decided(6, outranked=1, excess=1, waiting=1, over_s=60.0), Shrink(2, R.OUTRANKED)),
        (decided(2, outranked=1, waiting=1, over_s=600.0), Keep(R.AT_LEAST)),
        (decided(6, requested=6, outranked=1, over_s=600.0), Keep(R.AT_REQUESTED)),
        (decided(6, requested=6, firm=False, outranked=1, over_s=60.0), Shrink(2, R.OUTRANKED)),
        (decided(4, requested=6, firm=False, outranked=1, spare=2), Keep(R.NOT_FOR_LONG)),
        (decided(6, requested=3, firm=False, outranked=1), Shrink(3, R.REQUESTED)),
        (decided(2, requested=6, firm=False, spare=4), Grow(6, R.REQUESTED)),
    ],
)  # fmt: skip
def test_one_look(found: SizeDecision, expected: SizeDecision) -> None:
    assert found == expected


SIZES = st.integers(2, 8)


@given(
    tasks=SIZES,
    requested=st.none() | st.integers(-3, 20),
    since_s=st.floats(0, 1e4),
    over_since_s=st.none() | st.floats(0, 1e4),
    spare=st.integers(0, 30),
    excess=st.integers(0, 30),
    waiting=st.integers(0, 3),
    grow=st.booleans(),
    outranked=st.integers(0, 2),
    firm=st.booleans(),
)
def test_never_outside_of_the_range_never_beyond_the_room(
    tasks: int, requested: int | None, since_s: float, over_since_s: float | None,
    spare: int, excess: int, waiting: int, grow: bool, outranked: int, firm: bool,
) -> None:  # fmt: skip
    facts = SizeFacts(tasks, since_s, requested, over_since_s, firm)
    seen = ClusterProbe(spare, excess, waiting, outranked)
    found = decide_size(facts, seen, replace(POLICY, rules=replace(RULES, grow=grow)), 1e4)
    if isinstance(found, Grow):
        assert tasks < found.to <= min(8, tasks + spare)
        assert requested is not None or (grow and not waiting and not excess)
    elif isinstance(found, Shrink):
        assert 2 <= found.to < tasks
        assert requested is not None or excess or outranked


@given(st.floats(0, 1, exclude_max=True))
def test_looks_are_bounded_and_not_in_step(u: float) -> None:
    assert 45.0 <= next_probe_s(POLICY, u) <= 60.0


@pytest.mark.parametrize(
    ("waiters", "count"),
    [
        ((WaitingJob("root.a", 4, 5), WaitingJob("root.a", 4, 3)), 1),
        ((WaitingJob("root.a", 4, 3),), 0),
        ((WaitingJob("root.b", 4, 9),), 0),  # priorities are a matter of one queue
        ((WaitingJob("root.a", 4),), 0),  # YARN does not know them
    ],
)
def test_who_outranks_it(waiters: tuple[WaitingJob, ...], count: int) -> None:
    assert outranking("root.a", 3, waiters) == count


QUEUE = QueueView("root.a", used=Resources(0, 0, 16), fair_share=Resources(0, 0, 8))
TASK = Resources(1024, 1, 2)
OTHER = (WaitingJob("root.b", 4),)


@pytest.mark.parametrize(
    ("queue", "waiters", "tasks", "excess"),
    [
        (QUEUE, OTHER, 8, 4),  # it has all of the queue's
        (QUEUE, OTHER, 4, 2),  # half of it: another job gives back the other half
        (QUEUE, (), 8, 0),
        (QUEUE, (WaitingJob("root.a", 4),), 8, 0),  # the same queue has the same share
        (replace(QUEUE, fair_share=None), OTHER, 8, 0),
        (replace(QUEUE, fair_share=Resources()), OTHER, 8, 0),
        (replace(QUEUE, used=Resources(0, 0, 8)), OTHER, 4, 0),
        (replace(QUEUE, used=Resources(0, 0, 2)), OTHER, 4, 0),
    ],
)
def test_its_part_of_what_the_queue_is_over(
    queue: QueueView, waiters: tuple[WaitingJob, ...], tasks: int, excess: int
) -> None:
    assert excess_tasks(queue, waiters, tasks, TASK) == excess

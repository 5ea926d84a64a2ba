"""Fair shares by hand-worked cases; the real ResourceManager's are compared in the integration
tests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.queues.files import allocations
from yarnam.core.model.resources import Resources
from yarnam.core.queues.fair_share import (
    Schedulable,
    am_limit,
    divide,
    instantaneous_shares,
    starved_of,
    steady_shares,
)

CLUSTER = Resources(1024_000, 256, 64)
NO_LIMIT = 2**63 - 1


@pytest.mark.parametrize(
    ("queues", "shares"),
    [
        ([Schedulable(1, 0, NO_LIMIT), Schedulable(3, 0, NO_LIMIT)], [16, 48]),
        ([Schedulable(1, 40, NO_LIMIT), Schedulable(3, 0, NO_LIMIT)], [40, 24]),
        ([Schedulable(1, 0, 8), Schedulable(1, 0, NO_LIMIT)], [8, 56]),
        ([Schedulable(1, 0, 8), Schedulable(1, 0, 8)], [8, 8]),
        ([Schedulable(1, 0, NO_LIMIT, is_active=False), Schedulable(1, 0, NO_LIMIT)], [0, 64]),
        ([Schedulable(0, 10, NO_LIMIT), Schedulable(1, 0, NO_LIMIT)], [10, 54]),
        ([Schedulable(0, 0, NO_LIMIT), Schedulable(0, 0, NO_LIMIT)], [0, 0]),
        ([Schedulable(1, 50, NO_LIMIT), Schedulable(1, 50, NO_LIMIT)], [50, 50]),
        ([], []),
    ],
)
def test_weights_minimum_and_maximum(queues: list[Schedulable], shares: list[int]) -> None:
    assert divide(64, queues) == shares


@given(
    st.integers(0, 10_000),
    st.lists(
        st.builds(
            lambda weight, low, more, active: Schedulable(weight, low, low + more, active),
            # 25 halvings, YARN's number, do not find a ratio for weights that differ by 2^1000.
            st.just(0.0) | st.floats(0.01, 100),
            st.integers(0, 500),
            st.integers(0, 2000),
            st.booleans(),
        ),
        max_size=12,
    ),
)
def test_shares_keep_their_bounds(total: int, queues: list[Schedulable]) -> None:
    shares = divide(total, queues)
    for queue, share in zip(queues, shares, strict=True):
        assert 0 <= share <= max(queue.maximum, 0)
        if queue.is_active and queue.maximum > 0:
            assert share >= queue.minimum
    flexible = [c for c in queues if c.is_active and c.weight > 0 and c.maximum > 0]
    if flexible and sum(c.minimum for c in queues if c.is_active) <= total:
        assert sum(shares) <= total + len(queues)


def test_a_tree_divides_what_its_parents_have() -> None:
    root = allocations(
        """<defaultQueueSchedulingPolicy>drf</defaultQueueSchedulingPolicy>
        <queue name="a"><weight>3</weight><queue name="x"/><queue name="y"/></queue>
        <queue name="b"/>"""
    ).root
    steady = steady_shares(root, CLUSTER)
    assert steady["root.a"] == Resources(768_000, 192, 48)
    assert steady["root.a.x"].gpus == steady["root.a.y"].gpus == 24
    now = instantaneous_shares(root, CLUSTER, {"root.a.x"})
    assert now["root.a.x"] == CLUSTER
    assert now["root.b"] == now["root.a.y"] == Resources()


def test_the_policy_fair_divides_memory_only() -> None:
    root = allocations('<queue name="a"/><queue name="b"/>').root
    assert steady_shares(root, CLUSTER)["root.a"] == Resources(512_000, 0, 0)


def test_the_old_notation_leaves_no_gpu() -> None:
    root = allocations(
        """<defaultQueueSchedulingPolicy>drf</defaultQueueSchedulingPolicy>
        <queue name="a"><maxResources>512000 mb, 128 vcores</maxResources></queue>
        <queue name="b"/>"""
    ).root
    shares = steady_shares(root, CLUSTER)
    assert (shares["root.a"].gpus, shares["root.b"].gpus) == (0, 64)


def test_the_am_limit_is_rounded_up_and_has_no_zero_share() -> None:
    share, most, free = Resources(1000, 10, 0), Resources(9000, 90, 9), Resources(500, 5, 5)
    # Java's float of 0.1 is a little more than 0.1.
    assert am_limit(share, most, free, 0.1) == Resources(101, 2, 1)
    assert am_limit(Resources(), most, free, 0.5) == Resources(250, 3, 3)


def test_starvation_is_bounded_by_the_demand() -> None:
    guaranteed = Resources(100, 10, 8)
    assert starved_of(guaranteed, Resources(500, 5, 4), Resources(100, 1, 1)) == Resources(0, 4, 3)

"""Fewest nodes, best fit; Kueue's worked examples."""

from __future__ import annotations

import pytest

from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.resources import Resources
from yarnam.core.placement.gang_shape import Group, Shape
from yarnam.core.placement.packing.bin_packing import NO_RULES, PackRules, pack
from yarnam.core.placement.packing.capacity_index import CapacityIndex
from yarnam.core.placement.packing.node_capacity import NodeCapacity, count_in, index_for_am


def nodes_of(*gpus: int) -> list[NodeCapacity]:
    return [
        NodeCapacity(NodeId(f"n{i}"), RackId("/r"), 1024 * free, free, free)
        for i, free in enumerate(gpus)
    ]


def tasks(count: int, gpus: int = 1) -> Shape:
    return (Group("worker", count, Resources(1024 * gpus, gpus, gpus), 1),)


def counts(
    where: list[NodeCapacity], shape: Shape, rules: PackRules = NO_RULES
) -> list[int] | None:
    """How many tasks each room got, in the order of the rooms."""
    packing = pack(where, shape, rules)
    if packing is None:
        return None
    placed = [node for group in packing.groups for node in group]
    return [placed.count(room.node) for room in where]


@pytest.mark.parametrize(
    ("free", "shape", "expected"),
    [
        # schedulers.md 2, Kueue TAS BestFit: 7 pods on (3,3,2,1) give 3+3+1.
        ((3, 3, 2, 1), tasks(7), [3, 3, 0, 1]),
        # Slices of 2, 12 pods on (6,5,4,3,2): 6, -, 4, -, 2 pods.
        ((6, 5, 4, 3, 2), tasks(6, 2), [3, 0, 2, 0, 1]),
        # Fill used nodes first, keep whole nodes whole.
        ((8, 4), tasks(4), [0, 4]),
        ((8, 8, 6, 6), tasks(12), [0, 0, 6, 6]),
        ((8, 8, 6, 6), tasks(14), [8, 0, 6, 0]),
        ((8, 1, 1, 1, 1), tasks(4), [4, 0, 0, 0, 0]),
        ((8, 8), tasks(2, 8), [1, 1]),
        ((4, 4), tasks(9), None),
        ((3, 3), tasks(3, 2), None),
        ((), tasks(1), None),
    ],
)
def test_best_fit(free: tuple[int, ...], shape: Shape, expected: list[int] | None) -> None:
    assert counts(nodes_of(*free), shape) == expected


def test_least_free_capacity_uses_up_the_smallest_first() -> None:
    """schedulers.md 2, Kueue TAS LeastFree: 7 pods on (3,3,2,1) ascending give 1+2+3+1 (of 3)."""
    assert counts(nodes_of(3, 3, 2, 1), tasks(7), PackRules(is_loose=True)) == [3, 1, 2, 1]


def test_spread_uses_every_node_once_and_the_fullest_first() -> None:
    rules = PackRules(one_task_per_node=True)
    assert counts(nodes_of(8, 2, 4), tasks(2), rules) == [0, 1, 1]
    assert counts(nodes_of(8, 8), tasks(3), rules) is None


def test_a_node_limit_refuses_what_needs_more() -> None:
    assert counts(nodes_of(4, 4, 4), tasks(12), PackRules(node_limit=2)) is None
    assert counts(nodes_of(4, 4, 4), tasks(8), PackRules(node_limit=2)) == [4, 4, 0]


def test_the_biggest_request_goes_first() -> None:
    """Volcano issue 1297: 30 and 50 on 53 and 31 has a solution that a greedy order misses."""
    two = (
        Group("small", 1, Resources(0, 30, 0), 1),
        Group("large", 1, Resources(0, 50, 0), 1),
    )
    where = [
        NodeCapacity(NodeId("n0"), RackId("/r"), 0, 53, 0),
        NodeCapacity(NodeId("n1"), RackId("/r"), 0, 31, 0),
    ]
    packing = pack(where, two)
    assert packing is not None
    assert packing.groups == (("n1",), ("n0",))


def test_roles_share_nodes_where_they_fit() -> None:
    shape = (*tasks(2, 4), Group("ps", 1, Resources(1024, 1, 0), 1))
    where = [room._replace(memory_mib=16384, vcores=16) for room in nodes_of(8, 8)]
    packing = pack(where, shape)
    assert packing is not None
    assert packing.nodes == ("n0",)


def test_every_resource_counts() -> None:
    room = NodeCapacity(NodeId("n"), RackId("/r"), 4096, 3, 8)
    assert count_in(room, Resources(1024, 1, 1)) == 3
    assert count_in(room, Resources(2048, 1, 1)) == 2
    assert count_in(room, Resources(0, 0, 3)) == 2
    assert count_in(room._replace(gpus=-1), Resources(0, 0, 1)) == 0
    assert CapacityIndex([room, room._replace(gpus=0)]).able_hosts(tasks(1)) == 1


def test_the_am_goes_where_it_costs_least() -> None:
    am = Resources(1024, 1, 0)
    roomy = [room._replace(memory_mib=99999, vcores=99) for room in nodes_of(8, 8)]
    tight = nodes_of(8)[0]._replace(node=NodeId("tight"))
    assert index_for_am([tight, *roomy], am, Resources(1024, 1, 1)) == 1
    assert index_for_am(nodes_of(0), am, Resources(1024, 1, 1)) is None


@pytest.mark.parametrize(
    ("free", "count", "expected"),
    [
        # schedulers.md 2, Kueue's *balanced* placement, which is a gate of its own there: 25 on
        # (15),(15) would give 13 and 12, and 22 would go 11 and 11 to [15,15] rather than to
        # [20,10]. It does not apply: a gang's nodes are few and whole, and fewer nodes are worth
        # more than even ones. So pack keeps its rule, the fewest nodes and then the tightest fit:
        ((15, 15), 25, [10, 15]),
        ((20, 10), 22, [12, 10]),
        # "ask 20 gives 20 in the first" holds by that rule as well.
        ((20, 10), 20, [20, 0]),
    ],
)
def test_even_shares_are_not_sought(free: tuple[int, ...], count: int, expected: list[int]) -> None:
    found = counts(nodes_of(*free), tasks(count))
    assert found is not None
    assert sorted(found) == sorted(expected)


def test_a_small_task_does_not_take_the_room_of_a_large_one() -> None:
    """schedulers.md 2, HiveD's known hole: a task of one GPU may take the node with two first."""
    shape = (
        Group("small", 1, Resources(1024, 1, 1), 1),
        Group("large", 1, Resources(2048, 2, 2), 1),
    )
    packing = pack(nodes_of(2, 1), shape)
    assert packing is not None
    assert packing.groups == (("n1",), ("n0",))

"""Whose checkpoints a task has copies of."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from yarnam.core.frameworks.copy_peers import Holder, copy_peers

HOLDERS = st.lists(
    st.integers(0, 11).map(lambda number: Holder(f"/r{number % 3}", f"n{number}")), max_size=30
)


@given(HOLDERS)
def test_a_peer_is_on_another_node_if_there_is_one(holders: list[Holder]) -> None:
    peers = copy_peers(holders)
    assert len(peers) == len(holders)
    if len({holder.node for holder in holders}) < 2:
        assert set(peers) <= {None}
        return
    for holder, peer in zip(holders, peers, strict=True):
        assert peer is not None
        assert holders[peer].node != holder.node


@given(HOLDERS)
def test_nobody_gets_more_than_one_copy_unless_one_node_has_more_than_half(
    holders: list[Holder],
) -> None:
    nodes = Counter(holder.node for holder in holders)
    if not holders or 2 * max(nodes.values()) > len(holders):
        return
    assert max(Counter(copy_peers(holders)).values()) == 1


@given(HOLDERS)
def test_a_peer_is_on_another_rack_if_none_has_more_than_half(holders: list[Holder]) -> None:
    racks = Counter(holder.rack for holder in holders)
    if not holders or 2 * max(racks.values()) > len(holders):
        return
    for holder, peer in zip(holders, copy_peers(holders), strict=True):
        assert peer is not None
        assert holders[peer].rack != holder.rack


def test_a_node_with_more_than_half_sends_to_the_others_in_turn() -> None:
    holders = [Holder("/r", "a")] * 4 + [Holder("/r", "b"), Holder("/r", "c")]
    assert Counter(copy_peers(holders)[:4]) == {4: 2, 5: 2}


def test_a_single_task_has_no_peer() -> None:
    assert copy_peers([]) == ()
    assert copy_peers([Holder("/r", "a")]) == (None,)

"""Whose share of the inputs is whose."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from yarnam.core.model.actions import GangMember
from yarnam.core.model.ids import AskId, NodeId, RackId, TaskId
from yarnam.core.model.plans import Placed
from yarnam.wire.input_shares import all_shares, first_shares, likely_shares


def member(ask: AskId, processes: int = 2) -> GangMember:
    placed = Placed(ask.role, NodeId("n"), RackId("/r"), processes=processes)
    return GangMember(ask, TaskId(ask.role, ask.number), placed)


def workers(*numbers: int, attempt: int = 1) -> list[GangMember]:
    return [member(AskId(attempt, "worker", number)) for number in numbers]


def test_shares_follow_the_asks_not_the_ranks() -> None:
    assert first_shares(workers(2, 0, 1)) == (4, 0, 2)
    assert all_shares(workers(2, 0, 1)) == 6


def test_a_replaced_member_leaves_the_others_shares_alone() -> None:
    before = dict(zip((2, 0, 1), first_shares(workers(2, 0, 1)), strict=True))
    after = dict(zip((2, 0, 7), first_shares(workers(2, 0, 7)), strict=True))
    assert (after[2], after[0]) == (before[2], before[0])
    assert after[7] == before[1]


def test_kept_members_come_before_new_ones_of_the_same_number() -> None:
    members = [*workers(0, attempt=3), *workers(0, 2)]
    assert first_shares(members) == (2, 0, 4)


def test_who_does_not_train_has_no_share() -> None:
    members = [*workers(0, 1), member(AskId(1, "ps", 2), 1), member(AskId(1, "evaluator", 3), 1)]
    assert first_shares(members) == (0, 2, None, None)
    assert all_shares(members) == 4


def test_an_agent_knows_its_likely_shares_from_its_ask() -> None:
    spec = [("worker", 6)]
    assert likely_shares(spec, "worker", 1, 2) == (range(2, 4), 6)
    # The planner chose two tasks of three processes instead.
    assert likely_shares(spec, "worker", 1, 3) == (range(3, 6), 6)
    assert likely_shares(spec, "worker", 7, 2) is None
    assert likely_shares([("worker", 6), ("chief", 1)], "worker", 1, 2) is None
    assert likely_shares([("worker", 6), ("ps", 2)], "worker", 1, 2) == (range(2, 4), 6)
    assert likely_shares([("ps", 2), ("worker", 6)], "worker", 1, 2) is None


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(0, 9), st.integers(1, 4)),
        unique_by=lambda ask: ask[:2],
        max_size=8,
    )
)
def test_every_share_is_somebodys_and_nobody_elses(asks: list[tuple[int, int, int]]) -> None:
    members = [member(AskId(a, "worker", n), p) for a, n, p in asks]
    taken = [
        share
        for first, one in zip(first_shares(members), members, strict=True)
        if first is not None
        for share in range(first, first + one.placed.processes)
    ]
    assert sorted(taken) == list(range(all_shares(members)))


def test_what_an_agent_expects_is_what_it_gets_when_nobody_is_replaced() -> None:
    spec = [("worker", 8)]
    members = workers(3, 1, 0, 2)
    for first, one in zip(first_shares(members), members, strict=True):
        expected = likely_shares(spec, "worker", one.ask.number, one.placed.processes)
        assert expected is not None
        assert expected[0].start == first

"""How the bytes that are read of other users' histories are shared out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from yarnam.core.accounting.history_budget import fair_shares

SIZES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 1000))


def test_who_has_little_gets_all_of_it_and_the_others_equal_shares() -> None:
    assert fair_shares({"a": 10, "b": 1000, "c": 300}, 210) == {"a": 10, "b": 100, "c": 100}
    assert fair_shares({"a": 10, "b": 1000}, 5000) == {"a": 10, "b": 1000}
    assert fair_shares({}, 10) == {}


@given(SIZES, st.integers(0, 3000))
def test_nothing_is_left_over_that_somebody_could_use(sizes: dict[str, int], most: int) -> None:
    shares = fair_shares(sizes, most)
    assert shares.keys() == sizes.keys()
    assert all(0 <= shares[user] <= sizes[user] for user in sizes)
    assert most - len(sizes) < sum(shares.values()) <= most or shares == sizes


@given(SIZES, st.integers(0, 3000), st.integers(0, 10**6))
def test_a_flood_takes_nothing_from_who_has_less(
    sizes: dict[str, int], most: int, flood: int
) -> None:
    before = fair_shares({**sizes, "eve": max(sizes.values(), default=0)}, most)
    after = fair_shares({**sizes, "eve": max(sizes.values(), default=0) + flood}, most)
    assert all(after[user] >= before[user] - 1 for user in sizes), "but for the rounding"

"""The merge is a join: any order, any grouping, any number of times. States follow from claims."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from hdfs_utils.blacklist import (
    Blacklist,
    State,
    decode,
    encode,
    gather_entries,
    merge_blacklists,
    state_of,
)
from hdfs_utils.blacklist.claim_merge import state_in_open_directory
from tests.unit.hdfs_utils.blacklist.makers import blacklists, claim, entries, entry


@given(blacklists, blacklists)
def test_commutative(a: Blacklist, b: Blacklist) -> None:
    assert merge_blacklists(a, b) == merge_blacklists(b, a)


@given(blacklists, blacklists, blacklists)
def test_associative(a: Blacklist, b: Blacklist, c: Blacklist) -> None:
    assert (
        merge_blacklists(merge_blacklists(a, b), c)
        == merge_blacklists(a, merge_blacklists(b, c))
        == merge_blacklists(a, b, c)
    )


@given(blacklists, blacklists)
def test_idempotent(a: Blacklist, b: Blacklist) -> None:
    assert merge_blacklists(a, a) == a == merge_blacklists(a, Blacklist())
    assert merge_blacklists(merge_blacklists(a, b), b) == merge_blacklists(a, b)


@given(st.lists(entries, max_size=8), st.integers())
def test_pieces_in_any_order_make_the_same(pieces: list, seed: int) -> None:  # type: ignore[type-arg]
    shuffled = random.Random(seed).sample(pieces, len(pieces))
    halves = merge_blacklists(gather_entries(shuffled[::2]), gather_entries(shuffled[1::2]))
    assert halves == gather_entries(pieces)


@given(blacklists)
def test_written_and_read_is_the_same(a: Blacklist) -> None:
    assert gather_entries(decode(encode(a.entries.values()))) == a
    assert encode(a.entries.values()) == encode(reversed(list(a.entries.values())))


@given(blacklists, blacklists)
def test_no_claim_is_lost(a: Blacklist, b: Blacklist) -> None:
    both = merge_blacklists(a, b)
    for one in (a, b):
        for key, found in one.entries.items():
            for c in found.claims:
                kept = [
                    k
                    for k in both.entries[key].claims
                    if (k.state, k.by, k.job) == (c.state, c.by, c.job)
                ]
                assert len(kept) == 1
                assert kept[0].first_s <= c.first_s
                assert kept[0].last_s >= c.last_s


def test_first_and_last_time_and_the_last_words() -> None:
    old, new = claim(at_s=10, reason="truncated"), claim(at_s=20, reason="bad-crc")
    (found,) = gather_entries([entry("/a", old), entry("/a", new)]).entries.values()
    (one,) = found.claims
    assert (one.first_s, one.last_s, one.reason) == (10, 20, "bad-crc")


def test_states() -> None:
    suspected = claim(State.SUSPECTED, at_s=10)
    proved = claim(State.PROVED, at_s=20)
    cleared = claim(State.CLEARED, at_s=30)
    assert state_of([suspected], 50) is State.SUSPECTED
    assert state_of([suspected, proved], 50) is State.PROVED
    assert state_of([suspected, proved, cleared], 50) is State.CLEARED
    assert state_of([proved, cleared, claim(State.SUSPECTED, at_s=40)], 50) is State.SUSPECTED
    assert state_of([], 50) is State.CLEARED
    assert state_of([claim(State.PROVED, at_s=20, expires_s=49)], 50) is State.CLEARED
    assert state_of([claim(State.PROVED, at_s=20, expires_s=51)], 50) is State.PROVED


def test_in_the_open_nothing_is_proved_and_nobody_clears_for_others() -> None:
    mine, yours = claim(by="me", at_s=10), claim(by="you", at_s=10)
    i_clear = claim(State.CLEARED, by="me", at_s=20)
    assert state_in_open_directory([mine], 50) is State.SUSPECTED
    assert state_in_open_directory([mine, i_clear], 50) is State.CLEARED
    assert state_in_open_directory([mine, yours, i_clear], 50) is State.SUSPECTED

"""From files and entries to what is read: deterministic, counted, never silent."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdfs_utils.blacklist import Blacklist, CorruptPolicy, KnownEntries, OnCorrupt, State, decide
from tests.unit.hdfs_utils.blacklist.makers import blacklist, claim, entry, status

FAIL, SKIP, QUARANTINE = OnCorrupt.FAIL, OnCorrupt.SKIP, OnCorrupt.QUARANTINE
NOW_S = 5000.0
FILES = [status(f"/d/{n:04}") for n in range(2000)]


def paths(decision) -> list[str]:  # type: ignore[no-untyped-def]
    return [f.path for f in decision.kept]


def test_nothing_known_keeps_all_and_says_nothing() -> None:
    decision = decide(FILES, KnownEntries(), CorruptPolicy(), NOW_S)
    assert len(decision.kept) == 2000
    assert (decision.share, decision.refusal, decision.warnings) == (0.0, "", ())


def test_fail_refuses_with_the_list() -> None:
    known = KnownEntries(blacklist(entry("/d/0003"), entry("/d/0007", claim(reason="truncated"))))
    decision = decide(FILES, known, CorruptPolicy(FAIL), NOW_S)
    assert "2 files are known to be corrupt" in decision.refusal
    assert "/d/0003 (bad-crc: seen); /d/0007 (truncated: seen)" in decision.refusal


def test_skip_leaves_out_counts_and_says_so() -> None:
    known = KnownEntries(blacklist(entry("/d/0003")))
    decision = decide(FILES, known, CorruptPolicy(SKIP), NOW_S)
    assert decision.refusal == ""
    assert decision.share == 1 / 2000
    assert [s.path for s in decision.excluded] == ["/d/0003"]
    assert "/d/0003" not in paths(decision)
    assert len(decision.kept) == 1999
    assert "1 file is excluded, 0.050% of the input: /d/0003" in decision.warnings[0]


def test_too_much_to_skip_refuses() -> None:
    known = KnownEntries(blacklist(*(entry(f"/d/{n:04}") for n in range(3))))
    decision = decide(FILES, known, CorruptPolicy(SKIP, max_skipped=0.001), NOW_S)
    assert "0.150% of the input would be excluded, more than max_skipped 0.100%" in decision.refusal
    assert decide(FILES, known, CorruptPolicy(SKIP, max_skipped=0.0015), NOW_S).refusal == ""


def test_the_share_is_that_of_the_bytes_where_that_is_more() -> None:
    files = [status("/d/big", length=9000), *(status(f"/d/{n}", length=1) for n in range(1000))]
    decision = decide(
        files, KnownEntries(blacklist(entry("/d/big", length=9000))), CorruptPolicy(SKIP), 1
    )
    assert decision.share == 0.9
    assert decision.refusal


def test_nothing_left_refuses_whatever_the_limit() -> None:
    known = KnownEntries(blacklist(entry("/d/0000")))
    decision = decide(FILES[:1], known, CorruptPolicy(SKIP, max_skipped=1.0), NOW_S)
    assert "no file remains" in decision.refusal


@pytest.mark.parametrize(
    "rewritten",
    [status("/d/a", length=101), status("/d/a", mtime_ms=6), status("/d/a", 1, 1)],
)
def test_a_rewritten_file_is_clean_by_itself(rewritten) -> None:  # type: ignore[no-untyped-def]
    known = KnownEntries(blacklist(entry("/d/a")))
    assert decide([status("/d/a")], known, CorruptPolicy(FAIL), NOW_S).refusal
    assert decide([rewritten], known, CorruptPolicy(FAIL), NOW_S).refusal == ""


def test_a_suspicion_refuses_nobody_but_is_left_out_by_who_skips() -> None:
    known = KnownEntries(blacklist(entry("/d/0003", claim(State.SUSPECTED))))
    failing = decide(FILES, known, CorruptPolicy(FAIL), NOW_S)
    assert (failing.refusal, len(failing.kept)) == ("", 2000)
    assert "/d/0003 is suspected to be corrupt: bad-crc" in failing.warnings[0]
    skipping = decide(FILES, known, CorruptPolicy(SKIP), NOW_S)
    assert len(skipping.kept) == 1999


def test_who_cannot_write_there_only_warns_whatever_is_claimed() -> None:
    for state in (State.SUSPECTED, State.PROVED):
        known = KnownEntries(open=blacklist(entry("/d/0003", claim(state, by="mallory"))))
        for policy in (FAIL, SKIP, QUARANTINE):
            decision = decide(FILES, known, CorruptPolicy(policy), NOW_S)
            assert (decision.refusal, decision.excluded) == ("", ())
            assert len(decision.kept) == 2000
            assert "by mallory, who may not write there" in decision.warnings[0]


def test_only_what_is_proved_goes_to_quarantine() -> None:
    known = KnownEntries(blacklist(entry("/d/0003"), entry("/d/0004", claim(State.SUSPECTED))))
    decision = decide(FILES, known, CorruptPolicy(QUARANTINE, 0.01), NOW_S)
    assert decision.to_quarantine == ("/d/0003",)
    assert len(decision.kept) == 1998


def test_cleared_and_expired_entries_do_nothing() -> None:
    known = KnownEntries(
        blacklist(
            entry("/d/0001", claim(), claim(State.CLEARED, at_s=2000)),
            entry("/d/0002", claim(expires_s=4999)),
        )
    )
    assert decide(FILES, known, CorruptPolicy(FAIL), NOW_S).refusal == ""


@given(
    st.sets(st.integers(0, 49), max_size=10),
    st.sampled_from(OnCorrupt),
    st.floats(0, 1),
    st.integers(),
)
def test_the_same_for_all_ranks_whatever_the_order(
    bad: set[int], policy: OnCorrupt, limit: float, seed: int
) -> None:
    files = FILES[:50]
    known = KnownEntries(blacklist(*(entry(f"/d/{n:04}") for n in bad)), Blacklist())
    chosen = CorruptPolicy(policy, limit)
    one = decide(files, known, chosen, NOW_S)
    rng = random.Random(seed)
    other = decide(rng.sample(files, len(files)), known, chosen, NOW_S)
    assert one == other
    assert sorted([*paths(one), *(s.path for s in one.excluded)]) == [f.path for f in files]
    assert bool(one.refusal) == bool(
        bad and (policy is FAIL or one.share > limit or len(bad) == len(files))
    )
    # Never silent: whoever reads less than all is told, or refused.
    assert bool(one.excluded) == bool(one.refusal or one.warnings)

"""Which nodes look at a suspected file, and what follows from what they see."""

from __future__ import annotations

import pytest

from hdfs_utils.validation.check_in_subprocess import CheckOutcome
from yarnam.core.inputs.suspicions import (
    ANSWER_MARGIN_S,
    CHECK_LIMIT_S,
    MAX_CHECKS,
    MAX_SUSPICIONS,
    Decision,
    Suspect,
    Suspicion,
    Suspicions,
    named_inputs,
)

PATH = "/data/set/a.tfrecord"
CORRUPT = CheckOutcome(
    "corrupt", "bad-crc", "the checksum does not fit (record 3)", "tfrecord", True, 9
)
CLEAN = CheckOutcome("clean", format="tfrecord", is_covered=True, length=9)
BARE = CheckOutcome("clean", format="jsonl", is_covered=False, length=9)
STORAGE = CheckOutcome("storage", "block-corrupt", "HDFS has no good replica", "tfrecord", True, 9)
UNABLE = CheckOutcome("not checked", "needs-library", "needs pyarrow")
GONE = CheckOutcome("gone", message="there is no such file any more")


def played(
    outcomes: dict[str, CheckOutcome], nodes: list[str], suspect_node: str = "n1"
) -> tuple[Suspicion, list[str]]:
    """All nodes ask for work until nobody gets any. Returns the suspicion and who checked."""
    book = Suspicions()
    assert book.add(Suspect(PATH, "ValueError: bad", suspect_node))
    order_of_looks: list[str] = []
    for _ in range(10):
        for node in nodes:
            order = book.next_order(node, nodes, 0.0)
            if order is not None:
                order_of_looks.append(node)
                book.done(order.number, outcomes[node])
        book.settle(nodes, 0.0)
    return book.suspicions[PATH], order_of_looks


def decision(outcomes: dict[str, CheckOutcome], nodes: list[str] | None = None) -> Decision:
    suspicion, _ = played(outcomes, nodes or sorted(outcomes))
    assert suspicion.conclusion is not None
    return suspicion.conclusion.decision


def test_another_node_looks_first_then_the_one_that_complained() -> None:
    nodes = ["am", "n1", "n2"]
    suspicion, looked = played(dict.fromkeys(nodes, CORRUPT), nodes)
    assert sorted(looked) == ["am", "n1"]
    assert suspicion.conclusion is not None
    assert suspicion.conclusion.decision is Decision.PROVED
    assert suspicion.conclusion.reason == "bad-crc"
    assert "seen on am and n1" in suspicion.conclusion.evidence


def test_with_one_node_its_word_is_enough() -> None:
    assert decision({"n1": CORRUPT}) is Decision.PROVED
    assert decision({"n1": CLEAN}) is Decision.CLEARED


def test_a_node_that_reads_wrongly_accuses_nobody() -> None:
    for outcomes in ({"am": CLEAN, "n1": CORRUPT}, {"am": CORRUPT, "n1": CLEAN}):
        suspicion, _ = played(outcomes, ["am", "n1"])
        assert suspicion.conclusion is not None
        assert suspicion.conclusion.decision is Decision.SUSPECTED
        assert suspicion.conclusion.reason == "read-differently"
        assert "check that node" in suspicion.conclusion.evidence


def test_what_the_storage_has_lost_is_no_bad_data() -> None:
    assert decision({"am": STORAGE, "n1": STORAGE}) is Decision.STORAGE
    assert decision({"am": CLEAN, "n1": STORAGE}) is Decision.STORAGE


def test_what_nobody_can_read_has_not_been_seen_to_be_wrong() -> None:
    unread = CheckOutcome("not checked", "unreadable", "All DataNodes failed" * 100)
    suspicion, looked = played({"am": unread, "n1": unread}, ["am", "n1"])
    assert sorted(looked) == ["am", "n1"]
    assert suspicion.conclusion is not None
    assert suspicion.conclusion.decision is Decision.STORAGE
    assert len(suspicion.conclusion.evidence) < 600
    assert decision({"am": unread, "n1": CORRUPT}) is Decision.PROVED


def test_clean_means_cleared_only_where_checksums_cover_all() -> None:
    assert decision({"am": CLEAN, "n1": CLEAN}) is Decision.CLEARED
    suspicion, _ = played({"am": BARE, "n1": BARE}, ["am", "n1"])
    assert suspicion.conclusion is not None
    assert suspicion.conclusion.decision is Decision.SUSPECTED
    assert "no checksums that cover it all" in suspicion.conclusion.evidence
    assert "ValueError: bad" in suspicion.conclusion.evidence


def test_a_node_without_the_library_gives_way_to_another() -> None:
    outcomes = {"am": UNABLE, "n1": CORRUPT, "n2": CORRUPT}
    suspicion, looked = played(outcomes, ["am", "n1", "n2"])
    assert suspicion.conclusion is not None
    assert suspicion.conclusion.decision is Decision.PROVED
    assert sorted(looked) == ["am", "n1", "n2"]
    suspicion, looked = played({f"n{i}": UNABLE for i in range(9)}, [f"n{i}" for i in range(9)])
    assert len(looked) == MAX_CHECKS
    assert suspicion.conclusion is not None
    assert suspicion.conclusion.decision is Decision.SUSPECTED
    assert "needs pyarrow" in suspicion.conclusion.evidence


def test_a_file_that_went_away_or_was_written_again_is_another_file() -> None:
    assert decision({"am": GONE, "n1": CORRUPT}) is Decision.GONE
    other = CheckOutcome("clean", format="tfrecord", is_covered=True, length=10)
    assert decision({"am": CORRUPT, "n1": other}) is Decision.GONE


def test_nobody_to_look_leaves_the_suspicion() -> None:
    book = Suspicions()
    book.add(Suspect(PATH, "bad", "n1"))
    (suspicion,) = book.settle([], 0.0)
    assert suspicion.conclusion is not None
    assert suspicion.conclusion.decision is Decision.SUSPECTED
    assert "no node could check it" in suspicion.conclusion.evidence


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_look_that_does_not_end_is_given_up(is_gone: bool) -> None:
    book = Suspicions()
    book.add(Suspect(PATH, "bad", "n1"))
    late = book.next_order("am", ["am", "n1"], 0.0)
    assert late is not None
    assert book.next_order("am", ["am", "n1"], 0.0) is None  # one look at a time
    nodes = ["n1"] if is_gone else ["am", "n1"]
    assert book.settle(["am", "n1"], CHECK_LIMIT_S) == []
    at_s = 1.0 if is_gone else CHECK_LIMIT_S + ANSWER_MARGIN_S + 1
    assert book.settle(nodes, at_s) == []
    order = book.next_order("n1", nodes, at_s)
    assert order is not None
    book.done(order.number, CORRUPT)
    book.done(late.number, CLEAN)  # too late: nobody waits for it
    (suspicion,) = book.settle(nodes, at_s)
    assert suspicion.conclusion is not None
    assert suspicion.conclusion.decision is Decision.PROVED


def test_the_same_file_is_one_case_and_their_number_is_bounded() -> None:
    book = Suspicions()
    assert book.add(Suspect(PATH, "bad", "n1", times=2, first=4, last=9))
    assert not book.add(Suspect(PATH, "bad again", "n2", times=1, first=1, last=1))
    said = book.suspicions[PATH].suspect
    assert (said.times, said.first, said.last, said.node) == (3, 1, 9, "n1")
    added = [book.add(Suspect(f"/data/{n}", "bad", "n1")) for n in range(MAX_SUSPICIONS + 5)]
    assert (added.count(True), len(book.suspicions)) == (MAX_SUSPICIONS - 1, MAX_SUSPICIONS)


ROOTS = {"hdfs://nn:8020/data/set": "/data/set", "/data/set": "/data/set", "/d": "/d"}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("OSError: cannot read hdfs://nn:8020/data/set/1/a.npy: truncated", ("/data/set/1/a.npy",)),
        ("  File '/data/set/b.tfrecord'", ("/data/set/b.tfrecord",)),
        ('DataLossError: corrupted record at 12 in "/data/set/c d"', ("/data/set/c",)),
        ("/data/set/a.npy and (/data/set/b.npy).", ("/data/set/a.npy", "/data/set/b.npy")),
        ("/data/set/a.npy, again /data/set/a.npy", ("/data/set/a.npy",)),
        ("/data/settings/x", ()),
        ("/mnt/data/set/x", ()),
        ("/data/set/", ()),
        ("nothing at all", ()),
    ],
)
def test_last_words_that_name_an_input(line: str, found: tuple[str, ...]) -> None:
    assert named_inputs([line], ROOTS) == found

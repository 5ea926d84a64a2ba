"""Which nodes look at a suspected file, and what follows from what they see."""

from __future__ import annotations

import pytest

from hdfs_utils.validation.check_in_subprocess import CheckOutcome
from yarnam.core.inputs.suspicions import (
    ANSWER_MARGIN_S,
    CHECK_LIMIT_S,
    MAX_CASES,
    MAX_CHECKS,
    Case,
    Ruling,
    Suspect,
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
) -> tuple[Case, list[str]]:
    """All nodes ask for work until nobody gets any; the case, and who looked in which order."""
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
    return book.cases[PATH], order_of_looks


def ruling(outcomes: dict[str, CheckOutcome], nodes: list[str] | None = None) -> Ruling:
    case, _ = played(outcomes, nodes or sorted(outcomes))
    assert case.ruled is not None
    return case.ruled.ruling


def test_another_node_looks_first_then_the_one_that_complained() -> None:
    nodes = ["am", "n1", "n2"]
    case, looked = played(dict.fromkeys(nodes, CORRUPT), nodes)
    assert sorted(looked) == ["am", "n1"]
    assert case.ruled is not None
    assert case.ruled.ruling is Ruling.PROVED
    assert case.ruled.reason == "bad-crc"
    assert "seen on am and n1" in case.ruled.evidence


def test_with_one_node_its_word_is_enough() -> None:
    assert ruling({"n1": CORRUPT}) is Ruling.PROVED
    assert ruling({"n1": CLEAN}) is Ruling.CLEARED


def test_a_node_that_reads_wrongly_accuses_nobody() -> None:
    for outcomes in ({"am": CLEAN, "n1": CORRUPT}, {"am": CORRUPT, "n1": CLEAN}):
        case, _ = played(outcomes, ["am", "n1"])
        assert case.ruled is not None
        assert case.ruled.ruling is Ruling.SUSPECTED
        assert case.ruled.reason == "read-differently"
        assert "check that node" in case.ruled.evidence


def test_what_the_storage_has_lost_is_no_bad_data() -> None:
    assert ruling({"am": STORAGE, "n1": STORAGE}) is Ruling.STORAGE
    assert ruling({"am": CLEAN, "n1": STORAGE}) is Ruling.STORAGE


def test_what_nobody_can_read_has_not_been_seen_to_be_wrong() -> None:
    unread = CheckOutcome("not checked", "unreadable", "All DataNodes failed" * 100)
    case, looked = played({"am": unread, "n1": unread}, ["am", "n1"])
    assert sorted(looked) == ["am", "n1"]
    assert case.ruled is not None
    assert case.ruled.ruling is Ruling.STORAGE
    assert len(case.ruled.evidence) < 600
    assert ruling({"am": unread, "n1": CORRUPT}) is Ruling.PROVED


def test_clean_means_cleared_only_where_checksums_cover_all() -> None:
    assert ruling({"am": CLEAN, "n1": CLEAN}) is Ruling.CLEARED
    case, _ = played({"am": BARE, "n1": BARE}, ["am", "n1"])
    assert case.ruled is not None
    assert case.ruled.ruling is Ruling.SUSPECTED
    assert "no checksums that cover it all" in case.ruled.evidence
    assert "ValueError: bad" in case.ruled.evidence


def test_a_node_without_the_library_gives_way_to_another() -> None:
    outcomes = {"am": UNABLE, "n1": CORRUPT, "n2": CORRUPT}
    case, looked = played(outcomes, ["am", "n1", "n2"])
    assert case.ruled is not None
    assert case.ruled.ruling is Ruling.PROVED
    assert sorted(looked) == ["am", "n1", "n2"]
    case, looked = played({f"n{i}": UNABLE for i in range(9)}, [f"n{i}" for i in range(9)])
    assert len(looked) == MAX_CHECKS
    assert case.ruled is not None
    assert case.ruled.ruling is Ruling.SUSPECTED
    assert "needs pyarrow" in case.ruled.evidence


def test_a_file_that_went_away_or_was_written_again_is_another_file() -> None:
    assert ruling({"am": GONE, "n1": CORRUPT}) is Ruling.GONE
    other = CheckOutcome("clean", format="tfrecord", is_covered=True, length=10)
    assert ruling({"am": CORRUPT, "n1": other}) is Ruling.GONE


def test_nobody_to_look_leaves_the_suspicion() -> None:
    book = Suspicions()
    book.add(Suspect(PATH, "bad", "n1"))
    (case,) = book.settle([], 0.0)
    assert case.ruled is not None
    assert case.ruled.ruling is Ruling.SUSPECTED
    assert "no node could check it" in case.ruled.evidence


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
    (case,) = book.settle(nodes, at_s)
    assert case.ruled is not None
    assert case.ruled.ruling is Ruling.PROVED


def test_the_same_file_is_one_case_and_their_number_is_bounded() -> None:
    book = Suspicions()
    assert book.add(Suspect(PATH, "bad", "n1", times=2, first=4, last=9))
    assert not book.add(Suspect(PATH, "bad again", "n2", times=1, first=1, last=1))
    said = book.cases[PATH].suspect
    assert (said.times, said.first, said.last, said.node) == (3, 1, 9, "n1")
    added = [book.add(Suspect(f"/data/{n}", "bad", "n1")) for n in range(MAX_CASES + 5)]
    assert (added.count(True), len(book.cases)) == (MAX_CASES - 1, MAX_CASES)


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

"""What epochs leave out: decided once, the same for ever, within the job's policy."""

from __future__ import annotations

from hypothesis import given as for_all
from hypothesis import strategies as st

from hdfs_utils.blacklist import KnownEntries, State
from tests.unit.hdfs_utils.blacklist.makers import blacklist, claim, entry, status
from yarnam.am.inputs.input_integrity import book_of, record_of
from yarnam.am.inputs.watched_inputs import judge
from yarnam.core.inputs.epoch_lists import (
    EpochBook,
    Exclusions,
    excluded_files_status,
    is_meant,
    relative,
)
from yarnam.core.model.job_spec import DataInput, OnCorrupt
from yarnam.wire.codec import decode, encode
from yarnam.wire.records import EpochsRecord

ROOT = "/d"
SKIP = DataInput("set", "hdfs:///d", OnCorrupt.SKIP, 0.05, files=100, length=10_000)
NOW_S = 2000.0


def known(**states: State) -> KnownEntries:
    return KnownEntries(
        blacklist(*(entry(f"/d/{name}", claim(state)) for name, state in states.items()))
    )


def judged(given: DataInput, *names: str, **states: State) -> Exclusions:
    return judge(given, ROOT, [status(f"/d/{n}") for n in names], known(**states), NOW_S)


def test_proved_and_suspected_files_are_left_out_within_the_limit() -> None:
    stand = judged(SKIP, "a", "b", "c", a=State.PROVED, b=State.SUSPECTED)
    assert stand.excluded_files == ("a", "b")
    assert (stand.share, stand.still_read, stand.refusal) == (0.02, 0, "")
    assert [s.path for s in stand.proved] == ["/d/a"]


def test_suspicions_alone_never_end_a_job() -> None:
    names = [f"f{n}" for n in range(10)]
    all_suspected = judged(SKIP, *names, **dict.fromkeys(names, State.SUSPECTED))
    assert (all_suspected.excluded_files, all_suspected.refusal) == ((), "")
    assert all_suspected.still_read == 10
    mixed = judged(SKIP, *names, **{**dict.fromkeys(names, State.SUSPECTED), "f0": State.PROVED})
    assert (mixed.excluded_files, mixed.still_read, mixed.refusal) == (("f0",), 9, "")


def test_more_proved_than_allowed_ends_it_with_the_list() -> None:
    names = [f"f{n}" for n in range(6)]
    stand = judged(SKIP, *names, **dict.fromkeys(names, State.PROVED))
    assert "input 'set': 6.000% of the input would be excluded" in stand.refusal
    assert "/d/f0 (bad-crc: seen)" in stand.refusal


def test_fail_goes_on_with_suspicions_and_ends_with_proof() -> None:
    fail = DataInput("set", "hdfs:///d", files=100, length=10_000)
    assert judged(fail, "a", a=State.SUSPECTED).refusal == ""
    assert "1 file is known to be corrupt: /d/a" in judged(fail, "a", a=State.PROVED).refusal


def test_a_file_that_was_written_again_is_read_again() -> None:
    again = judge(SKIP, ROOT, [status("/d/a", mtime_ms=6)], known(a=State.PROVED), NOW_S)
    assert again.excluded_files == ()


def test_an_input_that_was_not_counted_goes_by_what_there_is() -> None:
    uncounted = DataInput("set", "hdfs:///d", OnCorrupt.SKIP, 0.6)
    assert judged(uncounted, "a", "b", a=State.PROVED).excluded_files == ("a",)


def test_names_are_within_the_input() -> None:
    assert relative("/d", "/d/x/y") == "x/y"
    assert relative("/d/only.npy", "/d/only.npy") == "only.npy"
    assert relative("/", "/a") == "a"


def test_a_pattern_says_which_files_are_meant() -> None:
    one = DataInput("set", "u", pattern="2024-*/part-*")
    meant = ["2024-01/part-0", "2024-01/part-1/deeper/x"]
    others = ["2023-01/part-0", "2024-01/_x", "2024-01", "part-0"]
    assert [is_meant(one, name) for name in meant] == [True, True]
    assert [is_meant(one, name) for name in others] == [False] * 4
    assert is_meant(DataInput("set", "u"), "any/thing")


_lists = st.lists(st.sampled_from("abc"), max_size=3, unique=True).map(tuple)


@for_all(st.lists(st.tuples(st.sampled_from(["x", "y"]), st.integers(0, 5), _lists)))
def test_the_first_word_counts_and_survives_the_record(
    words: list[tuple[str, int, tuple[str, ...]]],
) -> None:
    book = EpochBook()
    first: dict[tuple[str, int], tuple[str, ...]] = {}
    for name, epoch, excluded_files in words:
        book.fix(name, epoch, excluded_files)
        first.setdefault((name, epoch), excluded_files)
    read = book_of(decode(encode(record_of(book)), EpochsRecord))
    for (name, epoch), excluded_files in first.items():
        assert book.of(name, epoch) == read.of(name, epoch) == excluded_files
    assert read.given_out == book.given_out


def test_a_copy_that_is_thrown_away_changes_nothing() -> None:
    book = EpochBook()
    book.fix("x", 0, ("a",))
    book.copy().fix("x", 1, ("b",))
    assert book.of("x", 1) is None


def test_the_status_tells_what_this_epoch_and_what_the_next_leaves_out() -> None:
    given = DataInput(
        "set", "u", OnCorrupt.SKIP, 0.05, skipped=("a",), skipped_share=0.01, files=100
    )
    book = EpochBook()
    now = {"set": Exclusions(("a", "b"), 0.02)}
    (told,) = excluded_files_status([given], now, book)
    assert told.words == (
        "1 file is excluded from input set as corrupt, 1.000% of it; 1 more from the next epoch on"
    )
    book.fix("set", 0, ("a",))
    book.fix("set", 1, ("a", "b"))
    (told,) = excluded_files_status([given], now, book)
    assert told.words == (
        "2 files are excluded from input set as corrupt, 2.000% of it, in epoch 1"
    )
    (told,) = excluded_files_status(
        [given], {"set": Exclusions(("a", "b"), 0.02, still_read=3)}, book
    )
    assert told.words.endswith("in epoch 1; 3 suspected and still read")
    assert excluded_files_status([DataInput("other", "u")], {}, book) == ()

"""Records are written, moved, found again, replaced and pruned; nothing is lost in between."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.fakes.files import MemoryFiles
from tests.unit.accounting.records import many, numbered, record
from tests.unit.gang.play import T0
from yarnam.adapters.hdfs.history_compaction import (
    MERGE_ABOVE,
    SETTLED_S,
    HistoryCompaction,
)
from yarnam.adapters.hdfs.history_files import Month
from yarnam.adapters.hdfs.history_store import HistoryStore
from yarnam.core.accounting.job_summary import HistoryFilter, summary_of
from yarnam.core.model.printable import printable
from yarnam.wire.shared.history_index import HistoryIndex

ROOT = "/user/ann/.yarnam/history"
LATER = 4e9


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


@pytest.fixture
def store(files: MemoryFiles) -> HistoryStore:
    return HistoryStore(files, ROOT, now_s=lambda: LATER)


def test_nothing_is_there_at_first(store: HistoryStore) -> None:
    assert store.listing().rows == ()
    assert store.record("20231114-221320-000001") is None
    assert store.keys() == set()
    assert store.compact() == 0
    assert store.prune(keep=0) == 0


def test_before_and_after_a_compaction_the_same_is_there(
    store: HistoryStore, files: MemoryFiles
) -> None:
    made = list(many(60))
    for one in made:
        store.put(one)
    expected = {summary_of(one) for one in made}
    assert set(store.listing().rows) == expected
    assert store.compact() == 60
    assert not files.list(f"{ROOT}/new")
    assert set(store.listing().rows) == expected
    assert store.keys() == {one.key for one in made}
    assert [store.record(one.key) for one in made] == made
    chosen = HistoryFilter(user="user1")
    assert {row.user for row in store.listing(chosen).rows} == {"user1"}


def test_a_young_record_stays_where_its_writer_may_write_it_again(files: MemoryFiles) -> None:
    now_s = [LATER]
    store = HistoryStore(files, ROOT, now_s=lambda: now_s[0])
    store.put(record())
    (written,) = files.list(f"{ROOT}/new")
    now_s[0] = written.mtime_ms / 1000 + SETTLED_S - 1
    assert store.compact() == 0
    assert store.has(record().key)


def test_a_record_that_is_written_again_replaces_the_one_before(store: HistoryStore) -> None:
    first = record()
    store.put(first)
    store.compact()
    second = replace(first, name="renamed")
    store.put(second)
    assert [row.name for row in store.listing().rows] == ["renamed"]
    assert store.record(first.key) == second
    store.compact()
    assert [row.name for row in store.listing().rows] == ["renamed"]
    assert store.record(first.key) == second


def test_segments_are_merged_when_there_are_many(store: HistoryStore, files: MemoryFiles) -> None:
    made = [numbered(record(), number) for number in range(MERGE_ABOVE + 5)]
    for one in made:
        store.put(one)
        assert store.compact() == 1
    segments = [f for f in files.list(f"{ROOT}/months") if f.path.endswith(".segment")]
    assert len(segments) < MERGE_ABOVE
    assert [store.record(one.key) for one in made] == made


def test_of_two_that_compact_at_once_one_gives_way(
    store: HistoryStore, files: MemoryFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list(many(10))
    for one in made[:5]:
        store.put(one)
    rival = HistoryStore(files, ROOT, now_s=lambda: LATER)
    publish = HistoryCompaction._publish

    def late(slower: HistoryCompaction, month: Month, index: HistoryIndex) -> bool:
        monkeypatch.setattr(HistoryCompaction, "_publish", publish)
        for one in made[5:]:
            rival.put(one)
        assert rival.compact() == 10
        return publish(slower, month, index)

    monkeypatch.setattr(HistoryCompaction, "_publish", late)
    assert store.compact() == 0
    assert {row.key for row in store.listing().rows} == {one.key for one in made}
    assert [store.record(one.key) for one in made] == made
    assert len([f for f in files.list(f"{ROOT}/months") if f.path.endswith(".segment")]) == 1


def test_records_that_cannot_be_read_hide_no_others(
    store: HistoryStore, files: MemoryFiles
) -> None:
    good = record()
    store.put(good)
    plain = json.loads(files.read_bytes(f"{ROOT}/new/{good.key}.json"))
    newer = {**plain, "version": 9, "of_the_future": [1], "key": "20231114-221320-000002"}
    files.write_bytes(f"{ROOT}/new/20231114-221320-000002.json", json.dumps(newer).encode())
    files.write_bytes(f"{ROOT}/new/20231114-221320-000003.json", b'{"key": 5}')
    files.write_bytes(f"{ROOT}/new/README", b"not a record")
    stolen = json.dumps({**plain, "key": "../../../secret"}).encode()
    files.write_bytes(f"{ROOT}/new/20231114-221320-000005.json", stolen)
    found = store.listing()
    assert {row.key[-1] for row in found.rows} == {"1", "2"}
    assert found.unreadable == 2
    assert store.compact() == 2
    assert store.listing().unreadable == 2
    older = {name: plain[name] for name in (
        "key", "application", "name", "user", "queue", "submitted_at_s", "ended_at_s", "verdict",
    )}  # fmt: skip
    older["key"] = "20231114-221320-000004"
    files.write_bytes(f"{ROOT}/new/20231114-221320-000004.json", json.dumps(older).encode())
    assert {row.key[-1] for row in store.listing().rows} == {"1", "2", "4"}


@pytest.mark.parametrize("amount", ["NaN", "Infinity", "-1.0", "1" + "0" * 400, "true", '"1"'])
def test_an_index_with_an_impossible_amount_is_refused(
    store: HistoryStore, files: MemoryFiles, amount: str
) -> None:
    for one in many(3):
        store.put(one)
    store.compact()
    (index,) = [f.path for f in files.list(f"{ROOT}/months") if f.path.endswith(".index")]
    text = files.read_bytes(index).decode()
    for column in ("held_gpu_s", "gpus"):
        start = text.index(f'"{column}":[') + len(column) + 4
        bad = f"{text[:start]}{amount}{text[text.index(',', start) :]}"
        files.write_bytes(index, bad.encode(), overwrite=True)
        assert store.listing().unreadable == 1


def test_a_damaged_index_is_reported(store: HistoryStore, files: MemoryFiles) -> None:
    store.put(record())
    store.compact()
    (index,) = [f.path for f in files.list(f"{ROOT}/months") if f.path.endswith(".index")]
    files.write_bytes(index, b'{"count": 5', overwrite=True)
    assert store.listing().unreadable == 1
    assert store.listing().rows == ()


def test_pruning_by_age_and_by_count(store: HistoryStore, files: MemoryFiles) -> None:
    made = list(many(30))
    for one in made[:20]:
        store.put(one)
    store.compact()
    for one in made[20:]:
        store.put(one)
    assert store.prune(before_s=T0 + 100.0 - 600.0 * 24) == 5
    assert store.prune(keep=10) == 15
    assert {row.key for row in store.listing().rows} == {one.key for one in made[:10]}
    assert store.has(made[29].key), "it is not to be written again"
    assert store.prune(keep=0) == 10
    assert store.listing().rows == ()
    assert not [f for f in files.list(f"{ROOT}/months") if f.path.endswith(".segment")]


def test_names_of_others_stay_text(store: HistoryStore) -> None:
    store.put(record(name="a\x1b[31m\x00b"))
    store.compact()
    (row,) = store.listing().rows
    assert printable(row.name) == printable("a\x1b[31m\x00b")


@pytest.mark.parametrize(("is_private", "mode"), [(True, 0o700), (False, 0o755)])
def test_where_yarn_keeps_others_out_the_history_does(
    files: MemoryFiles, *, is_private: bool, mode: int
) -> None:
    HistoryStore(files, ROOT, is_private=is_private).put(next(many(1)))
    assert files.stat(ROOT).permission == mode
    files.chmod(ROOT, 0o750)
    HistoryStore(files, ROOT, is_private=is_private).put(next(many(1)))
    assert files.stat(ROOT).permission == 0o750, "what its owner has chosen stays"

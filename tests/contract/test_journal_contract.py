"""One contract for the journal and the records: in memory, on a file system, on a real HDFS."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import hdfs_utils
from tests.fakes.files import MemoryFiles
from tests.fakes.journal import FakeJournal, JournalDisk
from tests.fakes.state_store import FakeStore, StoreDisk
from yarnam.adapters.hdfs.job_store import HdfsJournal, HdfsStateStore
from yarnam.core.model.events import (
    CancelRequested,
    Event,
    JobStarted,
    TimerFired,
    TimerId,
    TimerKind,
)
from yarnam.ports import Journal, StateStore, Superseded

EVENTS: tuple[Event, ...] = (
    JobStarted(1.0),
    TimerFired(2.0, TimerId(TimerKind.HOLD, 1)),
    CancelRequested(3.0, "me", "Grüße\n\x00"),
)

OpenJournal = Callable[[int], Journal]
OpenStore = Callable[[int], StateStore]

PLACES = ["fake", "memory", "local", pytest.param("hdfs", marks=pytest.mark.hdfs)]


@pytest.fixture(params=PLACES)
def place(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[hdfs_utils.FileSystem, str] | None]:
    """A file system and an empty directory on it; None for the fakes."""
    if request.param == "fake":
        yield None
        return
    if request.param == "memory":
        yield MemoryFiles(), "/job"
        return
    if request.param == "local":
        yield hdfs_utils.connect("file:///"), str(tmp_path)
        return
    conf_dir = request.getfixturevalue("cluster_env")["HADOOP_CONF_DIR"]
    fs = hdfs_utils.connect(conf_dir=conf_dir)
    directory = f"/tmp/yarnam-test-{uuid.uuid4().hex}"
    yield fs, directory
    fs.delete(directory, recursive=True)


@pytest.fixture
def open_journal(place: tuple[hdfs_utils.FileSystem, str] | None) -> Iterator[OpenJournal]:
    disk = JournalDisk()
    opened: list[Journal] = []

    def make(am_attempt: int) -> Journal:
        journal: Journal
        if place is None:
            journal = FakeJournal(disk, am_attempt)
        else:
            journal = HdfsJournal(place[0], f"{place[1]}/journal", am_attempt)
        opened.append(journal)
        return journal

    yield make
    for journal in opened:
        journal.close()


@pytest.fixture
def open_store(place: tuple[hdfs_utils.FileSystem, str] | None) -> OpenStore:
    disk = StoreDisk()
    if place is None:
        return lambda epoch: FakeStore(disk, epoch)
    fs, directory = place
    return lambda epoch: HdfsStateStore(fs, directory, epoch)


def test_what_was_appended_is_replayed_in_order(open_journal: OpenJournal) -> None:
    first = open_journal(1)
    assert list(first.replay()) == []
    first.append(EVENTS[:2])
    first.append(EVENTS[2:])
    # No close: the AM attempt was killed.
    assert tuple(open_journal(2).replay()) == EVENTS


def test_every_am_attempt_adds_to_the_same_journal(open_journal: OpenJournal) -> None:
    for number, event in enumerate(EVENTS, 1):
        journal = open_journal(number)
        assert tuple(journal.replay()) == EVENTS[: number - 1]
        journal.append([event])
    assert tuple(open_journal(9).replay()) == EVENTS


def test_an_older_am_attempt_cannot_write_any_more(open_journal: OpenJournal) -> None:
    old = open_journal(1)
    old.replay()
    old.append(EVENTS[:1])
    new = open_journal(2)
    new.replay()
    with pytest.raises(Superseded):
        old.append(EVENTS[1:2])
    new.append(EVENTS[2:])
    assert tuple(open_journal(3).replay()) == (EVENTS[0], EVENTS[2])


def test_an_older_am_attempt_cannot_open_it_any_more(open_journal: OpenJournal) -> None:
    open_journal(2).replay()
    with pytest.raises(Superseded):
        open_journal(1).replay()


def test_records_are_read_back_and_replaced(open_store: OpenStore) -> None:
    store = open_store(1)
    assert store.get("am.json") is None
    store.put("am.json", b"one")
    store.put("am.json", b"two")
    assert store.get("am.json") == b"two"
    assert open_store(2).get("am.json") == b"two"


def test_a_stores_older_epoch_is_refused_once_a_newer_has_written(open_store: OpenStore) -> None:
    old, new = open_store(1), open_store(2)
    old.put("status.json", b"old")
    assert new.get("status.json") == b"old"
    new.put("status.json", b"new")
    with pytest.raises(Superseded):
        old.put("status.json", b"late")
    with pytest.raises(Superseded):
        open_store(1).put("status.json", b"later")
    assert old.get("status.json") == b"new"


def test_reading_fences_nobody(open_store: OpenStore) -> None:
    old = open_store(1)
    open_store(2).get("verdict.json")
    old.put("verdict.json", b"v")
    assert open_store(2).get("verdict.json") == b"v"


def test_a_record_is_removed_by_the_newest_epoch_alone(open_store: OpenStore) -> None:
    old, new = open_store(1), open_store(2)
    old.put("secret", b"one")
    old.remove("secret")
    old.remove("secret")
    assert old.get("secret") is None
    new.put("secret", b"two")
    with pytest.raises(Superseded):
        old.remove("secret")
    assert new.get("secret") == b"two"
